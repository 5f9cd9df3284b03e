"""Memory and events between processes (TOPS Runtime API, 2.2).

lending  handles, lending to other processes, borrowing from one
memory   lent device memory
pool     pools that others open by a descriptor, and memory of them
event    shared events
page     the page of memory that they share
"""
