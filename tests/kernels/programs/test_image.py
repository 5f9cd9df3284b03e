"""Code images: what goes in comes out, and nothing but InvalidImage comes of any other bytes."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.errors import InvalidImage, InvalidType, NotFound
from atops.base.result_codes import Result
from atops.kernels.programs import program
from atops.kernels.programs.image import CodeImage, image_size
from atops.kernels.programs.program import Program, compile_source, load_module
from atops.kernels.source.diagnostics import SourceText
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.source_texts import SCALE, declarations

__all__ = ("declarations",)  # a fixture

HEADER, SECTION = 72, 24  # bytes of the header and of each entry of the table


def image_of(source: str = SCALE, options: tuple[str, ...] = ("-DA=1",)) -> CodeImage:
    """Return the image of a program with a header and a name expression."""
    program = Program(source, "scale.py", {"other.py": "X = 1\n"})
    program.add_name_expression("&scale")
    return program.compile(options).image()


IMAGE = image_of()
DATA = IMAGE.to_bytes()


def sealed(data: bytes) -> bytes:
    """Return bytes whose size and digest are valid, whatever the rest is."""
    data = data[:16] + struct.pack("<Q", len(data)) + data[24:40] + bytes(32) + data[72:]
    return data[:40] + hashlib.sha256(data).digest() + data[72:]


def with_section(index: int, content: bytes) -> bytes:
    """Return the image with other contents in one section and every checksum right."""
    tags, contents, offset = [], [], HEADER + 5 * SECTION
    for each in range(5):
        tag, _, start, size = struct.unpack_from("<4sIQQ", DATA, HEADER + each * SECTION)
        tags.append(tag)
        contents.append(content if each == index else DATA[start : start + size])
    table = b""
    for tag, each in zip(tags, contents, strict=True):
        table += struct.pack("<4sIQQ", tag, zlib.crc32(each), offset, len(each))
        offset += len(each)
    return sealed(DATA[:HEADER] + table + b"".join(contents))


def test_an_image_keeps_the_program(declarations: None, tmp_path: Path):
    """Names, options, headers, attributes and the text come back, from bytes and from a file."""
    source = f"n = k.constant(np.int16, (1, 2))\n{SCALE}"
    image = image_of(source, ("-arch=agcu300", "-DA=1"))
    again = CodeImage.from_bytes(image.to_bytes())
    assert again == image and again.source == source and again.headers == (("other.py", "X = 1\n"),)
    assert again.options == ("--gpu-architecture=agcu300", "-DA=1") and again.expressions == ("&scale",)
    [entry], [variable] = again.functions, again.variables
    assert (entry.name, entry.lowered, entry.local_bytes) == ("scale", "_T5scale_span_any_float32", 256)
    assert (variable.name, variable.element, variable.nbytes, variable.constant) == ("n", "int16", 4, True)
    image.save(tmp_path / "scale.atops")
    assert CodeImage.load(tmp_path / "scale.atops") == image
    with pytest.raises(FileNotFoundError):
        CodeImage.load(tmp_path / "missing")


def test_the_same_program_has_the_same_bytes():
    """Twice compiled is once; another option is another image; an image is hardly larger than its text."""
    assert image_of().to_bytes() == DATA != image_of(options=()).to_bytes()
    assert len(DATA) < len(SCALE) + 700
    assert hashlib.sha256(DATA[HEADER:]).hexdigest() == hashlib.sha256(image_of().to_bytes()[HEADER:]).hexdigest()


@pytest.mark.parametrize(
    "form", [lambda path: DATA, lambda path: IMAGE, lambda path: path, str, lambda path: memoryview(bytearray(DATA))]
)
def test_a_module_is_loaded_from_every_form(form: Callable[[Path], Any], tmp_path: Path, bench: Bench):
    """Bytes, an image, and the path of a file; the kernel runs."""
    path = tmp_path / "scale.atops"
    path.write_bytes(DATA)
    kernel = load_module(form(path)).function("scale")
    x, y = bench.upload(np.float32([1.0, 2.0])), bench.empty(2)
    bench.launch(kernel, (1, 2), x, y, 4)
    assert list(y.host) == [4.0, 8.0] and kernel.target.name == "gcu300"
    with pytest.raises(NotFound, match="did you mean 'scale'"):
        load_module(DATA).function("scales")


def test_loading_compiles_nothing_until_a_function_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    """Opening an image and making a module of it leave its text alone."""
    compiled: list[str] = []
    real = program.read_source

    def watched(source: SourceText, *rest: Any) -> Any:
        compiled.append(source.name)
        return real(source, *rest)

    monkeypatch.setattr(program, "read_source", watched)
    module = load_module(DATA)
    assert repr(module) == "<Module scale.py for gcu300: not compiled yet>" and compiled == []
    assert module.function("scale") is module.function("_T5scale_span_any_float32") and compiled == ["scale.py"]


VARIABLE = '[{"constant":true,"element":"a","lowered":"a","name":"a","nbytes":%s}]'

# Each row: what is done to the bytes, and what the error says.
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "no code image: it begins with b''"),
    "something else": (b"\x7fELF" + DATA[4:], "no code image: it begins with"),
    "ends of lines were changed": (DATA.replace(b"\r\n", b"\n"), "no code image"),
    "half a header": (DATA[:30], "is cut off: 30 bytes, its header alone has 72"),
    "half of it": (DATA[: len(DATA) // 2], f"is cut off: {len(DATA) // 2} bytes, its header says {len(DATA)}"),
    "more than it": (DATA + b"\0", f"bytes behind its end: {len(DATA) + 1} bytes"),
    "another version": (DATA[:8] + b"\x02\0" + DATA[10:], "is of version 2; expected version 1"),
    "a size without end": (DATA[:16] + b"\xff" * 8 + DATA[24:], "has 18446744073709551615 bytes; 67108864 at most"),
    "a changed letter": (DATA[:-5] + b"Z" + DATA[-4:], "is damaged: its checksum is wrong"),
    "another number of sections": (sealed(DATA[:10] + b"\xff\xff" + DATA[12:]), "has 65535 sections"),
    "flags": (sealed(DATA[:12] + b"\1\0\0\0" + DATA[16:]), "flags 0x1"),
    "no architecture": (sealed(DATA[:24] + bytes(16) + DATA[40:]), "architecture b'', which is no name"),
    "a table that is cut off": (sealed(DATA[: HEADER + 30]), "its table of sections ends at 192"),
    "another section": (sealed(DATA[:HEADER] + b"ATEM" + DATA[HEADER + 4 :]), "section 0 of the code image is b'ATEM'"),
    "a section elsewhere": (
        sealed(DATA[: HEADER + 8] + b"\xff" * 8 + DATA[HEADER + 16 :]), "it begins at 192 of",
    ),
    "a section without end": (
        sealed(DATA[: HEADER + 16] + b"\xff" * 8 + DATA[HEADER + 24 :]), "it begins at 192 of",
    ),
    "a section's checksum": (sealed(DATA[: HEADER + 4] + b"abcd" + DATA[HEADER + 8 :]), "section 0.*META, is damaged"),
    "bytes of no section": (sealed(DATA + b"abc"), "has 3 bytes that belong to no section"),
    "no JSON": (with_section(1, b"[{"), "FUNC of the code image is no list of records: JSONDecodeError"),
    "no ASCII": (with_section(1, b"\x80"), "FUNC of the code image is no list of records: Unicode"),
    "deep JSON": (with_section(1, b"[" * 100_000), "FUNC of the code image is no list of records"),
    "large JSON": (with_section(1, b"1" * 10_000), "FUNC of the code image is no list of records"),
    "other JSON": (with_section(1, b"[ ]"), "FUNC of the code image is not in the form"),
    "no list": (with_section(1, b"{}"), "FUNC of the code image is no list of records"),
    "no record": (with_section(1, b"[3]"), "FUNC of the code image, record 0 lacks the fields name, lowered"),
    "no program": (with_section(0, b"[]"), "META of the code image is no list of records"),
    "a field too few": (with_section(3, b'[{"name":"a"}]'), "HEAD of the code image, record 0 lacks the fields"),
    "a field of the wrong type": (with_section(3, b'[{"name":"a","text":3}]'), "text is '3', of the wrong type"),
    "a negative size": (with_section(2, (VARIABLE % "-1").encode()), "record 0: nbytes is '-1'"),
    "a truth for a number": (with_section(2, (VARIABLE % "true").encode()), "record 0: nbytes is 'True'"),
    "no text": (with_section(4, b"x = '\xff'"), "TEXT of the code image is no text: invalid start byte at byte 5"),
}  # fmt: skip


@every("case", DAMAGED)
def test_a_damaged_image_says_what_is_wrong(case: str):
    """Each kind of damage is named, also where all checksums are valid."""
    data, why = DAMAGED[case]
    with pytest.raises(InvalidImage, match=why) as caught:
        load_module(data)
    assert caught.value.code is Result.InvalidImage


# Each row: what a well-formed image says that is not so, and what the error says when a function is asked for.
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "no kernel source": ({"source": "import os\n"}, "its text does not compile:\nscale.py:1:8: error: 'os' cannot be"),
    "another kernel": ({"source": SCALE.replace("def scale", "def other")}, "'&scale' names no kernel"),
    "another size": ({"source": SCALE.replace("= 64", "= 65")}, "says that its functions are"),
    "another language": ({"language": "C++"}, r"its language are C\+\+; its text has Python"),
    "another target": ({"arch": "gcu210"}, "its arch are gcu210; its text has gcu300"),
    "an unknown option": ({"options": ("-x",)}, "unknown option '-x'"),
    "an option in another spelling": ({"options": ("-arch=gcu300", "-DA=1")}, "its options are"),
    "no name": ({"name": ""}, "name expects the name of a file"),
    "no expression": ({"expressions": ("",)}, "name expression expects a name"),
    "variables": ({"expressions": (), "variables": IMAGE.functions}, "its variables are"),
}


@pytest.mark.parametrize("case", LIES)
def test_what_an_image_says_must_be_so(case: str):
    """A module's first function compiles the text and compares what it defines with what the image says."""
    changes, why = LIES[case]
    module = load_module(replace(IMAGE, **changes))
    for _ in range(2):
        with pytest.raises(InvalidImage, match=why):
            module.function("scale")


def test_what_is_no_image_at_all():
    """Architectures must be known; other types are refused."""
    with pytest.raises(InvalidImage, match="is for gcu999; gcu210, gcu300, agcu200, agcu300 are known"):
        load_module(replace(IMAGE, arch="gcu999"))
    for wrong in (3, None, [1]):
        with pytest.raises(InvalidType, match=r"image expects a code image, its bytes or the path of its file, got"):
            load_module(wrong)


def refused_or_equal(data: bytes) -> None:
    """Open bytes: they are the image, or InvalidImage is raised, and nothing is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "compile", lambda *args: pytest.fail("something was compiled"))
        try:
            module = load_module(data)
        except InvalidImage as error:
            assert str(error)
            return
    assert data == DATA and module.target.name == "gcu300"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(DATA)))
def test_fuzz_a_cut(size: int):
    """Whatever is left of an image is refused."""
    refused_or_equal(DATA[:size])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, len(DATA) * 8 - 1), min_size=1, max_size=8, unique=True))
def test_fuzz_flipped_bits(bits: list[int]):
    """Any flipped bits are noticed."""
    data = bytearray(DATA)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidImage):
        load_module(data)
    refused_or_equal(bytes(data))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.sampled_from([0, 8, 40, HEADER, HEADER + 2 * SECTION, HEADER + 5 * SECTION]))
def test_fuzz_random_bytes(noise: bytes, kept: int):
    """Noise, alone or behind a true beginning, is refused, also when it is sealed with a true checksum."""
    refused_or_equal(noise)
    refused_or_equal(DATA[:kept] + noise)
    if kept + len(noise) >= HEADER:
        refused_or_equal(sealed(DATA[:kept] + noise))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 3), JSON | st.lists(st.fixed_dictionaries({name: JSON for name in ("name", "text")}), max_size=2))
def test_fuzz_hostile_records(index: int, value: Any):
    """Records of any shape under true checksums are refused, or are an image that tells no truth."""
    content = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    try:
        module = load_module(data := with_section(index, content))
    except InvalidImage:
        return
    if index == 3 or data == DATA:  # headers that are not imported change nothing
        assert module.function("scale").name == "scale"
        return
    with pytest.raises(InvalidImage):
        module.function("scale")


WORDS = st.sampled_from(
    ["import os", "os.system('false')", "@k.kernel", "def f(x):", "    ", "\n", "x = 1", "(", ")", "f", "=", "await ",
     "\t", "'", "\0", "if 1:", "class A: pass", "ö", "eval('1')", "**", "[", "lambda: 0", "0x", "\\", "#", "9" * 40]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=12) | st.lists(st.text(max_size=3), max_size=12))
def test_fuzz_hostile_texts(words: list[str]):
    """A text of any kind in a well-formed image ends in InvalidImage, or has not the function."""
    source = "".join(words).encode("utf-8", "replace").decode()
    image = replace(IMAGE, source=source, functions=(), expressions=())
    with pytest.raises((InvalidImage, NotFound)):
        load_module(image.to_bytes()).function("scale")


def test_an_image_has_no_code_of_this_interpreter():
    """Neither pickles nor compiled code are in an image: text, names and numbers are all."""
    made = compile_source(SCALE, "scale.py").image().to_bytes()
    assert set(made[192:]) <= set(range(32, 127)) | {10}


def test_size_of_an_image_in_memory():
    """An image says how many bytes it has, whatever follows it; what is none has all of them."""
    data = IMAGE.to_bytes()
    assert image_size(data) == image_size(data + b"more") == len(data)
    assert image_size(b"none") == 4 and image_size(data[:20]) == 20
