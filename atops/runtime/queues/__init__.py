"""The queues of streams: order, drains, abort, and the search for waits that cannot end.

queue         the queue of one stream, and the drain that empties it
short_copies  runs of short copies, and one by the calling thread
abort         dropping what has not started
deadlock      refusing waits that cannot end, and the report when no stream moves
"""
