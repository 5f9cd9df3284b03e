// A run: the threads of one block, or of all blocks of a cooperative grid, on one OS thread, until all have left the
// kernel or one of them has failed. Which of those that can go on is next: the oldest, or one drawn from the seed.
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "apart.h"
#include "dte.h"
#include "fault.h"
#include "fiber.h"
#include "heap.h"
#include "library.h"
#include "run.h"
#include "watch.h"

namespace atops {

namespace {

// Looked up at every call of a kernel: in the part of thread-local memory that needs no call itself.
__attribute__((tls_model("initial-exec"))) thread_local Scheduler *here = nullptr;

constexpr uint64_t ALL_ACCESSES = 10000, SOME_ACCESSES = 97;
constexpr uint32_t MANY_LOOKS = 1 << 16;

Site site_of(const Fiber *fiber) { return fiber->site; }

// ---- which thread comes next

void set_slots(Scheduler *own, const Fiber *fiber) {
    *own->slots.thread_index = fiber->index;
    *own->slots.block_index = own->run->places[fiber->block].index;
}

Fiber *take_next(Scheduler *own) {
    size_t count = own->ready.size() - own->first;
    if (count == 0) return nullptr;
    if (own->run->choose) {
        own->numbers.clear();
        for (size_t each = own->first; each < own->ready.size(); ++each)
            own->numbers.push_back(own->ready[each]->block * own->size + own->ready[each]->thread);
        auto chosen = static_cast<ptrdiff_t>(own->run->choose(own->numbers.data(), static_cast<int32_t>(count)));
        auto at = own->ready.begin() + static_cast<ptrdiff_t>(own->first);
        std::rotate(at, at + chosen, at + chosen + 1);  // the others stay in their order
    } else if (own->run->seeded && count > 1) {
        own->random ^= own->random << 13, own->random ^= own->random >> 7, own->random ^= own->random << 17;
        size_t chosen = own->first + static_cast<size_t>(own->random % count);
        std::swap(own->ready[own->first], own->ready[chosen]);
    }
    Fiber *next = own->ready[own->first++];
    if (own->first == own->ready.size()) {
        own->ready.clear();
        own->first = 0;
    }
    return next;
}

void make_ready(Scheduler *own, Fiber *fiber) {
    fiber->state = State::ready;
    fiber->waits = nullptr;
    if (own->first > 4096) {  // what was taken is dropped now and then
        own->ready.erase(own->ready.begin(), own->ready.begin() + static_cast<ptrdiff_t>(own->first));
        own->first = 0;
    }
    own->ready.push_back(fiber);
}

// Let another thread go on; comes back when this one is chosen again.
void suspend(Scheduler *own, Fiber *fiber) {
    if (own->run->choose) {  // the host is asked on its own stack
        ++own->run->switches;
        own->current = nullptr;
        atops_switch(&fiber->sp, own->sp);
        return;
    }
    Fiber *next = take_next(own);
    if (next == fiber) return;
    ++own->run->switches;
    if (next) {
        own->current = next;
        set_slots(own, next);
        atops_switch(&fiber->sp, next->sp);
    } else {
        own->current = nullptr;
        atops_switch(&fiber->sp, own->sp);
    }
}

[[noreturn]] void leave(Scheduler *own) {
    Fiber *fiber = own->current;
    own->current = nullptr;
    void *nowhere;
    atops_switch(fiber ? &fiber->sp : &nowhere, own->sp);
    __builtin_unreachable();
}

// ---- failing

void note(Scheduler *own, Fault fault, const char *text, Site site) {
    Run *run = own->run;
    if (run->fault) return;
    run->fault = static_cast<int32_t>(fault);
    if (const Fiber *fiber = own->current) {
        run->fault_thread = fiber->index;
        run->fault_block = run->places[fiber->block].index;
    }
    snprintf(run->told->text, sizeof run->told->text, "%s", text);
    snprintf(run->told->file, sizeof run->told->file, "%s", site.file ? site.file : "");
    run->fault_line = site.line;
}

[[noreturn]] void fail(Fault fault, const char *text, Site site) {
    Scheduler *own = here;
    if (!site.line && own->current && !own->run->fault_pc)
        own->run->fault_pc = caller_of(own->run, __builtin_frame_address(0), own->current);
    note(own, fault, text, site);
    leave(own);
}

[[noreturn]] void failf(Fault fault, Site site, const char *format, ...) __attribute__((format(printf, 3, 4)));
void failf(Fault fault, Site site, const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fail(fault, text, site);
}

[[noreturn]] void illegal(Site site, const char *what, const Operand &operand, bool write) {
    Run *run = here->run;
    run->fault_address = reinterpret_cast<uint64_t>(operand.address);
    run->fault_bytes = operand_bytes(operand);
    run->fault_write = write;
    fail(Fault::illegal_address, what, site);
}

// Look whether the host wants the run to end, which it does at every call into the runtime.
Fiber *enter(Scheduler *own, Site site) {
    Fiber *fiber = own->current;
    fiber->site = site;
    if (own->run->stop) fail(Fault::stopped, "", site);
    return fiber;
}

// Whether what comes next is drawn or chosen, and not the oldest.
bool chooses(const Scheduler *own) { return own->run->seeded || own->run->choose; }

// ---- barriers

void open_block(Scheduler *own, BlockState &block, Fiber *last) {
    if (own->watch) watch_block_barrier(own->watch, last->block);
    std::vector<Fiber *> arrived;
    arrived.swap(block.arrived);
    for (Fiber *each : arrived)
        if (each != last) make_ready(own, each);
    block.arrived = std::move(arrived);
    block.arrived.clear();
}

void sync_threads(Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    BlockState &block = own->blocks[fiber->block];
    block.arrived.push_back(fiber);
    if (block.arrived.size() == own->size) {
        open_block(own, block, fiber);
        if (!chooses(own)) return;  // the last to come goes on at once
        make_ready(own, fiber);
        suspend(own, fiber);
        return;
    }
    fiber->state = State::at_barrier;
    suspend(own, fiber);
}

void sync_grid(Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    if (!own->run->cooperative)
        fail(Fault::launch_failure, "called __syncblocks, but its launch is not cooperative; declare the kernel "
             "__cooperative__ (TOPS C++, 8.8)", site);
    if (++own->at_grid < own->fibers.size()) {
        fiber->state = State::at_grid;
        suspend(own, fiber);
        return;
    }
    own->at_grid = 0;
    if (own->watch) watch_grid_barrier(own->watch);
    for (Fiber *each : own->fibers)
        if (each->state == State::at_grid) make_ready(own, each);
    if (chooses(own)) {
        make_ready(own, fiber);
        suspend(own, fiber);
    }
}

void sync_blocks(Site site) {
    Scheduler *own = here;
    enter(own, site);
    if (own->run->cooperative > 1)
        fail(Fault::launch_failure, "called __syncblocks in a launch on several devices, and kernels in C++ do not meet "
             "those of another device; cooperative_groups::this_grid().sync() waits for this device's", site);
    sync_grid(site);
}

uint32_t arrive(Scheduler *own, Fiber *fiber, CountedBarrier *barrier) {
    uint32_t phase = barrier->phase;
    for (int each = 0; each < 4; ++each)
        if (fiber->arrivals[each].barrier == barrier) fiber->arrivals[each].barrier = nullptr;
    fiber->arrivals[fiber->arrival] = {barrier, phase};
    fiber->arrival = (fiber->arrival + 1) % 4;
    if (own->watch) watch_release(own->watch, fiber, barrier);
    if (--barrier->left > 0) return phase;
    if (own->watch) watch_phase(own->watch, barrier);
    barrier->left = barrier->count;
    ++barrier->phase;
    for (Fiber *each : own->fibers)
        if (each->state == State::at_counted && each->waits == barrier && each->phase == phase) make_ready(own, each);
    return phase;
}

void await_phase(Scheduler *own, Fiber *fiber, CountedBarrier *barrier, uint32_t phase) {
    if (barrier->phase == phase) {
        fiber->state = State::at_counted;
        fiber->waits = barrier;
        fiber->phase = phase;
        suspend(own, fiber);
    }
    if (own->watch) watch_acquire(own->watch, fiber, barrier);
}

void counted(CountedBarrier *barrier, int what, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    if (what == 0) {
        if (barrier->count < 1)
            failf(Fault::launch_failure, site, "made a barrier of %d arrivals; expected at least 1", barrier->count);
        return;
    }
    if (barrier->count < 1 || barrier->left < 1 || barrier->left > barrier->count)
        fail(Fault::launch_failure, "used a barrier that was never made, or was overwritten", site);
    uint32_t phase = barrier->phase;
    if (what == 2) {
        for (const Fiber::Arrival &each : fiber->arrivals)
            if (each.barrier == barrier) phase = each.phase;
    } else {
        phase = arrive(own, fiber, barrier);
    }
    if (what != 1) await_phase(own, fiber, barrier, phase);
}

void yield(Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    make_ready(own, fiber);
    suspend(own, fiber);
}

// ---- memory

// Where the next declaration begins. Where accesses are watched a gap is left while there is plenty of room, so that what
// runs over the end of one does not land in the other.
uint64_t behind(const Scheduler *own, uint64_t top, const Pad &pad, size_t align) {
    if (own->watch && top && top < pad.capacity / 2) top += 128;
    return (top + align - 1) & ~(uint64_t(align) - 1);
}

void *shared(const void *key, size_t bytes, size_t align, bool *fresh, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    BlockState &block = own->blocks[fiber->block];
    for (const Place &each : block.places)
        if (each.key == key) return *fresh = false, each.bytes;
    const Pad &l2 = own->run->places[fiber->block].l2;
    uint64_t from = behind(own, block.top, l2, align);
    if (from + bytes > l2.capacity)
        failf(Fault::out_of_resources, site, "%zu bytes of shared memory do not fit: %llu of the %llu bytes of L2 are in "
              "use", bytes, static_cast<unsigned long long>(block.top), static_cast<unsigned long long>(l2.capacity));
    block.top = from + bytes;
    block.places.push_back({key, l2.bytes + from, bytes, site});
    *fresh = true;
    return l2.bytes + from;
}

void *local(const void *key, size_t bytes, size_t align, bool *fresh, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    for (uint32_t each = 0; each < fiber->place_count; ++each)
        if (fiber->places[each].key == key) return *fresh = false, fiber->places[each].bytes;
    const Pad &l1 = *fiber->l1;
    uint64_t from = behind(own, fiber->l1_top, l1, align);
    if (from + bytes > l1.capacity)
        failf(Fault::out_of_resources, site, "%zu bytes of local memory do not fit: %llu of the %llu bytes of L1 are in "
              "use", bytes, static_cast<unsigned long long>(fiber->l1_top),
              static_cast<unsigned long long>(l1.capacity));
    if (fiber->place_count == fiber->place_room) {
        uint32_t room = fiber->place_room ? 2 * fiber->place_room : 8;
        void *grown = realloc(fiber->places, room * sizeof(Place));
        if (!grown) fail(Fault::out_of_resources, "the host has no memory", site);
        fiber->places = static_cast<Place *>(grown);
        fiber->place_room = room;
    }
    fiber->l1_top = from + bytes;
    fiber->places[fiber->place_count++] = {key, l1.bytes + from, bytes, site};
    *fresh = true;
    return l1.bytes + from;
}

// Where dynamic shared memory begins of which a launch gives nothing: each access is a fault.
constexpr size_t NO_SHARED_BYTES = 1 << 30;

uint64_t no_shared() {
    static void *const place = mmap(nullptr, NO_SHARED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(place);
}

void *dynamic_shared(size_t *bytes) {
    Scheduler *own = here;
    *bytes = own->run->dynamic_shared;
    return *bytes ? own->run->places[own->current->block].l2.bytes : reinterpret_cast<void *>(no_shared());
}

bool inside(const Pad &pad, uint64_t low, uint64_t high) {
    uint64_t base = reinterpret_cast<uint64_t>(pad.bytes);
    return base && low >= base && high <= base + pad.capacity;
}

bool in_global(Run *run, uint64_t low, uint64_t high) {
    Range found;
    return find_global(run, low, &found) && high <= found.high;
}

// Fault where an operand begins in what one line of the program has of a scratchpad, and ends behind it.
void check_place(const Place *places, size_t count, const char *kind, uint64_t low, uint64_t high, const char *role, Site site) {
    for (const Place *each = places; each != places + count; ++each) {
        uint64_t from = reinterpret_cast<uint64_t>(each->bytes), end = from + each->size;
        if (low < from || low >= end) continue;
        if (high <= end) return;
        char next[600] = "";
        if (each + 1 != places + count)  // they follow each other
            snprintf(next, sizeof next, ", towards that of %s:%d", each[1].site.file, each[1].site.line);
        failf(Fault::illegal_address, site, "%s has %llu bytes, %llu past the end of the %llu bytes of %s memory declared at %s:%d, at "
              "offset %llu%s", role, static_cast<unsigned long long>(high - low), static_cast<unsigned long long>(high - end),
              static_cast<unsigned long long>(each->size), kind, each->site.file, each->site.line,
              static_cast<unsigned long long>(low - from), next);
    }
}

void check_operand(Scheduler *own, const Fiber *fiber, const Operand &operand, const char *role, bool write, Site site) {
    Run *run = own->run;
    if (operand.rank < 0 || operand.rank > MOST_DIMENSIONS)
        failf(Fault::dte_error, site, "%s has %d dimensions; expected at most %d", role, operand.rank, MOST_DIMENSIONS);
    for (int each = 0; each < operand.rank; ++each)
        if (operand.extents[each] < 0)
            failf(Fault::dte_error, site, "dimension %d of %s has extent %lld; expected no negative one", each, role,
                  static_cast<long long>(operand.extents[each]));
    uint64_t bytes = operand_bytes(operand), low = reinterpret_cast<uint64_t>(operand.address), high = low + bytes;
    if (bytes == 0) return;
    const BlockPlace &place = run->places[fiber->block];
    Space space = operand.space;
    if (inside(*fiber->l1, low, high)) {
        if (space == Space::unknown || space == Space::local)
            return check_place(fiber->places, fiber->place_count, "local", low, high, role, site);
        failf(Fault::dte_error, site, "%s is said to be %s memory, and lies in the thread's L1", role,
              space == Space::global ? "global" : "shared");
    }
    if (inside(place.l2, low, high)) {
        if (space == Space::unknown || space == Space::shared) {
            uint64_t dynamic = reinterpret_cast<uint64_t>(place.l2.bytes) + run->dynamic_shared;
            if (low < dynamic && high > dynamic)
                failf(Fault::illegal_address, site, "%s has %llu bytes, %llu past the end of the %llu bytes of dynamic "
                      "shared memory", role, static_cast<unsigned long long>(bytes),
                      static_cast<unsigned long long>(high - dynamic), static_cast<unsigned long long>(run->dynamic_shared));
            const std::vector<Place> &places = own->blocks[fiber->block].places;
            return check_place(places.data(), places.size(), "shared", low, high, role, site);
        }
        failf(Fault::dte_error, site, "%s is said to be %s memory, and lies in the block's L2", role,
              space == Space::global ? "global" : "local");
    }
    if (in_global(run, low, high)) {
        if (space == Space::unknown || space == Space::global) return;
        failf(Fault::dte_error, site, "%s is said to be %s memory, and is global", role,
              space == Space::shared ? "shared" : "local");
    }
    uint64_t stack = reinterpret_cast<uint64_t>(fiber->stack), top = reinterpret_cast<uint64_t>(fiber->top);
    if (low >= stack && low < top && high <= top) {
        if (space == Space::local) return;  // it is private, and said to be
        failf(Fault::dte_error, site, "%s is a variable of the thread's stack; declare it __local__, or say tops::Private", role);
    }
    if (is_no_shared(low)) failf(Fault::illegal_address, site, "%s is %s", role, NO_SHARED);
    illegal(site, role, operand, write);
}

// ---- the DTE

void check_context(Scheduler *own, Fiber *fiber, Context *context, const char *what, Site site) {
    (void)own;
    if (!context) failf(Fault::dte_error, site, "%s on no DTE context", what);
    if (context->state != 1)
        failf(Fault::dte_error, site, "%s on a DTE context that %s; call tops_init_dte first", what,
              context->state == 0 ? "was not initialised" : "was destroyed");
    if (!context->shared && context->owner != fiber)
        failf(Fault::dte_error, site, "%s on the DTE context of another thread; only its own thread uses it", what);
    if (context->busy)
        failf(Fault::dte_error, site, "%s on a DTE context whose transfer is in flight: %s, issued at %s:%d; wait for "
              "its event first, or use a second context", what, context->transfer.name, context->issued.file,
              context->issued.line);
}

void context(Context *given, int what, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    if (what == 0 || what == 3) {
        bool again = given->state == 1;
        if (given->busy && again) check_context(own, fiber, given, "init", site);
        if (own->watch && again && what == 0) watch_init_again(own->watch, given, site);
        const BlockPlace &place = own->run->places[fiber->block];
        uint64_t at = reinterpret_cast<uint64_t>(given);
        given->shared = inside(place.l2, at, at + sizeof *given);
        given->owner = fiber;
        given->state = 1;
        given->busy = 0;
        given->earlier = nullptr;
        given->declared = site;
        if (own->watch && !again && what == 0) watch_init(own->watch, fiber, given);
    } else {
        check_context(own, fiber, given, what == 1 ? "destroy" : "connect", site);
        if (what != 1) return;
        given->state = 2;
        if (own->watch) watch_destroy(own->watch, given);
    }
}

void constructs(void *place, size_t bytes, bool over) {
    here->current->constructs = !over;
    if (here->watch && over) watch_constructed(here->watch, place, bytes);
}

void move(Scheduler *own, const Transfer &transfer) { own->run->moved += apply_transfer(transfer); }

void check(Scheduler *own, Fiber *fiber, Context *context, const Transfer &transfer, Site site) {
    check_context(own, fiber, context, transfer.name, site);
    if (static_cast<int32_t>(own->run->gcu_arch) < transfer.gcu_arch)
        failf(Fault::dte_error, site, "%s is an operation of gcu%d and later; this is gcu%u", transfer.name,
              transfer.gcu_arch, own->run->gcu_arch);
    check_operand(own, fiber, transfer.dst, "dst", true, site);
    if (transfer.land != Land::fill && transfer.turn != Turn::replace)
        check_operand(own, fiber, transfer.src, "src", false, site);
    char text[1024];
    if (!check_transfer(transfer, text, sizeof text)) fail(Fault::dte_error, text, site);
}

void finish_earlier(Scheduler *own, Fiber *fiber, Context *context, const char *name, Site site);

// Do what is in flight.
void finish(Scheduler *own, Fiber *fiber, Context *context) {
    context->busy = 0;
    if (context->earlier) {
        finish_earlier(own, fiber, context, context->transfer.name, context->issued);
        if (own->watch) watch_transfer(own->watch, fiber, context->transfer, context->issued);
    } else if (own->watch) {
        watch_wait(own->watch, fiber, context);
    }
    if (own->run->eager && !context->earlier) return;
    check_operand(own, fiber, context->transfer.dst, "dst", true, context->issued);
    move(own, context->transfer);
}

// Do the transfer that one of `context` begins after.
void finish_earlier(Scheduler *own, Fiber *fiber, Context *context, const char *name, Site site) {
    Context *earlier = context->earlier;
    if (earlier->state != 1) return;  // a connection ends with either of the two
    if (earlier->serial == context->taken)
        failf(Fault::dte_error, site, "%s begins after a transfer of the DTE context that is connected to its own, and "
              "none was started", name);
    context->taken = earlier->serial;
    if (earlier->busy) finish(own, fiber, earlier);
}

void transfer(Context *context, const Transfer *given, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    check(own, fiber, context, *given, site);
    ++context->serial;
    if (context->earlier) finish_earlier(own, fiber, context, given->name, site);
    if (own->watch) {
        watch_context(own->watch, fiber, context, given->name, site);
        watch_transfer(own->watch, fiber, *given, site);
    }
    move(own, *given);
}

Event issue(Context *context, const Transfer *given, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    check(own, fiber, context, *given, site);
    context->busy = 1;
    context->transfer = *given;
    context->issued = site;
    if (own->watch) {
        watch_context(own->watch, fiber, context, given->name, site);
        if (!context->earlier) watch_issue(own->watch, fiber, context, site);  // that takes place when it is waited for
    }
    if (own->run->eager && !context->earlier) move(own, *given);
    return {context, ++context->serial};
}

void wait(Event event, Site site) {
    Scheduler *own = here;
    Fiber *fiber = enter(own, site);
    if (chooses(own)) {  // others may run before what was issued takes effect
        make_ready(own, fiber);
        suspend(own, fiber);
    }
    Context *context = event.context;
    if (!context || !context->busy || context->serial != event.serial) return;
    if (!context->shared && context->owner != fiber)
        fail(Fault::dte_error, "waits for a transfer of another thread's DTE context", site);
    finish(own, fiber, context);
}

void print(const char *text, size_t bytes) {
    if (!here) {  // host code prints for itself
        fwrite(text, 1, bytes, stdout);
        return;
    }
    Run *run = here->run;
    end_where_asked();
    if (run->print) run->print(text, bytes);
    end_where_asked();  // it may have waited for the interpreter
}

void fail_here(Fault fault, const char *text, Site site) {
    if (here) fail(fault, text, site);
    fflush(stdout);  // host code has no launch that could fail
    fprintf(stderr, "%s:%d: %s\n", site.file, site.line, text);
    abort();
}

constexpr Runtime RUNTIME = {
    VERSION, sync_threads, sync_blocks, shared, local, dynamic_shared, context, transfer,
    issue, wait, counted, print, yield, fail_here, constructs, sync_grid,
};

// ---- threads from their beginning to their end

// Give a thread that begins an L1. Where accesses are not watched it is the one that was used last, which the processor's
// caches still hold: most threads run from their beginning to their end, and then one L1 serves them all.
void give_l1(Scheduler *own, Fiber *fiber) {
    BlockState &block = own->blocks[fiber->block];
    const Pad *pads = own->run->places[fiber->block].l1;
    if (own->watch) {
        fiber->l1 = &pads[fiber->thread];
    } else if (block.left.empty()) {
        fiber->l1 = &pads[block.begun++];
    } else {
        fiber->l1 = block.left.back();
        block.left.pop_back();
    }
}

void begin() {
    Scheduler *own = here;
    give_l1(own, own->current);
    own->run->enter(own->run->arguments);
    own = here;  // as it was, but the compiler need not know
    Fiber *fiber = own->current;
    if (own->watch) watch_thread_over(own->watch, fiber);
    fiber->state = State::over;
    ++own->over;
    ++own->blocks[fiber->block].over;
    own->blocks[fiber->block].left.push_back(fiber->l1);
    if (own->watch && own->blocks[fiber->block].over == own->size) watch_block_over(own->watch, fiber->block);
    if (Fiber *next = own->run->choose ? nullptr : take_next(own)) {
        own->current = next;
        set_slots(own, next);
        atops_switch(&fiber->sp, next->sp);
    }
    leave(own);
}

// Whether a report counts them together.
bool alike_at(const Fiber &one, const Fiber &other) {
    if (one.state != other.state || one.site.line != other.site.line) return false;
    return one.state != State::at_counted ||
           (one.waits->count == other.waits->count && one.waits->left == other.waits->left);
}

void say_stuck(Scheduler *own) {
    Run *run = own->run;
    char *text = run->told->text;
    size_t room = sizeof run->told->text, used = 0;
    auto add = [&](const char *format, auto... values) {
        if (used < room) used += static_cast<size_t>(snprintf(text + used, room - used, format, values...));
    };
    for (int block = 0; block < run->blocks; ++block) {
        const Dim &index = run->places[block].index;
        bool any = false;
        std::vector<bool> told(own->size);
        for (uint32_t one = 0; one < own->size; ++one) {
            const Fiber *fiber = own->fibers[static_cast<size_t>(block) * own->size + one];
            if (told[one]) continue;
            uint32_t alike = 0;
            for (uint32_t other = one; other < own->size; ++other) {
                const Fiber *each = own->fibers[static_cast<size_t>(block) * own->size + other];
                if (alike_at(*each, *fiber)) told[other] = true, ++alike;
            }
            if (!any) add("%sblock (%u,%u,%u): ", used ? "; " : "", index.x, index.y, index.z);
            const char *what = fiber->state == State::at_barrier ? "__syncthreads"
                               : fiber->state == State::at_grid  ? "__syncblocks"
                                                                 : "a counted barrier";
            add("%s%u %s ", any ? ", " : "", alike, alike == 1 ? "thread" : "threads");
            if (fiber->state == State::over)
                add("%s left the kernel", alike == 1 ? "has" : "have");
            else
                add("%s at %s at %s:%d", alike == 1 ? "waits" : "wait", what, fiber->site.file, fiber->site.line);
            if (fiber->state == State::at_counted) {
                const CountedBarrier *barrier = fiber->waits;
                add(" (%d of %d arrived)", barrier->count - barrier->left, barrier->count);
            }
            any = true;
        }
    }
    run->fault = static_cast<int32_t>(Fault::deadlock);
    for (const Fiber *each : own->fibers)
        if (each->state != State::over) {
            run->fault_thread = each->index;
            run->fault_block = run->places[each->block].index;
            Site site = site_of(each);
            snprintf(run->told->file, sizeof run->told->file, "%s", site.file ? site.file : "");
            run->fault_line = site.line;
            break;
        }
}

}  // namespace

Scheduler *scheduler_here() { return here; }

void turn_before_access(Scheduler *own, bool stores) {
    Fiber *fiber = own->current;
    if (fiber->constructs) return;
    if (chooses(own)) {
        // Of a long launch not every access is a choice, but some are for ever: a thread may wait for what another stores.
        if (++own->accesses > ALL_ACCESSES && own->accesses % SOME_ACCESSES) return;
    } else if (stores) {
        fiber->looks = 0;
        return;
    } else if (++fiber->looks % MANY_LOOKS) {  // one that only looks for so long waits for another
        return;
    }
    make_ready(own, fiber);
    suspend(own, fiber);
}

const Runtime *const RUNTIME_TABLE = &RUNTIME;

void end_where_asked() {
    if (here->run->stop) fail_now(Fault::stopped, "", __builtin_frame_address(0));
}

bool is_no_shared(uint64_t address) { return no_shared() && address - no_shared() < NO_SHARED_BYTES; }

bool find_named(Run *run, uint64_t address, Range *found) {
    const Range *end = run->ranges + run->range_count;
    const Range *next = std::upper_bound(run->ranges, end, address,
                                         [](uint64_t given, const Range &range) { return given < range.low; });
    if (next == run->ranges || address >= next[-1].high) return false;
    *found = next[-1];
    return true;
}

bool find_global(Run *run, uint64_t address, Range *found) {
    return find_named(run, address, found) ||
           (run->find && run->find(address, found) && address >= found->low && address < found->high);
}

uint64_t caller_of(Run *run, const void *frame, const Fiber *fiber) {
    auto *at = reinterpret_cast<const uint64_t *>(reinterpret_cast<uintptr_t>(frame) & ~uintptr_t(7));
    auto *end = reinterpret_cast<const uint64_t *>(fiber->top);
    if (reinterpret_cast<const uint8_t *>(at) < fiber->stack || at > end) return 0;
    for (size_t count = 0; at < end && count < 4; ++at) {
        uint64_t value = *at;
        if (value < run->text_low + 8 || value >= run->text_high) continue;
        auto *code = reinterpret_cast<const uint8_t *>(value);
#if defined(__x86_64__)
        bool called = code[-5] == 0xE8 || (code[-6] == 0xFF && (code[-5] & 0x38) == 0x10) ||
                      (code[-2] == 0xFF && (code[-1] & 0x38) == 0x10) || (code[-3] == 0xFF && (code[-2] & 0x38) == 0x10);
#else
        uint32_t before;
        memcpy(&before, code - 4, 4);
        bool called = (before & 0xFC000000) == 0x94000000 || (before & 0xFFFFFC1F) == 0xD63F0000;
#endif
        if (called) run->fault_callers[count++] = value - 1;  // the line is the call's
    }
    return run->fault_callers[0];
}

[[noreturn]] void fail_now(Fault fault, const char *text, const void *frame) {
    Scheduler *own = here;
    if (frame && own->current) own->run->fault_pc = caller_of(own->run, frame, own->current);
    fail(fault, text, own->current ? own->current->site : Site{"", 0});
}

}  // namespace atops

using namespace atops;

#pragma GCC visibility push(default)
extern "C" {

uint32_t atops_version() { return VERSION; }

void atops_attach(const Module *module) { module->attach(&RUNTIME); }

// Say where the variables are of the module that is loaded next; null: where its own initial values lie.
static void *const *prepared;

void atops_prepare(void *const *places) { prepared = places; }

void *atops_place(int32_t number, const volatile void *initial) {
    return prepared ? prepared[number] : const_cast<void *>(initial);
}

// Run. Returns 0 where all threads have left the kernel, else the fault, which the run describes.
int32_t atops_run(Run *run) {
    static thread_local std::unique_ptr<FaultText> told;  // made once: runs are short, and few have a fault
    if (!told) told.reset(new FaultText{});
    if (!run->told) run->told = told.get();
    run->places = reinterpret_cast<BlockPlace *>(run + 1);
    if (run->apart) return run_apart(run);
    Scheduler own;
    own.run = run;
    own.size = run->block.x * run->block.y * run->block.z;
    own.random = run->seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
    own.os_thread = pthread_self();
    size_t total = own.size * static_cast<size_t>(run->blocks);
    own.blocks.resize(static_cast<size_t>(run->blocks));
    own.fibers.reserve(total);
    own.ready.reserve(total);
    run->module->slots(&own.slots);
    *own.slots.block_extent = run->block;
    *own.slots.grid_extent = run->grid;
    for (int32_t block = 0; block < run->blocks && !run->fault; ++block) {
        own.blocks[static_cast<size_t>(block)].top = run->dynamic_shared;
        own.blocks[static_cast<size_t>(block)].arrived.reserve(own.size);
        for (uint32_t thread = 0; thread < own.size; ++thread) {
            Fiber *fiber = take_fiber();
            if (!fiber) {
                run->fault = static_cast<int32_t>(Fault::out_of_resources);
                snprintf(run->told->text, sizeof run->told->text, "the host has no memory for the stacks of %zu "
                         "threads", total);
                break;
            }
            fiber->thread = thread;
            fiber->block = static_cast<uint32_t>(block);
            fiber->index = {thread % run->block.x, thread / run->block.x % run->block.y,
                            thread / run->block.x / run->block.y};
            fiber->state = State::ready;
            fiber->waits = nullptr;
            fiber->site = {"", 0};
            fiber->arrival = 0;
            memset(fiber->arrivals, 0, sizeof fiber->arrivals);
            fiber->place_count = 0;
            fiber->l1 = &run->places[block].l1[thread];
            fiber->l1_top = 0;
            fiber->constructs = false;
            prepare(fiber, begin);
            own.fibers.push_back(fiber);
            own.ready.push_back(fiber);
        }
    }
    Scheduler *outer = here;
    if (!run->fault) {
        own.watch = begin_watch(&own);
        here = &own;
        run->scheduler = &own;
        const Dim &from = run->places->index;
        guard_this_thread(!(from.x | from.y | from.z));  // the first block of a launch
        while (Fiber *next = run->fault ? nullptr : take_next(&own)) {
            own.current = next;
            set_slots(&own, next);
            atops_switch(&own.sp, next->sp);
        }
        run->scheduler = nullptr;
        here = outer;
        give_up_statics(&own);
        if (own.watch) end_watch(own.watch);
        if (!run->fault && own.over < own.fibers.size()) say_stuck(&own);
        give_up_heap(&own, run->fault != 0);
    }
    for (int32_t block = 0; block < run->blocks; ++block) run->places[block].l2_used = own.blocks[static_cast<size_t>(block)].top;
    for (Fiber *each : own.fibers) {
        BlockPlace &place = run->places[each->block];
        place.l1_used = std::max(place.l1_used, each->l1_top);
        give_fiber(each);
    }
    return run->fault;
}

// Move as a transfer of a kernel does, without a kernel: for comparing the two implementations of the DTE.
// Returns whether it was right; else `text` says what is wrong.
int32_t atops_transfer(const Transfer *given, char *text, uint64_t room) {
    if (!check_transfer(*given, text, room)) return 0;
    apply_transfer(*given);
    return 1;
}

void atops_tell(const char *file) { tell_faults(file); }

// Have a run end that does not by itself: from any OS thread, again and again until it has.
void atops_interrupt(Run *run) {
    run->stop = 1;
    if (run->waits) pthread_kill(run->thread, INTERRUPT);
    if (auto *own = static_cast<Scheduler *>(run->scheduler)) pthread_kill(own->os_thread, INTERRUPT);
}

}
#pragma GCC visibility pop
