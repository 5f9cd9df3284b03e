"""Synchronisation, printing, assertions and kernel signals as a table: TOPS C++, 8.8, and what 8.2's examples use."""

from __future__ import annotations

from atops.base.c_format import CONVERSIONS
from atops.device.memory.value_wait import Condition
from atops.kernels.tables.construct import Construct

__all__ = ("SYNC",)

_AWAITED = "an `await`, for a thread can be suspended here; one that is forgotten is an error that names its line"
_HOST_ONLY = "the texts name the host's functions only (Runtime API, 2.11); here kernels have their own"

SYNC: tuple[Construct, ...] = (
    Construct(
        "8.8", "void __syncthreads()", "await k.syncthreads()",
        "All threads of the block wait until each of them has come here.",
        differs=f"{_AWAITED}; `k.__syncthreads` is the same function",
    ),
    Construct(
        "8.8", "void __syncblocks()", "await k.syncblocks()",
        "All threads of the grid wait until each of them has come here; the kernel must be cooperative.",
        differs=f"{_AWAITED}; in a grid that is not cooperative it is an error at the call; "
        "`k.__syncblocks` is the same function",
    ),
    Construct(
        "8.8", "enum BarrierScope { SIP = 0, CLUSTER = 1 }", "k.BarrierScope.SIP, k.BarrierScope.CLUSTER",
        "Whose threads a barrier counts: those of one block, or in a cooperative grid those of all its blocks.",
        differs="the text does not say what the scopes mean; an arrival from outside the scope is an error",
    ),
    Construct(
        "8.8", "tte::barrier<BarrierScope>(int count)", "k.barrier(scope, count)",
        "Make a barrier whose phases end when `count` threads have arrived; the scope's threads share it by its line.",
        differs="the scope is an argument; a count below 1, above the scope's threads, or other than another "
        "thread's is an error",
    ),
    Construct(
        "8.8", "tte::barrier::arrive()", "b.arrive()",
        "Arrive without waiting; the arrival that brings the count to zero releases who waits and begins a new phase.",
        differs="it returns a token of the phase, which `wait` takes",
    ),
    Construct(
        "8.8", "void tte::barrier::wait()", "await b.wait(token=None)",
        "Wait for the end of the phase of this thread's last arrival, or of the token's; at once where it is over.",
        differs=f"{_AWAITED}; the text has no token; a thread that never arrived waits for the current phase",
    ),
    Construct(
        "8.8", "void tte::barrier::arrive_and_wait()", "await b.arrive_and_wait()",
        "Arrive, and wait for the end of that phase.",
        differs=_AWAITED,
    ),
    Construct(
        "8.2", "int printf(const char* format, ...)", "k.printf(format, *arguments)",
        "Print as C does; the host shows it when the launch is over, before whoever awaits it goes on.",
        tuple(f"%{conversion}" for conversion in CONVERSIONS),
        differs="arguments that do not fit their conversions, undefined in C, are errors; a full FIFO loses its "
        "oldest texts, and the host logs how many",
    ),
    Construct(
        "2.3", "void assert(expression)", "k.assert_(condition, message=None)",
        "End the launch with KernelAssert, which is topsErrorAssert, unless the condition holds.",
        differs="the texts name the error code only; Python's own `assert` ends a launch alike",
    ),
    Construct(
        "2.11", "topsKernelSignalRead", "k.signal_read(handle)",
        "Return the 32-bit value of a kernel signal.",
        differs=_HOST_ONLY,
    ),
    Construct(
        "2.11", "topsKernelSignalWrite", "k.signal_write(handle, value)",
        "Set a kernel signal and let those go on whose wait it satisfies.",
        differs=_HOST_ONLY,
    ),
    Construct(
        "2.11", "", "k.signal_add(handle, value=1)",
        "Add to a kernel signal in one step and return the value before.",
        differs="the texts have no such function",
    ),
    Construct(
        "2.11", "", 'await k.signal_wait(handle, value, condition="gte")',
        "Wait until a kernel signal meets a condition, as the runtime's value waits compare.",
        tuple(each.name.lower() for each in Condition),
        differs="the texts have no such function",
    ),
)  # fmt: skip
