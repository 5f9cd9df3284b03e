"""From C's arguments to those of the functions of atops.tops, and from what they return to C's out-parameters.

Each function becomes a callback of C. One whose arguments have no counterpart here, such as an array of pointers,
answers `topsErrorNotSupported`, and says so once.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

import atops.tops as tops
from atops.base.errors import AtopsError
from atops.bridge.declarations import CParameter, Function
from atops.bridge.handles import current_board, current_device
from atops.bridge.pointers import is_device_address, operand
from atops.bridge.structs import Struct
from atops.kernels.cxx.variables import LoadedModule
from atops.kernels.memory.device_variables import Variable
from atops.tops.functions.api import reason, remember
from atops.tops.header import enumerations, error_codes, structs
from atops.tops.header.cxx import HANDLES
from atops.tops.header.functions import FUNCTIONS
from atops.tops.program import compiling, launching
from atops.tops.program.lines import Callback, CallLines

__all__ = ("add_variables", "callbacks", "memory_of", "supported")

NUMBERS: Mapping[str, type[ctypes._SimpleCData[Any]]] = {
    "int": ctypes.c_int, "unsigned": ctypes.c_uint, "unsigned int": ctypes.c_uint, "size_t": ctypes.c_size_t,
    "unsigned char": ctypes.c_ubyte, "unsigned short": ctypes.c_ushort, "float": ctypes.c_float,
    "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "uint8_t": ctypes.c_uint8,
    "bool": ctypes.c_bool, "topsDevice_t": ctypes.c_int, "topsError_t": ctypes.c_int,
}  # fmt: skip
POINTERS = frozenset((*HANDLES, "topsDeviceptr_t", "void *", "const void *"))
OF_KERNELS = frozenset(("func", "f", "function_address"))  # pointers to functions
SIZE = "sizeBytes"  # of the memory at each plain pointer of a function


class _Dim3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


_kept: dict[str, ctypes.Array[ctypes.c_char]] = {}  # texts that C has pointers to


def callbacks(lines: CallLines) -> tuple[list[ctypes._CFunctionType], ctypes.Array[ctypes.c_void_p]]:
    """Return the callbacks, and the table of their addresses, in the order of the functions."""
    made = [_callback(function, lines) for function in FUNCTIONS.values()]
    return made, (ctypes.c_void_p * len(made))(*[ctypes.cast(each, ctypes.c_void_p).value for each in made])


def supported(function: Function) -> bool:
    """Tell whether host code in C++ can call a function."""
    types = [_type_of(each, each in function.results) for each in function.declared]
    return function.name in _SPECIAL or (None not in types and all(map(_written_by, function.results)))


def _callback(function: Function, lines: CallLines) -> ctypes._CFunctionType:
    types = [_type_of(each, each in function.results) for each in function.declared]
    result = ctypes.c_void_p if function.returns.startswith("const char") else ctypes.c_int
    body = _SPECIAL.get(function.name)
    if body is None:
        body = _called(function) if supported(function) else _refused(function)
    return ctypes.CFUNCTYPE(result, *[each or ctypes.c_void_p for each in types])(_guarded(function, body, lines))


def _type_of(parameter: CParameter, out: bool) -> type[ctypes._CDataType] | None:
    """Return the type of ctypes; None where there is none."""
    name = parameter.type.removeprefix("enum ").removeprefix("struct ")
    if out or name in POINTERS:
        return ctypes.c_void_p
    if name == "const char *":
        return ctypes.c_char_p
    if name == "dim3":
        return _Dim3
    if name == "topsStreamCallback_t":
        return ctypes.c_void_p
    if name in NUMBERS:
        return NUMBERS[name]
    if hasattr(enumerations, name) or hasattr(error_codes, name):
        return ctypes.c_int
    kind = getattr(structs, name, None)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return type(name, (ctypes.Structure,), {"_fields_": (("data", ctypes.c_char * kind.SIZE),)})
    return None


def _guarded(function: Function, body: Callback, lines: CallLines) -> Callback:
    """Let nothing come out into C."""

    def called(*given: object) -> object:
        try:
            with lines.asking():
                return body(*given)
        except BaseException as error:
            print(f"{function.name}: {type(error).__name__}: {error}", file=sys.stderr)
            return tops.topsError_t.topsErrorUnknown

    return called


def _refused(function: Function) -> Callback:
    said: list[bool] = []

    def called(*_: object) -> int:
        if not said:
            said.append(True)
            print(f"{function.name} is not there for host code in C++", file=sys.stderr)
        return int(tops.topsError_t.topsErrorNotSupported)

    return called


def _called(function: Function) -> Callback:
    python: Callback = getattr(tops, function.name)
    names = [each.name for each in function.declared]
    outs = {each.name: each for each in function.results}

    def called(*given: Any) -> int:
        values = dict(zip(names, given, strict=True))
        if outs and function.returns == "topsError_t" and not any(values[name] for name in outs):
            code = tops.topsError_t.topsErrorInvalidValue
            remember(code, f"{function.name} has no address for its result: NULL for {' and '.join(outs)}")
            return int(code)
        arguments = [_python_of(each, values) for each in function.parameters]
        answer = python(*arguments)
        code, results = (answer, ()) if not isinstance(answer, tuple) else (answer[0], answer[1:])
        if function.returns.startswith("const char"):
            return ctypes.addressof(_text(str(results[0] if results else code)))
        if not code:
            for (name, parameter), result in zip(outs.items(), results, strict=True):
                if values[name]:
                    _write(parameter, values[name], result, values)
        return int(code)

    return called


def _python_of(parameter: CParameter, values: Mapping[str, Any]) -> object:
    """Return what Python's function takes for an argument."""
    value = values[parameter.name]
    if parameter.type == "const void *" and parameter.name in OF_KERNELS:
        return launching.function_at(value)
    if parameter.type in ("void *", "const void *"):
        return memory_of(value, values.get(SIZE))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, _Dim3):
        return structs.dim3(value.x, value.y, value.z)
    if isinstance(value, ctypes.Structure):
        return getattr(structs, parameter.type).from_bytes(bytes(value))
    return 0 if value is None else value


def memory_of(address: int | None, size: int | None) -> int | ctypes.Array[ctypes.c_char] | None:
    """Return the memory at an address: itself where the runtime knows it, else host memory of so many bytes."""
    if not address or not size:
        return address or None
    if is_device_address(current_board(), address):
        return address  # live or not: the function says what is wrong with it
    try:
        operand(address, 0, "the pointer")
    except AtopsError:
        return (ctypes.c_char * size).from_address(address)
    return address


def _written_by(parameter: CParameter) -> bool:
    name = parameter.type.removesuffix("*").strip().removeprefix("struct ").removeprefix("enum ")
    kind = getattr(structs, name, None)
    return name in NUMBERS or name in POINTERS or name in ("char", "const char *") or (
        isinstance(kind, type) and issubclass(kind, Struct)
    ) or hasattr(enumerations, name)  # fmt: skip


def _write(parameter: CParameter, address: int, result: Any, values: Mapping[str, Any]) -> None:
    """Store a result where C wants it."""
    name = parameter.type.removesuffix("*").strip()
    if isinstance(result, Struct):
        data = result.to_bytes()
        ctypes.memmove(address, data, len(data))
    elif name == "char":
        room = values.get("len", 0)
        data = str(result).encode()[: max(0, room - 1)] + b"\0"
        ctypes.memmove(address, data, min(len(data), room))
    elif name == "const char *":
        ctypes.c_void_p.from_address(address).value = ctypes.addressof(_text(str(result)))
    elif name in POINTERS:
        ctypes.c_void_p.from_address(address).value = int(result)
    else:
        NUMBERS.get(name, ctypes.c_int).from_address(address).value = result


def _text(text: str) -> ctypes.Array[ctypes.c_char]:
    """Return a text that C may point to, as long as the program runs."""
    if text not in _kept:
        _kept[text] = ctypes.create_string_buffer(text.encode())
    return _kept[text]


# ---- functions whose arguments mean something else in C


def _add_callback(stream: int | None, callback: int, user_data: int | None, flags: int) -> int:
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(callback)

    def ended(which: int, code: int, data: object) -> None:
        function(which, int(code), data)

    add: Callback = tops.topsStreamAddCallback
    return int(add(stream or 0, ended, user_data, flags)[0])


# The program's own variables; a symbol is one by its address.
_program: list[LoadedModule] = []


def add_variables(module: LoadedModule) -> None:
    """Let the program's variables be symbols."""
    _program.append(module)


def _symbol(address: int | None) -> tuple[Variable | str, int]:
    """Return the variable at an address and how far behind its beginning that is; without one, no symbol's name."""
    chip = current_device().context.chip
    found = (module.variable_at(chip, address or 0) for module in _program)
    return next(filter(None, found), (f"address {address or 0:#x}", 0))


def _handle(stream: int | None) -> int:
    return stream or 0


def _to_symbol(symbol: int, source: int, size: int, offset: int, kind: int, *stream: int | None) -> int:
    variable, behind = _symbol(symbol)
    copy: Callback = tops.topsMemcpyToSymbolAsync if stream else tops.topsMemcpyToSymbol
    streams = map(_handle, stream)
    return int(copy(variable, memory_of(source, size), size, offset + behind, tops.topsMemcpyKind(kind), *streams)[0])


def _from_symbol(target: int, symbol: int, size: int, offset: int, kind: int, *stream: int | None) -> int:
    variable, behind = _symbol(symbol)
    copy: Callback = tops.topsMemcpyFromSymbolAsync if stream else tops.topsMemcpyFromSymbol
    streams = map(_handle, stream)
    return int(copy(memory_of(target, size), variable, size, offset + behind, tops.topsMemcpyKind(kind), *streams)[0])


def _symbol_address(out: int, symbol: int) -> int:
    variable, behind = _symbol(symbol)
    code, address = tops.topsGetSymbolAddress(variable)
    if not code:
        ctypes.c_void_p.from_address(out).value = int(address) + behind
    return int(code)


def _symbol_size(out: int, symbol: int) -> int:
    code, size = tops.topsGetSymbolSize(_symbol(symbol)[0])
    if not code:
        ctypes.c_size_t.from_address(out).value = int(size)
    return int(code)


def _device_pointer(out: int, pointer: int | None, flags: int) -> int:
    """Answer the host's own pointer, which kernels take: what a structure of arguments holds is looked at by none."""
    get: Callback = tops.topsHostGetDevicePointer
    code, _ = get(pointer or 0, flags)
    if not code:
        ctypes.c_void_p.from_address(out).value = pointer
    return int(code)


def _error_string(code: int) -> int:
    """Answer the name of a code and, of this thread's last failure, what it was: kernel, line, thread."""
    try:
        known = tops.topsError_t(code)
    except ValueError:
        known = tops.topsError_t.topsErrorUnknown
    said = reason(known) if known else None
    return ctypes.addressof(_text(known.name if said is None else f"{known.name}: {said}"))


_SPECIAL: dict[str, Callback] = {
    "topsGetErrorString": _error_string,
    "topsStreamAddCallback": _add_callback,
    "topsMemcpyToSymbol": _to_symbol,
    "topsMemcpyToSymbolAsync": _to_symbol,
    "topsMemcpyFromSymbol": _from_symbol,
    "topsMemcpyFromSymbolAsync": _from_symbol,
    "topsGetSymbolAddress": _symbol_address,
    "topsGetSymbolSize": _symbol_size,
    "topsHostGetDevicePointer": _device_pointer,
    **compiling.CALLS,
    **launching.CALLS,
}
