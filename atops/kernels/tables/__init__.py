"""The language as tables: the reference, the checks and the tests read them.

constructs  functions, memory, built-in names, synchronisation and output
dte         the DTE
vectors     vector types and operators
functions   the 29 mathematical functions
"""
