"""Vectors in memory: loads and stores in every space and mode, their alignment and their ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.geometry import Space
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.memory.pointer import pointer
from atops.kernels.vectors.vector_type import VectorType, vector, vector2, vector4
from tests.kernel_bench import Bench
from tests.kernels.vector_host import MASKS, TYPES, fails, in_kernel, sample

FLOAT = vector["float"]
NUMBERS = [each for each in TYPES if not each.is_mask]
vector_table = constant(np.float32, np.arange(256))
total = device_variable(np.float32, shape=64)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("space", ["local", "shared", "global"])
def test_what_is_stored_is_loaded(make_bench: Callable[..., Bench], space: str, strict: bool):
    """Each type goes to memory and comes back, alone and as an array, beside its neighbours; a load is a copy."""

    def body(x):
        for kind in NUMBERS:
            n, lanes = kind.lanes, sample(kind, 1, count=3)
            memory = {"local": k.local, "shared": k.shared}[space](4 * n, kind.element) if space != "global" else (
                x[: 4 * n * kind.element.itemsize].view(kind.element))  # fmt: skip
            memory[...] = 0
            kind.wrap(lanes[0]).store(memory, n)
            assert kind.load(memory, n).values.tobytes() == lanes[0].tobytes()
            assert not kind.load(memory).values.any() and not kind.load(memory, np.int64(2 * n)).values.any()
            kind.wrap(lanes).store(memory, n)
            rows = kind.load(memory, n, 3)
            assert rows.values.shape == (3, n) and rows.values.tobytes() == lanes.tobytes()
            single = kind.load(memory, 2 * n, count=1)
            assert single.values.shape == (1, n)
            single[0][0] = 5
            assert kind.load(memory, 2 * n).values.tobytes() == lanes[1].tobytes()

    bench = make_bench(strict=strict)
    in_kernel(bench, body, bench.empty(4096, np.uint8))


@pytest.mark.parametrize("strict", [False, True])
def test_addresses_are_aligned(make_bench: Callable[..., Bench], strict: bool):
    """Every vector type needs 128 bytes and no more; the address counts, not the index in a view."""
    bench = make_bench(strict=strict)
    x = bench.upload(np.arange(512, dtype=np.float32))

    def body(x):
        tile = k.local(512, np.float32)
        tile[...] = np.arange(512)
        for memory in (tile, x):
            assert vector4["float"].load(memory, 32)[0] == 32
            assert FLOAT.load(memory[32:], 64)[0] == 96 and FLOAT.load(memory[8:], 24)[0] == 32
            FLOAT(-1).store(memory[31:], 1)
            assert [memory[31], memory[32], memory[64]] == [31, -1, 64]

    def misaligned(x):
        for memory, offset, space in ((k.local(64, np.float32), 0, "local"), (k.shared(64, np.float32), 0, "shared"),
                                      (x, x.address, "global")):  # fmt: skip
            for act, element in (
                (lambda m: FLOAT.load(m, 4), 4),
                (lambda m: FLOAT(0).store(m, 4), 4),
                (lambda m: FLOAT.load(m[4:]), 0),
            ):
                at = rf"{space} address {offset + 16:#x} \(element {element}\); expected a multiple of 128 bytes"
                with pytest.raises(IllegalAddress, match=rf"thread \(0,0,0\).* at test_load_store.py:\d+ .*{at}"):
                    act(memory)

    in_kernel(bench, body, x)
    in_kernel(bench, misaligned, x)


@pytest.mark.parametrize("strict", [False, True])
def test_vectors_end_inside_the_memory(make_bench: Callable[..., Bench], strict: bool):
    """A vector that begins before or ends behind its memory is a fault that shows both."""

    def body(x):
        tile, shared = k.local(127, np.float32), k.shared(127, np.float32)
        for memory, space in ((x, "global"), (tile, "local"), (shared, "shared")):
            for index, count in ((-32, None), (96, None), (97, None), (128, None), (1 << 60, None), (64, 2), (0, 4)):
                last = index + 32 * (count or 1) - 1
                said = rf"of a __vector float reaches elements {index} to {last} of {space} memory that has 127"
                with pytest.raises(IllegalAddress, match=said):
                    FLOAT.load(memory, index, count)
                with pytest.raises(IllegalAddress, match=said):
                    FLOAT.wrap(np.zeros((count or 1, 32), np.float32)).store(memory, index)

    bench = make_bench(strict=strict)
    in_kernel(bench, body, bench.empty(127, np.float32))


def test_memory_has_shapes(bench: Bench):
    """The index counts elements of memory of any shape; memory with gaps has no vectors."""

    def body():
        tile = k.local((4, 32), np.float32)
        tile[...] = np.arange(128).reshape(4, 32)
        assert FLOAT.load(tile, 64)[1] == 65 and FLOAT.load(tile[2])[1] == 65
        FLOAT.load(tile, 0, 4).store(k.local((2, 2, 32), np.float32))

    in_kernel(bench, body)
    for cut in (np.s_[:, :16], np.s_[::2], np.s_[::-1]):
        fails(bench, lambda cut=cut: FLOAT.load(k.local((4, 32), np.float32)[cut]), InvalidValue, "with gaps")


@pytest.mark.parametrize("kind", MASKS, ids=str)
def test_masks_have_no_form_in_memory(bench: Bench, kind: VectorType):
    """The text says nothing of a mask's bits, so that it is neither loaded nor stored."""
    for act in (
        lambda: kind.load(k.local(kind.lanes, np.bool_)),
        lambda: kind(1).store(k.local(kind.lanes, np.bool_)),
        lambda: kind(1).store(k.local(kind.lanes, np.uint32)),
    ):
        fails(bench, act, InvalidType, f"of a {kind.name} in memory of .*; masks have no form in memory")


@pytest.mark.parametrize(
    ("act", "error", "match"),
    [
        (lambda: FLOAT.load(k.local(64, np.int32)), InvalidType, "in memory of int32; expected float32"),
        (lambda: FLOAT(1).store(k.local(64, np.int32)), InvalidType, "store of a __vector float in memory of int32"),
        (lambda: FLOAT.load(np.zeros(64, np.float32)), IllegalAddress, "an array outside this thread's memories"),
        (lambda: FLOAT.load([1.0] * 32), InvalidType, "a vector access expects"),
        (lambda: FLOAT(1).store(FLOAT(1)), InvalidType, "a vector access expects"),
        (lambda: FLOAT.load(k.local(64, np.float32), 0.5), InvalidType, "index of a load expects an integer, got 0.5"),
        (lambda: FLOAT(1).store(k.local(64, np.float32), "a"), InvalidType, "index of a store expects an integer"),
        (lambda: FLOAT.load(k.local(64, np.float32), 0, 0), InvalidValue, "count of a load is 0; expected 1 or more"),
        (lambda: FLOAT.load(k.local(64, np.float32), 0, 1.5), InvalidType, "count of a load expects an integer"),
        (lambda: FLOAT(1).store(vector_table), IllegalAddress, "store of a __vector float into constant memory"),
    ],
)
def test_what_cannot_be_loaded_or_stored(bench: Bench, act: Callable, error: type, match: str):
    """Other types, other memory, indices that are none and constants are faults."""
    fails(bench, act, error, match)


def test_variables_and_pointers_are_memory(bench: Bench):
    """Declared variables, constants and pointers are loaded from as C++ writes it."""

    def body():
        assert FLOAT.load(vector_table, 64)[3] == 67 and vector2["float"].load(pointer(vector_table) + 32)[0] == 32
        FLOAT(7).store(total, 32)
        assert FLOAT.load(total[32:]).values.tolist() == [7] * 32
        tile = k.local(64, np.float32)
        p = pointer(tile) + 32
        FLOAT(3).store(p)
        assert (FLOAT.load(p) == 3).all() and tile[32] == 3
        with pytest.raises(IllegalAddress, match=r"element 0.*a multiple of 128"):
            FLOAT.load(pointer(tile) + 8)

    in_kernel(bench, body)


def test_strict_mode_sees_each_access(make_bench: Callable[..., Bench]):
    """An observer is told the bytes of every load and store, in global memory in the default mode too."""
    for strict in (True, False):
        bench = make_bench(strict=strict)
        x = bench.empty(128, np.float32)
        seen: list[tuple] = []

        @k.kernel
        def body(x):
            tile = k.local(128, np.float32)
            v = FLOAT.load(x, 64)
            v.store(tile, 32)
            vector2["float"].load(tile, 32).store(x, 0)

        bench.launch(body, (1, 1), x, observer=lambda *event, seen=seen: seen.append(event))
        begin = x.allocation.offset
        local = [("store", Space.LOCAL, 0, 128, 128), ("load", Space.LOCAL, 0, 128, 256)] if strict else []
        expected = [("load", Space.GLOBAL, x.allocation.device, begin + 256, 128), *local,
                    ("store", Space.GLOBAL, x.allocation.device, begin, 256)]  # fmt: skip
        assert [(kind, *what) for kind, thread, what in seen if kind in ("load", "store")] == expected


def test_dead_memory_is_seen(bench: Bench):
    """A span whose allocation was freed while the kernel ran is a fault of the access."""
    x = bench.empty(64, np.float32)

    def body(x):
        bench.memory.free(allocation)
        FLOAT.load(x)

    allocation = x.allocation
    fails(bench, body, IllegalAddress, "thread", x)


def test_many_views_are_not_kept(bench: Bench):
    """A kernel that cuts a view for each access gets the right bytes, and what it keeps of them has a bound."""

    def body():
        tile = k.local((300, 32), np.float32)
        tile[...] = np.arange(300)[:, None]
        for index in range(300):
            assert FLOAT.load(tile[index])[9] == index
            FLOAT(-index).store(tile[index])
        assert tile[:, 4].tolist() == [-index for index in range(300)]
        sites = k.builtin_variables.current_thread().sites
        assert max(len(each) for each in sites.values() if isinstance(each, dict)) <= 64

    in_kernel(bench, body)
