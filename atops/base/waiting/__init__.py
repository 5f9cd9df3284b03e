"""Waiting: the parking lot under every wait, the event loops that wait in it, and locks."""
