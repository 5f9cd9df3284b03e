"""The memory map: ranges, their use over time, and their contents.

memory_map  the widget, and the same as text
scene       what it shows
drawing     headings, axes and curves around the ranges; all of it as SVG
lanes       the banks as lanes, and where addresses stand in them
history     the lives of all ranges, memory in use over time, L1 and L2 of a launch
contents    bytes of an allocation
words       what commands read, wrote or were given; all in words
"""
