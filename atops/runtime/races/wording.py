"""What a race between two commands is called, and what would order them."""

from __future__ import annotations

import re
from typing import Final

from atops.device.call_site import Site
from atops.device.memory.allocation import Allocation
from atops.device.races.race import Access
from atops.runtime.races.command_clock import Epoch

__all__ = (
    "FREE", "access_of", "advice_for", "api_of", "kind_of", "left_out", "line_of", "unseen", "unused",
)  # fmt: skip

FREE, ALLOC = "free", "alloc"
STAGES: Final = re.compile(r"pipeline \d+")  # the labels of a pipeline's streams
C_STYLE: Final = re.compile("(tops|hip)[A-Z]")  # names of functions


def access_of(epoch: Epoch, write: bool, device: int) -> Access:
    """Return a command as one side of a race. `device`: where the memory is."""
    where = "" if epoch.device == device or device < 0 else f" of device {epoch.device}"
    does = f"{epoch.words} {'writes' if write else 'reads'}"
    does = {FREE: "frees it", ALLOC: "allocates it", "wait_value": "waits for a value in it"}.get(epoch.words, does)
    command = f"command {epoch.seq}"
    if epoch.line is not None:
        what = f"{epoch.words}, enqueued at {epoch.site}, {'writes' if write else 'reads'}"
        return Access(f"{epoch.label}{where}", what, write, epoch.line, command, epoch.seq)
    return Access(f"{epoch.label}{where}", does, write, epoch.site, command, epoch.seq)


def kind_of(earlier: Epoch, later: Epoch) -> str:
    """Return what a race is called."""
    words = earlier.words, later.words
    if words[0] == FREE:
        return "use after free" if words[1] != FREE else "freed twice"
    if words[1] == FREE:
        return "freed while in use"
    if ALLOC in words:
        return "used before it is allocated"
    return "data race"


def advice_for(kind: str, earlier: Epoch, later: Epoch) -> str:
    """Say which lines would order two commands that nothing orders now."""
    first, second = (later, earlier) if kind == "use after free" or later.words == ALLOC else (earlier, later)
    if first.order == second.order:
        return "nothing orders them"
    if STAGES.fullmatch(first.label) and STAGES.fullmatch(second.label):
        return (
            f"nothing orders them, for the chunks of a pipeline run beside each other: have the stage allocate what it "
            f"stores to, for each chunk ({line_of(first.site)}); where the chunks share it by right, "
            "`atops.pipeline(..., streams=1)` orders them"
        )
    api = api_of(second.site)
    one, two = _name(first, api), _name(second, api)
    if api:
        events = f"{api}EventRecord(event, {one}); {api}StreamWaitEvent({two}, event, 0)"
        host = f"`{api}StreamSynchronize({one})`"
    else:
        events, host = f"event = {one}.record(); {two}.wait(event)", "an `await` of the first"
    one_line, other_line = line_of(first.site), line_of(second.site)
    between = f"between {one_line} and {other_line}" if one_line != other_line else f"behind {one_line}, each time,"
    if first.device == second.device and "null stream" in (first.label, second.label):
        return (
            f"nothing orders them, for a nonblocking stream takes no part in null-stream order; `{events}` {between} "
            f"would, or {host} before the second"
        )
    if met := _met(first, second):
        return f"nothing orders them; {met}; where {one_line} is to come first, `{events}` {between} would order them"
    if met := _met(second, first):
        return (
            f"nothing orders them; {met}; where {other_line} is to come first, have {one} wait, before {one_line}, for "
            f"a value that {two} writes behind {other_line}"
        )
    return (
        f"nothing orders them; `{events}` {between} would, or {host} before the second is enqueued"
        f"{_waits(first, second)}"
    )


def _met(side: Epoch, other: Epoch) -> str:
    """Say what has met the newest wait for a value before `side`, if that is known: `other` may come later."""
    if side.waited is None or side.waited.met is None:
        return ""
    met = " and ".join(dict.fromkeys(line_of(Site(*each)) for each in side.waited.met))
    return (
        f"the wait for a value at {line_of(Site(*side.waited.place))} was met by "
        f"{met or 'the value that was there before'}: where {line_of(other.site)} is to come first, wait for a "
        "value that nothing writes before that is over"
    )


def _waits(first: Epoch, second: Epoch) -> str:
    """Say why the newest wait for an event before the second does not put the first before it, if that is known."""
    if second.waited is None or second.waited.met is not None:
        return ""
    wait, record = line_of(Site(*second.waited.place)), second.waited.record
    if record is None:
        return f"; the wait at {wait} is none: nothing had recorded its event when it was enqueued"
    order, seq, place = record
    if order == first.order and seq < first.seq:
        return f"; the wait at {wait} is for {line_of(Site(*place))}, which the first comes after"
    return ""


def api_of(site: Site | None) -> str:
    """Return "tops" or "hip" where the program's function there calls that C-style API, and "" where it calls none."""
    names = () if site is None else site.code.co_names
    return next((found[1] for name in names if (found := C_STYLE.match(name)) is not None), "")


def _name(epoch: Epoch, api: str) -> str:
    """Return how a program would name a stream: by its label, as far as that is a name."""
    if api and epoch.label == "null stream":
        return "0"
    return epoch.label.replace(" ", "_")


def line_of(site: Site) -> str:
    """Return a place as `line 12 of program.py`."""
    name = str(site).split(" in ")[0]
    file, _, line = name.rpartition(":")
    return f"line {line} of {file}"


def left_out(kernel: str) -> str:
    """Say that a kernel has ended by a failure, so that not all of it ran."""
    return f"what the threads of kernel {kernel} do behind the failure of a launch of it"


def unseen(memory: Allocation) -> str:
    """Say which accesses to memory that numpy, or another process, may use at any time were not seen."""
    if memory.device is None:
        return f"what numpy does with {memory.where} allocated at {memory.site}"
    return f"what others do with memory of device {memory.device} allocated at {memory.site}"


def unused(memory: Allocation, epoch: Epoch) -> str:
    """Say that a copy brings the host nothing but what no command has stored, and what is not known of it."""
    return (
        f"what the host does with the bytes of the {epoch.words} at {epoch.site}: nothing has stored to any of them "
        f"since they were allocated at {memory.site}"
    )
