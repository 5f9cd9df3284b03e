"""What C has in the public header.

constants     flag words
enumerations  enumerations
error_codes   result codes
structs       structs with their layout in C
pointers      what stands for a pointer or a handle
functions     the declarations of all functions, from which exports, twins and tests are made
"""
