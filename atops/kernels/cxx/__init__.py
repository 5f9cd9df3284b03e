"""TOPS C++ source as kernels: read, rewritten to C++, compiled for the host's processor.

tokens     the tokens of a preprocessed text; rewrite: from TOPS C++ to C++, names and lines kept; registration: the
           tables of kernels and variables that a module has
unit       from a source text to kernels, with diagnostics in its own lines
kernel     a native kernel, and a launch of it; variables: those of the device, on each chip
include/   the headers that every program gets: language, numbers, vectors, functions, the DTE
"""
