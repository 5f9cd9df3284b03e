"""What C has in the public header.

constants     flag words and other numbers
enumerations  enumerations
error_codes   result codes
structs       structs with their layout in C
functions     the declarations of all functions, from which exports, twins and tests are made
cxx           all of it written as a header for programs in C++
"""
