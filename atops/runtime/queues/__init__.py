"""The queues of streams: order, drains, abort, deadlocks, and what is traced of them."""
