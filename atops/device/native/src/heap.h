// Memory that kernels take from the C library.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "run.h"

namespace atops {

void give_up_heap(const Scheduler *, bool failed);  // what threads that are no more have freed, or cannot free any more
// Says what is wrong with an address in or behind a block; false where no block is.
bool heap_says(uintptr_t address, char *text, size_t room);
// Whether bytes are of memory that kernels have of malloc or new; `text` says what is wrong with them, if something is.
bool heap_has(uintptr_t low, uintptr_t high, char *text, size_t room);

}  // namespace atops
