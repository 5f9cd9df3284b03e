"""Executables: TOPS Runtime API, 2.11.

executable  made, saved, destroyed
query       figures, names and sections
launch      the six forms of a launch
refit       constants, loaded and changed
"""
