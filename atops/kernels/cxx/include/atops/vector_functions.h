// Functions of vectors that the public guide of TOPS C++ lists and the language text does not, as the C library has them.
#pragma once

#include "published.h"

namespace tops {

// The mathematical ones: of floats, computed in the next wider type and rounded once.
#define ATOPS_UNARY(name, expression) \
    template <class V> \
    inline V name(const V &v) { \
        static_assert(atops::is_float<typename V::Element>, #name " is of vectors of floats"); \
        return atops::each_of(v, [](auto given) { \
            auto x = atops::wide(given); \
            return expression; \
        }); \
    }
ATOPS_UNARY(vasin, ::asin(x))
ATOPS_UNARY(vacos, ::acos(x))
ATOPS_UNARY(vatan, ::atan(x))
ATOPS_UNARY(vsinh, ::sinh(x))
ATOPS_UNARY(vcosh, ::cosh(x))
ATOPS_UNARY(vasinh, ::asinh(x))
ATOPS_UNARY(vacosh, ::acosh(x))
ATOPS_UNARY(vcbrt, ::cbrt(x))
ATOPS_UNARY(vtrunc, ::trunc(x))
ATOPS_UNARY(vrint, ::rint(x))  // halves to the even number; vround takes them away from 0
ATOPS_UNARY(vexpm1, ::expm1(x))
ATOPS_UNARY(vexp2, ::exp2(x))
ATOPS_UNARY(vlog1p, ::log1p(x))
ATOPS_UNARY(vlog2, ::log2(x))
ATOPS_UNARY(vlog10, ::log10(x))
ATOPS_UNARY(vlogb, ::logb(x))
#undef ATOPS_UNARY
#define ATOPS_BINARY(name, expression) \
    template <class V> \
    inline V name(const V &v, const V &u) { \
        static_assert(atops::is_float<typename V::Element>, #name " is of vectors of floats"); \
        return atops::each_of(v, u, [](auto one, auto other) { \
            auto x = atops::wide(one), y = atops::wide(other); \
            return expression; \
        }); \
    }
ATOPS_BINARY(vatan2, ::atan2(x, y))
ATOPS_BINARY(vpower, ::pow(x, y))
ATOPS_BINARY(vdim, ::fdim(x, y))
ATOPS_BINARY(vhypot, ::hypot(x, y))
ATOPS_BINARY(vcopysign, ::copysign(x, y))
#undef ATOPS_BINARY

template <class V>
inline auto vilogb(const V &v) {
    static_assert(std::is_same_v<typename V::Element, float>, "vilogb is of vectors of float");
    atops::Vector<int, int(sizeof(V))> made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = ::ilogb(v.lane[i]);
    return made;
}
template <class V>
inline V vsign(const V &v) {
    return atops::each_of(v, [](auto x) { return x != x ? x : decltype(x)((x > decltype(x)(0)) - (x < decltype(x)(0))); });
}
// With the sign of the divisor, as `mod` of the language text; vrem has that of the dividend.
template <class V>
inline V vmod(const V &v, const V &u) {
    return atops::each_of(v, u, [](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)>) {
            return atops::remainder_of(x, y);
        } else {
            double left = ::fmod(double(x), double(y)), by = double(y);
            return left != 0 && (left < 0) != (by < 0) ? left + by : ::copysign(left, left != 0 ? left : by);
        }
    });
}

// A truth value for each lane: integers as wide as the elements, 0 or 1, or the mask that is named.
#define ATOPS_TRUTH(name, expression) \
    template <class Named = void, class V> \
    inline auto name(const V &v) { \
        static_assert(atops::is_float<typename V::Element>, #name " is of vectors of floats"); \
        using Bits = std::conditional_t<sizeof(typename V::Element) == 4, unsigned, unsigned short>; \
        std::conditional_t<std::is_void_v<Named>, atops::Vector<Bits, int(sizeof(V))>, Named> made; \
        for (int i = 0; i < V::lanes; ++i) { \
            float x = float(v.lane[i]); \
            made.lane[i] = expression; \
        } \
        return made; \
    }
ATOPS_TRUTH(visnan, __builtin_isnan(x))
ATOPS_TRUTH(visfinite, __builtin_isfinite(x))
#undef ATOPS_TRUTH
template <class C, class V>
inline V vselect(const C &condition, const V &where_true, const V &where_false) {
    static_assert(C::lanes == V::lanes, "vselect takes a condition for each lane");
    V made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = condition.lane[i] ? where_true.lane[i] : where_false.lane[i];
    return made;
}

template <class V>
inline V vnot(const V &v) {
    unsigned char bytes[sizeof(V)];
    __builtin_memcpy(bytes, &v, sizeof v);
    for (unsigned char &each : bytes) each = static_cast<unsigned char>(~each);
    return vload<V>(bytes);
}
// By as many bits as the same lane of the second vector says. To the right the sign moves in.
#define ATOPS_SHIFT(name, otherwise, expression) \
    template <class V, class U> \
    inline V name(const V &v, const U &bits) { \
        using T = typename V::Element; \
        static_assert(std::is_integral_v<T> && std::is_signed_v<T>, #name " is of vectors of signed integers"); \
        static_assert(V::lanes == U::lanes, #name " takes a number of bits for each lane"); \
        V made; \
        for (int i = 0; i < V::lanes; ++i) { \
            T x = v.lane[i]; \
            auto by = std::make_unsigned_t<typename U::Element>(bits.lane[i]); \
            made.lane[i] = by < sizeof(T) * 8 ? T(expression) : T(otherwise); \
        } \
        return made; \
    }
ATOPS_SHIFT(vshl, 0, std::make_unsigned_t<T>(x) << by)
ATOPS_SHIFT(vshr, x < 0 ? -1 : 0, x >> by)
#undef ATOPS_SHIFT

// The same bytes as another vector: the one that is named, or that it is assigned to.
template <class To, class V>
inline To vbitcast(const V &from) {
    static_assert(sizeof(To) == sizeof(V), "vectors of different sizes");
    return vload<To>(&from);
}
template <class V>
inline auto vbitcast(const V &from) { return atops::Bits(from); }

// The vector of a type of numbers.
template <class T>
struct scalar2vector {
    using type = atops::Vector<atops::Unified<T>, sizeof(T) == 8 ? 512 : TOPS_VECTOR_LENGTH>;
};
template <class T>
    requires(atops::is_float<atops::Unified<T>> || atops::is_integer<atops::Unified<T>>)
inline auto vbroadcast(T value) {
    return typename scalar2vector<T>::type(atops::Unified<T>(value));
}

}  // namespace tops
