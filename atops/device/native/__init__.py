"""Kernels in the machine code of the host's processor.

    toolchain  the C++ compiler, and where its results are kept
    library    the native runtime and modules of kernels: their structures, built and loaded
    block      a block whose threads are fibers of that runtime
    src/       the runtime in C++: fibers, runs and barriers, the DTE, faults; `abi.h` is what all sides agree on

A machine without a compiler has everything else: only a kernel in C++ asks for one.
"""
