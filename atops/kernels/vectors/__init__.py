"""Vector types, masks, operators and mathematical functions."""
