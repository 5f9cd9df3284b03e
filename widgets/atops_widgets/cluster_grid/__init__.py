"""The cluster grid: blocks and threads of one launch, step by step.

cluster_grid  the widget
scene         what it shows
svg           the same as SVG
text          the same as text
history       launches that were traced in detail, and their threads after any number of steps
meetings      when the threads of a barrier met
words         which thread waits for which
source        the kernel's lines
"""
