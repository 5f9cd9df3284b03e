"""The memory map: ranges, their use over time, and their contents.

memory_map  the widget
scene       what it shows
svg         the same as SVG
text        the same as text
history     the lives of all ranges
touches     what commands read, wrote or were given
curve       memory in use over time
lanes       the banks as lanes
layout      where addresses stand
drawing     headings, axes and curves around them
scratch     L1 and L2 of a launch
contents    bytes of an allocation
words       all in words
"""
