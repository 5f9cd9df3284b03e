"""What programs that come from other libraries get wrong: each is refused with the object, the value and the cure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from operator import iadd
from typing import Any

import anyio
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.errors import AtopsError, InvalidType, InvalidValue
from tests.every import every
from tests.runtime.boards import board, device


class NoMethod:
    """A stream of another library, wrongly."""

    __tops_stream__ = 7


class Raises:
    """One whose handle cannot be had."""

    def __tops_stream__(self) -> tuple[int, int]:
        """Raise."""
        raise RuntimeError("the context is gone")


class Answers:
    """One that answers another protocol."""

    def __tops_stream__(self) -> tuple[int, int]:
        """Return a bare handle."""
        return 7  # type: ignore[return-value]  # the mistake


@k.kernel
def nothing(x: Any) -> None:
    """Do nothing."""


def entered(thing: Any) -> None:
    """Enter it."""
    try:
        with thing:
            pass
    finally:
        assert not hasattr(thing, "__enter__") and not isinstance(thing, AbstractContextManager)
        if isinstance(thing, atops.Driver):
            thing.close()


async def entered_async(thing: Any) -> None:
    """Enter it."""
    async with thing:
        pass


def run(coroutine: Any) -> None:
    """Run a coroutine that does not wait."""
    with suppress(StopIteration):
        coroutine.send(None)


ON_THE_HOST = r"^<DeviceArray .*> is device memory, and the host computes nothing with it; stream\.launch\(.*fetch"

# A mistake with a device, a stream and an array of it, and what the error must say.
MISTAKES: list[tuple[Callable[[Any, Any, Any], object], str]] = [
    (lambda *_: atops.Buffer(16), r"Buffer\(16\) makes no memory; use device\.allocate\(nbytes\)"),
    (lambda *_: atops.Buffer(None), r"Buffer\(None\) makes no memory"),
    (lambda *_: atops.DeviceArray(16), r"DeviceArray\(16, \.\.\.\) makes no memory; use device\.empty\("),
    (lambda *_: atops.DeviceArray((4,), np.float32), r"makes no memory; use device\.empty"),
    (lambda *_: atops.HostArray(4), r"HostArray\(4, \.\.\.\) makes no memory; use device\.host_malloc"),
    (lambda *_: atops.Completion(), r"Completion\(\) makes no command; a verb of a stream gives one"),
    (lambda *_: atops.Event(), r"makes no event; use device\.create_event\(\)"),
    (lambda *_: atops.Event(enable_timing=True), r"Event\(\) has no argument 'enable_timing'; use device"),
    (lambda *_: atops.Event(blocking=True), r"has no argument 'blocking'; use device\.create_event"),
    (lambda *_: atops.Driver(devices=2), r"Driver\(\) has no argument 'devices'; use atops\.Driver\("),
    (lambda *_: atops.Driver(device=2), r"Driver\(\) has no argument 'device'; it takes options, name, executor"),
    (lambda *_: atops.Driver(None, "a"), r"takes .*; expected Driver\(options=None, \*, name='', executor=None\)"),
    (lambda *_: atops.EmulatorOptions(device=2), r"Options\(\) has no argument 'device'; did you mean 'devices'\?"),
    (lambda *_: atops.EmulatorOptions.from_environment({}, sed=2), r"no argument 'sed'; did you mean 'seed'\?"),
    (lambda *_: atops.EmulatorOptions(zebra=2), r"has no argument 'zebra'; it takes arch, devices"),
    (lambda *_: atops.Stream(non_blocking=True), r"Stream\(non_blocking=True\) makes no stream; use device\.create"),
    (lambda *_: atops.StreamTask(), r"StreamTask\(\) makes no task; use stream\.create_task\(coroutine\)"),
    (lambda *_: atops.Pipeline(), r"Pipeline\(\) makes no pipeline; use atops\.pipeline\(source, \*stages\)"),
    (lambda *_: atops.Buffer(), r"Buffer\(None\) makes no memory; use device\.allocate"),
    (lambda *_: atops.DeviceArray(), r"makes no memory; use device\.empty"),
    (lambda *_: atops.HostArray(), r"makes no memory; use device\.host_malloc"),
    (lambda d, *_: d.create_stream(1), r"create_stream\(\) takes .*; expected Device\.create_stream\(\*, priority=0"),
    (lambda d, *_: d.create_stream(priorty=1), r"no argument 'priorty'; did you mean 'priority'\?"),
    (lambda d, *_: d.allocate(), r"allocate\(\) missing .*'nbytes'; expected Device\.allocate\(nbytes"),
    (lambda d, s, x: x + 1, ON_THE_HOST),
    (lambda d, s, x: 1 + x, ON_THE_HOST),
    (lambda d, s, x: x @ x, ON_THE_HOST),
    (lambda d, s, x: -x, ON_THE_HOST),
    (lambda d, s, x: abs(x), ON_THE_HOST),
    (lambda d, s, x: x < 1, ON_THE_HOST),
    (lambda d, s, x: iadd(x, x), ON_THE_HOST),
    (lambda d, s, x: np.ones(4) * x, r"is device memory, no array; await stream\.fetch"),
    (lambda *_: entered(atops.Driver()), r"`with` takes no Driver; use `async with driver:`"),
    (lambda d, s, x: entered(s.record()), r"`with` takes no Event; use `await event`, or event\.sync\(\)"),
    (lambda d, s, x: entered(s.call(int)), r"`with` takes no Completion; use `await completion`, or completion\.wait_"),
    (lambda d, *_: run(entered_async(d)), r"`async with` takes no Device; use `with device:`"),
    (lambda d, s, x: run(entered_async(s.record())), r"`async with` takes no Event; use `await event`"),
    (lambda *_: atops.Driver(seed=7), r"no argument 'seed'; use .*EmulatorOptions\(seed=\.\.\.\)\)"),
    (lambda d, *_: d.allocate(16, stream=None), r"has no argument 'stream'; use stream\.allocate\(nbytes\)"),
    (lambda d, *_: d.empty(4, stream=None), r"empty\(\) has no argument 'stream'; use stream\.empty"),
    (lambda d, *_: d.zeros(4, stream=None), r"zeros\(\) has no argument 'stream'; use stream\.zeros"),
    (lambda d, *_: d.create_stream(non_blocking=True), r"no argument 'non_blocking'; use nonblocking=True"),
    (lambda d, *_: d.create_stream(flags=1), r"no argument 'flags'; use nonblocking=True"),
    (lambda d, *_: d.create_stream(options=1), r"no argument 'options'; use its fields"),
    (lambda d, *_: d.create_event(enable_timing=True), r"has no argument 'enable_timing'; use timing"),
    (lambda d, *_: d.create_event(blocking=True), r"no argument 'blocking'; use none: event\.sync\(\) blocks"),
    (lambda d, *_: d.create_event(interprocess=True), r"no argument 'interprocess'; use topsEventCreateWithFlags"),
    (lambda _, s, x: s.wait(NoMethod()), r"__tops_stream__ of NoMethod is 7; expected a method"),
    (lambda _, s, x: s.wait(Raises()), r"__tops_stream__ of Raises raised RuntimeError\('the context is gone'\)"),
    (lambda _, s, x: s.wait(Answers()), r"__tops_stream__ of Answers returned 7; expected \(0, handle\)"),
    (lambda _, s, x: nothing[1, 1, NoMethod()](x), r"__tops_stream__ of NoMethod is 7"),
    (lambda _, s, x: nothing[1, 1, Raises()](x), r"__tops_stream__ of Raises raised RuntimeError"),
    (lambda *_: atops.ExternalStream(NoMethod()), r"__tops_stream__ of NoMethod is 7"),
    (lambda *_: atops.ExternalStream(Raises()), r"__tops_stream__ of Raises raised RuntimeError"),
    (lambda _, s, x: atops.launch_together([(Raises(), nothing, (1, 1), x)]), r"__tops_stream__ of Raises raised"),
]  # fmt: skip


def test_mistakes_are_named() -> None:
    """Every one is an InvalidType, so a TypeError, too."""
    with device() as place:
        stream, array = place.create_stream(), place.zeros(4)
        found = []
        for number, (mistake, expected) in enumerate(MISTAKES):
            try:
                with pytest.raises(InvalidType, match=expected):
                    mistake(place, stream, array)
            except (Exception, pytest.fail.Exception) as error:
                found.append(f"{number}: {error}")
        assert not found, "\n".join(found)


def test_a_flag_is_a_bool_and_a_number_of_streams_an_int() -> None:
    """A text such as "no" is true, and half a stream is none."""
    with device() as place:
        for name in ("timing", "once", "queryable"):
            with pytest.raises(InvalidValue, match=f"^{name} is 'no'; expected True or False"):
                place.create_event(**{name: "no"})
            with pytest.raises(InvalidValue, match=f"^{name} is 'no'; expected True or False"):
                place.create_stream().record(**{name: "no"})
        with pytest.raises(InvalidValue, match=r"^nonblocking is 'yes'; expected True or False"):
            place.create_stream(nonblocking="yes")
        with pytest.raises(InvalidValue, match=r"^streams is 2\.5; expected an int, at least 1"):
            atops.pipeline([], nothing, device=place, streams=2.5)


def test_what_a_streams_method_raises_is_the_cause() -> None:
    """An error of this library comes out as it is."""
    with device() as place:
        with pytest.raises(InvalidType) as caught:
            place.create_stream().wait(Raises())
        assert isinstance(caught.value.__cause__, RuntimeError)


AWAITS: dict[str, tuple[Callable[[Any, Any, Any, Any], Any], str]] = {
    "upload": (lambda d, s, e, x: s.upload(np.zeros(4)), r"upload\(\) gives nothing to await; use upload\(\) alone"),
    "free": (lambda d, s, e, x: s.free(x), r"free\(\) gives nothing to await; use free\(\) alone"),
    "stream": (lambda d, s, e, x: s.sync(), r"sync\(\) gives nothing to await; use `await stream`"),
    "device": (lambda d, s, e, x: d.sync(), r"sync\(\) gives nothing to await; use `await device\.wait\(\)`"),
    "event": (lambda d, s, e, x: e.sync(), r"sync\(\) gives nothing to await; use `await event`"),
}


@pytest.mark.anyio
async def test_awaiting_what_is_no_awaitable() -> None:
    """Refused before anything is done, and only where it is awaited."""
    with device() as place:
        stream = place.create_stream()
        event, array = stream.record(), stream.empty(4)
        with pytest.raises(InvalidType, match=AWAITS["upload"][1]):
            await stream.upload(np.zeros(4))  # type: ignore[misc]  # the mistakes
        with pytest.raises(InvalidType, match=AWAITS["free"][1]):
            await stream.free(array)  # type: ignore[func-returns-value]
        with pytest.raises(InvalidType, match=AWAITS["stream"][1]):
            await stream.sync()  # type: ignore[func-returns-value]
        with pytest.raises(InvalidType, match=AWAITS["device"][1]):
            await place.sync()  # type: ignore[func-returns-value]
        with pytest.raises(InvalidType, match=AWAITS["event"][1]):
            await event.sync(timeout=2)  # type: ignore[func-returns-value]
        with pytest.raises(InvalidType, match=r"abort\(\) gives nothing to await; use abort\(\) alone; `await stream`"):
            await stream.abort()  # type: ignore[misc]
        with pytest.raises(InvalidType, match=r"close\(\) gives nothing to await; use `await stream\.aclose\(\)`"):
            await stream.close()  # type: ignore[func-returns-value]
        with pytest.raises(InvalidType, match=r"close\(\) gives nothing to await; use `await driver\.aclose\(\)`"):
            await place.driver.close()  # type: ignore[misc]
        for call, _ in AWAITS.values():
            call(place, stream, event, array)
        assert (await stream.fetch(stream.upload(np.arange(3)))).tolist() == [0, 1, 2]
        stream.sync()
        await anyio.lowlevel.checkpoint()


@pytest.mark.slow
def test_what_blocks_may_be_called_by_no_python() -> None:
    """As from `atexit`."""
    program = (
        "import atexit, atops; driver = atops.Driver(); stream = driver.device(0).create_stream(); "
        "[atexit.register(call) for call in (driver.close, stream.close, stream.abort, stream.record().sync)]"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@every("module, name, cure", [
    ("atops", "cuda", r"atops has no cuda; use atops\.Device\(0\)"),
    ("atops", "synchronize", r"atops has no synchronize\(\); use atops\.Device\(\)\.sync\(\)"),
    ("atops", "ndarray", r"use atops\.DeviceArray"),
    ("atops.kernels", "program_id", r"k has no program_id\(\); use k\.blockIdx\.x"),
    ("atops.kernels", "float32", r"k has no float32; use np\.float32"),
    ("atops.kernels", "max", r"k has no max\(\); use np\.max\(tile\)"),
    ("atops.tops", "cudaMalloc", r"atops\.tops has no cudaMalloc; use topsMalloc"),
    ("atops.tops", "hipStreamSynchronize", r"use topsStreamSynchronize"),
])  # fmt: skip
def test_names_that_are_imported(module: str, name: str, cure: str) -> None:
    """An import tells the cure as well as an attribute does; `hasattr` knows nothing of it."""
    with pytest.raises(ImportError, match=cure):
        exec(f"from {module} import {name}", {})
    with pytest.raises(AttributeError, match=cure):
        eval(f"module.{name}", {"module": sys.modules[module]})
    assert not hasattr(sys.modules[module], name)
    with pytest.raises(ImportError, match="nothing_such"):
        exec(f"from {module} import nothing_such", {})


def test_devices_of_two_drivers_are_told_apart() -> None:
    """By the number and the name of the driver."""
    with board() as one, board() as other:
        first, second = repr(atops.Device(0, one)), repr(atops.Device(0, other))
        assert first != second and f"<Device 0 of Driver {one.number}: " in first
    named = atops.Driver(atops.EmulatorOptions(trace=0), name="serving")
    assert f"<Device 0 of Driver {named.number} 'serving': " in repr(named.device(0))
    named.close()


@pytest.mark.slow
@every("options, said", [
    (["--devices", "99"], "--devices is '99'; expected 0 to 8"),
    (["--devices=99"], "--devices is '99'"),
    (["--seed", "x"], "argument --seed: invalid int value: 'x'"),
    (["--workers", "0"], "--workers is '0'"),
])  # fmt: skip
def test_options_of_the_command_are_blamed_by_name(options: list[str], said: str) -> None:
    """And not the variable of the environment that stands for it inside."""
    done = subprocess.run(
        [sys.executable, "-m", "atops", "run", *options, "none.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and said in done.stderr and "ATOPS_" not in done.stderr, done.stderr
    assert issubclass(InvalidType, AtopsError)
