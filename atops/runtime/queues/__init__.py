"""The queues of streams: order, drains, abort, and the search for waits that cannot end.

queue         the queue of one stream, and the drain that empties it
submission    several commands in one step, on one or several streams
copy_batch    runs of short copies
direct_copy   a short copy on an idle device, by the calling thread
abort         dropping what has not started
wait_graph    what a command waits for, directly or not; refusing waits that cannot end
stall         the report when no stream moves
trace_record  the record of a settled command
"""
