// What kernels cannot call of the C library, though the compiler takes it: modules are linked so that these calls come
// here. In a kernel each is a fault; host code of a whole program goes on to the library.
#include "library.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "run.h"

using namespace atops;

// Not every C++ library's headers have these, nor the C library's with NDEBUG.
using Guard = int64_t;
int guard_acquire(Guard *) __asm__("__cxa_guard_acquire");
void guard_release(Guard *) __asm__("__cxa_guard_release");
void guard_abort(Guard *) __asm__("__cxa_guard_abort");
__attribute__((weak)) void condition_wait(void *, void *) __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
[[noreturn]] void assert_fail(const char *, const char *, unsigned, const char *) __asm__("__assert_fail");

namespace {

bool in_kernel() {
    Scheduler *own = scheduler_here();
    return own && own->current;
}

[[noreturn]] void refuse(const char *text) { fail_now(Fault::launch_failure, text, __builtin_frame_address(0)); }

// Static variables of functions that kernels on this OS thread have begun to initialise. A second thread of the kernel
// that comes to one of them would wait for ever: for itself, or for one that goes on only when it waits itself.
struct Begun {
    Guard *guard;
    const Scheduler *own;
    const Fiber *fiber;
};

thread_local std::vector<Begun> begun;

void initialised(const Guard *guard) {
    begun.erase(std::remove_if(begun.begin(), begun.end(), [&](const Begun &each) { return each.guard == guard; }),
                begun.end());
}

}  // namespace

namespace atops {

void give_up_statics(const Scheduler *own) {
    for (const Begun &each : begun)
        if (each.own == own) guard_abort(each.guard);
    begun.erase(std::remove_if(begun.begin(), begun.end(), [&](const Begun &each) { return each.own == own; }), begun.end());
}

bool initialises_static(const Fiber *fiber) {
    return std::any_of(begun.begin(), begun.end(), [&](const Begun &each) { return each.fiber == fiber; });
}

}  // namespace atops

#define ENDS "which would end the process; a kernel ends by return"
#define BLOCKS "which would block all threads of its block; they wait at barriers and for transfers"
#define STARTS "a kernel starts no threads and no processes"
#define REPLACES "which would replace the process by another program"
#define CHANGES "which would change the whole process"
#define GROWS "which takes memory from beside the kernel's; fgets() does not"
#define CLOSES "which is the process's, and not the kernel's"

#pragma GCC visibility push(default)
extern "C" {
#define NEVER_RETURNS(name, why) \
    [[noreturn]] void __wrap_##name(int code) { \
        if (in_kernel()) refuse("called " #name "(), " why); \
        ::name(code); \
    }
NEVER_RETURNS(exit, ENDS)
NEVER_RETURNS(_exit, ENDS)
NEVER_RETURNS(_Exit, ENDS)
NEVER_RETURNS(quick_exit, ENDS)
#undef NEVER_RETURNS

// The `assert` of <assert.h>, which a program may include behind the one that every program has.
[[noreturn]] void __wrap___assert_fail(const char *expression, const char *file, unsigned line, const char *function) {
    if (in_kernel()) RUNTIME_TABLE->fail(Fault::kernel_assert, expression, {file, int(line)});
    assert_fail(expression, file, line, function);
}

#define CALL(type, name, parameters, arguments, why) \
    type __wrap_##name parameters { \
        if (in_kernel()) refuse("called " #name "(), " why); \
        return reinterpret_cast<type(*) parameters>(dlsym(RTLD_DEFAULT, #name)) arguments; \
    }
CALL(int, raise, (int number), (number), ENDS)
CALL(int, kill, (pid_t process, int number), (process, number), ENDS)
CALL(unsigned, sleep, (unsigned seconds), (seconds), BLOCKS)
CALL(int, usleep, (useconds_t time), (time), BLOCKS)
CALL(int, nanosleep, (const timespec *time, timespec *left), (time, left), BLOCKS)
CALL(int, clock_nanosleep, (clockid_t clock, int flags, const timespec *time, timespec *left), (clock, flags, time, left), BLOCKS)
CALL(int, pause, (), (), BLOCKS)
CALL(int, pthread_cond_wait, (pthread_cond_t *condition, pthread_mutex_t *mutex), (condition, mutex), BLOCKS)
CALL(int, pthread_join, (pthread_t thread, void **result), (thread, result), BLOCKS)
CALL(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     (thread, attributes, start, argument), STARTS)
CALL(pid_t, fork, (), (), STARTS)
CALL(pid_t, _Fork, (), (), STARTS)
CALL(int, system, (const char *command), (command), STARTS)
CALL(FILE *, popen, (const char *command, const char *mode), (command, mode), STARTS)
CALL(int, daemon, (int stays, int keeps), (stays, keeps), STARTS)
CALL(int, clone, (int (*start)(void *), void *stack, int flags, void *argument, void *a, void *b, void *c),
     (start, stack, flags, argument, a, b, c), STARTS)
#define SPAWN(name) \
    CALL(int, name, (pid_t *made, const char *file, const posix_spawn_file_actions_t *actions, \
                     const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment), \
         (made, file, actions, attributes, arguments, environment), STARTS)
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
#undef SPAWN

// A child of vfork() would return over the frame of what called it here: host code gets that of fork().
pid_t __wrap_vfork() {
    if (in_kernel()) refuse("called vfork(), " STARTS);
    return fork();
}

CALL(int, execv, (const char *file, char *const *arguments), (file, arguments), REPLACES)
CALL(int, execvp, (const char *file, char *const *arguments), (file, arguments), REPLACES)
CALL(int, execve, (const char *file, char *const *arguments, char *const *environment), (file, arguments, environment), REPLACES)
CALL(int, execvpe, (const char *file, char *const *arguments, char *const *environment), (file, arguments, environment), REPLACES)
CALL(int, fexecve, (int file, char *const *arguments, char *const *environment), (file, arguments, environment), REPLACES)
CALL(int, execveat, (int folder, const char *file, char *const *arguments, char *const *environment, int flags),
     (folder, file, arguments, environment, flags), REPLACES)

// Those that take arguments one by one: a null pointer ends them, behind which execle has the environment.
#define EXEC_LIST(name, with_environment, call) \
    int __wrap_##name(const char *file, const char *first, ...) { \
        if (in_kernel()) refuse("called " #name "(), " REPLACES); \
        std::vector<char *> list{const_cast<char *>(first)}; \
        va_list given; \
        va_start(given, first); \
        while (list.back()) list.push_back(va_arg(given, char *)); \
        [[maybe_unused]] char *const *environment = with_environment ? va_arg(given, char *const *) : nullptr; \
        va_end(given); \
        return call; \
    }
EXEC_LIST(execl, false, execv(file, list.data()))
EXEC_LIST(execlp, false, execvp(file, list.data()))
EXEC_LIST(execle, true, execve(file, list.data(), environment))
#undef EXEC_LIST
CALL(int, chdir, (const char *folder), (folder), CHANGES)
CALL(int, chroot, (const char *folder), (folder), CHANGES)
CALL(int, setuid, (uid_t user), (user), CHANGES)
CALL(int, seteuid, (uid_t user), (user), CHANGES)
CALL(int, setreuid, (uid_t user, uid_t effective), (user, effective), CHANGES)
CALL(int, setresuid, (uid_t user, uid_t effective, uid_t saved), (user, effective, saved), CHANGES)
CALL(int, setgid, (gid_t group), (group), CHANGES)
CALL(int, setegid, (gid_t group), (group), CHANGES)
CALL(int, setregid, (gid_t group, gid_t effective), (group, effective), CHANGES)
CALL(int, setresgid, (gid_t group, gid_t effective, gid_t saved), (group, effective, saved), CHANGES)
CALL(pid_t, setsid, (), (), CHANGES)
CALL(int, setpgid, (pid_t process, pid_t group), (process, group), CHANGES)

CALL(int, select, (int count, fd_set *in, fd_set *out, fd_set *other, timeval *time), (count, in, out, other, time), BLOCKS)
CALL(int, poll, (pollfd *all, nfds_t count, int time), (all, count, time), BLOCKS)
CALL(int, sem_wait, (sem_t *semaphore), (semaphore), BLOCKS)
CALL(unsigned, alarm, (unsigned seconds), (seconds), CLOSES)
CALL(sighandler_t, signal, (int number, sighandler_t handler), (number, handler), CLOSES)
CALL(int, sigaction, (int number, const struct sigaction *to, struct sigaction *from), (number, to, from), CLOSES)

[[noreturn]] void __wrap_pthread_exit(void *result) {
    if (in_kernel()) refuse("called pthread_exit(), " ENDS);
    pthread_exit(result);
}

// std::condition_variable::wait, which is in the C++ library.
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void *condition, void *mutex) {
    if (in_kernel()) refuse("waited for a condition variable, " BLOCKS);
    condition_wait(condition, mutex);
}

// By which std::atomic and std::counting_semaphore wait.
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    int does = static_cast<int>(b) & FUTEX_CMD_MASK;
    if (number == SYS_futex && (does == FUTEX_WAIT || does == FUTEX_WAIT_BITSET) && in_kernel())
        refuse("waited for an atomic or a semaphore, " BLOCKS);
    return syscall(number, a, b, c, d, e, f);
}

CALL(ssize_t, getline, (char **line, size_t *room, FILE *stream), (line, room, stream), GROWS)
CALL(ssize_t, getdelim, (char **line, size_t *room, int end, FILE *stream), (line, room, end, stream), GROWS)
CALL(int, close, (int descriptor), (descriptor), CLOSES)
CALL(int, dup2, (int from, int to), (from, to), CLOSES)

int __wrap_fclose(FILE *stream) {
    if (in_kernel() && (stream == stdin || stream == stdout || stream == stderr))
        refuse("called fclose() of a standard stream, " CLOSES);
    return fclose(stream);
}

int __wrap___cxa_guard_acquire(Guard *guard) {
    if (!in_kernel()) return guard_acquire(guard);
    Scheduler *own = scheduler_here();
    for (const Begun &each : begun) {
        if (each.guard != guard) continue;
        refuse(each.fiber == own->current
                   ? "came to a static variable of a function that it is initialising itself"
                   : "came to a static variable of a function that another thread of the launch is initialising, which "
                     "waits meanwhile");
    }
    int fresh = guard_acquire(guard);
    if (fresh) begun.push_back({guard, own, own->current});
    return fresh;
}

void __wrap___cxa_guard_release(Guard *guard) {
    initialised(guard);
    guard_release(guard);
}

void __wrap___cxa_guard_abort(Guard *guard) {
    initialised(guard);
    guard_abort(guard);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!in_kernel()) return pthread_mutex_lock(mutex);
    if (pthread_mutex_trylock(mutex)) refuse("waited for a mutex, " BLOCKS);
    return 0;
}

// std::thread's constructor, in the C++ library.
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    void *self, void *state, void (*depends)()) {
    if (in_kernel()) refuse("constructed a std::thread; " STARTS);
    constexpr const char *name = "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";
    reinterpret_cast<void (*)(void *, void *, void (*)())>(dlsym(RTLD_DEFAULT, name))(self, state, depends);
}
}
#pragma GCC visibility pop
