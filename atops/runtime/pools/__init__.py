"""Stream-ordered memory pools.

pool    allocating and freeing in stream order, settings, statistics
reuse   which freed block may be given out next
ledger  what is reserved, used and free
blocks  pieces of memory in order of size
"""
