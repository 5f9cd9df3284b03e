// What kernels of HIP use besides the language of the chip, as far as a GCU has it. A warp is one thread, so functions of
// warps are simple; there are no atomic operations on memory.
#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "../atops/language.h"

#define __HIP__ 1
#define __HIPCC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define __managed__ __device__  // the host's memory is the device's
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

// ---- fences, and clocks: the host's, wall_clock64 in nanoseconds, clock64 in ticks of the chip's rate

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline long long wall_clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
inline long long clock64() { return wall_clock64() * 7 / 5; }  // 1.4 GHz
#define clock() clock64()
#define __builtin_amdgcn_s_sleep(cycles) ((void)(cycles))

// ---- warps of one thread

inline constexpr int warpSize = 1;
template <class T>
T __shfl(T value, int, int = warpSize) { return value; }
template <class T>
T __shfl_up(T value, unsigned, int = warpSize) { return value; }
template <class T>
T __shfl_down(T value, unsigned, int = warpSize) { return value; }
template <class T>
T __shfl_xor(T value, int, int = warpSize) { return value; }
inline unsigned long long __ballot(int condition) { return condition != 0; }
inline unsigned long long __activemask() { return 1; }
inline int __any(int condition) { return condition != 0; }
inline int __all(int condition) { return condition != 0; }
inline unsigned __lane_id() { return 0; }
inline void __syncwarp(unsigned long long = 1) {}

// ---- bits

inline unsigned __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline unsigned __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long made = 0;
    for (int bit = 0; bit < 64; ++bit) made |= (x >> bit & 1) << (63 - bit);
    return made;
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xFFFFFF) * (y & 0xFFFFFF); }
inline unsigned __bitextract_u32(unsigned from, unsigned start, unsigned width) {
    start &= 31, width &= 31;
    return width ? from << (32 - start - width > 31 ? 0 : 32 - start - width) >> (32 - width) : 0;
}
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }

// ---- numbers. The C library has some of these names for its own ends: macros step around them.

template <class T>
T __ldg(const T *from) { return *from; }
#define ATOPS_EACH(type) \
    inline type min(type x, type y) { return x < y ? x : y; } \
    inline type max(type x, type y) { return x < y ? y : x; }
ATOPS_EACH(int)
ATOPS_EACH(unsigned)
ATOPS_EACH(long)
ATOPS_EACH(unsigned long)
ATOPS_EACH(long long)
ATOPS_EACH(unsigned long long)
#undef ATOPS_EACH
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline int __float2int_rn(float x) { return int(rintf(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline int __float2int_ru(float x) { return int(ceilf(x)); }
inline int __float2int_rd(float x) { return int(floorf(x)); }
inline float __int2float_rn(int x) { return float(x); }
#define __expf(x) expf(x)
#define __exp10f(x) powf(10, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __frsqrt_rn(x) rsqrtf(x)
#define __fsqrt_rn(x) sqrtf(x)
#define __fadd_rn(x, y) (float(x) + float(y))
#define __fsub_rn(x, y) (float(x) - float(y))
#define __fmul_rn(x, y) (float(x) * float(y))
#define __fdiv_rn(x, y) (float(x) / float(y))
#define __fdividef(x, y) (float(x) / float(y))
#define __fmaf_rn(x, y, z) fmaf(x, y, z)

// ---- small vectors

struct double2 { double x, y; };
struct double3 { double x, y, z; };
struct double4 { double x, y, z, w; };
struct char2 { signed char x, y; };
struct char4 { signed char x, y, z, w; };
struct uchar2 { unsigned char x, y; };
struct uchar4 { unsigned char x, y, z, w; };
struct short2 { short x, y; };
struct short4 { short x, y, z, w; };
struct ushort2 { unsigned short x, y; };
struct ushort4 { unsigned short x, y, z, w; };
struct longlong2 { long long x, y; };
ATOPS_MADE(double2, double)
ATOPS_MADE(double3, double)
ATOPS_MADE(double4, double)
ATOPS_MADE(char2, char)
ATOPS_MADE(char4, char)
ATOPS_MADE(short2, short)
ATOPS_MADE(short4, short)
ATOPS_MADE(longlong2, int64_t)

// ---- what the chip does not have

#define ATOPS_NONE(name) \
    template <class... T> \
    __attribute__((error("a GCU has no atomic operations on memory"))) int name(T &&...);
ATOPS_NONE(atomicAdd)
ATOPS_NONE(atomicSub)
ATOPS_NONE(atomicMin)
ATOPS_NONE(atomicMax)
ATOPS_NONE(atomicAnd)
ATOPS_NONE(atomicOr)
ATOPS_NONE(atomicXor)
ATOPS_NONE(atomicInc)
ATOPS_NONE(atomicDec)
ATOPS_NONE(atomicExch)
ATOPS_NONE(atomicCAS)
#undef ATOPS_NONE
