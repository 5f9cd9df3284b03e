"""Floor 2, reading traces: pure functions of records.

summary  time and bytes by stream and kind, overlap, critical path; arithmetic of intervals
text     a timeline for terminals, and sentences for screen readers
chrome   the Chrome trace format, for Perfetto
file     traces saved without loss
awaited  where the program waited, and what the device did meanwhile
compare  two traces aligned command by command
join     traces of several boards as one
page     a trace as one page of HTML, from page.html
words    names of kinds, times, sizes and races, as people read them
colours  one palette for pages and widgets
"""
