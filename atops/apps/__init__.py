"""Floor 6: what the commands of `atops` run, and what writes docs/language.md. Made of public names.

run                 `atops run`: a program, strict, from a seed, on another board, with its trace or its profile
compile_file        `atops compile`: a file of kernels, what it defines, its code image
check               `atops check`: a program under many schedules
mcp_server          `atops mcp`: tools that check programs, for what writes them by machine
mcp_sessions        its programs under way, each in a process of its own
mcp_tools           the tools, by the protocol's SDK
judge               the child process of one program of its
learn               `atops learn`: the lessons, copies of them, grades
show_trace          `atops trace`: what a trace file holds
demo                the demo, its command line, the files that it reads
demo_report         its outcome, its report, its progress bar
histogram           its kernel
info                the board and its devices
language_reference  docs/language.md, made from the tables of the language
"""
