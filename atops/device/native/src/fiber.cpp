// Stacks, and the switch between them.
#include "fiber.h"

#include <stdlib.h>
#include <sys/mman.h>

#if defined(__x86_64__)
asm(R"(
.text
.globl atops_switch
.hidden atops_switch
.type atops_switch,@function
.p2align 4
atops_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size atops_switch,.-atops_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl atops_switch
.hidden atops_switch
.type atops_switch,%function
.p2align 4
atops_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size atops_switch,.-atops_switch
)");
#else
#error "fibers are written for x86-64 and aarch64"
#endif

namespace atops {

namespace {

constexpr size_t GUARD = 64 << 10;  // of a multiple of any page
// A guard, the stack, a guard, and what is known of the fiber: a kernel that runs over its frames does not reach it.
constexpr size_t RECORD = GUARD + STACK_BYTES + GUARD, MAPPED = RECORD + GUARD;
static_assert(sizeof(Fiber) <= GUARD);

// Stacks that are not in use, of this OS thread: a kernel thread stays on the one where it began. They go with it.
struct Pool {
    Fiber *first = nullptr;

    ~Pool() {
        while (Fiber *each = first) {
            first = each->next_free;
            free(each->places);
            munmap(each->guard, MAPPED);
        }
    }
};

thread_local Pool pool;

}  // namespace

Fiber *take_fiber() {
    if (Fiber *found = pool.first) {
        pool.first = found->next_free;
        return found;
    }
    void *place = mmap(nullptr, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (place == MAP_FAILED) return nullptr;
    uint8_t *low = static_cast<uint8_t *>(place);
    mprotect(low, GUARD, PROT_NONE);
    mprotect(low + GUARD + STACK_BYTES, GUARD, PROT_NONE);
    Fiber *made = reinterpret_cast<Fiber *>(low + RECORD);
    made->guard = low;
    made->stack = low + GUARD;
    made->top = low + GUARD + STACK_BYTES;
    return made;
}

void give_fiber(Fiber *fiber) {
    fiber->next_free = pool.first;
    pool.first = fiber;
}

void prepare(Fiber *fiber, void (*entry)()) {
    uintptr_t top = reinterpret_cast<uintptr_t>(fiber->top) & ~uintptr_t(15);
    void **sp = reinterpret_cast<void **>(top);
#if defined(__x86_64__)
    *--sp = nullptr;  // as if something had called it: the stack is then aligned as the convention has it
    *--sp = reinterpret_cast<void *>(entry);
    for (int each = 0; each < 6; ++each) *--sp = nullptr;
#else
    sp -= 20;
    for (int each = 0; each < 20; ++each) sp[each] = nullptr;
    sp[11] = reinterpret_cast<void *>(entry);  // x30
#endif
    fiber->sp = sp;
}

}  // namespace atops
