"""Memory and peers: TOPS Runtime API, 2.6 and 2.7.

device_memory  device memory, allocated and freed
host_memory    host memory that devices reach
attributes     what a pointer points to
copy           copies
copy_operands  finding and checking their ends
fill           fills
symbols        variables of kernels
peer           peer access and regions
"""
