"""The rows of `atops bench`, one family a file."""
