"""The queues of streams: order, drains, abort, and the search for waits that cannot end.

queue         the queue of one stream, and the drain that empties it
submission    several commands in one step
copy_batch    runs of short copies
direct_copy   one on an idle device
abort         dropping what has not started
deadlock      what a command waits for, all the way
stall         the report when nothing moves
trace_record  the record of a settled command
"""
