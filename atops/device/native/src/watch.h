// A run of an instrumented module: what the runtime tells of order, of memory and of transfers.
#pragma once

#include "abi.h"
#include "fiber.h"
#include "run.h"

namespace atops {

// A load or a store of the kernel's, before it happens; `counter` is where its call returns to.
void watch_access(Watch *, uint64_t low, uint64_t bytes, uint8_t does, uint64_t counter);
void watch_call(Watch *, uint64_t counter);
void watch_return(Watch *);

Watch *begin_watch(Scheduler *);  // waits until no other block of the launch runs
void end_watch(Watch *);

void watch_thread_over(Watch *, const Fiber *);
void watch_block_barrier(Watch *, uint32_t block);
void watch_grid_barrier(Watch *);
void watch_release(Watch *, const Fiber *, const void *what);  // what the thread did comes before what acquires it
void watch_phase(Watch *, const void *what);                   // all that was released can be acquired
void watch_acquire(Watch *, const Fiber *, const void *what);
void watch_constructed(Watch *, void *place, size_t bytes);
void watch_init(Watch *, const Fiber *, const Context *);  // a context that is to be destroyed
void watch_init_again(Watch *, const Context *, Site);  // a fault in strict mode
void watch_destroy(Watch *, const Context *);
void watch_block_over(Watch *, uint32_t block);  // in strict mode ends the run where contexts were not destroyed
void watch_context(Watch *, const Fiber *, const Context *, const char *what, Site);
// A transfer: all at once, or from its issue to its wait.
void watch_transfer(Watch *, const Fiber *, const Transfer &, Site);
void watch_issue(Watch *, const Fiber *, const Context *, Site);
void watch_wait(Watch *, const Fiber *, const Context *);

}  // namespace atops
