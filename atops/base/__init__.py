"""Floor 0, what everything stands on: errors, figures of types and extents, clocks, waiting and trace records.

waiting/      every wait: waiters, and the event loops that they wait on
trace/        what the runtime writes down while it runs: records, details, rings
errors        the error tree
result_codes  the codes of the TOPS runtime, in words
options       EmulatorOptions, and the environment variables that set them
schedule_string   what a run chose, as a string, and read again
dims          three-dimensional extents
dtypes        element types and their names
clock         integer nanoseconds, from the wall or from a virtual clock
agenda        everything that could come next, in one list
footprint     what one step has touched, and which steps commute
choice        what could come next, by name: choosers, what they chose, the same again
neighbours    what other libraries call things, and what to write here
log_fields    log records with fields, and what objects of the program's say of themselves
locks         locks that know who holds them, and locks that are free in a forked child
c_format      C's format strings
python_ast    Python's parser, one thread at a time
html_table    tables in notebooks
"""
