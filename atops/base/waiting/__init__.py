"""Every wait of the runtime: waiters that park, and the event loops or threads that they wait on.

parking_lot   waiters in order of arrival, and the waiter of a blocked thread
loop_adapter  what an event loop must offer: how it is woken from another thread, how it runs a coroutine
asyncio_loop  the adapter of asyncio
trio_loop     the adapter of trio, loaded where trio is
current_loop  which loop runs here: asyncio's, trio's or none
source_reader a task of its own that reads an async source
chunk_window  chunks between a source and a consumer: so many in flight, results in order
"""
