"""The file of an executable: whatever is cut off, changed or forged is InvalidImage, and opening runs nothing."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from atops import executable
from atops.base.errors import InvalidImage, InvalidType
from atops.runtime.executables.file import ALIGNMENT, ExecutableFile, SectionKind
from tests.every import every
from tests.runtime.executable_models import endless, fixed, linear

HEADER = 56  # bytes, of which the last 32 are the digest
ROW = 40
SEARCH = settings(max_examples=150, deadline=None, derandomize=True)
GOOD = executable.build(endless(), refit=["yes"]).to_bytes()  # running any of it never ends
LAYER = executable.build(linear(), refit=["b"]).to_bytes()


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Fail where a graph, or a single operator, is evaluated."""
    ran = AssertionError("an operator was run")
    whole, single = (mock.patch.object(kind, "run", side_effect=ran) for kind in (ReferenceEvaluator, OpRun))
    with whole, single:
        yield


def sealed(data: bytes | bytearray) -> bytes:
    """Return a file with the size and the digest that its header should have: what a forger would do."""
    data = bytearray(data)
    if len(data) >= HEADER:
        data[16:24] = struct.pack("<Q", len(data))
        data[24:HEADER] = bytes(32)
        data[24:HEADER] = hashlib.sha256(data).digest()
    return bytes(data)


def opens_or_is_refused(data: bytes) -> bool:
    """Open a file; return whether it could be. Anything but InvalidImage fails the test, and so does running any."""
    with nothing_runs():
        try:
            executable.load(data)
        except InvalidImage as error:
            assert str(error)
            return False
    return True


def with_sections(data: bytes, **contents: bytes | None) -> bytes:
    """Return a file with other contents in some sections, all sums right; None leaves a section out."""
    found = {each.kind: each.content for each in ExecutableFile.from_bytes(data).sections}
    for name, content in contents.items():
        if content is None:
            del found[SectionKind[name]]
        else:
            found[SectionKind[name]] = content
    return ExecutableFile.of(found).to_bytes()


def edited(data: bytes, name: str, change) -> bytes:
    """Return a file with the records of one section changed by `change`."""
    rows = json.loads(ExecutableFile.from_bytes(data).content(SectionKind[name]))
    change(rows)
    return with_sections(data, **{name: json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()})


def with_graph(data: bytes, change) -> bytes:
    """Return a file whose graph was changed by `change`."""
    model = ModelProto.FromString(ExecutableFile.from_bytes(data).content(SectionKind.CODE))
    change(model)
    return with_sections(data, CODE=model.SerializeToString())


def test_the_guard_notices_a_run():
    """What the tests here rely on: a graph that is run is noticed."""
    exe = executable.load(GOOD)
    with nothing_runs(), pytest.raises(AssertionError):
        exe._graph._idle[0].run(None, {})


def test_a_good_file_opens_and_nothing_runs():
    """Reading, checking and preparing evaluates no node; writing again gives the same bytes."""
    with nothing_runs():
        for data in (GOOD, LAYER):
            assert executable.load(data).to_bytes() == data
            assert executable.load(bytearray(data)).to_bytes() == data
            assert executable.load(memoryview(data)).to_bytes() == data


def test_equal_models_make_equal_files():
    """Nothing depends on time or on the order of hashing."""
    assert executable.build(linear(), refit=["b"]).to_bytes() == LAYER


@pytest.mark.slow
@SEARCH
@given(st.integers(0, len(LAYER) - 1))
@example(0)
@example(HEADER)
@example(len(LAYER) - 1)
def test_a_truncated_file_is_refused(length: int):
    """At whatever byte it ends."""
    assert not opens_or_is_refused(LAYER[:length])


@pytest.mark.slow
@SEARCH
@given(st.integers(0, len(LAYER) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused(at: int, bits: int):
    """Whichever byte it is."""
    data = bytearray(LAYER)
    data[at] ^= bits
    assert not opens_or_is_refused(bytes(data))


@pytest.mark.slow
@SEARCH
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(tail: bytes):
    """With and without the right beginning."""
    assert not opens_or_is_refused(tail)
    assert not opens_or_is_refused(sealed(LAYER[:12] + tail))


@pytest.mark.slow
@SEARCH
@given(st.sampled_from([GOOD, LAYER]), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), max_size=4))
def test_a_forged_file_is_refused_or_harmless(data: bytes, changes: list[tuple[int, int]]):
    """With the digest made right again, bytes may be anything: the file opens, or is InvalidImage; nothing runs."""
    forged = bytearray(data)
    for at, bits in changes:
        forged[at % len(data)] ^= bits
    opens_or_is_refused(sealed(forged))


@pytest.mark.slow
@SEARCH
@given(st.sampled_from([GOOD, LAYER]), st.sampled_from(list(SectionKind)), st.integers(0, 1 << 16), st.integers(1, 255))
def test_a_forged_section_is_refused_or_harmless(data: bytes, kind: SectionKind, at: int, bits: int):
    """With every sum and key right, the contents of any section may be anything."""
    section = ExecutableFile.from_bytes(data).find(kind)
    if section is not None and section.content:
        content = bytearray(section.content)
        content[at % len(content)] ^= bits
        opens_or_is_refused(with_sections(data, **{kind.name: bytes(content)}))


@pytest.mark.slow
@SEARCH
@given(st.sampled_from(list(SectionKind)), st.integers(0, 400))
def test_a_cut_section_is_refused(kind: SectionKind, length: int):
    """A section that ends early, or is missing, is noticed though all sums match."""
    content = ExecutableFile.from_bytes(LAYER).content(kind)
    if length < len(content):
        assert not opens_or_is_refused(with_sections(LAYER, **{kind.name: content[:length]}))
    assert not opens_or_is_refused(with_sections(LAYER, **{kind.name: None}))


def first(**fields: object):
    """Return the change of these fields in the first record."""
    return lambda rows: rows[0].update(fields)


def hostile() -> Iterator[tuple[str, bytes]]:
    """Yield forged files by what is wrong with them."""
    yield "version", sealed(LAYER[:8] + b"\x02" + LAYER[9:])
    yield "flags", sealed(LAYER[:12] + b"\x01" + LAYER[13:])
    yield "many sections", sealed(LAYER[:10] + b"\xff\xff" + LAYER[12:])
    yield "bytes behind the end", sealed(LAYER + b"more")
    yield "unknown section", sealed(LAYER[:HEADER] + b"\x63" + LAYER[HEADER + 1:])
    yield "section twice", sealed(LAYER[:HEADER + ROW] + LAYER[HEADER:HEADER + 4] + LAYER[HEADER + ROW + 4:])
    yield "offset inside another", sealed(LAYER[:HEADER + 8] + bytes(8) + LAYER[HEADER + 16:])
    yield "size of 2**63", sealed(LAYER[:HEADER + 16] + struct.pack("<Q", 1 << 63) + LAYER[HEADER + 24:])
    yield "rank of 99", edited(LAYER, "INPUT", first(dims=[1] * 99, minimum=[1] * 99, maximum=[1] * 99))
    yield "negative dims", edited(LAYER, "INPUT", first(dims=[-2, 4]))
    yield "other dims", edited(LAYER, "OUTPUT", first(name="z"))
    yield "another type", edited(LAYER, "INPUT", first(dtype="float64"))
    yield "no type", edited(LAYER, "INPUT", first(dtype="dragon"))
    yield "objects", edited(LAYER, "INPUT", first(dtype="object"))
    yield "number for a text", edited(LAYER, "HEADER", first(name=3))
    yield "truth for a number", edited(LAYER, "RESOURCE", first(blocks=True))
    yield "more blocks", edited(LAYER, "RESOURCE", first(blocks=1 << 40))
    yield "field too many", edited(LAYER, "HEADER", first(evil=1))
    yield "two headers", edited(LAYER, "HEADER", lambda rows: rows.append(rows[0]))
    yield "no list", with_sections(LAYER, HEADER=b"{}")
    yield "deep nesting", with_sections(LAYER, HEADER=b"[" * 100000)
    yield "not a number", with_sections(LAYER, HEADER=b"[NaN]")
    yield "another form", with_sections(LAYER, HEADER=b'[{"name": "x", "refit": true}]')
    yield "constant beyond its section", edited(LAYER, "TENSOR_TABLE", first(offset=ALIGNMENT << 40))
    yield "constant that overlaps", edited(LAYER, "TENSOR_TABLE", lambda rows: rows[1].update(managed=False))
    yield "huge constant", edited(LAYER, "TENSOR_TABLE", first(dims=[1 << 40, 1 << 40]))
    yield "huge empty constant", edited(LAYER, "TENSOR_TABLE", first(dims=[0, 1 << 62]))
    yield "uid twice", edited(LAYER, "TENSOR_TABLE", lambda rows: rows[1].update(uid=rows[0]["uid"]))
    yield "other function", edited(LAYER, "FUNCTIONS", first(name="other"))
    yield "no such input of a function", edited(LAYER, "FUNCTIONS", first(inputs=[]))
    yield "target resource of no size", with_sections(LAYER, TARGET_RESOURCE=b"")
    yield "no graph", with_sections(LAYER, CODE=b"\xff" * 40)
    yield "an empty graph", with_sections(LAYER, CODE=b"")
    yield "node from nowhere", with_graph(LAYER, lambda model: model.graph.node[0].input.append("ghost"))
    yield "unknown operator", with_graph(LAYER, lambda model: setattr(model.graph.node[0], "op_type", "Evil"))
    yield "one input more", with_graph(LAYER, lambda model: model.graph.input.append(model.graph.input[0]))
    yield "a tensor in a file", with_graph(LAYER, outside)
    yield "a tensor in a file, deep inside", with_graph(GOOD, outside_in_the_body)


def outside(model: ModelProto) -> None:
    """Add a constant that is kept in a file of the machine."""
    tensor = TensorProto(name="secret", data_type=TensorProto.UINT8, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="secret")
    model.graph.initializer.append(tensor)


def outside_in_the_body(model: ModelProto) -> None:
    """Add one to the body of a loop."""
    inner = ModelProto()
    outside(inner)
    model.graph.node[0].attribute[0].g.initializer.extend(inner.graph.initializer)


HOSTILE = dict(hostile())


@every("what", HOSTILE)
def test_a_hostile_file_is_refused(what: str):
    """Each lie in a file with right sums is found."""
    assert not opens_or_is_refused(HOSTILE[what])


def test_what_is_no_bytes_is_a_wrong_type():
    """Nothing guesses."""
    with pytest.raises(InvalidType):
        executable.Executable.from_bytes("text")  # type: ignore[arg-type]  # the point


def test_the_sections_are_those_of_the_header():
    """Each kind has the number of the public header, and lies in the file where it says."""
    data = executable.build(fixed()).to_bytes()
    file = ExecutableFile.from_bytes(data)
    assert SectionKind.CONSTANT not in {each.kind for each in file.sections}
    for each in file.sections:
        assert data[each.offset : each.offset + len(each.content)] == each.content
        assert each.device_bytes == each.key == 0
    layer = ExecutableFile.from_bytes(LAYER)
    assert layer.find(SectionKind.CONSTANT).device_bytes == 48
    assert layer.find(SectionKind.MANAGED_CONSTANT).key
