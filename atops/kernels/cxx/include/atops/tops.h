// All of TOPS C++ as this emulator has it. Every program includes it before its own text.
#pragma once

#include "dte.h"
#include "functions.h"
#include "host.h"
#include "vector.h"

#ifdef __HIPCC_RTC__  // HIP's runtime compilation: kernels of HIP include nothing
#include "../hip/hip_cooperative_groups.h"
#include "../hip/hip_fp16.h"
#endif
