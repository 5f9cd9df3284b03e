"""The cluster grid: blocks and threads of one launch, step by step.

cluster_grid  the widget, and the same as text
scene         what it shows, with the kernel's lines
svg           the same as SVG
history       launches that were traced in detail: their threads after any number of steps, and when these met
words         which thread waits for which
"""
