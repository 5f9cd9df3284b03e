// Published kernels include this; what they want of it is there.
#pragma once

#include "atops/elementwise.h"
