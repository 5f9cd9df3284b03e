// What instrumented code calls: the functions that the compiler's documentation of the thread sanitizer names, ours in
// place of its library's, and the functions of the C library that move bytes.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "run.h"
#include "watch.h"

using namespace atops;

namespace {

constexpr uint8_t READS = 0, UPDATES = WRITES | ATOMIC;

// Most accesses are of the thread's own stack, where there is nothing to watch.
inline __attribute__((always_inline)) void access(const void *at, uint64_t bytes, uint8_t does, void *counter) {
    Scheduler *own = scheduler_here();
    if (!own || !own->watch || !own->current) return;
    auto low = reinterpret_cast<uint64_t>(at), stack = reinterpret_cast<uint64_t>(own->current->stack);
    if (low - stack < reinterpret_cast<uint64_t>(own->current->top) - stack) return;
    watch_access(own->watch, low, bytes, does, reinterpret_cast<uint64_t>(counter));
}

// An atomic access hands on what its thread did, and learns what others have handed on there.
inline void synchronise(const volatile void *at, int order, bool acquires, bool releases) {
    Scheduler *own = scheduler_here();
    if (order == 0 || !own || !own->watch || !own->current) return;
    const void *what = const_cast<const void *>(at);
    if (acquires) watch_acquire(own->watch, own->current, what);
    if (releases) {
        watch_release(own->watch, own->current, what);
        watch_phase(own->watch, what);
    }
}

}  // namespace

#define HERE __builtin_return_address(0)
#define PLAIN(bytes) \
    void __tsan_read##bytes(void *at) { access(at, bytes, READS, HERE); } \
    void __tsan_write##bytes(void *at) { access(at, bytes, WRITES, HERE); } \
    void __tsan_unaligned_read##bytes(void *at) { access(at, bytes, READS, HERE); } \
    void __tsan_unaligned_write##bytes(void *at) { access(at, bytes, WRITES, HERE); } \
    void __tsan_volatile_read##bytes(void *at) { access(at, bytes, READS, HERE); } \
    void __tsan_volatile_write##bytes(void *at) { access(at, bytes, WRITES, HERE); } \
    void __tsan_unaligned_volatile_read##bytes(void *at) { access(at, bytes, READS, HERE); } \
    void __tsan_unaligned_volatile_write##bytes(void *at) { access(at, bytes, WRITES, HERE); } \
    void __tsan_read_write##bytes(void *at) { access(at, bytes, READS, HERE), access(at, bytes, WRITES, HERE); } \
    void __tsan_unaligned_read_write##bytes(void *at) { access(at, bytes, READS, HERE), access(at, bytes, WRITES, HERE); }

#define UPDATE(bits, type, name, builtin) \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order) { \
        access(const_cast<type *>(at), sizeof(type), UPDATES, HERE); \
        synchronise(at, order, true, true); \
        return builtin(at, value, __ATOMIC_SEQ_CST); \
    }
#define COMPARE(bits, type, name) \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at, type *expected, type value, int order, int) { \
        access(const_cast<type *>(at), sizeof(type), UPDATES, HERE); \
        synchronise(at, order, true, true); \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMICS(bits, type) \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) { \
        access(const_cast<type *>(at), sizeof(type), ATOMIC, HERE); \
        synchronise(at, order, true, false); \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST); \
    } \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order) { \
        access(const_cast<type *>(at), sizeof(type), UPDATES, HERE); \
        synchronise(at, order, false, true); \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST); \
    } \
    UPDATE(bits, type, exchange, __atomic_exchange_n) \
    UPDATE(bits, type, fetch_add, __atomic_fetch_add) \
    UPDATE(bits, type, fetch_sub, __atomic_fetch_sub) \
    UPDATE(bits, type, fetch_and, __atomic_fetch_and) \
    UPDATE(bits, type, fetch_or, __atomic_fetch_or) \
    UPDATE(bits, type, fetch_xor, __atomic_fetch_xor) \
    UPDATE(bits, type, fetch_nand, __atomic_fetch_nand) \
    COMPARE(bits, type, strong) \
    COMPARE(bits, type, weak) \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value, int order, int) { \
        access(const_cast<type *>(at), sizeof(type), UPDATES, HERE); \
        synchronise(at, order, true, true); \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected; \
    }

#pragma GCC visibility push(default)
extern "C" {

void __tsan_init() {}

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_read_range(void *at, size_t bytes) { access(at, bytes, READS, HERE); }
void __tsan_write_range(void *at, size_t bytes) { access(at, bytes, WRITES, HERE); }
void __tsan_vptr_update(void **at, void *) { access(at, sizeof(void *), WRITES, HERE); }
void __tsan_vptr_read(void **at) { access(at, sizeof(void *), READS, HERE); }
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

void __tsan_func_entry(void *counter) {
    Scheduler *own = scheduler_here();
    if (own && own->watch && own->current) watch_call(own->watch, reinterpret_cast<uint64_t>(counter));
}

void __tsan_func_exit() {
    Scheduler *own = scheduler_here();
    if (own && own->watch && own->current) watch_return(own->watch);
}

// An instrumented module is linked so that its calls of these come here; newer clang++ calls them by other names.
void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    if (!bytes) return to;  // of no bytes an address may be null
    access(from, bytes, READS, HERE);
    access(to, bytes, WRITES, HERE);
    return memmove(to, from, bytes);
}

void *__wrap_memset(void *to, int value, size_t bytes) {
    if (!bytes) return to;
    access(to, bytes, WRITES, HERE);
    return memset(to, value, bytes);
}

void *__wrap_memcpy(void *, const void *, size_t) __attribute__((alias("__wrap_memmove")));
void *__tsan_memcpy(void *, const void *, size_t) __attribute__((alias("__wrap_memmove")));
void *__tsan_memmove(void *, const void *, size_t) __attribute__((alias("__wrap_memmove")));
void *__tsan_memset(void *, int, size_t) __attribute__((alias("__wrap_memset")));

}
#pragma GCC visibility pop
