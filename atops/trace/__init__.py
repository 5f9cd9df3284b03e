"""Reading traces: intervals, summaries, text, files, and the Chrome trace format. Pure functions of records."""
