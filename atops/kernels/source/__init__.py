"""How a source text becomes kernels: the front ends, one a language, and what the Python one demands of a text."""
