// Memory that kernels take from the C library: modules are linked so that these calls come here. Each block has pages of
// its own and ends where one begins that nobody may touch. A kernel that runs over the end is stopped there, before it
// reaches what Python has beside it. What is freed may not be touched either, until the launch is over.
#include "heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

using namespace atops;

namespace {

constexpr size_t PAGE = 64 << 10;  // of a multiple of any page
constexpr size_t MOST = 10000;  // blocks, for a process has 65530 maps; what comes then is the library's

struct Block {
    uint8_t *pages;
    size_t mapped, bytes;
    const Scheduler *freed;  // by a kernel of this
};

std::mutex lock;
std::map<uintptr_t, Block> &blocks() {  // by where they begin; never destroyed: kernels may run until the process ends
    static auto *all = new std::map<uintptr_t, Block>;
    return *all;
}

const Scheduler *kernel_here() {
    Scheduler *own = scheduler_here();
    return own && own->current ? own : nullptr;
}

void *take(size_t bytes, size_t align) {
    if (bytes > SIZE_MAX / 2 || align > PAGE) return errno = ENOMEM, nullptr;
    align = std::max<size_t>(align, 16);
    size_t size = (std::max<size_t>(bytes, 1) + align - 1) / align * align;
    size_t usable = (size + PAGE - 1) / PAGE * PAGE;
    std::lock_guard<std::mutex> held(lock);
    if (blocks().size() >= MOST) return aligned_alloc(align, size);
    void *place = mmap(nullptr, usable + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return errno = ENOMEM, nullptr;
    auto *pages = static_cast<uint8_t *>(place);
    if (mprotect(pages, usable, PROT_READ | PROT_WRITE)) {
        munmap(place, usable + PAGE);
        return errno = ENOMEM, nullptr;
    }
    uint8_t *found = pages + usable - size;
    blocks()[reinterpret_cast<uintptr_t>(found)] = {pages, usable + PAGE, bytes, nullptr};
    return found;
}

// Give a block back. False where it is none of these.
bool give(void *place) {
    const Scheduler *own = kernel_here();
    char text[96];
    {
        std::lock_guard<std::mutex> held(lock);
        auto found = blocks().find(reinterpret_cast<uintptr_t>(place));
        if (found == blocks().end()) return false;
        Block &block = found->second;
        if (!block.freed) {
            if (own) {
                mmap(block.pages, block.mapped, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                block.freed = own;
            } else {
                munmap(block.pages, block.mapped);
                blocks().erase(found);
            }
            return true;
        }
        snprintf(text, sizeof text, "freed a block of %zu bytes twice", block.bytes);
    }
    if (own) fail_now(Fault::illegal_address, text, __builtin_frame_address(0));
    return false;
}

// How many bytes a block has. -1 where it is none of these.
ptrdiff_t size_of(void *place) {
    std::lock_guard<std::mutex> held(lock);
    auto found = blocks().find(reinterpret_cast<uintptr_t>(place));
    return found == blocks().end() || found->second.freed ? -1 : static_cast<ptrdiff_t>(found->second.bytes);
}

}  // namespace

namespace atops {

void give_up_heap(const Scheduler *own) {
    std::lock_guard<std::mutex> held(lock);
    for (auto each = blocks().begin(); each != blocks().end();) {
        if (each->second.freed == own) {
            munmap(each->second.pages, each->second.mapped);
            each = blocks().erase(each);
        } else {
            ++each;
        }
    }
}

bool heap_says(uintptr_t address, char *text, size_t room) {
    std::lock_guard<std::mutex> held(lock);
    auto behind = blocks().upper_bound(address);
    if (behind == blocks().begin()) return false;
    const auto &[first, block] = *std::prev(behind);
    if (address >= reinterpret_cast<uintptr_t>(block.pages) + block.mapped) return false;
    if (block.freed)
        snprintf(text, room, "used a block of %zu bytes that it had freed", block.bytes);
    else
        snprintf(text, room, "used a byte %zu past the end of a block of %zu bytes that malloc gave it",
                 static_cast<size_t>(address - first) - block.bytes + 1, block.bytes);
    return true;
}

}  // namespace atops

#pragma GCC visibility push(default)
extern "C" {
void *__wrap_malloc(size_t bytes) { return kernel_here() ? take(bytes, 1) : malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) {
    if (!kernel_here()) return calloc(count, bytes);
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return errno = ENOMEM, nullptr;
    return take(all, 1);  // new pages are 0
}
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return kernel_here() ? take(bytes, align) : aligned_alloc(align, bytes);
}
int __wrap_posix_memalign(void **result, size_t align, size_t bytes) {
    if (!kernel_here()) return posix_memalign(result, align, bytes);
    void *made = take(bytes, align);
    if (!made) return ENOMEM;
    *result = made;
    return 0;
}
void __wrap_free(void *place) {
    if (place && !give(place)) free(place);
}
void *__wrap_realloc(void *place, size_t bytes) {
    if (!place) return __wrap_malloc(bytes);
    ptrdiff_t had = size_of(place);
    if (had < 0) return realloc(place, bytes);
    void *made = __wrap_malloc(bytes);
    if (!made) return nullptr;
    memcpy(made, place, std::min(bytes, static_cast<size_t>(had)));
    __wrap_free(place);
    return made;
}
// new T[n] and delete[], which the C++ library does not mix with its own, as it does the plain ones.
void *__wrap__Znam(size_t bytes) {
    if (!kernel_here()) return operator new[](bytes);
    void *made = take(bytes, 1);
    if (!made) fail_now(Fault::launch_failure, "new[] found no memory", __builtin_frame_address(0));
    return made;
}
void __wrap__ZdaPv(void *place) {
    if (place && !give(place)) operator delete[](place);
}
void __wrap__ZdaPvm(void *place, size_t) { __wrap__ZdaPv(place); }
}
#pragma GCC visibility pop
