"""The hosts of a driver: what runs its steps and its work.

executor     the interface: post a step, run work on a lane, wait, tell the time
ready        what goes first: by urgency, and among equals the first to come
threaded     one driver thread, and lanes of worker threads
inline       one loop in one thread, in an order that a seed repeats; inline_loop: that loop, and its virtual time
cycle_collector  when Python's cycle collector runs in an inline run
kernel_lane  the threads that step the blocks of a device
holders      who holds what a task waits for, and since which line
standing     where the tasks stand of which none can go on, and whether a thread may let one
ending       the end of the tasks that a run leaves, within bounds
"""
