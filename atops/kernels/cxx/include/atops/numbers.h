// The floating types that a processor of the host may lack: __fp16 and __bf16, computed in float and rounded once.
#pragma once

#include <stdint.h>
#include <string.h>

#include <limits>
#include <type_traits>

namespace atops {

constexpr uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

constexpr float widened_half(uint16_t half) {
    uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7FFF;
    if (rest >= 0x7C00) return float_of(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    // Exact for the smallest, too: float has an exponent for every half.
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

constexpr uint16_t rounded_half(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000) return uint16_t(sign | 0x7E00 | (bits >> 13 & 0x3FF));
    if (bits >= 0x477FF000) return uint16_t(sign | 0x7C00);
    if (bits < 0x38800000) {  // what is below the least normal half: the sum rounds
        float rounded = float_of(bits) + 0.5f;
        return uint16_t(sign | (bits_of(rounded) - 0x3F000000));
    }
    uint32_t odd = bits >> 13 & 1;
    return uint16_t(sign | (bits - 0x38000000 + 0xFFF + odd) >> 13);
}

constexpr float widened_brain(uint16_t brain) { return float_of(uint32_t(brain) << 16); }

constexpr uint16_t rounded_brain(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
struct Narrow {
    uint16_t bits;

    Narrow() = default;
    template <class Number, class = decltype(static_cast<float>(static_cast<Number (*)()>(nullptr)()))>
    constexpr Narrow(Number value) : bits(narrow(static_cast<float>(value))) {}
    constexpr operator float() const { return widen(bits); }

    // What is added to it is rounded once, with the sum.
#define ATOPS_ASSIGNED(op) \
    constexpr Narrow &operator op##=(Narrow y) { return *this = Narrow(float(*this) op float(y)); } \
    template <class Number> \
        requires std::is_arithmetic_v<Number> \
    constexpr Narrow &operator op##=(Number y) { return *this = Narrow(float(*this) op y); }
    ATOPS_ASSIGNED(+) ATOPS_ASSIGNED(-) ATOPS_ASSIGNED(*) ATOPS_ASSIGNED(/)
#undef ATOPS_ASSIGNED
    constexpr Narrow operator-() const { return __builtin_bit_cast(Narrow, uint16_t(bits ^ 0x8000)); }
    Narrow &operator++() { return *this = Narrow(float(*this) + 1.0f); }
    Narrow &operator--() { return *this = Narrow(float(*this) - 1.0f); }
    Narrow operator++(int) {
        Narrow before = *this;
        ++*this;
        return before;
    }
    Narrow operator--(int) {
        Narrow before = *this;
        --*this;
        return before;
    }
};

// Of two of one type the result has that type. With any other number it is computed as a float's is: as templates these
// functions take no operand that has to be converted.
#define ATOPS_BINARY(op) \
    template <float (*widen)(uint16_t), uint16_t (*narrow)(float)> \
    constexpr Narrow<widen, narrow> operator op(Narrow<widen, narrow> x, Narrow<widen, narrow> y) { \
        return Narrow<widen, narrow>(float(x) op float(y)); \
    }
ATOPS_BINARY(+) ATOPS_BINARY(-) ATOPS_BINARY(*) ATOPS_BINARY(/)
#undef ATOPS_BINARY

using half = Narrow<widened_half, rounded_half>;
using brain = Narrow<widened_brain, rounded_brain>;
static_assert(sizeof(half) == 2 && sizeof(brain) == 2);

template <class T>
struct Kind {  // as numpy's kinds, and 'e' for a brain float
    static constexpr char value = 'V';
};
#define ATOPS_KIND(type, kind) \
    template <> \
    struct Kind<type> { \
        static constexpr char value = kind; \
    };
ATOPS_KIND(bool, 'b')
ATOPS_KIND(char, 'i') ATOPS_KIND(signed char, 'i') ATOPS_KIND(unsigned char, 'u')
ATOPS_KIND(short, 'i') ATOPS_KIND(unsigned short, 'u') ATOPS_KIND(int, 'i') ATOPS_KIND(unsigned, 'u')
ATOPS_KIND(long, 'i') ATOPS_KIND(unsigned long, 'u') ATOPS_KIND(long long, 'i') ATOPS_KIND(unsigned long long, 'u')
ATOPS_KIND(float, 'f') ATOPS_KIND(double, 'f') ATOPS_KIND(half, 'f') ATOPS_KIND(brain, 'e')
#undef ATOPS_KIND

}  // namespace atops

// As the text names them. A processor that has a type of its own under the name is not asked.
using __atops_fp16 = atops::half;
using __atops_bf16 = atops::brain;

// Of a type that the library does not know, `max()` and its like are 0, and no error. Here it is what a float's are, but for
// what is told: all that hangs on the number of bits.
namespace atops {
template <class Number, uint16_t SMALLEST, uint16_t LARGEST, uint16_t STEP, int DIGITS, int MOST, int LEAST10, int MOST10>
struct Limits : std::numeric_limits<float> {
    static constexpr int digits = DIGITS, digits10 = (DIGITS - 1) * 30103 / 100000, max_digits10 = 2 + DIGITS * 30103 / 100000;
    static constexpr int max_exponent = MOST, min_exponent = 3 - MOST, max_exponent10 = MOST10, min_exponent10 = LEAST10;
    static constexpr Number of(uint16_t bits) { return __builtin_bit_cast(Number, bits); }
    static constexpr Number min() noexcept { return of(SMALLEST); }
    static constexpr Number max() noexcept { return of(LARGEST); }
    static constexpr Number lowest() noexcept { return of(LARGEST | 0x8000); }
    static constexpr Number epsilon() noexcept { return of(STEP); }
    static constexpr Number round_error() noexcept { return 0.5f; }
    static constexpr Number infinity() noexcept { return of(LARGEST + 1); }
    static constexpr Number quiet_NaN() noexcept { return of(uint16_t(LARGEST + 1) | 1 << (DIGITS - 2)); }
    static constexpr Number signaling_NaN() noexcept { return of(uint16_t(LARGEST + 1) | 1 << (DIGITS - 3)); }
    static constexpr Number denorm_min() noexcept { return of(1); }
};
template <class Number>
using HalfLimits = Limits<Number, 0x0400, 0x7BFF, 0x1400, 11, 16, -4, 4>;
template <class Number>
using BrainLimits = Limits<Number, 0x0080, 0x7F7F, 0x3C00, 8, 128, -37, 38>;
}  // namespace atops
template <>
struct std::numeric_limits<atops::half> : atops::HalfLimits<atops::half> {};
template <>
struct std::numeric_limits<atops::brain> : atops::BrainLimits<atops::brain> {};
