"""Where an allocation goes. Numbers only, no bytes.

banks        the banks of one memory, and placement in them
free_ranges  free ranges: cut, merged and found
range_index  the rule of placement, best fit; and finding the highest range that is long enough
bitmap_set   an ordered set of small integers
resident     freed pages that may still be resident, the oldest first
"""
