"""Vectors, masks and the functions of them (TOPS C++, 8.3 and 8.4).

vector_type  the types
vector       vectors and masks, with their operators
load_store   loads and stores
lanes        what may become a vector's lanes
functions    the mathematical functions
numerics     their arithmetic

A mathematical function is in three places: its row in `kernels/tables/functions.py`, the function that kernels call in
`functions.py`, its arithmetic in `numerics.py`.
"""
