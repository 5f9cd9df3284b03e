"""Banks, caches, scatter memory, bundles and the rest of TOPS Runtime API, 2.11.

banks            memory by banks
cache            the prefetch buffer
const_buffers    constant buffers
scatter          scatter memory
reduce           reductions of two arrays
kernel_signals   words that kernels and the host share
resource_bundle  clusters and memory that work is bound to
profile_meta     notes for a profiler
"""
