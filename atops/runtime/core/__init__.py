"""What every command of a stream is made of.

commands        the row of a kind of command: how it runs, what it uses, how it is traced
completion      the outcome of a command, which any number may await
event           a point in a stream
capacity        how many commands a stream takes, and reservations of places
failures        how a command ended: in words, as an error, as a trace status
services        what the parts of a driver see of it
command_events  the details of commands under way
host_tasks      coroutines of the program that are steps of a stream
value_poller    words that change without a report
kernel_worker   which thread steps the blocks of a device
html_reports    devices and arrays in a notebook
"""
