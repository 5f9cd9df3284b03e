"""What all C-style functions stand on: calls, codes, arguments, handles, pointers, waiting."""
