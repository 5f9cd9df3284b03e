"""What only some of the kernels have: masks, NaNs, other filters, a full cache, and waits that are needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import AtopsError, DteError, KernelAssert

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"
NAMES = ("bitonic_sort", "convolution", "key_value_cache", "layer_norm", "rotary_embedding", "softmax")

with pytest.MonkeyPatch.context() as patch:  # a kernel finds `measured` beside it, as when it is run as a program
    patch.syspath_prepend(FOLDER)
    KERNELS = {name: importlib.import_module(name) for name in NAMES}

# Lines that a kernel cannot do without: with one of them taken away the result is wrong or the launch fails.
NEEDED = [
    ("bitonic_sort", "        await k.syncthreads()\n\n        half = 1\n", "        half = 1\n"),
    ("bitonic_sort", "    await k.syncthreads()  # no thread reads", "    pass  # no thread reads"),
    ("bitonic_sort", "        await k.syncblocks()\n", ""),
    ("bitonic_sort", "        await k.syncthreads()\n        await merge(", "        await merge("),
    ("bitonic_sort", "        k.memcpy(dte, run[chunk], tile)\n    await k.syncthreads()\n",
     "        k.memcpy(dte, run[chunk], tile)\n"),
    ("key_value_cache", "            await appended\n", ""),
    ("key_value_cache", "            await read\n", ""),
    ("rotary_embedding", "            await firsts\n            await seconds\n            for", "            for"),
    ("softmax", "await k.slice_transpose_async(", "k.slice_transpose_async("),
    ("softmax", "await k.transpose_deslice_async(", "k.transpose_deslice_async("),
]  # fmt: skip


def result_of(name: str, *arrays: Any, **options: Any) -> Any:
    """Run a kernel's program on a board of its own."""
    return atops.run(KERNELS[name].program, atops.EmulatorOptions(strict=True, **options), *arrays)


def launched(kernel: Any, config: Any, *arguments: Any) -> list[Any]:
    """Run one kernel and return what became of its arrays."""

    async def main() -> list[Any]:
        async with atops.Device(0).create_stream() as stream:
            given = [stream.upload(each) if isinstance(each, np.ndarray) else each for each in arguments]
            stream.launch(kernel, config, *given)
            await stream  # raises what the kernel failed with
            return [await stream.fetch(each) for each in given if isinstance(each, atops.DeviceArray)]

    return atops.run(main, atops.EmulatorOptions(strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "old", "new"), NEEDED, ids=[f"{name}: {old.strip()[:40]}" for name, old, _ in NEEDED])
def test_each_wait_is_needed(name: str, old: str, new: str, tmp_path: Path):
    """Without it a small problem goes wrong, in one order of the threads or another."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = tmp_path / f"{name}.py"
    path.write_text(text.replace(old, new), encoding="utf-8")  # errors show the lines of a file
    changed: dict[str, Any] = {"__name__": "changed"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), changed)
    example = changed["EXAMPLE"]
    with pytest.raises((AssertionError, AtopsError)):
        for seed in (None, 1, 2, 3):
            atops.run(example.check, atops.EmulatorOptions(strict=True, seed=seed), *example.others[-1])


def test_softmax_of_masked_and_of_broken_rows():
    """A mask is -inf and gives 0. A row without any number, with NaN or with inf is NaN, and no other row is."""
    x = np.zeros((6, 70), np.float32)
    x[0, 1:] = -np.inf
    x[1, ::2] = -np.inf
    x[2] = -np.inf
    x[3, 69] = np.nan
    x[4, 5] = np.inf
    y = result_of("softmax", x)
    assert y[0, 0] == 1 and not y[0, 1:].any()
    assert not y[1, ::2].any() and np.allclose(y[1, 1::2], 1 / 35)
    assert np.isnan(y[2:5]).all()
    assert np.allclose(y[5], 1 / 70)


def test_layer_norm_far_from_zero():
    """The variance is that of the differences: a mean of 10,000 costs no accuracy, and a row of one number is beta."""
    x = np.tile(np.array([9999, 10001], np.float32), (3, 70))
    x[1] = 7
    gamma, beta = np.full(140, 2, np.float32), np.arange(140, dtype=np.float32)
    y = result_of("layer_norm", x, gamma, beta, np.float32(0))
    assert np.array_equal(y[0], np.tile([-2, 2], 70) + beta)
    y = result_of("layer_norm", x, gamma, beta, np.float32(1e-5))
    assert np.array_equal(y[1], beta)


def test_rotary_embedding_turns_by_the_angle():
    """Position 0 changes nothing, a quarter turn exchanges the halves of a pair, and lengths stay."""
    x = np.random.default_rng(1).standard_normal((2, 3, 16), np.float32)
    y = result_of("rotary_embedding", x, np.array([0, 1, 5], np.float32), np.full(8, np.pi / 2, np.float32))
    assert np.array_equal(y[:, 0], x[:, 0])
    assert np.allclose(y[:, 1], np.concatenate([-x[:, 1, 8:], x[:, 1, :8]], axis=-1), atol=1e-6)
    assert np.allclose(np.hypot(y[..., :8], y[..., 8:]), np.hypot(x[..., :8], x[..., 8:]), atol=1e-6)


def test_a_cache_takes_what_fits_and_keeps_the_rest():
    """Appended positions are new, up to the very last one, all others as before; the windows end with them."""
    keys, values = np.random.default_rng(2).random((2, 30, 20, 8)).astype(np.float16)
    fresh = np.random.default_rng(3).random((2, 30, 4, 8)).astype(np.float16)
    kernel = KERNELS["key_value_cache"].append_and_read
    for length in (0, 7, 16):
        wanted = [keys.copy(), values.copy()]
        for cache, tokens in zip(wanted, fresh, strict=True):
            cache[:, length : length + 4] = tokens
        start = max(0, length - 2)
        found = launched(kernel, (2, 12), np.zeros((2, 30, 6, 8), np.float16), keys, values, fresh, length)
        assert all(np.array_equal(a, b) for a, b in zip(found[1:3], wanted, strict=True))
        assert np.array_equal(found[0], np.stack(wanted)[:, :, start : start + 6])


def test_a_full_cache_is_an_error_that_says_so():
    """One position too many is refused, and the window that does not fit is named."""
    keys = np.zeros((3, 20, 8), np.float16)
    fresh, windows = np.ones((2, 3, 4, 8), np.float16), np.zeros((2, 3, 6, 8), np.float16)
    kernel = KERNELS["key_value_cache"].append_and_read
    with pytest.raises(DteError, match=r"thread \(0,0,0\).* deslice: .*dimension 1.*20"):
        launched(kernel, (2, 12), windows, keys, keys.copy(), fresh, 17)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["gcu210", "gcu300"])
@pytest.mark.parametrize("make", [
    lambda x: np.zeros_like(x), np.sort, lambda x: np.sort(x)[::-1].copy(), lambda x: np.round(x),
    lambda x: np.where(x > 0, np.nan, -x), lambda x: np.copysign(np.inf, x), lambda x: np.copysign(np.float32(0), x),
], ids=["equal", "sorted", "backwards", "duplicates", "NaNs", "infinities", "zeros"])  # fmt: skip
def test_sorting_what_is_special(make: Callable[[Any], Any], chip: str):
    """The result is numpy's: NaNs last, equal ones kept; and -0 comes before 0, of which numpy says nothing."""
    x = make(np.random.default_rng(4).standard_normal(300, np.float32))
    y = result_of("bitonic_sort", x, arch=chip)
    assert np.array_equal(y, np.sort(x), equal_nan=True)
    zeros = np.signbit(y[y == 0])
    assert np.array_equal(zeros, np.sort(zeros)[::-1])


def test_sorting_needs_room():
    """Runs that are smaller than the array end the launch, by name."""
    x = np.zeros(65, np.float32)
    with pytest.raises(KernelAssert, match="the runs have room for all of x"):
        launched(KERNELS["bitonic_sort"].bitonic_sort, (2, 12), x, x, np.zeros((2, 16, 2), np.int32))


@pytest.mark.parametrize("chip", ["gcu210", "gcu300"])
@pytest.mark.parametrize("extents", [(1, 1), (1, 5), (7, 3), (5, 5)])
def test_convolution_with_other_filters(extents: tuple[int, int], chip: str):
    """Filters higher or wider than the image, and a point: each output is the sum over its window, by definition."""
    generator = np.random.default_rng(5)
    x = generator.integers(-4, 5, (2, 3, 6, 4)).astype(np.float32)
    filters = generator.integers(-4, 5, (2, 3, *extents)).astype(np.float32)
    down, across = extents
    padded = np.pad(x, ((0, 0), (0, 0), (down // 2,) * 2, (across // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, (2, 3))
    assert np.array_equal(
        result_of("convolution", x, filters, arch=chip), np.einsum("nchwij,ocij->nohw", windows, filters)
    )


@pytest.mark.parametrize(("name", "arrays", "says"), [
    ("convolution", (np.ones((1, 1, 4, 4), "f4"), np.ones((1, 1, 2, 3), "f4")), "a filter has a middle"),
    ("rotary_embedding", (np.ones((1, 2, 12), "f4"), np.ones(2, "f4"), np.ones(6, "f4")), "whole vectors"),
], ids=["an even filter", "a head of 12"])  # fmt: skip
def test_what_a_kernel_does_not_take_is_refused(name: str, arrays: tuple[Any, ...], says: str):
    """It asserts what it relies on, and the message says which."""
    with pytest.raises(AtopsError, match=says):
        result_of(name, *arrays)
