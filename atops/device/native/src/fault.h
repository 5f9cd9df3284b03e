// Faults of the processor in a kernel: they end the run and not the process.
#pragma once

#include <signal.h>

namespace atops {

constexpr int INTERRUPT = SIGURG;

// Have the handlers there, where a launch begins also those that the program has replaced since; and a stack for them,
// once for each OS thread.
void guard_this_thread(bool begins);
// In a process that only loads a module: say where in its file a fault is, on the standard output, the innermost first.
void tell_faults(const char *file);
void guard_forked();  // in a process that was forked for a run: other signals do there what they do by themselves

}  // namespace atops
