// The DTE's operations: what must hold of the operands, and the moves. The specification is device/dte/stages.py.
#pragma once

#include "abi.h"

namespace atops {

// Returns whether the operands fit; else `text` says what is wrong.
bool check_transfer(const Transfer &, char *text, size_t room);

// Moves. Returns the bytes that were read and written, for statistics. `check_transfer` has passed.
uint64_t apply_transfer(const Transfer &);

uint64_t operand_bytes(const Operand &);

// Tells which bytes `apply_transfer` would read and write, run by run, and moves none.
struct Observer {
    void (*touch)(void *self, uintptr_t address, size_t bytes, bool write);
    void *self;
};

void observe_transfer(const Transfer &, const Observer &);

}  // namespace atops
