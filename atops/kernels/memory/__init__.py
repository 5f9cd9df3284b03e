"""Memory as kernels declare it (TOPS C++, 8.2).

arrays            local, shared and private arrays, and mdspans
device_variables  `__device__` and `__constant__` variables
pointer           pointers
spaces            the memory spaces
declarations      extents, type and initial value of a declaration
sharing           one object for all threads of a block
"""
