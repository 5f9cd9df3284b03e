"""Memory as kernels see it: spaces, arrays, pointers and declared variables."""
