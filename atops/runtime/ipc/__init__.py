"""Memory and events between processes (TOPS Runtime API, 2.2).

handle    64 bytes that name an allocation or an event elsewhere
exporter  lending to other processes
lease     borrowing from one
memory    lent device memory
event     shared events
page      the page of memory that they share
"""
