"""Commands and their completions, and what the parts of a driver share.

commands         the row of a kind of command: how it runs, what it uses, how it is traced
completion       the outcome of a command, which any number of tasks may await; failures
event            a point in a stream
future           what makes completions and events futures to asyncio and to concurrent.futures
order            which commands of other streams are known to come before
thread_waits     what the functions of concurrent.futures see of them
capacity         how many commands a stream takes, and reservations of places
host_waits       where the program stands still, for traces
command_trace    what a tracer is told of commands
poller           timers for what nothing reports
"""
