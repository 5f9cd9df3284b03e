"""Floor 1, the chip: memories, engines, kernel threads and what they wait for, links between devices.

arch         the figures of each architecture
topology     the links that join the devices of a board
cost         how long kernels take under a virtual clock
chip         the hardware of one device: clusters, scratchpads, kernel signals, the FIFO of printed text
memory/      L3 and the host memory that devices reach, with their allocators
exec/        kernel threads, blocks and grids, their barriers, and the interpreters that resume them
span/        device memory as a kernel thread sees it
dte/         the data transformation engine: operations, contexts, transfers
copy_engine  which copies of a device may run now
geometry     windows, layouts and spacings of arrays
call_site    the line of the program that asked for something, and the text of an assertion
"""
