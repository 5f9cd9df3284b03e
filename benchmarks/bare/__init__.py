"""Prototypes without any of the runtime: what the budgets are tied to."""
