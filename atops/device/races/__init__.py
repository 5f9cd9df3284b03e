"""Races between the threads of a kernel, and between them and transfers in flight.

race          what was found: two accesses, the bytes, what would order them
clocks        which of two accesses comes first in every order of turns, and signals that are read and overwritten
rectangles    which bytes an array or a selection of its elements has
race_map      the last store to each byte of a memory, and the loads since
access_log    the accesses to one memory, compared all at once
bulk          which of very many accesses need a closer look, and what they all used
unwritten     what of a scratchpad nothing has stored to
detector      the accesses of a launch and of its blocks
thread_races  what one thread and its transfers access
touches       the same for the footprint of a step, by which strategies know what commutes
wording       two accesses that race, in words
"""
