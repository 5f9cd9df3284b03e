"""What the C-style functions are: their declarations as text, a file a group of sections. Knows no implementation."""
