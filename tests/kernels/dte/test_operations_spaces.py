"""Every DTE operation between every pair of memory spaces, through a kernel thread, against the oracles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, random_array
from tests.device.transform_oracles import cells, expected
from tests.every import every

pytestmark = pytest.mark.slow

SPACES = ("global", "shared", "local")
WAYS = [(*pair, waits) for pair in itertools.product(SPACES, repeat=2) for waits in (False, True)]
BOTH = list(OPERATIONS)
FIRST = [name for name in BOTH if OPERATIONS[name].gcu_arch == 210]
MODES: list[dict[str, Any]] = [{}, {"strict": True}, {"dte": "eager"}]


def attempt(bench: Any, name: str, *, shared_context: bool) -> None:
    """Run an operation between each pair of spaces, at once and asynchronously; compare each result with the oracle.

    With a block's shared context demand that local memory is refused and nothing moves.
    """
    case = EXAMPLES[name]
    forms = {waits: getattr(k, f"{name}_async" if waits else name) for waits in (False, True)}
    before = random_array(case.dst, case.dst_kind, 2)
    source = random_array(case.src or (1,), case.src_kind)
    results = bench.empty((len(WAYS), *before.shape), before.dtype)
    sources = bench.empty((len(WAYS), *source.shape), source.dtype)
    refused = []

    @k.kernel
    async def run(results, sources, start, source, far_dst, far_src):
        into = {"global": far_dst, "shared": k.shared(start.shape, start.dtype),
                "local": k.local(start.shape, start.dtype)}  # fmt: skip
        out = {"global": far_src, "shared": k.shared(source.shape, source.dtype),
               "local": k.local(source.shape, source.dtype)}  # fmt: skip
        with k.dte_scope() as own, k.dte_scope(k.shared_dte_ctx() if shared_context else None) as context:
            for way, (to, origin, waits) in enumerate(WAYS):
                dst, src = into[to], out[origin]
                k.memcpy(own, dst, start)
                k.memcpy(own, src, source)
                operands = (dst,) if case.src is None else (dst, src)
                try:
                    done = forms[waits](context, *operands, **case.parameters)
                    if waits:
                        await done
                except DteError as error:
                    refused.append((to, origin, waits))
                    assert "lies in local memory; a shared DTE context" in str(error)
                k.memcpy(own, results[way], dst)
                k.memcpy(own, sources[way], src)

    memory = bench.upload(before), bench.upload(source), bench.upload(before), bench.upload(source)
    bench.launch(run, (1, 1), results, sources, *memory)
    after = expected(name, before, None if case.src is None else source, **case.parameters)
    for (to, origin, waits), result in zip(WAYS, results.host, strict=True):
        local = to == "local" or (origin == "local" and case.src is not None)
        assert ((to, origin, waits) in refused) is (shared_context and local)
        assert cells(result) == (cells(before) if (to, origin, waits) in refused else after)
    assert all(np.array_equal(each, source) for each in sources.host)


@every("mode", MODES, ids=str)
@every("name", BOTH)
def test_a_private_context_moves_between_any_two_spaces(make_bench: Any, name: str, mode: dict[str, Any]):
    """Global, shared and local memory, each to each and to itself, at once and asynchronously, in every mode."""
    attempt(make_bench(**mode), name, shared_context=False)


@every("name", BOTH)
def test_a_shared_context_moves_between_global_and_shared_memory(make_bench: Any, name: str):
    """Local memory on either side is refused before anything moves."""
    attempt(make_bench(), name, shared_context=True)


@every("shared_context", [False, True])
@every("name", FIRST)
def test_gcu210_has_the_first_table(make_bench: Any, name: str, shared_context: bool):
    """The eleven move between all spaces there too, though its kernels cannot index global memory."""
    attempt(make_bench(arch="gcu210"), name, shared_context=shared_context)


@every("name", [name for name in BOTH if set(OPERATIONS[name].parameters) - {"value"}])
def test_parameters_count_as_they_are_at_the_issue(make_bench: Any, name: str):
    """A list that the kernel changes before the wait, for its next transfer, changes nothing in this one."""
    bench, case = make_bench(), EXAMPLES[name]
    before, source = random_array(case.dst, case.dst_kind, 2), random_array(case.src, case.src_kind)
    x, y = bench.upload(source), bench.upload(before)

    @k.kernel
    async def run(x, y):
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in case.parameters.items()}
        with k.dte_scope() as dte:
            event = getattr(k, f"{name}_async")(dte, y, x, **given)
            for numbers in given.values():
                if isinstance(numbers, list):
                    numbers[:] = [n + 1 for n in numbers]
            await event

    bench.launch(run, (1, 1), x, y)
    assert cells(y.host) == expected(name, before, source, **case.parameters)
