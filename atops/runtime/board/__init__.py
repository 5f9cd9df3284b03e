"""What one device has in a driver: its context, signals, printed text and handles."""
