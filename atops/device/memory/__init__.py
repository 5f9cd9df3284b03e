"""Memories: the L3 of each device, and host memory that devices reach.

allocation     one live range of bytes; every access is checked by one
device_memory  the L3 of one device: allocating, freeing, finding
allocation_table  which allocation has which range, and what may be used again
memory_reports  the figures of one memory, why nothing fits, and its part of the trace
arena          the bytes behind them
host_memory    pinned, registered and managed host memory
value_wait     conditions on a word of memory, and watches that each store tests
banks          where a new allocation goes: in a bank, or across several
pieces         the parts of L1 and L2 that kernels have taken
free_ranges    the free ranges: cut, merged and found by best fit
"""
