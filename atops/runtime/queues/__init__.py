"""The queues of streams: order, drains, abort, and the search for waits that cannot end.

queue           the queue of one stream, to which commands are submitted
drain           what empties it: when the next command runs, how it ends, what a failure does to those behind it
short_copies    runs of short copies, and one by the calling thread
abort           dropping what has not started
deadlock        refusing waits that cannot end, and the report when no stream moves
host_functions  what functions of the program may not do on a device, of which strict mode warns
"""
