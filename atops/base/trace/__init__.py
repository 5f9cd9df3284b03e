"""Traces as the runtime writes them; `atops.trace` reads them.

records      the record of a finished command, samples of memory in use, and the trace that holds both
events       kinds and ends of commands; the details of those under way: commands, memory, kernel threads
tracer       one tuple of integers for each finished command, read as records
event_log    the details, which are recorded while a viewer wants them
ring_buffer  the last so many values, each with its position
"""
