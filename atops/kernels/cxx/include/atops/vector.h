// Vectors (TOPS C++, 8.3): __vector, __vector2 and __vector4 of the types that the text lists, and their masks. An
// operator that the text does not give a type does not exist for it: the compiler says so.
#pragma once

#include "language.h"

namespace atops {

template <class T>
constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, brain>;
template <class T>
constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
constexpr bool is_bits = is_integer<T> && std::is_unsigned_v<T> && sizeof(T) < 8;

// BYTES is the keyword's; 64-bit elements exist for 512 only, and are 128 lanes there, too.
template <class T, int BYTES>
constexpr int lanes_of = sizeof(T) == 8 ? 128 : BYTES / int(sizeof(T));

[[noreturn]] inline void lane_fault(long index, int lanes, const char *file, int line) {
    char text[96];
    snprintf(text, sizeof text, "lane %ld of a vector of %d lanes", index, lanes);
    fail(Fault::illegal_address, text, file, line);
}

// What a comparison gives: a truth value for each lane of elements of WIDTH bytes.
template <int WIDTH, int BYTES>
struct Mask {
    static constexpr int lanes = WIDTH == 8 ? 128 : BYTES / WIDTH;
    uint8_t lane[lanes];

    Mask() = default;
    Mask(bool value) { memset(lane, value, sizeof lane); }
    uint8_t &operator[](long index) {
        if (index < 0 || index >= lanes) lane_fault(index, lanes, "", 0);
        return lane[index];
    }
    bool operator[](long index) const { return const_cast<Mask &>(*this)[index]; }

#define ATOPS_EACH(expression) \
    Mask made; \
    for (int each = 0; each < lanes; ++each) made.lane[each] = (expression); \
    return made
#define ATOPS_LOGIC(op) \
    friend Mask operator op(const Mask &x, const Mask &y) requires(WIDTH < 8) { ATOPS_EACH(x.lane[each] op y.lane[each]); }
#define ATOPS_COMPARISON(op) \
    friend Mask operator op(const Mask &x, const Mask &y) { ATOPS_EACH(x.lane[each] op y.lane[each]); }
    ATOPS_LOGIC(&)
    ATOPS_LOGIC(|)
    ATOPS_LOGIC(^)
    friend Mask operator~(const Mask &x) requires(WIDTH < 8) { ATOPS_EACH(x.lane[each] ^ 1); }
    ATOPS_COMPARISON(==)
    ATOPS_COMPARISON(!=)
    ATOPS_COMPARISON(<)
    ATOPS_COMPARISON(<=)
    ATOPS_COMPARISON(>)
    ATOPS_COMPARISON(>=)
#undef ATOPS_COMPARISON
#undef ATOPS_LOGIC
#undef ATOPS_EACH
};

template <class T, int BYTES>
struct Vector {
    static_assert(is_float<T> || is_integer<T>, "no vector has such elements (TOPS C++, 8.3)");
    static_assert(sizeof(T) < 8 || BYTES == 512, "vectors of long are __vector4 (TOPS C++, 8.3)");
    static constexpr int lanes = lanes_of<T, BYTES>;
    using Element = T;
    using Truth = Mask<int(sizeof(T)), BYTES>;
    T lane[lanes];

    Vector() = default;
    Vector(T value) {
        for (T &each : lane) each = value;
    }
    T &operator[](long index) {
        if (index < 0 || index >= lanes) lane_fault(index, lanes, "", 0);
        return lane[index];
    }
    const T &operator[](long index) const { return const_cast<Vector &>(*this)[index]; }

#define ATOPS_EACH(type, expression) \
    type made; \
    for (int each = 0; each < lanes; ++each) made.lane[each] = (expression); \
    return made
#define ATOPS_OPERATOR(op, demand) \
    friend Vector operator op(const Vector &x, const Vector &y) demand { ATOPS_EACH(Vector, T(x.lane[each] op y.lane[each])); } \
    Vector &operator op##=(const Vector &y) demand { return *this = *this op y; }
#define ATOPS_ANY
#define ATOPS_UNSIGNED requires(is_integer<T> && std::is_unsigned_v<T>)
#define ATOPS_BITS requires(is_bits<T>)
    ATOPS_OPERATOR(+, ATOPS_ANY)
    ATOPS_OPERATOR(-, ATOPS_ANY)
    ATOPS_OPERATOR(*, ATOPS_ANY)
    ATOPS_OPERATOR(&, ATOPS_BITS)
    ATOPS_OPERATOR(|, ATOPS_BITS)
    ATOPS_OPERATOR(^, ATOPS_BITS)
    friend Vector operator~(const Vector &x) ATOPS_BITS { ATOPS_EACH(Vector, T(~x.lane[each])); }
    friend Vector operator<<(const Vector &x, const Vector &y) ATOPS_UNSIGNED {
        ATOPS_EACH(Vector, y.lane[each] < sizeof(T) * 8 ? T(x.lane[each] << y.lane[each]) : T(0));
    }
    friend Vector operator>>(const Vector &x, const Vector &y) ATOPS_UNSIGNED {
        ATOPS_EACH(Vector, y.lane[each] < sizeof(T) * 8 ? T(x.lane[each] >> y.lane[each]) : T(0));
    }
    friend Vector operator-(const Vector &x) requires(!std::is_unsigned_v<T>) { ATOPS_EACH(Vector, T(-x.lane[each])); }
    Vector &operator++() { return *this = *this + Vector(T(1)); }
    Vector &operator--() { return *this = *this - Vector(T(1)); }
#define ATOPS_COMPARISON(op) \
    friend Truth operator op(const Vector &x, const Vector &y) { ATOPS_EACH(Truth, x.lane[each] op y.lane[each]); }
    ATOPS_COMPARISON(==)
    ATOPS_COMPARISON(!=)
    ATOPS_COMPARISON(<)
    ATOPS_COMPARISON(<=)
    ATOPS_COMPARISON(>)
    ATOPS_COMPARISON(>=)
#undef ATOPS_COMPARISON
#undef ATOPS_OPERATOR
#undef ATOPS_EACH
};

}  // namespace atops
