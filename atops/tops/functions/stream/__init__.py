"""Streams, events and IPC: TOPS Runtime API, 2.2, 2.4 and 2.5.

stream     streams
event      events
ipc        memory and events of other processes
word_wait  the host's own wait for a word of memory
"""
