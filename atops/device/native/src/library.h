// What a run leaves with the C++ library.
#pragma once

#include "run.h"

namespace atops {

void give_up_statics(const Scheduler *);  // that threads which are no more have begun to initialise

}  // namespace atops
