"""Being the scheduler of a program, and watching a check of it.

scheduler       the widget that stops at each choice; explorer: a check while it runs, and what it has found
program_widget  what both share: frames, messages, pictures that stay
player          a program one choice at a time on a thread of its own, without any widget
told            what pages are told, and the same as plain HTML
"""
