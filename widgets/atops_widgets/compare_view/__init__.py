"""Two runs beside each other.

compare_view  both timelines with the first command that differs marked, a table, and the choices of two schedules
"""
