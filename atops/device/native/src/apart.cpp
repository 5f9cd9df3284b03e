// A run in a process of its own: a fork of this one, which has the device's memory in common with it and everything else
// for itself. Its crash costs that process only. What it prints and asks comes here by a socket.
#include "apart.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

namespace atops {

namespace {

constexpr int NAGGING = 5;  // milliseconds between two interrupts of a run that is to end
constexpr int PATIENCE = 400;  // interrupts, before the process is ended

struct Message {
    char kind;  // 'p' what it prints follows, 'f' an address is looked for, 'd' it is over
    uint64_t value;
};

thread_local Run *waiting = nullptr;  // the run that this OS thread waits for
int wire = -1;  // of the process that runs it

bool send_all(int to, const void *data, size_t size) {
    auto *at = static_cast<const char *>(data);
    while (size) {
        ssize_t sent = send(to, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent, size -= static_cast<size_t>(sent);
    }
    return true;
}

bool receive_all(int from, void *data, size_t size) {
    auto *at = static_cast<char *>(data);
    while (size) {
        ssize_t got = recv(from, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got, size -= static_cast<size_t>(got);
    }
    return true;
}

// ---- in the process that runs

void print_there(const char *text, uint64_t bytes) {
    Message message{'p', bytes};
    if (!send_all(wire, &message, sizeof message) || !send_all(wire, text, bytes)) _exit(0);
}

int32_t find_there(uint64_t address, Range *found) {
    Message message{'f', address};
    int32_t known;
    if (!send_all(wire, &message, sizeof message) || !receive_all(wire, &known, sizeof known) ||
        !receive_all(wire, found, sizeof *found))
        _exit(0);
    return known;
}

[[noreturn]] void run_there(Run *run, int to, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    wire = to;
    guard_forked();
    run->print = print_there;
    run->find = find_there;
    atops_run(run);
    fflush(stdout);
    Message message{'d', 0};
    send_all(to, &message, sizeof message);
    _exit(0);
}

// ---- in the process that waits

void ended(Run *run, int status) {
    run->fault = static_cast<int32_t>(run->stop ? Fault::stopped : Fault::process_ended);
    run->fault_address = WIFSIGNALED(status) ? static_cast<uint64_t>(WTERMSIG(status)) : 0;
    run->fault_bytes = WIFEXITED(status) ? static_cast<uint64_t>(WEXITSTATUS(status)) : 0;
}

// Hear what the other process says until it is over or gone; whether it said that it is over.
bool hear(Run *run, Run *there, int from, pid_t process) {
    std::vector<char> text;
    for (int nagged = 0;;) {
        if (run->stop) {
            there->stop = 1;
            kill(process, ++nagged > PATIENCE ? SIGKILL : INTERRUPT);
        }
        pollfd polled{from, POLLIN, 0};
        if (poll(&polled, 1, run->stop ? NAGGING : -1) <= 0) continue;
        Message message;
        if (!receive_all(from, &message, sizeof message)) return false;
        if (message.kind == 'd') return true;
        if (message.kind == 'p') {
            text.resize(message.value);
            if (!receive_all(from, text.data(), text.size())) return false;
            run->print(text.data(), text.size());
        } else {
            Range found{};
            int32_t known = run->find ? run->find(message.value, &found) : 0;
            if (!send_all(from, &known, sizeof known) || !send_all(from, &found, sizeof found)) return false;
        }
    }
}

int32_t refuse(Run *run, const char *what) {
    run->fault = static_cast<int32_t>(Fault::out_of_resources);
    snprintf(run->told->text, sizeof run->told->text, "the host has no %s for a process of its own: %s", what,
             strerror(errno));
    return run->fault;
}

}  // namespace

Run *awaited_here() { return waiting; }

int32_t run_apart(Run *run) {
    size_t places = static_cast<size_t>(run->blocks) * sizeof(BlockPlace);
    size_t size = sizeof(Run) + places + sizeof(FaultText);
    void *shared = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return refuse(run, "memory");
    auto *there = static_cast<Run *>(shared);
    memcpy(there, run, sizeof *run);
    there->told = reinterpret_cast<FaultText *>(reinterpret_cast<uint8_t *>(there + 1) + places);
    there->apart = 0;
    memcpy(there + 1, run + 1, places);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        munmap(shared, size);
        return refuse(run, "socket");
    }
    guard_this_thread(true);
    fflush(stdout);  // else both would write what waits there
    pid_t self = getpid(), process = fork();
    if (process == 0) {
        close(ends[0]);
        run_there(there, ends[1], self);
    }
    close(ends[1]);
    if (process < 0) {
        close(ends[0]);
        munmap(shared, size);
        return refuse(run, "process");
    }
    Run *outer = waiting;
    waiting = run;
    run->waits = 1;
    run->thread = pthread_self();
    bool over = hear(run, there, ends[0], process);
    close(ends[0]);
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
    run->waits = 0;
    waiting = outer;
    if (over) {
        auto print = run->print;
        auto find = run->find;
        FaultText *told = run->told;
        int32_t stop = run->stop;
        memcpy(run + 1, there + 1, places);
        memcpy(told, there->told, sizeof *told);
        memcpy(run, there, sizeof *run);
        run->print = print, run->find = find, run->told = told, run->scheduler = nullptr;
        run->stop = stop;
        run->waits = 0;
    } else {
        ended(run, status);
    }
    munmap(shared, size);
    return run->fault;
}

}  // namespace atops
