"""How kernels run: threads, blocks, grids, their barriers, and the interpreters that resume them."""
