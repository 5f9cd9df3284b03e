"""Compiled programs (TOPS Runtime API, 2.8 and 2.10).

program            a source text, compiled or loaded, and its modules
image              a compiled program as bytes
kernel_attributes  threads, memory and versions of a kernel
"""
