// Host code of a program: what it calls of the runtime API, and its launches. A module of kernels has it, too, but nothing
// there runs it: `python -m atops run program.cpp` does, and says where the functions are.
#pragma once

#include "language.h"

namespace atops {

// What the process that runs a program's host code gives it.
struct Host {
    void *const *functions;  // of the runtime API, in the order of its table
    void (*launch)(const char *kernel, void (*enter)(void **), void *const *arguments, const ParameterRow *rows, int32_t count,
                   Dim grid, Dim block, uint64_t shared_bytes, const void *stream);
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
    template <size_t... I>
    static void call(void **arguments, std::index_sequence<I...>) {
        Call{}(*static_cast<P *>(arguments[I])...);
        (void)arguments;
    }
    static void enter(void **arguments) { call(arguments, std::index_sequence_for<P...>{}); }
    static void start(const char *kernel, const Configuration &given, P... values) {
        static constexpr ParameterRow rows[sizeof...(P) + 1] = {row_of<P>()..., {}};
        if (!host) no_host("a launch");
        void *arguments[] = {static_cast<void *>(&values)..., nullptr};
        host->launch(kernel, enter, arguments, rows, sizeof...(P), {given.grid.x, given.grid.y, given.grid.z},
                     {given.block.x, given.block.y, given.block.z}, given.shared_bytes, given.stream);
    }
};

// Of a kernel whose type is known, arguments become what it takes; else they are what they are.
template <class Kernel, class Call>
struct Launch;
template <class... P, class Call>
struct Launch<void (*)(P...), Call> {
    const char *kernel;
    Configuration given;
    void operator()(P... arguments) const {
        Launched<Call, std::remove_const_t<P>...>::start(kernel, given, arguments...);
    }
};
template <class Call>
struct Launch<void, Call> {
    const char *kernel;
    Configuration given;
    template <class... A>
    void operator()(A... arguments) const {
        Launched<Call, A...>::start(kernel, given, arguments...);
    }
};

template <class Kernel, class Call>
Launch<Kernel, Call> launch(const char *kernel, const Configuration &given, Call) {
    return {kernel, given};
}

}  // namespace atops
