// Groups of threads that meet: the block, the whole grid of a cooperative launch, and a warp, which is one thread.
#pragma once

#include "hip_runtime.h"

namespace cooperative_groups {

class thread_block {
  public:
    void sync(ATOPS_SITE) const { __syncthreads(file, line); }
    unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
    dim3 group_index() const { return blockIdx; }
    dim3 thread_index() const { return threadIdx; }
    dim3 group_dim() const { return blockDim; }
    bool is_valid() const { return true; }
};

class grid_group {
  public:
    void sync(ATOPS_SITE) const { atops::runtime->sync_grid({file, line}); }
    unsigned size() const { return thread_block().size() * gridDim.x * gridDim.y * gridDim.z; }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        return block * thread_block().size() + thread_block().thread_rank();
    }
    dim3 group_dim() const { return gridDim; }
    bool is_valid() const { return true; }
};

class coalesced_group {
  public:
    void sync() const {}
    unsigned size() const { return 1; }
    unsigned num_threads() const { return 1; }
    unsigned thread_rank() const { return 0; }
};

inline thread_block this_thread_block() { return {}; }
inline grid_group this_grid() { return {}; }
inline coalesced_group coalesced_threads() { return {}; }
inline void sync(const thread_block &group, ATOPS_SITE) { group.sync(file, line); }
inline void sync(const grid_group &group, ATOPS_SITE) { group.sync(file, line); }

}  // namespace cooperative_groups
