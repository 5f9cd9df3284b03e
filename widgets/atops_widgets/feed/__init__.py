"""What widgets read: records as columns, links between commands, and what is selected."""
