"""The C-style functions, a folder a group of sections, a file a family."""
