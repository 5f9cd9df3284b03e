// Host code of a program: what it calls of the runtime API, and its launches. A module of kernels has it, too, but nothing
// there runs it: `python -m atops run program.cpp` does, and says where the functions are.
#pragma once

#include "language.h"

namespace atops {

// What the process that runs a program's host code gives it.
struct Host {
    void *const *functions;  // of the runtime API, in the order of its table
    // `kernel` is its name; without one, the last argument is its address.
    void (*launch)(const char *kernel, int32_t cooperative, void (*enter)(void **), void *const *arguments,
                   const uint32_t *bytes, const uint8_t *pointers, int32_t count, const Dim *grid, const Dim *block,
                   uint64_t shared_bytes, const void *stream);
};

inline const Host *host;

[[noreturn]] inline void no_host(const char *what) {
    char text[200];
    snprintf(text, sizeof text, "called %s, which is host code's; run a whole program with: python -m atops run FILE", what);
    fail(Fault::launch_failure, text, "", 0);
}

template <class Function>
Function host_function(int number, const char *name) {
    if (!host) no_host(name);
    return reinterpret_cast<Function>(host->functions[number]);
}

// kernel<<<grid, block, shared, stream>>>(...)
struct Configuration {
    dim3 grid, block;
    uint64_t shared_bytes;
    const void *stream;
    Configuration(dim3 grid, dim3 block, uint64_t shared_bytes = 0, const void *stream = nullptr)
        : grid(grid), block(block), shared_bytes(shared_bytes), stream(stream) {}
};

template <class Call, class... P>
struct Launched {
    static void with(P... values) { Call{}(values...); }
    template <size_t... I>
    __attribute__((no_sanitize("thread"))) static void call(void **arguments, std::index_sequence<I...>) {
        with(*static_cast<P *>(arguments[I])...);
        (void)arguments;
    }
    static void enter(void **arguments) { call(arguments, std::index_sequence_for<P...>{}); }
    static void start(const char *kernel, int cooperative, const Configuration &given, P... values) {
        start(kernel, cooperative, enter, given, values...);
    }
    static void start(const char *kernel, int cooperative, void (*enter)(void **), const Configuration &given, P... values) {
        static constexpr uint32_t bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
        static constexpr uint8_t pointers[sizeof...(P) + 1] = {std::is_pointer_v<P>..., 0};
        if (!host) no_host("a launch");
        void *arguments[] = {const_cast<void *>(static_cast<const void *>(&values))..., nullptr};
        Dim grid = {given.grid.x, given.grid.y, given.grid.z}, block = {given.block.x, given.block.y, given.block.z};
        host->launch(kernel, cooperative, enter, arguments, bytes, pointers, sizeof...(P), &grid, &block,
                     given.shared_bytes, given.stream);
    }
};

// Of a kernel whose type is known, arguments become what it takes; else they are what they are.
template <class Kernel, class Call>
struct Launch;
template <class... P, class Call>
struct Launch<void (*)(P...), Call> {
    const char *kernel;
    int cooperative;
    Configuration given;
    void operator()(P... arguments) const {
        Launched<Call, std::remove_const_t<P>...>::start(kernel, cooperative, given, arguments...);
    }
    // Of arguments that a kernel does not take: any other match is better than `...`.
    template <class Never = void>
    __attribute__((error("the arguments of the launch do not fit the parameters of the kernel"))) void
    operator()(...) const;
};
template <class Call>
struct Launch<void, Call> {
    const char *kernel;
    int cooperative;
    Configuration given;
    template <class... A>
    void operator()(A... arguments) const {
        Launched<Call, A...>::start(kernel, cooperative, given, arguments...);
    }
};

template <class Kernel, class Call>
Launch<Kernel, Call> launch(const char *kernel, int cooperative, const Configuration &given, Call) {
    return {kernel, cooperative, given};
}

// A kernel that a template makes, where host code takes its address: the launch by that has no types.
struct MadeKernel {
    const void *address;
    void (*enter)(void **);
    const ParameterRow *rows;
    int32_t count, cooperative;
    const char *name;  // among the words of a compiler
    const MadeKernel *next;
};
inline const MadeKernel *made_kernels;

template <auto kernel, int cooperative>
struct Made {
    static bool note() {
        static MadeKernel own = {reinterpret_cast<const void *>(kernel), Entry<kernel>::enter, Entry<kernel>::rows,
                                 Entry<kernel>::count, cooperative, __PRETTY_FUNCTION__, made_kernels};
        made_kernels = &own;
        return true;
    }
    static inline const bool noted = note();
};
template <auto kernel, int cooperative>
constexpr auto &made() {
    (void)&Made<kernel, cooperative>::noted;  // as the program is loaded
    return *kernel;
}

// The launch of what points to a kernel: `table[i]->*Launching(configuration)(arguments...)`.
template <class Start>
struct Started {
    Start start;
};
template <class... P>
struct Pointed {
    template <size_t... I>
    __attribute__((no_sanitize("thread"))) static void call(void **arguments, std::index_sequence<I...>) {
        auto kernel = *static_cast<void (**)(P...)>(arguments[sizeof...(P)]);
        kernel(*static_cast<std::remove_const_t<P> *>(arguments[I])...);
    }
    static void enter(void **arguments) { call(arguments, std::index_sequence_for<P...>{}); }
};
struct Launching {
    Configuration given;
    template <class... A>
    auto operator()(A &&...arguments) const {
        auto start = [&, this]<class... P>(void (*kernel)(P...)) {
            if constexpr (std::is_invocable_v<void (*)(P...), A...>)
                started(kernel, arguments...);
            else
                misfit(kernel);
        };
        return Started<decltype(start)>{start};
    }

  private:
    template <class... P>
    void started(void (*kernel)(P...), std::type_identity_t<P>... values) const {
        Launched<void, std::remove_const_t<P>..., void (*)(P...)>::start(nullptr, 0, Pointed<P...>::enter, given, values..., kernel);
    }
    template <class Kernel>
    __attribute__((error("the arguments of the launch do not fit the parameters of the kernel"))) void misfit(Kernel) const;
};
template <class... P, class Start>
void operator->*(void (*kernel)(P...), const Started<Start> &given) { given.start(kernel); }
template <class Other, class Start>
__attribute__((error("<<< is preceded by neither a kernel nor a pointer to one"))) void
operator->*(const Other &, const Started<Start> &);

// A main has one of these forms.
inline int run_main(int (*main)(), int, char **) { return main(); }
inline int run_main(int (*main)(int, char **), int count, char **arguments) { return main(count, arguments); }
inline int run_main(int (*main)(int, const char **), int count, char **arguments) {
    return main(count, const_cast<const char **>(arguments));
}
inline int run_main(int (*main)(int, char **, char **), int count, char **arguments) {
    extern char **environ;
    return main(count, arguments, environ);
}

}  // namespace atops
