// The program may include it; what it asks for is in hip_cooperative_groups.h.
#pragma once
#include "hip/hip_cooperative_groups.h"
