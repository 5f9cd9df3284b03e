// A run in a process of its own.
#pragma once

#include "run.h"

namespace atops {

int32_t run_apart(Run *);  // as atops_run
Run *awaited_here();  // the run in another process that this OS thread waits for; nullptr where it waits for none

}  // namespace atops

extern "C" int32_t atops_run(atops::Run *);
