"""Memory in a program's hands.

buffer      Buffer and DeviceArray
host_array  pinned, registered and managed arrays
copy_ends   what a copy or fill is given, resolved to bytes
scatter     one buffer over several allocations
prefetch    which ranges L2 holds
constants   constant buffers that users share under a key
"""
