"""DTE contexts and operations as kernels write them."""
