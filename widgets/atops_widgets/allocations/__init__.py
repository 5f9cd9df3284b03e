"""Allocations as bands over time, by the line that asked for each.

allocations  the view, and the same as text
lives        the lives of allocations, and what each line held
"""
