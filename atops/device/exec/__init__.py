"""Running kernels: threads, blocks, grids, barriers, and the interpreters that resume threads.

thread           one kernel thread, and the requests that it makes
block            one block: its threads, what they share, how it ends
grid             one launch on one device: geometry, blocks, barrier, policy, first error, end
block_scheduler  which block gets the next free cluster; grids that start together or not at all
interpreter      resumes the threads of a block on one OS thread
scheduled_block  the same where a schedule chooses every turn
self_contained   whether all that a kernel touches is told
os_threads       an OS thread for each kernel thread
barrier          what threads synchronise at
failures         the failure that a kernel's exception becomes, and the report of a deadlock
"""
