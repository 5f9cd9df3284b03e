// Element-wise functions of arrays, as published kernels call them: the result first, then operands, then how many.
#pragma once

#include "published.h"

namespace acore {

#define ATOPS_UNARY(name) \
    template <class Out, class In> \
    inline void name(Out *out, const In *in, unsigned count) { \
        for (unsigned i = 0; i < count; ++i) out[i] = Out(atops::number_##name(in[i])); \
    }
ATOPS_UNARY_NAMES(ATOPS_UNARY)
#undef ATOPS_UNARY

template <class Out, class In>
inline void convert(Out *out, const In *in, unsigned count) {
    for (unsigned i = 0; i < count; ++i) out[i] = Out(in[i]);
}

// Each takes two arrays, or an array and a number; the second template argument says what is read, where it is given.
#define ATOPS_BINARY(name, expression) \
    template <class Out, class In, class Other> \
    inline void name(Out *out, const In *lhs, const Other *rhs, unsigned count) { \
        for (unsigned i = 0; i < count; ++i) { \
            auto x = lhs[i]; \
            auto y = In(rhs[i]); \
            out[i] = Out(expression); \
        } \
    } \
    template <class Out, class In, class Number> \
        requires(!std::is_pointer_v<Number> && !std::is_array_v<Number>) \
    inline void name(Out *out, const In *lhs, Number rhs, unsigned count) { \
        In y = In(rhs); \
        for (unsigned i = 0; i < count; ++i) { \
            auto x = lhs[i]; \
            out[i] = Out(expression); \
        } \
    } \
    inline void name##_fp32_scalar(auto *out, const float *lhs, float rhs, unsigned count) { name(out, lhs, rhs, count); } \
    inline void name##_fp16_scalar(auto *out, const atops::half *lhs, atops::half rhs, unsigned count) { \
        name(out, lhs, rhs, count); \
    } \
    inline void name##_bf16_scalar(auto *out, const atops::brain *lhs, atops::brain rhs, unsigned count) { \
        name(out, lhs, rhs, count); \
    }
ATOPS_BINARY(add, x + y)
ATOPS_BINARY(sub, x - y)
ATOPS_BINARY(mul, x *y)
ATOPS_BINARY(div, x / y)
ATOPS_BINARY(max, x > y ? x : y)
ATOPS_BINARY(min, x < y ? x : y)
ATOPS_BINARY(mod, atops::remainder(x, y))
ATOPS_BINARY(eq, x == y)
ATOPS_BINARY(ne, x != y)
ATOPS_BINARY(lt, x < y)
ATOPS_BINARY(le, x <= y)
ATOPS_BINARY(gt, x > y)
ATOPS_BINARY(ge, x >= y)
#undef ATOPS_BINARY

}  // namespace acore

using namespace acore;
