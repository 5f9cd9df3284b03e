"""The bridge from the runtime to C-style functions: calls, codes, arguments, handles, pointers, waiting."""
