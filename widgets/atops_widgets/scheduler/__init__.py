"""Being the scheduler of a program.

scheduler    the widget that stops at each choice
player       a program one choice at a time on a thread of its own, without any widget
told         what pages are told, and the same as plain HTML
"""
