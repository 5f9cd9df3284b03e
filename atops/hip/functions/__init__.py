"""The implementations of HIP's functions, a file a family; what TOPS has too is derived from its implementation.

api          HIP as an API of `atops.bridge`: the decorator `call`, `derived`, its codes, its last error, its twins
device       devices, errors
stream       streams, their callbacks, words of memory that streams hand each other
pools        pools of memory, and allocations in stream order
event        events
memory       memory of devices, and host memory that devices reach
copy         copies and fills
module       modules, functions, variables
launch       launches of kernels, alone and together
processes    memory and events of other processes
shared_pools pools that processes share
host         host memory as C programs name it: ctypes objects and bare addresses
"""
