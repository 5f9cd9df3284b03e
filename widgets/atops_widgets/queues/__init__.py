"""The queues of all streams at a moment, and why each head waits."""
