"""The memories of a board: L3 of each device and the host memory that devices reach."""
