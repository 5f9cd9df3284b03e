// What a run has while it goes on.
#pragma once

#include <pthread.h>

#include <vector>

#include "abi.h"
#include "fiber.h"

namespace atops {

struct Watch;

struct BlockState {
    std::vector<Fiber *> arrived;  // at the block's barrier
    std::vector<Place> places;     // what its lines have of L2
    std::vector<const Pad *> left;  // L1s of threads that are over, the last one behind
    uint64_t top = 0;
    uint32_t over = 0, begun = 0;
};

struct Scheduler {
    Run *run = nullptr;
    void *sp = nullptr;
    Fiber *current = nullptr;
    std::vector<Fiber *> fibers, ready;
    size_t first = 0;  // of those that are ready
    std::vector<BlockState> blocks;
    Slots slots{};
    uint32_t size = 0;
    size_t over = 0, at_grid = 0;
    uint64_t random = 0;
    uint64_t accesses = 0;  // before which others could go on
    std::vector<uint32_t> numbers;  // of those that are ready
    bool has_heap = false;  // it took memory of malloc, or freed some
    pthread_t os_thread{};
    Watch *watch = nullptr;  // of an instrumented launch
};

void turn_before_access(Scheduler *, bool stores);  // lets others go on, where a seed or the host chooses who does
Scheduler *scheduler_here();  // of this OS thread; nullptr outside of runs
// Ends the run with what the thread here did. `frame` is where a search for the kernel's own call begins on its stack.
[[noreturn]] void fail_now(Fault, const char *text, const void *frame = nullptr);
void end_where_asked();  // where a kernel calls what takes long, so that interrupts find little of its own code
uint64_t caller_of(Run *, const void *frame, const Fiber *);  // notes callers of the module; 0 where none is found
extern const Runtime *const RUNTIME_TABLE;  // what modules are attached to
bool find_named(Run *, uint64_t address, Range *found);  // live memory that the launch names
bool find_global(Run *, uint64_t address, Range *found);  // live memory that an address is in
bool is_no_shared(uint64_t address);  // what a kernel takes for dynamic shared memory where the launch gives none
constexpr const char *NO_SHARED = "dynamic shared memory, of which the launch gives none: launch with (grid, block, bytes)";

}  // namespace atops
