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

// The second operand times a factor is added.
template <class T, class Factor>
    requires std::is_convertible_v<Factor, T>
inline void add(T *out, const T *lhs, const T *rhs, unsigned count, Factor factor) {
    for (unsigned i = 0; i < count; ++i) out[i] = T(lhs[i] + rhs[i] * T(factor));
}
// out[i, j] = lhs[i] * rhs[j]
template <class T>
inline void outer(T *out, const T *lhs, const T *rhs, unsigned rows, unsigned columns) {
    for (unsigned i = 0; i < rows; ++i)
        for (unsigned j = 0; j < columns; ++j) out[size_t(i) * columns + j] = lhs[i] * rhs[j];
}
// How the operands of a product lie: K inside or outside.
enum MatmulLayout { MK_KN, MK_NK, KM_KN, KM_NK };
// out = lhs x rhs, and the bias where `biased` says so, summed in the next wider type and rounded once. `sums` adds to
// what calls before have left, and `stores` leaves it for the next one; that is not here, and a fault.
template <int M, MatmulLayout layout, class Out, class In, class Bias, class Extra>
inline void matmul(Out *out, const In *lhs, const In *rhs, const Bias *bias, const Extra *, int k, int n, int sums, int stores,
                   int biased, int, int) {
    if (sums || !stores)
        atops::fail(atops::Fault::launch_failure, "called acore::matmul for sums over several calls, which this emulator does "
                    "not have", "", 0);
    constexpr bool outer_lhs = layout == KM_KN || layout == KM_NK, inner_rhs = layout == MK_NK || layout == KM_NK;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < n; ++j) {
            auto total = biased ? decltype(atops::wide(In(0)))(bias[j]) : atops::wide(In(0));
            for (int each = 0; each < k; ++each)
                total += atops::wide(lhs[outer_lhs ? each * M + i : i * k + each]) *
                         atops::wide(rhs[inner_rhs ? j * k + each : each * n + j]);
            out[i * n + j] = Out(total);
        }
}
// Of the closed library, and not here: any other function of the name goes first.
#define ATOPS_CLOSED(name) \
    template <class... A> \
    [[noreturn]] inline void name(A &&...) { \
        atops::fail(atops::Fault::launch_failure, "called acore::" #name ", which this emulator does not have", "", 0); \
    }
ATOPS_CLOSED(dequant)
#undef ATOPS_CLOSED

}  // namespace acore

using namespace acore;
