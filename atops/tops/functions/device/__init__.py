"""Drivers, devices and errors: TOPS Runtime API, 2.1 to 2.3."""
