"""Floor 1: the chip: memories, DTE and its transforms, interpreter of kernel threads, clusters, barriers, links."""
