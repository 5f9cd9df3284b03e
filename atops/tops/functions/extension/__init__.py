"""Banks, caches, scatter memory, bundles and the rest of TOPS Runtime API, 2.11."""
