"""Races: accesses to the same bytes that nothing orders, and what is said of them.

- `race`: what is found of one: its two sides, the bytes, and what would order them.
"""
