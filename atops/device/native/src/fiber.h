// Fibers: one stack for each kernel thread, switched by hand. A switch saves what the calling convention says that a
// call keeps, and nothing else.
#pragma once

#include "abi.h"

namespace atops {

enum class State : uint8_t { ready, at_barrier, at_grid, at_counted, over };

// What a line of the program has of a scratchpad.
struct Place {
    const void *key;
    uint8_t *bytes;
    uint64_t size;
    Site site;
};

struct Fiber {
    void *sp;  // where it was left
    uint8_t *stack, *guard, *top;
    uint32_t thread, block;  // linear
    State state;
    const CountedBarrier *waits;  // the counted barrier that it waits for
    uint32_t phase;     // which phase of it
    Site site;          // where it stands
    Dim index;
    struct Arrival {
        const void *barrier;
        uint32_t phase;
    } arrivals[4];  // its last arrivals at counted barriers
    uint8_t arrival;
    struct Place *places;  // what its lines have of L1
    uint32_t place_count, place_room;
    const Pad *l1;
    uint64_t l1_top;
    uint32_t looks;  // accesses since it has stored something
    bool constructs;  // what its whole block finds constructed: nothing comes in between
    Fiber *next_free;
};

constexpr size_t STACK_BYTES = 1 << 20;

Fiber *take_fiber();  // nullptr where the system has no memory
void give_fiber(Fiber *);
void prepare(Fiber *, void (*entry)());  // the next switch to it calls `entry`, which never returns

}  // namespace atops

extern "C" void atops_switch(void **save, void *load);
