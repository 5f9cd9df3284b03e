"""What widgets read.

feed       a driver's trace or a file, read once for all widgets
columns    its records as numpy columns
links      which commands waited for which
ranges     memory that commands were given
selection  the chosen command and moment, shared by all widgets
pace       how often to read, and when a frame may be sent
"""
