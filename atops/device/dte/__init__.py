"""The DTE: its operations on arrays, their checks, and the contexts that transfer."""
