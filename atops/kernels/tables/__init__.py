"""The language as tables: the reference, the checks and the tests read them.

constructs  functions, memory, built-in names, the DTE, synchronisation and output
native      what becomes of each construct in kernels in C++
vectors     vector types, operators and the 29 mathematical functions
"""
