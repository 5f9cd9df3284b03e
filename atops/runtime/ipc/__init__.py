"""Memory and events between processes (TOPS Runtime API, 2.2)."""
