"""Executables: compiled graphs with their constants (TOPS Runtime API, 2.11)."""
