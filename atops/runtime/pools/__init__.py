"""Stream-ordered memory pools.

pool    allocating and freeing in stream order, settings, statistics
ledger  what is reserved, used and free
blocks  pieces of memory in order of size, and which of them may be given out next
"""
