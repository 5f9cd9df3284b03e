// Memory that kernels take from the C library: modules are linked so that these calls come here. Each block has pages of
// its own and ends where one begins that nobody may touch. A kernel that runs over the end is stopped there, before it
// reaches what Python has beside it. What is freed may not be touched either, until the launch is over. What a run has
// taken and not freed stays for later launches; where it fails, nobody can free it any more, and it is given back.
#include "heap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

using namespace atops;

namespace {

constexpr size_t PAGE = 64 << 10;  // pages of any size fit in it
constexpr size_t MOST = 10000;  // blocks, for a process has 65530 maps; what comes then is the library's

struct Block {
    uintptr_t mapped, end, first;  // its addresses, of which it has those from `first` on
    size_t bytes;
    const Scheduler *run;  // that took it or freed it, while that goes on
    bool freed;

    void *all() const { return reinterpret_cast<void *>(mapped); }
};

std::mutex lock;  // nothing is taken from the library's heap under it: a kernel may have spoilt that
[[maybe_unused]] const int free_in_children = pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); });

uintptr_t beyond_low = UINTPTR_MAX, beyond_high = 0;  // where the blocks lie that are the library's

// By address. Never destroyed: kernels may run until the process ends.
std::vector<Block> &blocks() {
    static auto *all = [] {
        auto *made = new std::vector<Block>;
        made->reserve(MOST);
        return made;
    }();
    return *all;
}

// The block that has an address among its pages. The lock is held.
std::vector<Block>::iterator at(uintptr_t address) {
    auto behind = std::upper_bound(blocks().begin(), blocks().end(), address,
                                   [](uintptr_t left, const Block &right) { return left < right.mapped; });
    if (behind == blocks().begin() || address >= std::prev(behind)->end) return blocks().end();
    return std::prev(behind);
}

// The block that begins there, which may be freed. The lock is held.
std::vector<Block>::iterator beginning(const void *place) {
    auto found = at(reinterpret_cast<uintptr_t>(place));
    return found != blocks().end() && found->first == reinterpret_cast<uintptr_t>(place) ? found : blocks().end();
}

Scheduler *kernel_here() {
    Scheduler *own = scheduler_here();
    return own && own->current ? own : nullptr;
}

// Return a block of a kernel, with pages of its own; where there are too many, one of the library's.
void *take(size_t bytes, size_t align) {
    end_where_asked();
    if (bytes > SIZE_MAX / 2) return errno = ENOMEM, nullptr;
    align = std::max<size_t>(align, 16);
    size_t size = (std::max<size_t>(bytes, 1) + align - 1) / align * align;
    size_t usable = (size + PAGE - 1) / PAGE * PAGE, mapped = usable + 2 * PAGE;
    {
        std::lock_guard<std::mutex> held(lock);
        if (blocks().size() < MOST && align <= PAGE) {
            void *place = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (place == MAP_FAILED) return errno = ENOMEM, nullptr;
            auto from = reinterpret_cast<uintptr_t>(place), pages = from / PAGE * PAGE + PAGE;
            if (mprotect(reinterpret_cast<void *>(pages), usable, PROT_READ | PROT_WRITE)) {
                munmap(place, mapped);
                return errno = ENOMEM, nullptr;
            }
            Block made = {from, from + mapped, pages + usable - size, bytes, kernel_here(), false};
            auto behind = std::upper_bound(blocks().begin(), blocks().end(), made,
                                           [](const Block &left, const Block &right) { return left.mapped < right.mapped; });
            blocks().insert(behind, made);
            kernel_here()->has_heap = true;
            return reinterpret_cast<void *>(made.first);
        }
    }
    void *made = aligned_alloc(align, size);
    if (!made) return nullptr;
    std::lock_guard<std::mutex> held(lock);
    auto from = reinterpret_cast<uintptr_t>(made);
    beyond_low = std::min(beyond_low, from);
    beyond_high = std::max(beyond_high, from + size);
    return made;
}

// Give a block back. False where it is none of these.
bool give(void *place) {
    Scheduler *own = kernel_here();
    if (own) end_where_asked();
    char text[96];
    {
        std::lock_guard<std::mutex> held(lock);
        auto found = beginning(place);
        if (found == blocks().end()) return false;
        if (!found->freed) {
            size_t mapped = found->end - found->mapped;
            if (own) {
                mmap(found->all(), mapped, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                found->run = own;
                found->freed = own->has_heap = true;
            } else {
                munmap(found->all(), mapped);
                blocks().erase(found);
            }
            return true;
        }
        snprintf(text, sizeof text, "freed a block of %zu bytes twice", found->bytes);
    }
    if (own) fail_now(Fault::illegal_address, text, __builtin_frame_address(0));
    return true;  // by the host: the block is gone, and the library never had it
}

// Fault where a kernel gives back what none has taken: the library would abort, now and then with its own lock held.
void refuse_foreign(const void *place) {
    if (!kernel_here()) return;
    auto address = reinterpret_cast<uintptr_t>(place);
    char text[96];
    {
        std::lock_guard<std::mutex> held(lock);
        auto found = at(address);
        if (found != blocks().end())
            snprintf(text, sizeof text, "gave back an address %td bytes into a block of %zu bytes",
                     static_cast<ptrdiff_t>(address - found->first), found->bytes);
        else if (address >= beyond_low && address < beyond_high)
            return;
        else
            snprintf(text, sizeof text, "gave back 0x%zx, which malloc gave to no kernel", static_cast<size_t>(address));
    }
    fail_now(Fault::illegal_address, text, __builtin_frame_address(0));
}

// How many bytes a block has. -1 where it is none of these.
ptrdiff_t size_of(const void *place) {
    std::lock_guard<std::mutex> held(lock);
    auto found = beginning(place);
    return found == blocks().end() || found->freed ? -1 : static_cast<ptrdiff_t>(found->bytes);
}

}  // namespace

namespace atops {

void give_up_heap(const Scheduler *own, bool failed) {
    if (!own->has_heap) return;
    std::lock_guard<std::mutex> held(lock);
    auto kept = std::remove_if(blocks().begin(), blocks().end(), [&](Block &each) {
        if (each.run != own) return false;
        each.run = nullptr;
        if (!each.freed && !failed) return false;
        munmap(each.all(), each.end - each.mapped);
        return true;
    });
    blocks().erase(kept, blocks().end());
}

namespace {

bool says(std::vector<Block>::iterator found, uintptr_t address, char *text, size_t room) {
    if (found->freed)
        snprintf(text, room, "used a block of %zu bytes that it had freed", found->bytes);
    else if (address < found->first)
        snprintf(text, room, "used a byte %zu before a block of %zu bytes that malloc gave it",
                 static_cast<size_t>(found->first - address), found->bytes);
    else
        snprintf(text, room, "used a byte %zu past the end of a block of %zu bytes that malloc gave it",
                 static_cast<size_t>(address - found->first) - found->bytes + 1, found->bytes);
    return true;
}

}  // namespace

bool heap_says(uintptr_t address, char *text, size_t room) {
    std::unique_lock<std::mutex> held(lock, std::try_to_lock);  // in a signal handler, where this thread may hold it
    if (!held) return false;
    auto found = at(address);
    return found != blocks().end() && says(found, address, text, room);
}

bool heap_has(uintptr_t low, uintptr_t high, char *text, size_t room) {
    text[0] = 0;
    std::lock_guard<std::mutex> held(lock);
    auto found = at(low);
    if (found == blocks().end()) return low >= beyond_low && high <= beyond_high;
    uintptr_t end = found->first + found->bytes;
    if (found->freed || low < found->first || high > end) says(found, low < found->first ? low : std::max(low, end), text, room);
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
    if (align % sizeof(void *) || (align & (align - 1)) || !align) return EINVAL;
    void *made = take(bytes, align);
    if (!made) return ENOMEM;
    *result = made;
    return 0;
}
void __wrap_free(void *place) {
    if (place && !give(place)) {
        refuse_foreign(place);
        free(place);
    }
}
void *__wrap_realloc(void *place, size_t bytes) {
    if (!place) return __wrap_malloc(bytes);
    ptrdiff_t had = size_of(place);
    if (had < 0) {
        refuse_foreign(place);
        return realloc(place, bytes);
    }
    void *made = __wrap_malloc(bytes);
    if (!made) return nullptr;
    memcpy(made, place, std::min(bytes, static_cast<size_t>(had)));
    __wrap_free(place);
    return made;
}
void *__wrap_reallocarray(void *place, size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return errno = ENOMEM, nullptr;
    return __wrap_realloc(place, all);
}
char *__wrap_strndup(const char *text, size_t most) {
    size_t bytes = strnlen(text, most);
    auto *made = static_cast<char *>(__wrap_malloc(bytes + 1));
    if (!made) return nullptr;
    memcpy(made, text, bytes);
    made[bytes] = 0;
    return made;
}
char *__wrap_strdup(const char *text) { return __wrap_strndup(text, SIZE_MAX); }
size_t __wrap_malloc_usable_size(void *place) {
    ptrdiff_t bytes = size_of(place);
    return bytes < 0 ? malloc_usable_size(place) : static_cast<size_t>(bytes);
}

// What new takes is guarded. That of one object, which containers take, too, only where accesses are watched, for what it
// takes; and not in modules with strings or streams, of which the C++ library frees some itself, and does not come here.
#define NEW(name, parameters, guarded, plain, align, otherwise) \
    void *__wrap_##name parameters { \
        Scheduler *own = kernel_here(); \
        if (!own || !(guarded)) return plain; \
        void *made = take(bytes, align); \
        if (!made) otherwise; \
        return made; \
    }
#define NEWS(one, many, more, argument, align, otherwise) \
    NEW(one, (size_t bytes more), own->watch && own->run->library_heap < 2, operator new(bytes argument), align, otherwise) \
    NEW(many, (size_t bytes more), true, operator new[](bytes argument), align, otherwise)
#define COMMA ,
#define ENDS fail_now(Fault::launch_failure, "new found no memory", __builtin_frame_address(0))
NEWS(_Znwm, _Znam, , , 1, ENDS)
NEWS(_ZnwmSt11align_val_t, _ZnamSt11align_val_t, COMMA std::align_val_t align, COMMA align, size_t(align), ENDS)
NEWS(_ZnwmRKSt9nothrow_t, _ZnamRKSt9nothrow_t, COMMA const std::nothrow_t &no, COMMA no, 1, return nullptr)

// What is not of a kernel may be of an object at file scope.
#define DELETES(one, many, more, argument) \
    void __wrap_##one(void *place more) { \
        if (place && !give(place)) operator delete(place argument); \
    } \
    void __wrap_##many(void *place more) { \
        if (!place || give(place)) return; \
        refuse_foreign(place); \
        operator delete[](place argument); \
    }
DELETES(_ZdlPv, _ZdaPv, , )
DELETES(_ZdlPvm, _ZdaPvm, COMMA size_t, )
DELETES(_ZdlPvSt11align_val_t, _ZdaPvSt11align_val_t, COMMA std::align_val_t align, COMMA align)
DELETES(_ZdlPvmSt11align_val_t, _ZdaPvmSt11align_val_t, COMMA size_t COMMA std::align_val_t align, COMMA align)
}
#pragma GCC visibility pop
