"""Floor 0: result codes, errors, dims, dtypes, clocks, tracing, options and the one waiting primitive."""
