"""The types of the public header.

constants     flag words and other numbers
enumerations  enumerations
error_codes   result codes
structs       structs with their layout in C
"""
