"""The language as tables: the reference, the checks and the tests read them.

constructs  functions, memory, built-in names, the DTE, synchronisation and output
vectors     vector types, operators and the 29 mathematical functions
"""
