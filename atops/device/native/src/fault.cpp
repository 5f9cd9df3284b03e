// The handlers run on a stack of their own, note what happened, and have the thread go on in `landed`, from where the
// run is left for good. What is no kernel's goes to whoever was there before.
#include "fault.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <typeinfo>

#include "abi.h"
#include "apart.h"
#include "heap.h"
#include "fiber.h"
#include "run.h"

namespace atops {

namespace {

constexpr int GUARDED[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, INTERRUPT};
// Which of them are looked at before each launch, at 0.14 us each. SIGBUS and SIGTRAP, which hardly any kernel meets, are
// taken back with these.
constexpr int LOOKED_AT[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, INTERRUPT};
constexpr size_t HANDLER_STACK = 64 << 10;

// Whose the signals were: theirs is what is no kernel's. What is found over a handler of ours may pass on to that one, so
// each that was found has one of its own over it: no two call each other.
constexpr int LEVELS = 8;
struct sigaction before[LEVELS][65];
int levels[65];  // that are taken
std::mutex installing;
// The stack of the handlers, of an OS thread that had none.
struct HandlerStack {
    void *place = nullptr;
    bool guarded = false;

    ~HandlerStack() {
        if (!place) return;
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
        munmap(place, HANDLER_STACK);
    }
};

thread_local HandlerStack own_stack;

// Whether this OS thread is the first of its process; -1 where that was not asked yet. A thread that forks is the child's.
thread_local int first = -1;
[[maybe_unused]] const int asked_again_in_children = pthread_atfork(nullptr, nullptr, [] {
    first = -1;
    new (&installing) std::mutex;  // another thread may have had it
});
thread_local Fault pending = Fault::none;
thread_local char said[512];
thread_local bool aborted = false;

void landed() {
    if (aborted) {  // by the C++ library, for an exception that nothing catches
        aborted = false;
        if (const std::type_info *kind = abi::__cxa_current_exception_type()) {
            char *name = abi::__cxa_demangle(kind->name(), nullptr, nullptr, nullptr);
            snprintf(said, sizeof said, "threw %s, and a kernel has no exceptions", name ? name : kind->name());
            free(name);
            abi::__cxa_end_catch();
        }
    }
    fail_now(pending, said);
}

void land(ucontext_t *state, const Fiber *fiber) {
    uintptr_t top = (reinterpret_cast<uintptr_t>(fiber->top) & ~uintptr_t(15)) - 128;  // what was on the stack is given up
#if defined(__x86_64__)
    *reinterpret_cast<void **>(top - 8) = nullptr;
    state->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(top - 8);
    state->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&landed);
#else
    state->uc_mcontext.sp = top;
    state->uc_mcontext.pc = reinterpret_cast<uintptr_t>(&landed);
#endif
}

uintptr_t counter(const ucontext_t *state) {
#if defined(__x86_64__)
    return static_cast<uintptr_t>(state->uc_mcontext.gregs[REG_RIP]);
#else
    return state->uc_mcontext.pc;
#endif
}

uintptr_t stack_pointer(const ucontext_t *state) {
#if defined(__x86_64__)
    return static_cast<uintptr_t>(state->uc_mcontext.gregs[REG_RSP]);
#else
    return state->uc_mcontext.sp;
#endif
}

// Have a signal do what it does by itself, which ends the process.
void end_by(int number, const siginfo_t *info) {
    signal(number, SIG_DFL);
    if (info->si_code <= 0 || number == SIGTRAP) raise(number);  // any other fault of the processor happens again
}

// Call who was there before, who may jump away from here.
void pass_on(int level, int number, siginfo_t *info, void *state) {
    const struct sigaction old = before[level][number];
    bool fault = number != SIGINT && number != INTERRUPT;
    if (old.sa_handler == SIG_DFL || (old.sa_handler == SIG_IGN && info->si_code > 0)) {  // no fault can be ignored
        if (fault) end_by(number, info);
    } else if (old.sa_handler != SIG_IGN) {
        if (old.sa_flags & static_cast<int>(SA_RESETHAND)) signal(number, SIG_DFL);
        if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(number, info, state);
        else old.sa_handler(number);
    }
}

void handle(int level, int number, siginfo_t *info, void *context) {
    auto *state = static_cast<ucontext_t *>(context);
    Scheduler *own = scheduler_here();
    Fiber *fiber = own ? own->current : nullptr;
    if (number == SIGINT) {  // Python notes it; a kernel in this thread has to come back first
        pass_on(level, number, info, context);
        if (own) own->run->stop = 1;
        if (Run *awaited = awaited_here()) awaited->stop = 1;
    }
    if (!fiber) {
        if (number != SIGINT) pass_on(level, number, info, context);
        return;
    }
    Run *run = own->run;
    uint64_t here = counter(state);
    bool own_code = here >= run->text_low && here < run->text_high;
    if (number == INTERRUPT || number == SIGINT) {
        // Only out of the kernel's own code: what the runtime or a library has begun is ended first.
        if (!run->stop || !own_code) return;
        run->fault_pc = here;
        pending = Fault::stopped;
        said[0] = 0;
        return land(state, fiber);
    }
    run->fault_pc = own_code ? here : caller_of(run, reinterpret_cast<const void *>(stack_pointer(state)), fiber);
    if (number == SIGABRT) {
        pending = Fault::launch_failure;
        aborted = true;
        snprintf(said, sizeof said, "called abort(), or a library did; what it says is on standard error");
    } else if (number == SIGSEGV || number == SIGBUS) {
        auto address = reinterpret_cast<uintptr_t>(info->si_addr);
        uintptr_t low = reinterpret_cast<uintptr_t>(fiber->guard), high = reinterpret_cast<uintptr_t>(fiber->stack);
        if (address >= low - 4096 && address < high) {
            pending = Fault::launch_failure;
            snprintf(said, sizeof said, "its stack of %zu KiB overflowed; __local__ puts an array into L1", STACK_BYTES >> 10);
        } else if (info->si_code == SI_KERNEL) {  // the processor does not say which
            pending = Fault::illegal_address;
            snprintf(said, sizeof said, "%s", "used an address that no memory can have, or one that is not a multiple of "
                     "what its type is aligned to; or a longjmp went where no setjmp was");
        } else if (address == here) {
            pending = Fault::illegal_address;
            snprintf(said, sizeof said, "called a function at %#lx, where no code is", static_cast<unsigned long>(here));
        } else if (heap_says(address, said, sizeof said)) {
            pending = Fault::illegal_address;
        } else if (is_no_shared(address)) {
            pending = Fault::illegal_address;
            snprintf(said, sizeof said, "used %s", NO_SHARED);
        } else {
            pending = Fault::illegal_address;
            run->fault_address = address;
            run->fault_bytes = 0;
#if defined(__x86_64__)
            run->fault_write = state->uc_mcontext.gregs[REG_ERR] & 2 ? 1 : 0;
#else
            run->fault_write = -1;
#endif
            snprintf(said, sizeof said, "%s", "address");
        }
    } else {
        pending = Fault::launch_failure;
        const char *what = number == SIGFPE ? "divided an integer by zero, or the least one by -1"
                           : number == SIGILL || number == SIGTRAP ? "ran into a trap: __builtin_trap(), or what its C++ "
                                                                     "does there is not defined" : "stopped";
        snprintf(said, sizeof said, "%s", what);
    }
    land(state, fiber);
}

using Handler = void (*)(int, siginfo_t *, void *);

template <int level>
void handle_at(int number, siginfo_t *info, void *context) {
    handle(level, number, info, context);
}

constexpr Handler HANDLERS[LEVELS] = {handle_at<0>, handle_at<1>, handle_at<2>, handle_at<3>,
                                      handle_at<4>, handle_at<5>, handle_at<6>, handle_at<7>};

const char *told_file;

void tell_counter(uintptr_t address) {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(address), &info) || !info.dli_fname || strcmp(info.dli_fname, told_file)) return;
    dprintf(STDOUT_FILENO, "atops: fault at %#zx\n", address - reinterpret_cast<uintptr_t>(info.dli_fbase));
}

void tell(int number, siginfo_t *, void *context) {
    signal(number, SIG_DFL);  // it happens again, and ends the process
    auto *state = static_cast<ucontext_t *>(context);
    tell_counter(counter(state));
    auto *stack = reinterpret_cast<const uintptr_t *>(stack_pointer(state) & ~uintptr_t(7));
    for (size_t each = 0; each < 512; ++each) tell_counter(stack[each] - 1);
}

}  // namespace

void tell_faults(const char *file) {
    told_file = strdup(file);
    static char stack[HANDLER_STACK];
    stack_t own{};
    own.ss_sp = stack, own.ss_size = sizeof stack;
    sigaltstack(&own, nullptr);
    struct sigaction action{};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int number : GUARDED)
        if (number != INTERRUPT) sigaction(number, &action, nullptr);
}

namespace {

bool is_ours(const struct sigaction &found) {
    for (Handler each : HANDLERS)
        if (found.sa_sigaction == each) return true;
    return false;
}

// Put a handler of ours over what is found: the one that was over it, or the next. Where there is none, it stays.
void take(int number, const struct sigaction &found, int flags) {
    std::lock_guard<std::mutex> held(installing);
    int level = 0;
    while (level < levels[number] && before[level][number].sa_handler != found.sa_handler) ++level;
    if (level == LEVELS) return;
    before[level][number] = found;
    if (level == levels[number]) ++levels[number];
    struct sigaction action = found;
    if (number != SIGINT) sigemptyset(&action.sa_mask);
    action.sa_sigaction = HANDLERS[level];
    action.sa_flags = flags | SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(number, &action, nullptr);
}

// Install the handlers that are not there: none yet, or the program has put others in their place.
void install() {
    struct sigaction found;
    for (int number : GUARDED)
        if (sigaction(number, nullptr, &found) == 0 && !is_ours(found)) take(number, found, SA_RESTART);
}

}  // namespace

void guard_this_thread(bool begins) {
    struct sigaction found;
    if (first < 0) first = syscall(SYS_gettid) == getpid();
    if (first && sigaction(SIGINT, nullptr, &found) == 0 && !is_ours(found) &&
        found.sa_handler != SIG_IGN && found.sa_handler != SIG_DFL)  // Python's, which lets a kernel go on
        take(SIGINT, found, found.sa_flags);
    if (begins || !own_stack.guarded)
        for (int number : LOOKED_AT)
            if (sigaction(number, nullptr, &found) == 0 && !is_ours(found)) {
                install();
                break;
            }
    if (own_stack.guarded) return;
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE)) {
        void *place = mmap(nullptr, HANDLER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (place != MAP_FAILED) {
            stack_t stack{};
            stack.ss_sp = place;
            stack.ss_size = HANDLER_STACK;
            sigaltstack(&stack, nullptr);
            own_stack.place = place;
        }
    }
    own_stack.guarded = true;
}

void guard_forked() {
    struct sigaction plain;
    memset(&plain, 0, sizeof plain);
    plain.sa_handler = SIG_DFL;
    for (int number = 1; number < 32; ++number) {
        for (auto &level : before) level[number] = plain;
        bool guarded = false;
        for (int each : GUARDED) guarded |= each == number;
        if (!guarded && number != SIGPIPE) sigaction(number, &plain, nullptr);
    }
    plain.sa_handler = SIG_IGN;  // the terminal's is for the process that waits, which ends this one
    sigaction(SIGINT, &plain, nullptr);
}

}  // namespace atops
