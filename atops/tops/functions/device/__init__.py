"""Drivers, devices and errors: TOPS Runtime API, 2.1 to 2.3.

driver      the driver, devices by number, errors
device      the current device, its limits and flags
properties  a device's figures by the names of the header
"""
