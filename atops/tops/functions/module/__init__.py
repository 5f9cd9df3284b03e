"""Modules, launches and runtime compilation: TOPS Runtime API, 2.8 to 2.10."""
