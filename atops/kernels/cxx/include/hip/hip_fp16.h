// HIP's names of the half type and its conversions; its operators are those of the language's type.
#pragma once

#include "hip_runtime.h"

using __half = __atops_fp16;
using half = __atops_fp16;
inline __atops_fp16 __float2half(float x) { return __atops_fp16(x); }
inline float __half2float(__atops_fp16 x) { return float(x); }
