"""Traces as the runtime writes them; `atops.trace` reads them.

records    the record of a finished command, samples of memory in use, details, and the trace that holds them
tracer     one tuple of integers for each finished command, read as records
event_log  the details, which are recorded while a viewer wants them; the rings that hold them
"""
