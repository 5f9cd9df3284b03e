"""The constants of executables on devices, and refit: a state machine that leaves enqueued launches alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from atops import executable
from atops.base.errors import IllegalState, InvalidHandle, InvalidValue, NotFound, NotSupported, OutOfMemory
from atops.base.trace.records import Kind
from atops.runtime.device import Device
from atops.runtime.executables.file import SectionKind
from atops.runtime.resources.bundle import create_bundle
from atops.runtime.resources.placement import BundleRequest
from tests.runtime.boards import PATIENCE, Latch, board, device, leftovers
from tests.runtime.executable_models import BIAS, WEIGHT, linear

ROWS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
NEW = np.array([7, 8, 9], np.float32)


def run(exe, stream, **options):
    """Return what the linear model makes of the rows."""
    x, y = stream.upload(ROWS), stream.empty((5, 3))
    exe.launch(stream, [x], [y], **options)
    return stream.fetch(y)


def expect(found, bias=BIAS, weight=WEIGHT):
    """Compare with what the model should have made."""
    np.testing.assert_allclose(found.wait_sync(PATIENCE), ROWS @ weight + bias, rtol=1e-6)


def write(exe, driver, bias=NEW):
    """Take the first step and store a new bias."""
    [constant] = exe.managed_constants(driver)
    constant.data[:] = bias
    constant.flag[0] = 1


def uploads(driver):
    """Return the bytes of every copy from the host, in order."""
    return [each.bytes for each in driver.tracer.records() if each.kind is Kind.COPY_H2D]


# ---- constants


def test_constants_are_uploaded_once_on_each_device():
    """By the first launch there; a launch on another stream waits for that."""
    exe = executable.build(linear(), refit=["b"])
    with board(devices=2, trace=256) as driver:
        for ordinal in (0, 1):
            here = Device(ordinal, driver)
            latch, first, second = Latch(here), here.create_stream(), here.create_stream()
            latch.hold(first)
            one = run(exe, first)
            two = run(exe, second)
            assert not two.done()
            latch.open()
            expect(one)
            expect(two)
            here.sync(PATIENCE)
        assert sorted(uploads(driver)) == [12, 12, 48, 48, 80, 80, 80, 80]
        exe.close()


def test_an_upload_that_was_aborted_is_made_again():
    """What a stream drops is no loss for the next."""
    exe = executable.build(linear())
    with device() as here:
        latch, stream = Latch(here), here.create_stream()
        latch.hold(stream)
        run(exe, stream)
        stream.abort()
        stream.sync(PATIENCE)
        expect(run(exe, here.create_stream()))


def test_nothing_is_left_after_close():
    """Copies and pinned memory go; launches that are enqueued keep what they use."""
    exe = executable.build(linear(), refit=True)
    with device() as here:
        latch, stream = Latch(here), here.create_stream()
        exe.managed_constants(here.driver)
        latch.hold(stream)
        found = run(exe, stream)
        exe.close()
        with pytest.raises(InvalidHandle):
            exe.managed_constants(here.driver)
        latch.open()
        expect(found)
        stream.close()
        latch.close()
        assert leftovers(here.driver) == {}


def test_a_device_that_was_reset_gets_the_constants_again():
    """The copies of before are dead with everything else there."""
    exe = executable.build(linear())
    with device() as here:
        expect(run(exe, here.create_stream()))
        here.reset_sync()
        expect(run(exe, here.create_stream()))


def test_loaded_constants_are_the_callers():
    """A launch takes them in the place of the executable's own, whatever their values; sizes are checked."""
    exe = executable.build(linear(), refit=["b"])
    with device() as here:
        stream = here.create_stream()
        weight, bias = exe.load_constants(stream)
        expect(run(exe, stream, constants=[weight, bias]))
        stream.copy(bias, NEW)
        expect(run(exe, stream, constants=[weight, bias]), NEW)
        expect(run(exe, stream))
        for wrong in ([weight], [bias, weight]):
            with pytest.raises(InvalidValue):
                run(exe, stream, constants=wrong)
        stream.sync(PATIENCE)
        context, kind = here.context, SectionKind.MANAGED_CONSTANT
        assert exe.section(kind, context, bias.allocation.bank).address
        for each in (weight, bias):
            each.close()
        exe.close()
        stream.close()
        assert leftovers(here.driver) == {}


def test_no_room_for_the_constants_leaves_nothing():
    """What was allocated before the failure is given back."""
    exe = executable.build(linear())
    with device() as here:
        bundle = create_bundle(here.context, BundleRequest(clusters=1, policy="affinity_only"))
        banks = bundle.memory.banks
        figures = here.context.memory.statistics().banks
        hogs = [here.allocate(figures[bank].largest_free, bank=bank) for bank in banks]
        stream = here.create_stream()
        with pytest.raises(OutOfMemory):
            exe.load_constants(stream, bundle)
        with pytest.raises(OutOfMemory):
            run(exe, stream, bundle=bundle)
        stream.sync(PATIENCE)
        for each in hogs:
            each.close()
        expect(run(exe, stream, bundle=bundle))
        exe.close()
        bundle.close()
        stream.close()
        assert leftovers(here.driver) == {}


def test_a_section_tells_where_its_copy_is():
    """0 before it is loaded, on other banks and on other devices; NotFound for a section that is not there."""
    exe = executable.build(linear(), refit=["b"])
    with board(devices=2) as driver:
        here, there = Device(0, driver), Device(1, driver)
        kind = SectionKind.MANAGED_CONSTANT
        banks = range(here.arch.banks)
        assert not any(exe.section(kind, here.context, bank).address for bank in banks)
        stream = here.create_stream()
        expect(run(exe, stream))
        [address] = filter(None, (exe.section(kind, here.context, bank).address for bank in banks))
        assert (stream.fetch(here.buffer_at(address, 12)).wait_sync(PATIENCE).view(np.float32) == BIAS).all()
        assert not any(exe.section(kind, there.context, bank).address for bank in banks)
        with pytest.raises(NotFound):
            executable.build(linear()).section(kind, here.context, 0)
        exe.close()


# ---- refit

STEPS = {
    "data": lambda exe, stream: exe.managed_constants(stream.driver),
    "functions": lambda exe, stream: exe.function_text(),
    "call": lambda exe, stream: call(exe, stream),
    "update": lambda exe, stream: exe.update(stream),
    "key": lambda exe, stream: exe.renew_key(),
}
# From each state, where a step leads; what is not there is IllegalState.
LEADS = {
    "none": {"data": "data"},
    "data": {"data": "data", "functions": "functions", "update": "updated"},
    "functions": {"data": "functions", "functions": "functions", "call": "functions", "update": "updated"},
    "updated": {"data": "data", "update": "updated", "key": "none"},
}


def call(exe, stream):
    """Call the model's function on small arrays."""
    values, factor = stream.upload(np.ones(3, np.float32)), stream.upload(np.float32(2))
    return exe.call(stream, "scaled", [values, factor], [stream.empty(3)])


@pytest.mark.slow
def test_every_order_of_steps():
    """All sequences of three steps: each is done, or IllegalState and nothing changes, as the table says."""
    with device() as here:
        stream = here.create_stream()
        for order in product(STEPS, repeat=3):
            exe, state = executable.load(DATA), "none"
            for step in order:
                target = LEADS[state].get(step)
                if target is None:
                    with pytest.raises(IllegalState, match="comes first"):
                        STEPS[step](exe, stream)
                else:
                    STEPS[step](exe, stream)
                    state = target
            exe.close()


DATA = executable.build(linear(), refit=["b"]).to_bytes()


def test_without_refit_every_step_is_refused():
    """NotSupported says how to build it."""
    exe = executable.build(linear())
    assert not exe.refittable
    with device() as here:
        stream = here.create_stream()
        for step in STEPS.values():
            with pytest.raises(NotSupported, match="refit=True"):
                step(exe, stream)


def test_only_what_has_changed_is_uploaded():
    """Later launches see it, on this device and on others; a flag that is not set leaves the constant alone."""
    exe = executable.build(linear(), refit=True)
    with board(devices=2, trace=512) as driver:
        streams = [Device(ordinal, driver).create_stream() for ordinal in (0, 1)]
        for stream in streams:
            expect(run(exe, stream))
        weight, bias = exe.managed_constants(driver)
        assert (weight.data == WEIGHT).all()
        weight.data[:] = 0
        bias.data[:] = NEW
        bias.flag[0] = 1
        before = len(uploads(driver))
        exe.update(streams[0])
        streams[0].sync(PATIENCE)
        assert uploads(driver)[before:] == [12]
        assert not bias.flag[0]
        for stream in streams:
            expect(run(exe, stream), NEW)
        exe.close()


def test_launches_before_an_update_keep_the_old_constants():
    """Though they run after it: on the same stream, and on another that stands still."""
    exe = executable.load(DATA)
    with device() as here:
        latch, held, free = Latch(here), here.create_stream(nonblocking=True), here.create_stream(nonblocking=True)
        expect(run(exe, free))
        latch.hold(held)
        old = run(exe, held)
        write(exe, here.driver)
        exe.update(free)
        new = run(exe, held)
        expect(run(exe, free), NEW)
        assert not old.done()
        latch.open()
        expect(old)
        expect(new, NEW)
        exe.close()


def test_an_update_that_is_refused_changes_nothing():
    """The flag stays, the old constants stay, and the step can be taken again."""
    exe = executable.load(DATA)
    with device() as here:
        stream, closed = here.create_stream(), here.create_stream()
        closed.close()
        expect(run(exe, stream))
        write(exe, here.driver)
        with pytest.raises(InvalidHandle):
            exe.update(closed)
        expect(run(exe, stream))
        exe.update(stream)
        expect(run(exe, stream), NEW)
        exe.close()


def test_a_function_computes_constants():
    """Its results go into the managed bytes by a copy; names and numbers are checked."""
    exe = executable.load(DATA)
    with device() as here:
        stream = here.create_stream()
        [bias] = exe.managed_constants(here.driver)
        assert '"scaled"' in exe.function_text()
        values, factor = stream.upload(BIAS), stream.upload(np.float32(10))
        result = stream.empty(3)
        assert exe.call(stream, "scaled", [values, factor], [result]).wait_sync(PATIENCE) == [(3,)]
        bias.data[:] = stream.fetch(result).wait_sync(PATIENCE)
        bias.flag[0] = 1
        exe.update(stream)
        expect(run(exe, stream), BIAS * 10)
        exe.managed_constants(here.driver)
        exe.function_text()
        with pytest.raises(NotFound, match="scaled"):
            exe.call(stream, "squared", [values], [result])
        with pytest.raises(InvalidValue):
            exe.call(stream, "scaled", [values], [result])
        exe.close()


def test_a_refitted_executable_is_saved_with_a_new_key():
    """With the old key saving is IllegalState; what is saved then has the new constants."""
    exe = executable.load(DATA)
    with device() as here:
        stream = here.create_stream()
        key = exe.section(SectionKind.MANAGED_CONSTANT, here.context, 0).section.key
        write(exe, here.driver)
        assert exe.to_bytes() == DATA  # nothing was taken over yet
        exe.update(stream)
        with pytest.raises(IllegalState, match="renew_key"):
            exe.to_bytes()
        write(exe, here.driver, NEW)
        with pytest.raises(IllegalState, match="renew_key"):
            exe.to_bytes()
        exe.update(stream)
        exe.renew_key()
        assert exe.section(SectionKind.MANAGED_CONSTANT, here.context, 0).section.key != key
        again = executable.load(exe.to_bytes())
        expect(run(again, stream), NEW)
        for each in (exe, again):
            each.close()


def test_the_pinned_memory_is_made_anew_for_another_board():
    """What one driver had is dead with it; the constants are those of the executable."""
    exe = executable.load(DATA)
    with device() as here:
        write(exe, here.driver)
    with device() as here:
        [bias] = exe.managed_constants(here.driver)
        assert (bias.data == BIAS).all()
        assert not bias.flag[0]
        exe.close()
