"""TOPS C++ source as kernels: read, rewritten to C++, compiled for the host's processor.

tokens     the tokens of a preprocessed text; rewrite: from TOPS C++ to C++, names and lines kept
unit       from a source text to kernels, with diagnostics in its own lines
kernel     a native kernel, and a launch of it
include/   the headers that every program gets: language, numbers, vectors, functions, the DTE
"""
