"""Floor 6: what `atops demo` and `atops info` run, and what writes docs/language.md. Made of public names.

demo                the demo, its command line, the files that it reads
demo_report         its outcome, its report, its progress bar
histogram           its kernel
info                the board and its devices
language_reference  docs/language.md, made from the tables of the language
"""
