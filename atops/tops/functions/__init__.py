"""The C-style functions: a file a family, with the sections of the TOPS Runtime API that it has.

device      drivers, devices and errors (2.1 to 2.3), notes for a profiler
stream      streams (2.4) and events (2.5)
memory      memory of devices and hosts, and what a pointer points to (2.6); banks and the prefetch buffer
copy        copies and fills (2.6), reductions
peer        other devices (2.7) and other processes (2.2)
launch      launches of kernels (2.8, 2.9)
module      modules and their functions (2.8), variables (2.6), runtime compilation (2.10)
executable  executables
scatter     scatter memory, and the dimensions of memory
api         TOPS as one API of atops.bridge: its codes, its last error
resources   resource bundles, constant buffers, kernel signals

What has no number is of 2.11.
"""
