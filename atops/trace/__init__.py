"""Floor 2, reading traces: pure functions of records.

summary  time and bytes by stream and kind, overlap, critical path; arithmetic of intervals
text     a timeline for terminals, and sentences for screen readers
chrome   the Chrome trace format, for Perfetto
file     traces saved without loss
"""
