"""Memory and peers: TOPS Runtime API, 2.6 and 2.7."""
