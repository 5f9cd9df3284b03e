"""Floor 6: what `atops demo` and `atops info` run, and what writes docs/language.md. Made of public names.

demo                the demo
demo_arguments      its command line
demo_report         its report
corpus              its data
histogram           its kernel
outcome             its result, and the order of a run without times
progress            its progress bar
info                the board and its devices
language_reference  docs/language.md, made from the tables of the language
language_texts      its sentences
"""
