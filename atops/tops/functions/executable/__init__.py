"""Executables: TOPS Runtime API, 2.11."""
