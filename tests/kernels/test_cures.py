"""What a kernel does wrong is told with the cure: in the words of the program, where it happened."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.dtypes import ELEMENTS
from atops.base.errors import DteError, InvalidType, LaunchFailure, MissingAwait
from tests.every import every
from tests.kernel_bench import Bench

total = k.device_variable(np.int32)


def _unwaited(x: Any) -> None:
    with k.dte_scope() as dte:
        k.wait(k.memcpy_async(dte, k.local(x.size, np.float32), x))


def _in_flight(x: Any) -> None:
    tile = k.local(x.size, np.float32)
    with k.dte_scope(), k.dte_scope() as second:
        k.memcpy_async(second, tile, x)
        k.memcpy_async(second, tile, x)


def _scoped(act: Callable[[Any, Any, Any], object]) -> Callable[[Any], None]:
    def body(x: Any) -> None:
        with k.dte_scope() as dte:
            act(dte, x, k.local(x.size, np.float32))

    return body


CURES: dict[str, tuple[Callable[[Any], None], str]] = {
    "a wait that is not awaited": (_unwaited, r"never awaited it; write `await`"),
    "which context": (_in_flight, r"declared at test_cures\.py:\d+ in _in_flight"),
    "arithmetic on dst": (_scoped(lambda dte, x, y: k.memcpy(dte, y + 4, x[:8])), r"the part from there on is y\[4:\]"),
    "arithmetic on src": (_scoped(lambda dte, x, y: k.memcpy(dte, y, x + 4)), r"the part from there on is y\[4:\]"),
    "an int for a tuple": (_scoped(lambda dte, x, y: k.slice(dte, y, x, 3)), r"offsets is 3; .*, as \(3,\)"),
    "an int for two": (_scoped(lambda dte, x, y: k.slice(dte, y.reshape(2, -1), x.reshape(2, -1), 3)), r"as \(3, 3\)"),
    "a number for a vector": (lambda x: k.exp(0.5), r"numpy's functions, as np.exp; .*k.vector4\[np.float32\]\(0.5\)"),
    "an array for a vector": (lambda x: k.exp(x), r"loaded by k.vector4\[np.float32\].load\(x\)"),
    "an unknown keyword": (
        _scoped(lambda dte, x, y: k.pad(dte, y, x, pad_lo=(1,))), "unexpected keyword argument 'pad_lo'; it has dst"
    ),
    "a keyword twice": (
        _scoped(lambda dte, x, y: k.slice(dte, y, x, (1,), offset=(1,))), "'offset' and 'offsets', which are one"
    ),
    "a lacking argument": (_scoped(lambda dte, x, y: k.slice(dte, y, x)), r"missing 'offsets'; its parameters are dst"),
}  # fmt: skip


@every("case", CURES)
@pytest.mark.parametrize("strict", [False, True])
def test_the_message_has_the_cure(make_bench: Callable[..., Bench], case: str, strict: bool):
    """In both modes."""
    body, said = CURES[case]
    bench = make_bench(strict=strict)
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(k.kernel(body), (1, 1), bench.empty(16))
    assert isinstance(caught.value, MissingAwait) == (case == "a wait that is not awaited")
    assert isinstance(caught.value, DteError) or "number" in case or "array" in case or case[0] == "a"


@pytest.mark.parametrize("form", ["", "_async", "config_"])
def test_the_texts_names_of_parameters_serve(bench: Bench, form: str):
    """`pad_low` is `low`, `offset` `offsets` and `const_value` `value`, in each form, by keyword."""
    x, y = bench.upload(np.arange(6, dtype=np.float32)), bench.empty((4, 10))

    @k.kernel
    async def run(x, y):
        async def do(dte, name, dst, *sources, **given):
            if form == "config_":
                getattr(dte, f"config_{name}")(dst, *sources, **given)
                dte.trigger_and_wait()
            elif form:
                await getattr(k, f"{name}_async")(dte, dst, *sources, **given)
            else:
                getattr(k, name)(dte, dst, *sources, **given)

        with k.dte_scope() as dte:
            await do(dte, "pad", y[0], x, pad_low=(2,), pad_high=(2,), pad_mid=(0,), pad_value=9)
            await do(dte, "memset", y[1], const_value=3)
            await do(dte, "slice", y[2, :4], x, offset=(1,))
            await do(dte, "deslice", y[3], x, offset=(4,))

    bench.launch(run, (1, 1), x, y)
    rows = y.host.tolist()
    assert rows[0] == [9, 9, 0, 1, 2, 3, 4, 5, 9, 9] and rows[1] == [3] * 10
    assert rows[2][:4] == [1, 2, 3, 4] and rows[3][4:] == [0, 1, 2, 3, 4, 5]


def test_a_store_that_would_be_lost_is_refused():
    """Assigning to the name of a device variable binds another name, in a kernel's text it is never meant."""

    def plain(x):
        total = 1  # noqa: F841  # the mistake
        x[0] = 1

    def declared(x):
        global total
        total = 1

    for body in (plain, declared):
        with pytest.raises(InvalidType, match=r"assigns to total, .* write total\[\.\.\.\] = \.\.\. to store"):
            k.kernel(body)

    @k.kernel
    def parameter(total):
        total[...] = 1


def test_inside_a_class_a_dunder_is_renamed():
    """Python's renaming is named, with what to write."""

    class Tile:
        def load(self):
            return k.__syncthreads()

    with pytest.raises(AttributeError, match=r"inside a class Python renames k\.__syncthreads; write k\.syncthreads"):
        Tile().load()


@every("word", [each.spelling for each in ELEMENTS.values()])
def test_words_of_c_are_types_of_c(bench: Bench, word: str):
    """Wherever the language takes an element type, C's words mean C's types."""
    expected = {each.spelling: each.dtype for each in ELEMENTS.values()}[word]
    variable = k.device_variable(word, shape=4)

    def use(x):
        made = (
            k.local(4, word), k.shared(4, word), k.private(4, word), k.local_variable(4, word), variable[...],
            k.shared_variable(4, word), k.dynamic_shared(word), x[:64].view(word), k.pointer(x).cast(word),
        )  # fmt: skip
        assert {each.dtype for each in made} == {expected}

    use.__annotations__ = {"x": k.Span["unsigned char"]}
    bench.launch(k.kernel(use), (1, 1, 64), bench.empty(64, np.uint8))


@every("kind", [int, float, complex])
def test_pythons_numbers_have_no_width(bench: Bench, kind: type):
    """Python's own types are refused where a width matters, with numpy's to choose from; bool has one."""
    takers: list[Callable[[Any], object]] = [
        lambda x: k.local(4, kind), lambda x: k.shared(4, kind), lambda x: k.private(4, kind), lambda x: x.view(kind),
        lambda x: k.dynamic_shared(kind), lambda x: k.pointer(x).cast(kind), lambda x: k.local_variable(4, kind),
    ]  # fmt: skip
    for take in takers:

        @k.kernel
        def wrong(x, take=take):
            take(x)

        with pytest.raises(LaunchFailure, match=f"Python's {kind.__name__}, which has no width; expected np"):
            bench.launch(wrong, (1, 1, 64), bench.empty(4))
    for declare in (k.device_variable, k.constant, k.Span.__class_getitem__, k.restrict.__class_getitem__):
        with pytest.raises(InvalidType, match="which has no width"):
            declare(kind)
    with pytest.raises(InvalidType, match="there is no __vector4 of"):
        k.vector4[kind]
    assert k.device_variable(bool).dtype == np.bool_


def test_a_span_is_not_pickled(bench: Bench):
    """It is memory of a device; its elements can be pickled."""

    @k.kernel
    def run(x):
        for memory in (x, x[1:]):
            with pytest.raises(InvalidType, match=r"cannot be pickled, it is memory of a device; x\.copy\(\)"):
                pickle.dumps(memory)
        assert pickle.loads(pickle.dumps(x.copy())).size == 4

    bench.launch(run, (1, 1), bench.empty(4))


def _twice(x: Any) -> None:
    with k.dte_scope() as dte:
        dte.init()


def _kept(x: Any) -> None:
    k.tops_dte_ctx_t().init()


def _shared_kept(x: Any) -> None:
    ctx = k.shared_dte_ctx()
    if k.threadIdx.x == 0:
        ctx.init()


async def _overwritten(x: Any) -> None:
    tile = k.local(8, np.float32)
    tile[:] = 1
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, x[:8], tile)
        tile[3] = 2
        await event


async def _well_behaved(x: Any) -> None:
    tile, ctx = k.local(8, np.float32), k.tops_dte_ctx_t()
    tile[:] = 1
    for _ in range(2):
        ctx.init()
        await k.slice_async(ctx, tile[4:], tile[:4], (0,))
        event = k.deslice_async(ctx, x, tile[:4], (4,))
        tile[4:] = 3  # which is not read
        await event
        ctx.destroy()


STRICT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a second init": (_twice, r"init of <private DTE context .* a second time; destroy\(\) it before"),
    "a context that is kept": (_kept, r"private DTE context .*declared at test_cures\.py:\d+ .* was never destroyed"),
    "a shared context that is kept": (_shared_kept, r"shared DTE context of block .* was never destroyed"),
    "a source that is overwritten": (_overwritten, r"source of the memcpy of .* was overwritten in flight"),
    "none of them": (_well_behaved, ""),
}


@every("case", STRICT)
@pytest.mark.parametrize("workers", [1, "sip"])
def test_strict_mode_reports_contexts_and_sources(make_bench: Callable[..., Bench], case: str, workers: int | str):
    """What the default mode lets pass is a DteError there that names the context or the transfer."""
    body, said = STRICT[case]
    make_bench(workers=workers).launch(k.kernel(body), (1, 3), make_bench().empty(16))
    bench = make_bench(workers=workers, strict=True)
    if not said:
        bench.launch(k.kernel(body), (1, 3), bench.empty(16))
        return
    with pytest.raises(DteError, match=said) as caught:
        bench.launch(k.kernel(body), (1, 3), bench.empty(16))
    assert set(re.findall(r"\w+\.py(?=:\d)", str(caught.value))) == {"test_cures.py"}
