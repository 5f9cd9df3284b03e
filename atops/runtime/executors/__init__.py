"""The two hosts of a driver: threads, and one event loop."""
