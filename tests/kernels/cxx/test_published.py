"""Kernels written as published ones are: their headers, vectors, configured transfers, launches and host code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import atops
from atops import kernels as k
from atops.base.errors import DteError, InvalidType, InvalidValue, LaunchFailure
from atops.base.options import EmulatorOptions
from atops.tops.header.cxx import PLACE, cxx_header

TEXT = (Path(__file__).parent / "published.cpp").read_text(encoding="utf-8")
CHIP = (2, 12)
generator = np.random.default_rng(5)


@cache
def module() -> Any:
    """Compile the file once."""
    return k.compile_source(TEXT, "published.cpp").module()


WRONG = {  # what a kernel does with a context or with host code, and how its launch ends
    "tops_dte_ctx_t c; c.init(); c.trigger();": (DteError, "trigger of a DTE context that is not configured"),
    "tops::private_dte c; c.set_src_addr(x);": (DteError, "set_src_addr of a DTE context that is not configured"),
    "tops::private_dte c; c.config_memcpy(a, b); c.set_src_offset(0, 1);": (DteError, "which has no window in src"),
    "tops::private_dte c; c.config_slice(a, b, {0}); c.set_dst_offset(0, 1);": (DteError, "which has no window in dst"),
    "tops::private_dte c; c.config_slice(a, b, {0}); c.set_src_offset(1, 1);": (DteError, "dimension 1 of an"),
    "tops::private_dte c; c.config_slice(a, b, {0}); c.set_total_size(4);": (DteError, "is no memcpy and no memset"),
    "tops::private_dte c; c.config_memcpy(a, b); c.set_pad_config({0}, {0}, {0});": (DteError, "which pads nothing"),
    "tops::private_dte c; c.config_memcpy(a, b, 5);": (DteError, "of 5 elements, where src and dst have room for 4"),
    "tops::private_dte c; c.config_memcpy(a, b); c.set_transpose_layout({0});": (DteError, "transposes nothing"),
    "tops::private_dte c; c.config_memcpy(a, b); c.set_dst_dim_size(1, 2);": (DteError, "dimension 1 of an"),
    "tops::private_dte c; c.config_memcpy(a, b); c.trigger(); c.trigger();": (DteError, "in flight: memcpy"),
    "topsDeviceSynchronize();": (LaunchFailure, "called topsDeviceSynchronize, which is host code's"),
    "empty<<<1, 1>>>();": (LaunchFailure, "called a launch, which is host code's"),
}


@cache
def wrong() -> Any:
    """Compile a kernel for each of WRONG, `wrong_N` for the N-th, at once."""
    spans = "__local__ float l[4]; tops::mdspan a(l, 4), b(x, 4);"
    kernels = (f"__global__ void wrong_{at}(float *x) {{ {spans} {body} }}\n" for at, body in enumerate(WRONG))
    text = "#include <tops.h>\n__global__ void empty() {}\n" + "".join(kernels)
    return k.compile_source(text, "wrong.tops").module()


@pytest.mark.slow
@pytest.mark.parametrize("body", WRONG)
def test_misuse_is_named(body: str, run: Callable[..., Any]) -> None:
    """The launch ends with what is wrong, and the process goes on."""
    kind, says = WRONG[body]
    with pytest.raises(LaunchFailure, match=says) as failed:
        run("", f"wrong_{list(WRONG).index(body)}", (1, 1), np.zeros(8, np.float32), module=wrong())
    assert isinstance(failed.value.__cause__ or failed.value, kind)


def test_the_header_of_the_host_side_is_that_of_the_tables() -> None:
    """It is written by `python -m atops.tops.header.cxx`."""
    assert PLACE.read_text(encoding="utf-8") == cxx_header()


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    from math import erfc

    return np.array([each * 0.5 * erfc(-each / np.sqrt(2)) for each in x])


UNARY: list[Callable[[Any], Any]] = [np.negative, np.exp, np.square, np.sqrt, np.tanh, np.abs, gelu]
TYPES = {"f16": (np.float16, 2e-3), "bf16": (bfloat16, 2e-2), "f32": (np.float32, 1e-6)}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("count", [5, 24 * 1024, 60_001])
def test_ping_pong_with_configured_contexts(name: str, count: int, run: Callable[..., Any]) -> None:
    """Contexts are configured for the tile after the next, triggered and waited for by their events."""
    kind, tolerance = TYPES[name]
    x = generator.uniform(0.1, 2, count).astype(kind)
    for number, function in enumerate(UNARY if count == 5 else UNARY[:2]):
        found = run("", f"u_{name}", CHIP, count, x, np.empty_like(x), number, fetch=2, module=module())
        wanted = function(x.astype(np.float64))
        np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)


def test_numbers_of_a_class_of_their_own(run: Callable[..., Any]) -> None:
    """tops::half is a class around __fp16; as a parameter it is a number."""
    x = generator.uniform(-2, 2, 1000).astype(np.float16)
    found = run("", "affine_f16", (1, 1), 1000, x, np.empty_like(x), 0.5, 1.25, fetch=2, module=module())
    assert np.array_equal(found, x * np.float16(0.5) + np.float16(1.25))
    found = run("", "fill_f16", (1, 1), np.zeros(100, np.float16), 100, 1.5, module=module())
    assert (found == 1.5).all()


@pytest.mark.parametrize("name", ["f16", "f32"])
def test_rows_by_element_wise_functions(name: str, run: Callable[..., Any]) -> None:
    """convert, sub, exp and div work on arrays; vreduce_max on what a leaptr loads."""
    kind, tolerance = TYPES[name]
    x = generator.uniform(-3, 3, (30, 300)).astype(kind)
    found = run("", f"soft_{name}", CHIP, x, np.empty_like(x), *x.shape, fetch=1, module=module())
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True).astype(np.float64))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(5, 40), (25, 128)])
def test_gradients_of_a_layer_norm(m: int, n: int) -> None:
    """Windows of two rows through configured contexts; sums in L1, then in dynamic L2. Strict mode finds nothing."""
    x, dy = generator.standard_normal((2, m, n)).astype(np.float32)
    gamma = generator.standard_normal(n).astype(np.float32)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + np.float32(1e-5))
    normal, g = (x - mean[:, None]) * rstd[:, None], dy * gamma
    dx = (g - g.mean(1, keepdims=True) - normal * (g * normal).mean(1, keepdims=True)) * rstd[:, None]
    for options in (EmulatorOptions(), EmulatorOptions(strict=True)):

        async def main() -> Any:
            async with atops.Device(0).create_stream() as stream:
                given = [stream.upload(each) for each in (dy, x, gamma, mean, rstd)]
                outputs = [stream.zeros(shape, np.float32) for shape in ((m, n), n, n)]
                kernel = module().function("layer_norm_bwd")
                stream.launch(kernel, (1, 12, 2 * 12 * n * 4), *outputs, *given, m, n)
                return [(await stream.fetch(each)).copy() for each in outputs]

        for found, wanted in zip(atops.run(main, options), (dx, (dy * normal).sum(0), dy.sum(0)), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "index"), [("f32", np.float32, np.int64), ("i8", np.int8, np.int32)])
def test_rows_through_a_ring_of_contexts(name: str, kind: Any, index: Any, run: Callable[..., Any]) -> None:
    """Each context of the ring moves a row by its window while others are in flight. Strict mode finds nothing."""
    table = generator.uniform(-100, 100, (50, 200)).astype(kind)
    ids = generator.integers(-1, 52, 121).astype(index)
    known = (ids >= 0) & (ids < 50) & (ids != 7)
    wanted = np.where(known[:, None], table[np.clip(ids, 0, 49)], 0)
    for options in (None, EmulatorOptions(strict=True)):
        out = np.ones((121, 200), kind)
        given = out, table, ids, 121, 200, 50, 7
        assert np.array_equal(run("", f"embedding_{name}", CHIP, *given, module=module(), options=options), wanted)


@pytest.mark.parametrize(("name", "kind"), [("float", np.float32), ("tops::half", np.float16)])
def test_addresses_and_offsets_are_patched(name: str, kind: Any, run: Callable[..., Any]) -> None:
    """Eight contexts are configured once; each transfer changes where it reads and lands."""
    keys = generator.uniform(-1, 1, (19, 2, 4)).astype(kind)
    slots = generator.permutation(24)[:19].astype(np.int64)
    cache_ = np.zeros((6, 4, 2, 4), kind)
    found = run("", f"reshape<{name}>", (1, 12), keys, slots, cache_, 19, 2, 4, 4, fetch=2, module=module())
    wanted = cache_.reshape(24, 2, 4).copy()
    wanted[slots] = keys
    assert np.array_equal(found.reshape(24, 2, 4), wanted)


def test_shared_memory_that_is_declared_at_the_top(run: Callable[..., Any]) -> None:
    """24 MiB of it, brought by a configured transfer, and a result that is stored through mapped memory."""
    x = generator.uniform(-1, 1, 5000).astype(np.float32)
    assert np.array_equal(run("", "conv_f32", (1, 12), x, np.empty_like(x), x.size, fetch=1, module=module()), x[::-1])


def test_conversions_between_vectors(run: Callable[..., Any]) -> None:
    """A __vector2 __bf16 and a __vector4 float have the same lanes."""
    x = generator.uniform(-1, 1, (30, 128)).astype(bfloat16)
    found = run("", "norm_bf16", CHIP, x.copy(), 30, module=module())
    wide = x.astype(np.float32)
    wanted = wide / np.sqrt((wide**2).sum(axis=1, keepdims=True) + 1e-6) * sigmoid(wide)
    np.testing.assert_allclose(found.astype(np.float32), wanted, 1e-2, 1e-3)


def test_what_a_generator_writes(run: Callable[..., Any]) -> None:
    """Contexts through their base, events in objects, a class of the program's own around bfloat16."""
    x = generator.uniform(-1, 1, (50, 64)).astype(bfloat16)
    found = run("", "generated", CHIP, x, np.empty_like(x), 64, 50, 512, fetch=1, module=module())
    wide = x.astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32), -wide * (wide + sigmoid(wide)), 0, 2e-2)


def test_gather_and_integer_division_of_vectors(run: Callable[..., Any]) -> None:
    """A vector of slots is looked up in a table by byte offsets, as far as the mask goes."""
    sequence = generator.integers(0, 64, 32).astype(np.int32)
    table = generator.integers(0, 100, (32, 8)).astype(np.int32)
    found = run("", "step", (1, 1), sequence, np.zeros(32, np.int32), table, 32, 8, 8, fetch=1, module=module())
    assert np.array_equal(found, table[np.arange(32), sequence // 8] * 8 + sequence % 8)


def test_a_struct_as_a_parameter(run: Callable[..., Any]) -> None:
    """It is passed as the bytes that C has of it."""
    x = generator.uniform(-1, 1, 100).astype(np.float32)
    params = np.array([(100, 2.5)], [("n", np.int32), ("factor", np.float32)])[0]
    for given in (params, params.tobytes()):
        assert np.array_equal(run("", "by_value<float>", CHIP, x.copy(), given, module=module()), x * np.float32(2.5))
    for wrong, error in ((5, InvalidType), (b"123", InvalidValue)):
        with pytest.raises(error, match="parameter params"):
            run("", "by_value<float>", CHIP, x.copy(), wrong, module=module())


@pytest.mark.slow
def test_a_cooperative_template_by_its_name(run: Callable[..., Any]) -> None:
    """A launch in host code makes none of a template; a name expression does."""
    program = k.Program(TEXT, "published.cpp")
    program.add_name_expression("mask_kernel<float>")
    made = program.compile().module()
    x = np.array([1, 2, 1, 1, 3], np.float32)
    whole_chip = atops.LaunchConfig(*CHIP, cooperative=True)
    found = run("", "mask_kernel<float>", whole_chip, x, 1.0, np.zeros(1, np.uint32), 5, fetch=2, module=made)
    assert found[0] == 3


CONNECTED = """
__global__ void turn(float *x, float *y, int n) {
    __shared__ float l2[1024];
    __local__ __valigned__ float l1[1024];
    tops::private_cdte a;
    tops::private_dte b;
    a.connect(b);
    for (int i = 0; i < n; i += 1024) {
        tops::memcpy_async(a, tops::mdspan(tops::Shared, l2, 32, 32), tops::mdspan(tops::Global, x + i, 32, 32));
        tops::event e = tops::transpose_async(b, tops::mdspan(l1, 32, 32), tops::mdspan(l2, 32, 32), {1, 0});
        tops::wait(e);
        tops::memcpy(a, tops::mdspan(y + i, 1024), tops::mdspan(l1, 1024));
        tops::wait(tops::memcpy_async(a, tops::mdspan(l2, 1024), tops::mdspan(x + i, 1024)));
        tops::transpose(b, tops::mdspan(l1, 32, 32), tops::mdspan(l2, 32, 32), {1, 0});
    }
}
__global__ void missing(float *x) {
    __local__ float l1[4];
    tops::private_dte a, b;
    a.connect(b);
    tops::memcpy(a, tops::mdspan(l1, 4), tops::mdspan(x, 4));
    tops::memcpy(b, tops::mdspan(l1, 4), tops::mdspan(x, 4));
    tops::memcpy(b, tops::mdspan(l1, 4), tops::mdspan(x, 4));
}
__global__ void circle(float *x) { tops::private_dte a, b, c; a.connect(b); b.connect(c); c.connect(a); }
__global__ void second(float *x) { tops::private_dte a, b, c; a.connect(c); b.connect(c); }
__global__ void __low(int *x, const int *given) {
    __local__ int own[2];
    int kept = static_cast<int>(reinterpret_cast<long>(own));  // as published kernels keep addresses of L1
    *reinterpret_cast<int *>(long(kept) + 4) = given ? given[0] : -7;
    x[0] = own[1];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"seed": 3, "dte": "eager"}, {"dte": "seeded"}])
def test_connected_contexts(options: dict[str, Any], run: Callable[..., Any]) -> None:
    """Each transfer of the later context begins after one of the earlier: only the later one is waited for."""
    made = k.compile_source(CONNECTED, "connected.tops").module()
    x = generator.uniform(-1, 1, (4, 32, 32)).astype(np.float32)
    given = EmulatorOptions(**options)
    found = run("", "turn", (1, 1), x, np.empty_like(x), x.size, fetch=1, module=made, options=given)
    assert np.array_equal(found, x.transpose(0, 2, 1))
    for name, says in {"missing": "none was started", "circle": "come first already", "second": "of another"}.items():
        with pytest.raises(LaunchFailure, match=says) as failed:
            run("", name, (1, 1), np.zeros(4, np.float32), module=made, options=given)
        assert isinstance(failed.value.__cause__ or failed.value, DteError)


@pytest.mark.slow
def test_a_null_pointer_an_address_in_an_int_and_a_name_that_begins_with_underscores(run: Callable[..., Any]) -> None:
    """None is the null pointer; an address of L1 has 31 bits; a generator's names begin with underscores."""
    made = k.compile_source(CONNECTED, "connected.tops").module()
    assert made.__low is made.function("__low")
    for given, found in ((None, -7), (np.array([3], np.int32), 3)):
        assert run("", "__low", (1, 1), np.zeros(1, np.int32), given, module=made)[0] == found


OLDER = """
#include "sip30intrin.h"
#include "tcle.h"
using namespace tops;
using namespace tcle;
template <class From, class To, RoundingMode_t MODE = RoundingMode_t::RM_RZ>
__TCLE_DEVICE_TYPE__ void cast(To *to, From *from) {
    constexpr int lanes = sizeof(typename unified_scalar<From>::type) * TOPS_VECTOR_LENGTH / sizeof(From);
    using In = typename scalar_to_vector<From, lanes * sizeof(From) / sizeof(To)>::type;
    constexpr int made = sizeof(typename unified_scalar<To>::type) * TOPS_VECTOR_LENGTH / sizeof(To);
    using Out = typename scalar_to_vector<To, made>::type;
    vstore(vcast<Out>(vload<In>(from)), to);
}
__global__ void f(float *x, __half *y, int *counts) {
    using V = __vector4 float;
    __local__ __valigned__ float t[256];
    __local__ __valigned__ short from[256];
    __local__ __valigned__ int to[256];
    generic_ptr first = reinterpret_cast<tcle::generic_ptr>(x), half = reinterpret_cast<generic_ptr>(x + 64);
    auto in = tcle::leaptr<V, 1>(first, sizeof(V), half, sizeof(V));
    auto out = tcle::leaptr<V, 1>(reinterpret_cast<generic_ptr>(t + 64), -256, reinterpret_cast<generic_ptr>(t), -256);
    V v = in.template load<0>();
    out.template store<0>(v);  // its halves change places
    tcle::scatter(V(7.f), (void *)y, tcle::mid<__vector4 unsigned int>(0) * (__vector4 unsigned int)(4u));
    for (int i = 0; i < 128; ++i) x[i] = t[i];
    for (int i = 0; i < 256; ++i) from[i] = -i;
    cast<short, int>(to, from);
    counts[0] = tcle::popc_mb<0>(v > V(100.f)), counts[1] = to[100];
    counts[2] = int(tcle::extract<__vector float, 3>(v)[1]);
    counts[3] = int(rsqrtf(0.0625f) + rsqrtf(1));
}
"""


@pytest.mark.slow
def test_names_of_older_published_headers(run: Callable[..., Any]) -> None:
    """Pointers to the halves of vectors, scatters whose value comes first, conversions by sizes of unified types."""
    made = k.compile_source(OLDER, "older.tops").module()
    x = np.arange(128, dtype=np.float32)
    given = (x, np.zeros(256, np.float16), np.zeros(4, np.int32))
    assert np.array_equal(run("", "f", (1, 1), *given, module=made), np.roll(x, 64))
    assert (run("", "f", (1, 1), *given, fetch=1, module=made).view(np.float32) == 7).all()
    assert run("", "f", (1, 1), *given, fetch=2, module=made).tolist() == [27, -100, 97, 5]
