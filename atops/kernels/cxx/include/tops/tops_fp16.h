// Published kernels include this; what they want of it is there.
#pragma once

#include "tops/half.h"
