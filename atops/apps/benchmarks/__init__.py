"""The budgets, one family of rows a file: each has functions that take an `Effort` and yield `Figure`s.

The kernels and programs in here are also examples: what they do is what a user would write.
"""
