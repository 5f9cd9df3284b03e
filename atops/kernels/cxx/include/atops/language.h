// TOPS C++ (8.1, 8.2, 8.5, 8.6, 8.8): where functions run, what memory is, which thread this is, barriers, printing.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <new>
#include <type_traits>
#include <utility>

#include "abi.h"
#include "numbers.h"

#define __TOPSCC__ 1

// ---- what stands before a function. Which of them are kernels was read, and taken out, before the compiler came.
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __valigned__ __attribute__((aligned(512)))

// ---- which thread this is: set by the runtime whenever another one goes on

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};
struct int2 { int x, y; };
struct int3 { int x, y, z; };
struct int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };
// As templates they stand back behind a program's own.
#define ATOPS_MADE(type, of) \
    template <class... T> \
    inline type make_##type(T... each) { return type{of(each)...}; }
ATOPS_MADE(int2, int)
ATOPS_MADE(int3, int)
ATOPS_MADE(int4, int)
ATOPS_MADE(uint2, unsigned)
ATOPS_MADE(uint3, unsigned)
ATOPS_MADE(uint4, unsigned)
ATOPS_MADE(float2, float)
ATOPS_MADE(float3, float)
ATOPS_MADE(float4, float)

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

namespace atops {

inline const Runtime *runtime;

#define ATOPS_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- memory of the block and of the thread. The address of `key` stands for the declaration that asks, whose last
// variable is `last`: what the alignment adds behind it is none of its bytes.

template <class Declared, class Last>
inline __attribute__((always_inline)) size_t bytes_up_to(Last Declared::*last) {
    auto *any = reinterpret_cast<Declared *>(alignof(Declared));  // nothing is read there
    return reinterpret_cast<uintptr_t>(&(any->*last)) - alignof(Declared) + sizeof(Last);
}

template <class Declared, class Last>
inline __attribute__((always_inline)) Declared &shared_memory(Last Declared::*last, ATOPS_SITE) {
    static char key;
    bool fresh = false;
    void *place = runtime->shared(&key, bytes_up_to(last), alignof(Declared) < 128 ? 128 : alignof(Declared), &fresh,
                                  {file, line});
    if constexpr (!std::is_trivially_default_constructible_v<Declared>)
        if (fresh) {
            runtime->constructs(place, sizeof(Declared), false);
            new (place) Declared;
            runtime->constructs(place, sizeof(Declared), true);
        }
    return *static_cast<Declared *>(place);
}

template <class Declared, class Last>
inline __attribute__((always_inline)) Declared &local_memory(Last Declared::*last, ATOPS_SITE) {
    static char key;
    bool fresh = false;
    void *place = runtime->local(&key, bytes_up_to(last), alignof(Declared) < 128 ? 128 : alignof(Declared), &fresh,
                                 {file, line});
    if constexpr (!std::is_trivially_default_constructible_v<Declared>)
        if (fresh) new (place) Declared;
    return *static_cast<Declared *>(place);
}

// `extern __shared__ T name[]`.
template <class T>
inline T *dynamic_shared() {
    size_t bytes;
    return static_cast<T *>(runtime->dynamic_shared(&bytes));
}

// A variable of the device: where the host has it on the device that this copy of the module is for.
extern "C" void *atops_place(int32_t number, const volatile void *initial);

template <class T>
inline T &variable(int32_t number, T &initial) {
    return *static_cast<T *>(atops_place(number, &initial));
}

[[noreturn]] inline void fail(Fault fault, const char *text, const char *file, int line) {
    runtime->fail(fault, text, {file, line});
    __builtin_unreachable();
}

// What a program calls and this emulator does not have: a fault where it is reached, of whatever type is wanted.
struct Anything {
    template <class T>
    operator T() const {
        __builtin_unreachable();
    }
};

#define ATOPS_ANYTHING(op) \
    template <class T> \
    T operator op(const T &, const Anything &) { __builtin_unreachable(); } \
    template <class T> \
    T operator op(const Anything &, const T &) { __builtin_unreachable(); } \
    template <class T> \
    T &operator op##=(T &, const Anything &) { __builtin_unreachable(); }
ATOPS_ANYTHING(+) ATOPS_ANYTHING(-) ATOPS_ANYTHING(*) ATOPS_ANYTHING(/) ATOPS_ANYTHING(%) ATOPS_ANYTHING(&)
ATOPS_ANYTHING(|) ATOPS_ANYTHING(^) ATOPS_ANYTHING(<<) ATOPS_ANYTHING(>>)
#undef ATOPS_ANYTHING

class Unsupported {
    const char *name, *file;
    int line;

  public:
    explicit Unsupported(const char *name, ATOPS_SITE) : name(name), file(file), line(line) {}
    template <class... Arguments>
    Anything operator()(Arguments &&...) const {
        char text[256];
        snprintf(text, sizeof text, "called %s, which this emulator does not have", name);
        fail(Fault::launch_failure, text, file, line);
    }
};

__attribute__((format(printf, 1, 2))) inline int print(const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int count = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (count < 0) return count;
    if (size_t(count) < sizeof text) {
        runtime->print(text, size_t(count));
        return count;
    }
    char *longer = static_cast<char *>(__builtin_malloc(size_t(count) + 1));
    if (!longer) return -1;
    va_start(list, format);
    vsnprintf(longer, size_t(count) + 1, format, list);
    va_end(list);
    runtime->print(longer, size_t(count));
    __builtin_free(longer);
    return count;
}

// Numbers of two bytes are classes here, and become a double, as floats do. The compiler checks the formats of other calls.
template <class T>
constexpr bool is_narrow = std::is_class_v<T> && sizeof(T) == 2 && std::is_convertible_v<T, float>;

// An operand of `?:` beside one of the type Other: a half beside another number is the float that it is on the chip.
template <class Other, class V>
constexpr decltype(auto) arm(V &&value) {
    using Own = std::remove_cvref_t<V>;
    using With = std::remove_cvref_t<Other>;
    if constexpr (is_narrow<Own> && !std::is_same_v<Own, With> && (is_narrow<With> || std::is_arithmetic_v<With>))
        return float(value);
    else if constexpr (std::is_lvalue_reference_v<V>)
        return (value);
    else
        return Own(std::forward<V>(value));
}

template <class T>
inline auto promoted(T value) {
    if constexpr (is_narrow<T>)
        return double(float(value));
    else
        return value;
}

// What the next argument of printf has to be: 'f' a floating number, 'i' an integer, 's' a text or pointer; 0: no more.
// `at` is where the format is read, `inside` whether in the middle of a conversion, behind a `*`.
inline char next_conversion(const char *&at, bool &inside) {
    if (!inside) {
        while (*at && (at[0] != '%' || at[1] == '%')) at += *at == '%' ? 2 : 1;
        if (*at) ++at;
    }
    for (inside = false; *at; ++at) {
        if (*at == '*') return ++at, inside = true, 'i';
        if (strchr("aAeEfFgG", *at)) return ++at, 'f';
        if (strchr("diouxXc", *at)) return ++at, 'i';
        if (strchr("spn", *at)) return ++at, 's';
    }
    return 0;
}

inline const char *printed_as(char kind) {
    return kind == 'f' ? "a floating number" : kind == 'i' ? "an integer" : kind == 's' ? "a pointer" : "nothing";
}

template <class T>
constexpr char printed = is_narrow<T> || std::is_floating_point_v<T> ? 'f'
                         : std::is_integral_v<T> || std::is_enum_v<T> ? 'i' : 's';

template <class... T>
    requires(is_narrow<T> || ...)
inline int print(const char *format, T... given) {
    const char *at = format;
    bool inside = false;
    int number = 0;
    for (char each : {printed<T>...}) {
        char wanted = next_conversion(at, inside);
        ++number;
        if (wanted == each) continue;
        char text[128];
        snprintf(text, sizeof text, "printf: argument %d is %s, and the format has %s there", number, printed_as(each),
                 printed_as(wanted));
        fail(Fault::launch_failure, text, "", 0);
    }
    return print(format, promoted(given)...);
}

}  // namespace atops

// ---- barriers

inline void __syncthreads(ATOPS_SITE) { atops::runtime->sync_threads({file, line}); }
inline void __syncblocks(ATOPS_SITE) { atops::runtime->sync_blocks({file, line}); }

enum BarrierScope { SIP = 0, CLUSTER = 1 };

namespace tte {

enum BarrierScope { SIP = 0, CLUSTER = 1 };

template <int scope>
class barrier {
    atops::CountedBarrier own;

  public:
    explicit barrier(int count, ATOPS_SITE) : own{count, count, 0, scope} {
        atops::runtime->barrier(&own, 0, {file, line});
    }
    void arrive(ATOPS_SITE) { atops::runtime->barrier(&own, 1, {file, line}); }
    void wait(ATOPS_SITE) { atops::runtime->barrier(&own, 2, {file, line}); }
    void arrive_and_wait(ATOPS_SITE) { atops::runtime->barrier(&own, 3, {file, line}); }
};

}  // namespace tte

// ---- printing, and what is checked

#define printf(...) atops::print(__VA_ARGS__)
#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : atops::fail(atops::Fault::kernel_assert, #condition, __FILE__, __LINE__))

// ---- what the module has

namespace atops {

template <class T>
constexpr ParameterRow row_of() {
    using Bare = std::remove_cv_t<std::remove_reference_t<T>>;
    if constexpr (std::is_pointer_v<Bare>) {
        using Pointee = std::remove_cv_t<std::remove_pointer_t<Bare>>;
        if constexpr (std::is_void_v<Pointee>)
            return {'P', 'V', 1, sizeof(Bare)};
        else
            return {'P', Kind<Pointee>::value, sizeof(Pointee), sizeof(Bare)};
    } else if constexpr (std::is_enum_v<Bare>) {
        return {std::is_signed_v<std::underlying_type_t<Bare>> ? int8_t('i') : int8_t('u'), 0, 0, sizeof(Bare)};
    } else {
        return {int8_t(Kind<Bare>::value), 0, 0, sizeof(Bare)};
    }
}

template <auto kernel>
struct Entry;

template <class... P, void (*kernel)(P...)>
struct Entry<kernel> {
    template <size_t... I>
    __attribute__((no_sanitize("thread"))) static void call(void **arguments, std::index_sequence<I...>) {
        kernel(*static_cast<std::remove_reference_t<P> *>(arguments[I])...);
        (void)arguments;
    }
    static void enter(void **arguments) { call(arguments, std::index_sequence_for<P...>{}); }
    static constexpr int count = sizeof...(P);
    static constexpr ParameterRow rows[sizeof...(P) + 1] = {row_of<P>()..., {}};
};

template <class T>
constexpr VariableRow variable_row(const char *name, const T &initial, bool constant, const char *file, int line) {
    using Element = std::remove_cv_t<std::remove_all_extents_t<T>>;
    constexpr int rank = std::rank_v<T> <= MOST_DIMENSIONS ? std::rank_v<T> : 1;
    constexpr bool number = Kind<Element>::value != 'V' && Kind<Element>::value != 'P';
    VariableRow row = {name, &initial, sizeof(T), int8_t(number ? Kind<Element>::value : 'V'), sizeof(Element),
                       constant, rank, {}, file, line};
    [&]<size_t... I>(std::index_sequence<I...>) {
        ((row.extents[I] = int64_t(std::extent_v<T, I>)), ...);
    }(std::make_index_sequence<rank>());
    if (std::rank_v<T> > MOST_DIMENSIONS) row.extents[0] = sizeof(T) / sizeof(Element);
    return row;
}

inline void attach(const Runtime *given) { runtime = given; }

inline void slots(Slots *given) {
    given->thread_index = reinterpret_cast<Dim *>(&threadIdx);
    given->block_index = reinterpret_cast<Dim *>(&blockIdx);
    given->block_extent = reinterpret_cast<Dim *>(&blockDim);
    given->grid_extent = reinterpret_cast<Dim *>(&gridDim);
}

}  // namespace atops
