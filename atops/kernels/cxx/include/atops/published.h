// Names that published kernels use beside the language text: types of vectors, what is known of them, and functions on
// them. The headers krt/*.h, tcle.h and acore*.h of those kernels come to this; what they mean was read off their uses.
#pragma once

#include <math.h>

#include "functions.h"
#include "tops/half.h"

#define KRT_API  // stands behind `inline`
#define __TCLE_DEVICE_TYPE__
#define __KRT_ARCH__ __GCU_ARCH__
#define TOPS_VECTOR_LENGTH 128  // bytes of a vector; __vector4 has four times as many
#define TCLE_SINGLE_VEC_BYTES 128
#define TCLE_MAX_VECTOR_LENGTH 128
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

using generic_ptr = char *;
using mapped_ptr = char *;
using __half = __atops_fp16;
enum class RoundingMode_t { RM_RZ, RM_RN, RM_RZ_CLAMP, RM_RN_CLAMP };

// An assertion with a text, which is told in its place. Templates, as all that stands back behind a program's own.
template <int = 0>
__attribute__((format(printf, 2, 3))) inline void op_assert(bool condition, const char *format, ...) {
    if (condition) return;
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (size_t end = strlen(text); end && text[end - 1] == '\n') text[end - 1] = 0;
    atops::fail(atops::Fault::kernel_assert, text, "", 0);
}
template <class... T>
    requires(atops::is_narrow<T> || ...)
inline void op_assert(bool condition, const char *format, T... given) {
    op_assert(condition, format, atops::promoted(given)...);
}

inline int __tops_tid_x() { return int(threadIdx.x); }
inline int __tops_tid_y() { return int(threadIdx.y); }
inline int __tops_tid_z() { return int(threadIdx.z); }
inline int __tops_bid_x() { return int(blockIdx.x); }
inline int __tops_bid_y() { return int(blockIdx.y); }
inline int __tops_bid_z() { return int(blockIdx.z); }

namespace atops {

template <class T>
struct UnifiedOf { using type = T; };
template <>
struct UnifiedOf<tops::half> { using type = half; };
template <>
struct UnifiedOf<tops::bfloat> { using type = brain; };
template <>
struct UnifiedOf<signed char> { using type = char; };  // vchar is the vector of both
template <class T>
using Unified = typename UnifiedOf<T>::type;

template <class V>
struct VectorOf;
template <class T, int BYTES>
struct VectorOf<Vector<T, BYTES>> {
    using Element = T;
    using Truth = Mask<int(sizeof(T)), BYTES>;
    static constexpr int bytes = BYTES, lanes = lanes_of<T, BYTES>;
};

template <class T, int LANES>
using Lanes = Vector<Unified<T>, sizeof(T) == 8 ? 512 : LANES * int(sizeof(T))>;

// A function of numbers, for each lane.
template <class V, class F>
inline V each_of(const V &x, F f) {
    V made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = typename V::Element(f(x.lane[i]));
    return made;
}
template <class V, class F>
inline V each_of(const V &x, const V &y, F f) {
    V made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = typename V::Element(f(x.lane[i], y.lane[i]));
    return made;
}

// What a number is computed in: floats in the next wider type, and rounded once; integers as they are.
template <class T>
inline auto wide(T x) {
    if constexpr (std::is_integral_v<T>)
        return x;
    else if constexpr (sizeof(T) < 4)
        return float(x);
    else
        return double(x);
}

#define ATOPS_NUMBER(name, expression) \
    template <class T> \
    inline auto number_##name(T given) { \
        auto x = wide(given); \
        return expression; \
    }
ATOPS_NUMBER(exp, ::exp(x))
ATOPS_NUMBER(log, ::log(x))
ATOPS_NUMBER(sqrt, ::sqrt(x))
ATOPS_NUMBER(rsqrt, 1 / ::sqrt(x))
ATOPS_NUMBER(reciprocal, 1 / x)
ATOPS_NUMBER(sin, ::sin(x))
ATOPS_NUMBER(cos, ::cos(x))
ATOPS_NUMBER(tan, ::tan(x))
ATOPS_NUMBER(tanh, ::tanh(x))
ATOPS_NUMBER(floor, ::floor(x))
ATOPS_NUMBER(ceil, ::ceil(x))
ATOPS_NUMBER(round, ::round(x))
ATOPS_NUMBER(neg, -x)
ATOPS_NUMBER(abs, x < 0 ? -x : x)
ATOPS_NUMBER(relu, x > 0 ? x : decltype(x)(0))
ATOPS_NUMBER(sigmoid, sigmoid_of(double(x)))
ATOPS_NUMBER(silu, x * sigmoid_of(double(x)))
ATOPS_NUMBER(swish, x * sigmoid_of(double(x)))
ATOPS_NUMBER(softplus, softplus_of(double(x)))
ATOPS_NUMBER(gelu, gelu_of(double(x)))
ATOPS_NUMBER(square, x *x)
#undef ATOPS_NUMBER
#define ATOPS_UNARY_NAMES(X) \
    X(exp) X(log) X(sqrt) X(rsqrt) X(reciprocal) X(sin) X(cos) X(tan) X(tanh) X(floor) X(ceil) X(round) X(neg) X(abs) \
    X(relu) X(sigmoid) X(silu) X(swish) X(softplus) X(gelu)

template <class T>
inline T remainder(T x, T y) {
    if constexpr (std::is_integral_v<T>)
        return T(x % y);
    else
        return T(::fmod(double(x), double(y)));
}

// Bytes at any address, copied by an assignment: watched, g++ tells of that, and of no `__builtin_memcpy` that it spells out.
template <size_t BYTES>
struct Raw {
    unsigned char bytes[BYTES];
};

}  // namespace atops

namespace tops {

using ::generic_ptr;
template <class T>
struct unified_scalar { using type = std::conditional_t<(sizeof(T) < 4), unsigned, T>; };  // kernels ask for its size only
template <class T, int LANES>
struct scalar_to_vector { using type = atops::Lanes<T, LANES>; };
template <class V>
struct vector_to_scalar { using type = typename atops::VectorOf<V>::Element; };
template <class V>
struct vector_to_mask { using type = typename atops::VectorOf<V>::Truth; };
template <class V>
struct vector_length { static constexpr int value = V::lanes; };
template <class V>
constexpr int vlength() { return V::lanes; }

#define ATOPS_VECTORS(type, name, va) \
    using name = atops::Vector<type, 128>; \
    using name##x2 = atops::Vector<type, 256>; \
    using name##x4 = atops::Vector<type, 512>; \
    using va = name; \
    using va##x2 = name##x2; \
    using va##x4 = name##x4;
ATOPS_VECTORS(char, vchar, va64i8)
ATOPS_VECTORS(unsigned char, vuchar, va64u8)
ATOPS_VECTORS(short, vshort, va32i16)
ATOPS_VECTORS(unsigned short, vushort, va32u16)
ATOPS_VECTORS(int, vint, va16i32)
ATOPS_VECTORS(unsigned, vuint, va16u32)
ATOPS_VECTORS(atops::half, vhalf, va32f16)
ATOPS_VECTORS(atops::brain, vbfloat, va32bf16)
ATOPS_VECTORS(float, vfloat, va16f32)
#undef ATOPS_VECTORS
// By the registers that they were called after: as many bytes.
using v64i8 = vchar;
using v64u8 = vuchar;
using v32i16 = vshort;
using v32u16 = vushort;
using v16i32 = vint;
using v16u32 = vuint;
using v32f16 = vhalf;
using v32bf16 = vbfloat;
using v16f32 = vfloat;
using vbool16_t = atops::Mask<4, 128>;
using vbool32_t = atops::Mask<4, 256>;
using vbool64_t = atops::Mask<4, 512>;
using vbool128_t = atops::Mask<2, 512>;
using vbool256_t = atops::Mask<1, 512>;

template <class V>
inline V vload(const void *from) {
    return __builtin_bit_cast(V, *static_cast<const atops::Raw<sizeof(V)> *>(from));
}
template <class V>
inline void vstore(const V &value, void *to) {
    *static_cast<atops::Raw<sizeof(V)> *>(to) = __builtin_bit_cast(atops::Raw<sizeof(V)>, value);
}
template <class V, class T>
inline V vbroadcast(T value) { return V(typename V::Element(value)); }
template <class V>
inline V vzero() { return V(typename V::Element(0)); }
template <class V, class T>
inline V viota(T first) {
    V made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = typename V::Element(first + T(i));
    return made;
}

#define ATOPS_BINARY(name, expression) \
    template <class V> \
    inline V name(const V &v, const V &u) { \
        return atops::each_of(v, u, [](auto x, auto y) { return expression; }); \
    }
ATOPS_BINARY(vadd, x + y)
ATOPS_BINARY(vsub, x - y)
ATOPS_BINARY(vmul, x *y)
ATOPS_BINARY(vdiv, x / y)
ATOPS_BINARY(vrem, atops::remainder(x, y))
ATOPS_BINARY(vmax, x > y ? x : y)
ATOPS_BINARY(vmin, x < y ? x : y)
#undef ATOPS_BINARY
// On bits: of vectors of one size, whatever their elements are; the result is of the type that is named.
#define ATOPS_BINARY(name, op) \
    template <class Named = void, class V, class U> \
    inline auto name(const V &v, const U &u) { \
        using Made = std::conditional_t<std::is_void_v<Named>, V, Named>; \
        static_assert(sizeof(V) == sizeof(U) && sizeof(V) == sizeof(Made), "vectors of different sizes"); \
        Made made; \
        unsigned char x[sizeof(V)], y[sizeof(V)]; \
        __builtin_memcpy(x, &v, sizeof x); \
        __builtin_memcpy(y, &u, sizeof y); \
        for (size_t i = 0; i < sizeof x; ++i) x[i] = static_cast<unsigned char>(x[i] op y[i]); \
        __builtin_memcpy(&made, x, sizeof made); \
        return made; \
    }
ATOPS_BINARY(vand, &)
ATOPS_BINARY(vor, |)
ATOPS_BINARY(vxor, ^)
#undef ATOPS_BINARY
#define ATOPS_SHIFT(name, op) \
    template <class Named = void, class V> \
    inline auto name(const V &given, int bits) { \
        using Made = std::conditional_t<std::is_void_v<Named>, V, Named>; \
        static_assert(sizeof(V) == sizeof(Made), "vectors of different sizes"); \
        Made made; \
        __builtin_memcpy(&made, &given, sizeof made); \
        using Bits = std::make_unsigned_t<typename Made::Element>; \
        for (int i = 0; i < Made::lanes; ++i) \
            made.lane[i] = size_t(bits) < sizeof(Bits) * 8 ? typename Made::Element(Bits(Bits(made.lane[i]) op bits)) : 0; \
        return made; \
    }
ATOPS_SHIFT(vshli, <<)
ATOPS_SHIFT(vshri, >>)
#undef ATOPS_SHIFT
#define ATOPS_UNARY(name) \
    template <class V> \
    inline V v##name(const V &v) { \
        return atops::each_of(v, [](auto x) { return atops::number_##name(x); }); \
    }
ATOPS_UNARY_NAMES(ATOPS_UNARY)
#undef ATOPS_UNARY
#define ATOPS_COMPARISON(name, op) \
    template <class M, class V> \
    inline M name(const V &x, const V &y) { \
        M made; \
        for (int i = 0; i < M::lanes; ++i) made.lane[i] = x.lane[i] op y.lane[i]; \
        return made; \
    }
ATOPS_COMPARISON(veq, ==)
ATOPS_COMPARISON(vne, !=)
ATOPS_COMPARISON(vlt, <)
ATOPS_COMPARISON(vle, <=)
ATOPS_COMPARISON(vgt, >)
ATOPS_COMPARISON(vge, >=)
#undef ATOPS_COMPARISON
template <class M>
inline M mask_and(const M &x, const M &y) { return x & y; }
template <class M>
inline M mask_or(const M &x, const M &y) { return x | y; }
template <class M>
inline M mask_xor(const M &x, const M &y) { return x ^ y; }
template <class M>
inline M mask_not(const M &x) { return ~x; }

template <class M, class V>
inline V vsel(const M &mask, const V &where_true, const V &where_false) {
    V made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = mask.lane[i] ? where_true.lane[i] : where_false.lane[i];
    return made;
}
template <class To, class V>
inline To vcast(const V &from) {
    static_assert(To::lanes == V::lanes, "a conversion keeps the number of lanes");
    To made;
    for (int i = 0; i < V::lanes; ++i) made.lane[i] = typename To::Element(from.lane[i]);
    return made;
}

// Over all lanes: sums of narrow floats are computed in float, and rounded once.
template <class T, class V>
inline T vreduce_sum(const V &v) {
    auto total = atops::wide(v.lane[0]);
    for (int i = 1; i < V::lanes; ++i) total += atops::wide(v.lane[i]);
    return T(total);
}
template <class T, class V>
inline T vreduce_max(const V &v) {
    auto found = v.lane[0];
    for (int i = 1; i < V::lanes; ++i) found = v.lane[i] > found ? v.lane[i] : found;
    return T(found);
}
template <class T, class V>
inline T vreduce_min(const V &v) {
    auto found = v.lane[0];
    for (int i = 1; i < V::lanes; ++i) found = v.lane[i] < found ? v.lane[i] : found;
    return T(found);
}

// Parts of a vector, and a vector of parts.
template <int number, class Part, class V>
inline Part vunpack(const V &v) {
    static_assert((number + 1) * Part::lanes <= V::lanes, "the vector has fewer parts");
    Part made;
    for (int i = 0; i < Part::lanes; ++i) made.lane[i] = v.lane[number * Part::lanes + i];
    return made;
}
#define ATOPS_PART(number) \
    template <class Part, class V> \
    inline Part vunpack##number(const V &v) { return vunpack<number, Part>(v); }
ATOPS_PART(0)
ATOPS_PART(1)
ATOPS_PART(2)
ATOPS_PART(3)
#undef ATOPS_PART
template <class V, class... Part>
inline V vpack(const Part &...parts) {
    V made;
    int at = 0;
    auto put = [&](const auto &part) {
        for (int i = 0; i < part.lanes; ++i) made.lane[at++] = part.lane[i];
    };
    (put(parts), ...);
    return made;
}
template <class V, class Part>
inline V vpack2(const Part &a, const Part &b) { return vpack<V>(a, b); }
template <class V, class Part>
inline V vpack4(const Part &a, const Part &b, const Part &c, const Part &d) { return vpack<V>(a, b, c, d); }

// Elements at so many bytes behind an address, one for each lane. Both take `const void *`: what a program has itself of
// these names, for `void *`, goes first.
template <class V, class Offsets>
inline V vgather(const void *base, const Offsets &bytes) {
    static_assert(V::lanes == Offsets::lanes, "an offset for each lane");
    V made;
    for (int i = 0; i < V::lanes; ++i)
        __builtin_memcpy(&made.lane[i], static_cast<const char *>(base) + bytes.lane[i], sizeof made.lane[i]);
    return made;
}
template <class V, class Offsets>
inline void vscatter(const void *base, const V &value, const Offsets &bytes) {
    static_assert(V::lanes == Offsets::lanes, "an offset for each lane");
    char *first = static_cast<char *>(const_cast<void *>(base));
    for (int i = 0; i < V::lanes; ++i) __builtin_memcpy(first + bytes.lane[i], &value.lane[i], sizeof value.lane[i]);
}

// A pointer that goes on with each load and store: by a vector, or by one of STRIDES numbers of bytes. What it stores to
// begins where what it loads from does, and goes on by itself: one pointer can change an array in its place. With a second
// address and number of bytes, that is where the second half of each vector is.
template <class V, int STRIDES = 0>
class leaptr {
    using Half = atops::Raw<sizeof(V) / 2>;
    char *from, *to;
    ptrdiff_t second = 0;  // bytes from the first half of a vector to the second, where that is told
    ptrdiff_t strides[STRIDES ? STRIDES : 1] = {sizeof(V)};

  public:
    template <class T, class... Bytes>
        requires(sizeof...(Bytes) == STRIDES && (std::is_convertible_v<Bytes, ptrdiff_t> && ...))
    explicit leaptr(T *first, Bytes... bytes) : from(reinterpret_cast<char *>(const_cast<std::remove_cv_t<T> *>(first))), to(from) {
        int each = 0;
        ((strides[each++] = ptrdiff_t(bytes)), ...);
        (void)each;
    }
    template <class T>
        requires(STRIDES == 1)
    leaptr(T *first, ptrdiff_t bytes, T *half, ptrdiff_t half_bytes) : leaptr(first, bytes) {
        if (half_bytes != bytes) __builtin_trap();  // no kernel has halves that part
        second = reinterpret_cast<char *>(const_cast<std::remove_cv_t<T> *>(half)) - from;
    }
    template <int stride = 0>
    V load() {
        static_assert(stride < (STRIDES ? STRIDES : 1), "the leaptr has fewer strides");
        V made = vload<V>(from);
        if (second) reinterpret_cast<Half *>(made.lane)[1] = *reinterpret_cast<const Half *>(from + second);
        from += strides[stride];
        return made;
    }
    template <int stride = 0>
    void store(const V &value) {
        static_assert(stride < (STRIDES ? STRIDES : 1), "the leaptr has fewer strides");
        if (second) {
            *reinterpret_cast<Half *>(to) = reinterpret_cast<const Half *>(value.lane)[0];
            *reinterpret_cast<Half *>(to + second) = reinterpret_cast<const Half *>(value.lane)[1];
        } else {
            vstore(value, to);
        }
        to += strides[stride];
    }
};
template <class V, class T>
inline leaptr<V> simple_leaptr(T *from) { return leaptr<V>(from); }

// Kernels see all memory at its own address: there is nothing to map.
template <class T>
inline mapped_ptr map_mem(T *from, size_t) { return reinterpret_cast<mapped_ptr>(from); }
template <class T>
inline mapped_ptr map_mem_ex(T *from, size_t) { return reinterpret_cast<mapped_ptr>(from); }
template <class T>
inline mapped_ptr map_mem_m(T *from, size_t) { return reinterpret_cast<mapped_ptr>(from); }
inline void unmap_mem(mapped_ptr, size_t = 0) {}
inline void unmap_mem_m(mapped_ptr, size_t = 0) {}
inline void unmap_mem_ex(mapped_ptr, size_t = 0) {}

[[noreturn]] inline void abort(ATOPS_SITE) {
    atops::fail(atops::Fault::kernel_assert, "tops::abort()", file, line);
}

}  // namespace tops

namespace tcle {

enum class FenceType { L1_SDMEM, L1_VDMEM, L2_MEM, L3_MEM, ALL };
template <auto>
inline void fence() {}  // what a thread stores, it reads

template <class T, int LANES>
struct altivector { using VT = atops::Lanes<T, LANES>; };
template <class T>
struct simple_altivector { using VT = atops::Vector<atops::Unified<T>, sizeof(T) == 8 ? 512 : TCLE_SINGLE_VEC_BYTES>; };
template <class V>
struct altivector_to_mask { using type = typename atops::VectorOf<V>::Truth; };
template <class V>
struct altivector_to_scalar { using type = typename atops::VectorOf<V>::Element; };
template <class V>
constexpr int altivector_step() { return V::lanes; }

using ::generic_ptr;
using tops::leaptr;
using tops::simple_leaptr;
using tops::vsel;

template <class To, class V>
inline To cvt(const V &from) { return tops::vcast<To>(from); }

// The sum of all lanes, in the first one.
template <int, class V>
inline V redsum(const V &from) {
    V made(typename V::Element(0));
    made.lane[0] = tops::vreduce_sum<typename V::Element>(from);
    return made;
}
// One vector of the lanes of two.
template <class T, int BYTES>
inline atops::Vector<T, BYTES * 2> concat2(const atops::Vector<T, BYTES> &a, const atops::Vector<T, BYTES> &b) {
    return tops::vpack<atops::Vector<T, BYTES * 2>>(a, b);
}

template <class V>
inline V load(const void *from) { return tops::vload<V>(from); }
template <class V>
inline void store(const V &value, void *to) { tops::vstore(value, to); }
template <class V, class Offsets>
inline V gather(const void *base, const Offsets &bytes) { return tops::vgather<V>(base, bytes); }
template <class V, class Offsets>
inline void scatter(void *base, const Offsets &bytes, const V &value) { tops::vscatter(base, value, bytes); }
template <class V, class Offsets>
inline void scatter(const V &value, void *base, const Offsets &bytes) { tops::vscatter(base, value, bytes); }
// One of the vectors that a wider one is made of.
template <class Part, int place, class V>
inline Part extract(const V &from) { return tops::vunpack<place, Part>(from); }
// first, first + 1, ...
template <class V, int = 0, class T = int>
inline V mid(T first) { return tops::viota<V>(first); }
// A mask of the first `count` lanes, and whether any lane of a half of a mask is true.
template <class M>
inline M vset_mb(int count) {
    M made;
    for (int i = 0; i < M::lanes; ++i) made.lane[i] = i < count;
    return made;
}
template <int, class M>
inline int popc_mb(const M &mask) {
    int count = 0;
    for (int i = 0; i < M::lanes; ++i) count += mask.lane[i] != 0;
    return count;
}
template <int, int half, class M>
inline int aggr_mb(const M &mask) {
    static_assert(half == 0 || half == 1, "a mask has two halves");
    int any = 0;
    for (int i = half * M::lanes / 2; i < (half + 1) * M::lanes / 2; ++i) any |= mask.lane[i];
    return any;
}

#define ATOPS_UNARY(name) \
    template <class T, int BYTES> \
    inline atops::Vector<T, BYTES> name(const atops::Vector<T, BYTES> &v) { return tops::v##name(v); } \
    inline float name(float x) { return float(atops::number_##name(x)); }
ATOPS_UNARY_NAMES(ATOPS_UNARY)
#undef ATOPS_UNARY
// By the names of the language text, too.
#define ATOPS_RENAMED(name, known) \
    template <class T, int BYTES> \
    inline atops::Vector<T, BYTES> name(const atops::Vector<T, BYTES> &v) { return known(v); } \
    inline float name(float x) { return known(x); }
ATOPS_RENAMED(ln, log)
ATOPS_RENAMED(rec, reciprocal)
#undef ATOPS_RENAMED
template <class V>
inline V max(const V &x, const V &y) { return tops::vmax(x, y); }
template <class V>
inline V min(const V &x, const V &y) { return tops::vmin(x, y); }

}  // namespace tcle

// Registers that are no vectors: what fills them is an intrinsic, which is a fault where it is reached.
struct tar_t {};
struct smr_t {};

// The intrinsics that published headers are made of and that say what they do: first, first + 1, ...; elements at byte
// offsets, loaded and stored; a fence. The rewriting pass leaves those alone that stand here. What they give goes into
// any vector of its size.
namespace atops {
template <int BYTES>
struct Bits {
    unsigned char bytes[BYTES];
    template <class V>
    explicit Bits(const V &from) { __builtin_memcpy(bytes, &from, BYTES); }
    template <class T>
    operator Vector<T, BYTES>() const { return tops::vload<Vector<T, BYTES>>(bytes); }
};
template <class V>
Bits(const V &) -> Bits<int(sizeof(V))>;
}  // namespace atops
#define ATOPS_IOTA(name, T) \
    inline auto name(unsigned first) { return atops::Bits(tops::viota<atops::Vector<T, 512>>(first)); }
ATOPS_IOTA(__dtu_m_mid_m0_u32, unsigned)
ATOPS_IOTA(__dtu_m_mid_m0_u16, unsigned short)
ATOPS_IOTA(__dtu_m_mid_m0_u8, unsigned char)
#undef ATOPS_IOTA
#define ATOPS_INDEXED(load, store, T) \
    template <class Offsets> \
    inline auto load(const void *base, const Offsets &bytes) { \
        return atops::Bits(tops::vgather<atops::Vector<T, int(sizeof(T)) * Offsets::lanes>>(base, bytes)); \
    } \
    template <class V, class Offsets> \
    inline void store(const V &value, void *base, const Offsets &bytes, int part = 0) { \
        for (int i = 0; i < Offsets::lanes; ++i) \
            __builtin_memcpy(static_cast<char *>(base) + bytes.lane[i], &value.lane[part * Offsets::lanes + i], sizeof(T)); \
    }
ATOPS_INDEXED(__dtu_m_vldxda_f32, __dtu_m_vstxda_f32, float)
ATOPS_INDEXED(__dtu_m_vldxda_u32, __dtu_m_vstxda_u32, unsigned)
ATOPS_INDEXED(__dtu_m_vldxda_s32, __dtu_m_vstxda_s32, int)
ATOPS_INDEXED(__dtu_m_vldxda_dual_f32, __dtu_m_vstxda_dual_f32, float)
ATOPS_INDEXED(__dtu_m_vldxda_dual_u32, __dtu_m_vstxda_dual_u32, unsigned)
ATOPS_INDEXED(__dtu_m_vldxda_dual_s32, __dtu_m_vstxda_dual_s32, int)
ATOPS_INDEXED(__dtu_m_vldxda_f16, __dtu_m_vstxda_f16, atops::half)
ATOPS_INDEXED(__dtu_m_vldxda_bf16, __dtu_m_vstxda_bf16, atops::brain)
ATOPS_INDEXED(__dtu_m_vldxda_u16, __dtu_m_vstxda_u16, unsigned short)
ATOPS_INDEXED(__dtu_m_vldxda_s16, __dtu_m_vstxda_s16, short)
ATOPS_INDEXED(__dtu_m_vldxda_u8, __dtu_m_vstxda_u8, unsigned char)
ATOPS_INDEXED(__dtu_m_vldxda_s8, __dtu_m_vstxda_s8, char)
#undef ATOPS_INDEXED
inline void __dtu_l_movs_barrier_fence(int) {}

// The language text gives masks no `&&`, integers no quotient by an operator and no shift in its place; tcle does.
namespace atops {
template <int WIDTH, int BYTES>
Mask<WIDTH, BYTES> operator&&(const Mask<WIDTH, BYTES> &x, const Mask<WIDTH, BYTES> &y) { return x & y; }
template <int WIDTH, int BYTES>
Mask<WIDTH, BYTES> operator||(const Mask<WIDTH, BYTES> &x, const Mask<WIDTH, BYTES> &y) { return x | y; }
template <class T, int BYTES>
    requires is_integer<T>
Vector<T, BYTES> operator/(const Vector<T, BYTES> &x, const Vector<T, BYTES> &y) { return tops::vdiv(x, y); }
template <class T, int BYTES>
    requires is_integer<T>
Vector<T, BYTES> operator%(const Vector<T, BYTES> &x, const Vector<T, BYTES> &y) { return tops::vrem(x, y); }
template <class T, int BYTES>
    requires is_integer<T>
Vector<T, BYTES> &operator/=(Vector<T, BYTES> &x, const Vector<T, BYTES> &y) { return x = x / y; }
template <class T, int BYTES>
    requires(is_integer<T> && std::is_unsigned_v<T>)
Vector<T, BYTES> &operator<<=(Vector<T, BYTES> &x, const Vector<T, BYTES> &y) { return x = x << y; }
template <class T, int BYTES>
    requires(is_integer<T> && std::is_unsigned_v<T>)
Vector<T, BYTES> &operator>>=(Vector<T, BYTES> &x, const Vector<T, BYTES> &y) { return x = x >> y; }
}  // namespace atops

#include "vector_functions.h"
