"""The data of all widgets.

feed     a driver's trace or a file, read once for all widgets; the chosen command and moment, shared by all
axis     from when to when pictures are, and long idle times, which are folded
columns  its records as numpy columns, and memory that commands were given
host     API calls and waits of the program, joined to their commands
links    which commands waited for which
pace     how often to read, and when a frame may be sent
"""
