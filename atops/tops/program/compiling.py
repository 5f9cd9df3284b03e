"""Runtime compilation and code images for host code in C++: texts and images lie in the program's own memory."""

from __future__ import annotations

import ctypes
from typing import SupportsInt

import atops.tops as tops
from atops.kernels.programs.image import HEADER_BYTES, image_size
from atops.tops.program.launching import words_at
from atops.tops.program.lines import Callback

__all__ = ("CALLS",)


def _text_at(address: int | None) -> bytes | None:
    return None if not address else ctypes.string_at(address)


def _store(target: int | None, answer: tuple[int, SupportsInt]) -> int:
    code, handle = answer
    if not code and target:
        ctypes.c_void_p.from_address(target).value = int(handle)
    return int(code)


def _create(
    out: int | None, source: bytes | None, name: bytes | None, count: int, headers: int | None, names: int | None
) -> int:  # fmt: skip
    texts, called = ([_text_at(each) for each in words_at(array, count)] for array in (headers, names))
    made: Callback = tops.topsrtcCreateProgram
    return _store(out, made(source, name, count, texts, called))


def _compile(program: int | None, count: int, options: int | None) -> int:
    given = [_text_at(each) or b"" for each in words_at(options, count)]
    return int(tops.topsrtcCompileProgram(program or 0, count, given)[0])


def _destroy(program: int | None) -> int:
    """Take the handle from where C has it, which is null afterwards."""
    handle = ctypes.c_void_p.from_address(program).value or 0 if program else 0
    code = int(tops.topsrtcDestroyProgram(handle)[0])
    if program and not code:
        ctypes.c_void_p.from_address(program).value = None
    return code


def _contents(function: Callback) -> Callback:
    """Return what writes all that a function returns; C has asked for its size before."""

    def called(program: int | None, target: int | None) -> int:
        code, found = function(program or 0)
        if not code and target:
            data = found if isinstance(found, bytes) else found.encode(errors="replace") + b"\0"
            ctypes.memmove(target, data, len(data))
        return int(code)

    return called


def _image(address: int | None) -> bytes | None:
    """Return the image at an address, as many bytes as its header says."""
    if not address:
        return None
    size = image_size(ctypes.string_at(address, HEADER_BYTES) + b"\0")
    return ctypes.string_at(address, max(size, HEADER_BYTES))


def _load(out: int | None, image: int | None) -> int:
    return _store(out, tops.topsModuleLoadData(_image(image)))


def _load_with(out: int | None, image: int | None, count: int, options: int | None, values: int | None) -> int:
    names = list((ctypes.c_int * count).from_address(options)) if options and count else []
    return _store(out, tops.topsModuleLoadDataEx(_image(image), count, names, words_at(values, count)))


CALLS: dict[str, Callback] = {
    "topsrtcCreateProgram": _create,
    "topsrtcCompileProgram": _compile,
    "topsrtcDestroyProgram": _destroy,
    "topsrtcGetProgramLog": _contents(tops.topsrtcGetProgramLog),
    "topsrtcGetCode": _contents(tops.topsrtcGetCode),
    "topsModuleLoadData": _load,
    "topsModuleLoadDataEx": _load_with,
}
