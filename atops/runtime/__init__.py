"""Floor 4, the runtime. In this folder is what a program names, in the others what stands behind it.

driver              a driver as programs have it, and which one is current
driver_board        what is behind a driver: one board, the lock that orders its submissions, its end
run                 a whole program as one loop in one thread
properties          the figures of a device
device              a device: its streams, waits, peers and figures
device_memory       its memory, outside any stream's order
stream              a stream as programs have it: its scopes, waits and figures
stream_work         its verbs that run something or order it
stream_memory       its verbs that move bytes and hold memory
owning_queue        what is behind a stream: its queue, and the memory that its verbs made
pipeline            chunks over several streams
cooperative_launch  launches on several streams in one step
external_stream     streams of other libraries
stream_reports      what a stream says of itself
profiling           profiles: what all boards did in a block of a program
interrupts          Ctrl-C while a program runs inline
executors/          the two hosts: threads, or one loop
schedules/          inline runs whose every step is chosen, and strings of what was
core/               what commands are: completions, events, rows, failures, capacity, tracing
memory/             buffers, host arrays, the ends of copies
board/              what one device has in one driver: context, current device, signals, printed text
commands/           the commands, a file a family
queues/             the queue of each stream, its drain, abort and deadlocks
pools/              memory pools
ipc/                memory and events between processes
resources/          bundles and reservations
executables/        ONNX graphs that streams launch
"""
