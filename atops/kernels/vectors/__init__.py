"""Vectors, masks and the functions of them (TOPS C++, 8.3 and 8.4).

vector_type  the types
vector       vectors and masks, with their operators
lanes        what may become a vector's lanes; loads and stores
functions    the mathematical functions, made from their rows in `kernels/tables/vectors.py`
numerics     their arithmetic
counting     counting what they compute, under a virtual clock
"""
