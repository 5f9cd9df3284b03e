"""Streams, events and IPC: TOPS Runtime API, 2.2, 2.4 and 2.5."""
