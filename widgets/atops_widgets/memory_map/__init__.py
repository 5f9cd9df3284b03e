"""The memory map: ranges, their use over time, and their contents."""
