// The program may include it; what it asks for is in hip_runtime.h.
#pragma once
#include "hip_runtime.h"
