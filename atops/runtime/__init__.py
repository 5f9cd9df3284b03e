"""Floor 3: driver, streams, completions, events, buffers, pools and the pipeline."""
