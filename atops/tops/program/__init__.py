"""Whole programs in C++: a text with kernels and a `main`, compiled, and run in a process of its own.

command     from a file to a module that has a `main`, and to the process that runs it
callbacks   from C's arguments to those of the functions of atops.tops, and back
launching   launches: by <<<...>>>, and by arrays of pointers to arguments
compiling   runtime compilation, and code images in the program's memory
lines       which line of the program calls, for the detectors
worker      that process
"""
