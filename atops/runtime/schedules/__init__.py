"""Runs whose every step is chosen: the inline host with one list of all that could come next.

choosing     the executor and the loop
names        what the choices are called, the same in every process
trio_run     the executor of a trio run
host         which of them options ask for
fingerprint  which program, under which options, a schedule belongs to
"""
