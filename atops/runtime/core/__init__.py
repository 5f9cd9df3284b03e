"""What every command of a stream is made of: completions, events, commands, failures, capacity."""
