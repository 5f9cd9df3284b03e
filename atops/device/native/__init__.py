"""Kernels in the machine code of the host's processor.

    toolchain  the C++ compiler, and where its results are kept
    library    the native runtime and modules of kernels: their structures, built and loaded
    block      a block whose threads are fibers of that runtime
    watching   what a launch was seen to do whose every access is watched, told to its detector
    src/       the runtime in C++: fibers, runs and barriers, the DTE, faults, what is watched; `abi.h` is what all
               sides agree on

A machine without a compiler has everything else: only a kernel in C++ asks for one.
"""
