"""Traces as the runtime writes them: records of finished commands, events of the others, rings that keep both."""
