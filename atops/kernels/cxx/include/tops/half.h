// tops::half and tops::bfloat: classes of their own around __fp16 and __bf16, to which their values convert.
#pragma once

#include "atops/numbers.h"

namespace tops {

template <class Number>
struct Rounded {
    Number value;

    Rounded() = default;
    template <class From, class = decltype(static_cast<float>(static_cast<From (*)()>(nullptr)()))>
    constexpr Rounded(From from) : value(static_cast<float>(from)) {}
    constexpr operator float() const { return float(value); }
    template <class From>
    Rounded &operator+=(From from) { return *this = Rounded(float(*this) + float(from)); }
    template <class From>
    Rounded &operator-=(From from) { return *this = Rounded(float(*this) - float(from)); }
    template <class From>
    Rounded &operator*=(From from) { return *this = Rounded(float(*this) * float(from)); }
    template <class From>
    Rounded &operator/=(From from) { return *this = Rounded(float(*this) / float(from)); }
    Rounded &operator++() { return *this += 1.0f; }
    Rounded &operator--() { return *this -= 1.0f; }
    Rounded operator++(int) {
        Rounded before = *this;
        ++*this;
        return before;
    }
    Rounded operator--(int) {
        Rounded before = *this;
        --*this;
        return before;
    }
};

// Of two of one type the result has that type; with any other number it is computed as a float's is.
#define ATOPS_BINARY(op) \
    template <class Number> \
    constexpr Rounded<Number> operator op(Rounded<Number> x, Rounded<Number> y) { return float(x) op float(y); }
ATOPS_BINARY(+) ATOPS_BINARY(-) ATOPS_BINARY(*) ATOPS_BINARY(/)
#undef ATOPS_BINARY

using half = Rounded<atops::half>;
using bfloat = Rounded<atops::brain>;
using bfloat16 = bfloat;
using __ef_half = half;
using __ef_bfloat16 = bfloat;
inline float __half2float(half value) { return float(value); }
inline half __float2half(float value) { return half(value); }
inline float __bfloat162float(bfloat value) { return float(value); }
inline bfloat __float2bfloat16(float value) { return bfloat(value); }

}  // namespace tops

namespace atops {
template <>
struct Kind<tops::half> {
    static constexpr char value = 'f';
};
template <>
struct Kind<tops::bfloat> {
    static constexpr char value = 'e';
};
}  // namespace atops
template <>
struct std::numeric_limits<tops::half> : atops::HalfLimits<tops::half> {};
template <>
struct std::numeric_limits<tops::bfloat> : atops::BrainLimits<tops::bfloat> {};
