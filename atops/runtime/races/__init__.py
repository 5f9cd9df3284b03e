"""Races between commands: what is ordered before what, which bytes commands touch, and the report of a driver.

- `command_clock`: what a command comes after.
- `command_order`: what each stream has learned, and what the host knows to be over.
- `stream_clocks`: what streams and devices know, null-stream order with it.
- `byte_history`: which commands used which bytes of one memory.
- `host_memory`: what can be seen of the host's own arrays.
- `fresh_memory`: what was allocated and never stored to.
- `signal_writes`: who wrote a kernel signal, and what that orders.
- `deadlocks`: how waits that cannot end are told, and what would end them.
- `stalls`: waits that stand still, and wake-ups that were lost.
- `inversions`: urgent streams that wait for less urgent ones, before which others go.
- `wording`: what a race between two commands is called, and what would order them.
- `report`: what was found, observed and not seen; kept once for each pair of lines.
- `command_detector`: what brings these together, asked as commands begin and as the host is told that they are over.
"""
