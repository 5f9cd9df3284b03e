"""The timeline: a row a stream, engines and clusters below, arrows of waits."""
