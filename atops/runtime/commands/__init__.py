"""The commands of a stream: a file for each family, with its whole row.

copy          copies, of scatter memory too
fill          fills
reduce        reductions of two arrays
memory        allocations and frees in stream order
launch        kernels
kernel_steps  what their threads do, for a tracer
call          functions and coroutines of the program
task          coroutines of the program that are given as objects, as tasks
events        records of events, and waits for them
awaited       waits for futures, tasks and coroutines of the program
values        waits for a word, and writes of one
cost_model    how long moving bytes takes under the virtual clock
"""
