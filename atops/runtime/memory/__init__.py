"""Memory in a program's hands: buffers, host arrays, and the ends of copies."""
