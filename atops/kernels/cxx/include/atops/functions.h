// The mathematical functions on vectors (TOPS C++, 8.4). Exact operations stay in the element type; everything else is
// computed in the next wider one and rounded once, as the kernels in Python have it.
#pragma once

#include <math.h>

#include "vector.h"

// These the C library has for several numbers at once, too, and the compiler takes them for loops over lanes. Theirs may
// differ in the last bits of a double, which are gone once it is rounded to a float.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define ATOPS_SIMD __attribute__((simd("notinbranch"), const))
extern "C" {
ATOPS_SIMD double log(double) noexcept;
ATOPS_SIMD double sin(double) noexcept;
ATOPS_SIMD double cos(double) noexcept;
ATOPS_SIMD double pow(double, double) noexcept;
}
#undef ATOPS_SIMD
#endif

// Of the device's mathematics, not of the C library's. A template: a program's own function of that name comes first.
template <class T> inline float rsqrtf(T x) { return 1 / sqrtf(x); }

namespace atops {

template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, float>;

template <class T, int BYTES>
constexpr bool is_vector4 = BYTES == 512 && sizeof(T) < 8;

// exp(x) of a double that is rounded to a float afterwards, in steps that the compiler takes for many lanes at once: the C
// library's own is slow where one of them is infinite or underflows, as in every masked softmax.
inline double exp_of(double x) {
    constexpr double MAGIC = 0x1.8p52, HIGH = 0x1.62e42fefa3800p-1, LOW = 0x1.ef35793c76730p-45;  // ln 2 in two parts
    x = x > 200 ? 200.0 : x < -200 ? -200.0 : x;  // beyond, a float is infinite or 0; what is no number stays so
    double shifted = x * M_LOG2E + MAGIC, count = shifted - MAGIC;
    double rest = (x - count * HIGH) - count * LOW, sum = 1.0 / 6227020800 * rest + 1.0 / 479001600;
    sum = ((sum * rest + 1.0 / 39916800) * rest + 1.0 / 3628800) * rest + 1.0 / 362880;
    sum = ((sum * rest + 1.0 / 40320) * rest + 1.0 / 5040) * rest + 1.0 / 720;
    sum = ((sum * rest + 1.0 / 120) * rest + 1.0 / 24) * rest + 1.0 / 6;
    sum = ((sum * rest + 0.5) * rest + 1) * rest + 1;
    return sum * __builtin_bit_cast(double, (__builtin_bit_cast(unsigned long long, shifted) + 1023) << 52);
}
inline float exp_of(float x) { return exp(x); }

template <class T>
T positive_part(T x) { return x > 0 ? x : T(0); }
template <class T>
T softplus_of(T x) { return x != x ? x : positive_part(x) + log1p(exp_of(-fabs(x))); }
template <class T>
T sigmoid_of(T x) {
    T tail = exp_of(-fabs(x));
    return (x >= 0 ? T(1) : tail) / (T(1) + tail);
}
inline double gelu_of(double x) { return x != x ? x : x < -40 ? -0.0 : x * 0.5 * erfc(-x * M_SQRT1_2); }

#define ATOPS_FUNCTION(name, demand, expression) \
    template <class T, int BYTES> \
        requires(demand) \
    Vector<T, BYTES> name(const Vector<T, BYTES> &v) { \
        using W = Wider<T>; \
        Vector<T, BYTES> made; \
        for (int each = 0; each < made.lanes; ++each) { \
            [[maybe_unused]] W x = W(v.lane[each]); \
            made.lane[each] = T(expression); \
        } \
        return made; \
    }
#define ATOPS_OF_4 is_float<T> && BYTES == 512
#define ATOPS_OF_1 is_float<T> && BYTES == 128
#define ATOPS_OF_BOTH is_float<T> && (BYTES == 128 || BYTES == 512)
ATOPS_FUNCTION(sign, ATOPS_OF_4, x != x ? x : W((x > 0) - (x < 0)))
ATOPS_FUNCTION(round, ATOPS_OF_4, ::round(x))
ATOPS_FUNCTION(ln, ATOPS_OF_BOTH, ::log(x))
ATOPS_FUNCTION(log1p, ATOPS_OF_4, ::log1p(x))
ATOPS_FUNCTION(sqrt, ATOPS_OF_4, ::sqrt(x))
ATOPS_FUNCTION(rec, ATOPS_OF_1, W(1) / x)
ATOPS_FUNCTION(rsqrt, ATOPS_OF_BOTH, W(1) / ::sqrt(x))
ATOPS_FUNCTION(exp, ATOPS_OF_BOTH, exp_of(x))
ATOPS_FUNCTION(expm1, ATOPS_OF_4, ::expm1(x))
ATOPS_FUNCTION(floor, ATOPS_OF_4, ::floor(x))
ATOPS_FUNCTION(ceil, ATOPS_OF_4, ::ceil(x))
ATOPS_FUNCTION(sin, ATOPS_OF_BOTH, ::sin(x))
ATOPS_FUNCTION(cos, ATOPS_OF_4, ::cos(x))
ATOPS_FUNCTION(tan, ATOPS_OF_BOTH, ::tan(x))
ATOPS_FUNCTION(sinh, ATOPS_OF_4, ::sinh(x))
ATOPS_FUNCTION(cosh, ATOPS_OF_4, ::cosh(x))
ATOPS_FUNCTION(tanh, ATOPS_OF_BOTH, ::tanh(x))
ATOPS_FUNCTION(asin, ATOPS_OF_4, ::asin(x))
ATOPS_FUNCTION(acos, ATOPS_OF_4, ::acos(x))
ATOPS_FUNCTION(atan, ATOPS_OF_4, ::atan(x))
ATOPS_FUNCTION(softplus, ATOPS_OF_BOTH, softplus_of(x))
ATOPS_FUNCTION(sigmoid, ATOPS_OF_BOTH, sigmoid_of(x))
ATOPS_FUNCTION(gelu, ATOPS_OF_BOTH, gelu_of(x))
#undef ATOPS_FUNCTION

template <class T, int BYTES>
Vector<T, BYTES> abs(const Vector<T, BYTES> &x) {
    Vector<T, BYTES> made;
    for (int each = 0; each < made.lanes; ++each) {
        if constexpr (std::is_unsigned_v<T>)
            made.lane[each] = x.lane[each];
        else if constexpr (is_integer<T>)
            made.lane[each] = x.lane[each] < 0 ? T(0 - std::make_unsigned_t<T>(x.lane[each])) : x.lane[each];
        else
            made.lane[each] = T(fabsf(float(x.lane[each])));
    }
    return made;
}

template <class T, int BYTES>
    requires(is_float<T> && BYTES == 512)
Mask<int(sizeof(T)), BYTES> isfinite(const Vector<T, BYTES> &x) {
    Mask<int(sizeof(T)), BYTES> made;
    for (int each = 0; each < made.lanes; ++each) made.lane[each] = __builtin_isfinite(float(x.lane[each]));
    return made;
}

template <class T, int LANES>
void check_divisor(const T (&divisor)[LANES], const char *name, const char *file, int line) {
    for (int each = 0; each < LANES; ++each)
        if (divisor[each] == 0) {
            char text[96];
            snprintf(text, sizeof text, "%s by 0 in lane %d; an integer has no quotient by 0", name, each);
            fail(Fault::launch_failure, text, file, line);
        }
}

#define ATOPS_FUNCTION(name, demand, check, expression) \
    template <class T, int BYTES> \
        requires(demand) \
    Vector<T, BYTES> name(const Vector<T, BYTES> &v, const Vector<T, BYTES> &u, ATOPS_SITE) { \
        (void)file, (void)line; \
        check; \
        Vector<T, BYTES> made; \
        for (int each = 0; each < made.lanes; ++each) { \
            T x = v.lane[each], y = u.lane[each]; \
            made.lane[each] = T(expression); \
        } \
        return made; \
    } \
    template <class T, int BYTES> \
    Vector<T, BYTES> name(const Vector<T, BYTES> &v, T u, ATOPS_SITE) { return name(v, Vector<T, BYTES>(u), file, line); } \
    template <class T, int BYTES> \
    Vector<T, BYTES> name(T v, const Vector<T, BYTES> &u, ATOPS_SITE) { return name(Vector<T, BYTES>(v), u, file, line); }

template <class T>
T quotient(T x, T y) {
    if constexpr (std::is_signed_v<T>) return y == T(-1) ? T(0 - std::make_unsigned_t<T>(x)) : T(x / y);
    return T(x / y);
}
template <class T>
T remainder_of(T x, T y) {
    if constexpr (std::is_signed_v<T>) {
        if (y == T(-1)) return 0;
        T left = T(x % y);
        return left != 0 && (left < 0) != (y < 0) ? T(left + y) : left;
    }
    return T(x % y);
}
template <class T>
T divided(T x, T y) {
    if constexpr (is_integer<T>)
        return quotient(x, y);
    else
        return T(float(x) / float(y));
}
#define ATOPS_INTEGERS is_integer<T> && BYTES == 512 && sizeof(T) < 8
ATOPS_FUNCTION(mod, ATOPS_INTEGERS, check_divisor(u.lane, "mod", file, line), remainder_of(x, y))
ATOPS_FUNCTION(div, (is_vector4<T, BYTES>), if constexpr (is_integer<T>) check_divisor(u.lane, "div", file, line), divided(x, y))
ATOPS_FUNCTION(power, ATOPS_OF_4, , ::pow(Wider<T>(x), Wider<T>(y)))
ATOPS_FUNCTION(atan2, ATOPS_OF_4, , ::atan2(Wider<T>(x), Wider<T>(y)))
#undef ATOPS_FUNCTION
#undef ATOPS_INTEGERS
#undef ATOPS_OF_4
#undef ATOPS_OF_1
#undef ATOPS_OF_BOTH

}  // namespace atops

// Of numbers, as every compiler of device code has them. A program's own come first, and those of <algorithm>: none of them
// ends in a pack. What is no number gives way to what is, as with fmin.
namespace atops {
template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> || is_narrow<T>;
template <class T, class U>
struct Common { using type = std::common_type_t<std::conditional_t<is_narrow<T>, float, T>, std::conditional_t<is_narrow<U>, float, U>>; };
template <class T>
struct Common<T, T> { using type = T; };
}  // namespace atops
template <class T, class U, class... None>
    requires(atops::is_number<T> && atops::is_number<U> && sizeof...(None) == 0)
constexpr typename atops::Common<T, U>::type min(T x, U y, None...) {
    typename atops::Common<T, U>::type one = x, other = y;
    return one < other || other != other ? one : other;
}
template <class T, class U, class... None>
    requires(atops::is_number<T> && atops::is_number<U> && sizeof...(None) == 0)
constexpr typename atops::Common<T, U>::type max(T x, U y, None...) {
    typename atops::Common<T, U>::type one = x, other = y;
    return one > other || other != other ? one : other;
}
namespace tops {
using ::max;
using ::min;
}  // namespace tops
