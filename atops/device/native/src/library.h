// What a run leaves with the C++ library.
#pragma once

#include "run.h"

namespace atops {

void give_up_statics(const Scheduler *);  // that threads which are no more have begun to initialise
bool initialises_static(const Fiber *);   // a variable of a function

}  // namespace atops
