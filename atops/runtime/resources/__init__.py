"""Resource bundles and reservations (TOPS Runtime API, 2.11)."""
