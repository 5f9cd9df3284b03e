"""TOPS C++ source as kernels: read, rewritten to C++, compiled for the host's processor.

reading    what a text may read while it is compiled
tokens     the tokens of a preprocessed text; declarations: what they declare
rewrite    from TOPS C++ to C++, names and lines kept; refusals: what it faults; scopes: names of shared memory at the
           top, and what hides them; registration: the tables of what a module has
unit       from a source text to kernels, with diagnostics in its own lines
conditionals  halves beside other numbers in `?:`
messages   what the compiler says, in the words of the text; columns: where in its lines
kernel     a native kernel, and a launch of it, of a whole program's host code, too; variables: those of the device, on
           each chip
include/   the headers: the language, numbers, vectors, functions and the DTE (atops/), which every program gets; what
           published kernels include; the host side of the runtime, written from its tables (tops/host_api.h)
"""
