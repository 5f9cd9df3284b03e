"""What a copy or a fill is asked to touch, resolved to bytes: buffers, arrays, anything with the buffer protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DType, strictly
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation
from atops.device.memory.value_wait import Condition
from atops.runtime.memory.buffer import Buffer, End

__all__ = (
    "CAST_CODES", "Word", "check_range", "check_shapes", "check_unmasked", "copy_kind", "end_of", "fill_pattern",
    "from_dlpack", "has_buffer", "host_array", "host_bytes", "mismatch", "word_of",
)  # fmt: skip

D2D, D2H, H2D, H2H, PEER = map(int, (Kind.COPY_D2D, Kind.COPY_D2H, Kind.COPY_H2D, Kind.COPY_H2H, Kind.COPY_PEER))
CAST_CODES = frozenset("?bBhHiIlLqQefd")  # element types whose memoryview can be cast to bytes


class Word(NamedTuple):
    """A 32- or 64-bit word in memory, what is stored or waited for, and how a wait compares it."""

    allocation: Allocation
    offset: int
    value: int
    condition: Condition
    mask: int | None


def end_of(value: Any, what: str, writable: bool) -> End:
    """Resolve one end of a copy.

    Raises InvalidType when `value` is neither device memory nor contiguous memory of the host (a buffer, or what DLPack
    tells of), InvalidValue when it must be written and cannot be, IllegalAddress when its memory was freed.
    """
    if type(value) is np.ndarray and (dtype := value.dtype).char in CAST_CODES and dtype.isnative:
        view, shape = value.data, value.shape  # by far the commonest
        view = view.cast("B") if view.nbytes and view.c_contiguous else host_bytes(value, what, writable)
    elif isinstance(value, Buffer):
        allocation = value.allocation
        if allocation.freed_by is not None:
            raise IllegalAddress(allocation.freed_message(f"the {what} {value!r}"))
        return value.end
    else:
        if not isinstance(value, np.ndarray | np.generic) and not has_buffer(value) and hasattr(value, "__dlpack__"):
            value = from_dlpack(value, f"the {what}")
        view = host_bytes(value, what, writable)
        known = isinstance(value, np.ndarray | np.generic)
        dtype, shape = (value.dtype, value.shape) if known else (None, None)
    if writable and view.readonly:
        raise InvalidValue(f"the {what} {type(value).__name__} is read-only; expected a writable buffer")
    return view, 0, view.nbytes, dtype, shape, -1


def host_bytes(value: Any, what: str, writable: bool = False) -> memoryview:
    """Return the flat bytes of a host object, which are `writable` to be. Raises InvalidType, naming `what`."""
    if isinstance(value, np.ndarray | np.generic):
        check_unmasked(value, f"the {what}")
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            copied = "expected one that is, assigned to it afterwards"
            right = copied if writable else "np.ascontiguousarray(...) makes one"
            raise InvalidType(f"the {what} is an array that is not contiguous; {right}")
        if value.dtype.hasobject:
            raise InvalidType(f"the {what} holds Python objects ({value.dtype}); expected numbers")
        flat: Any = np.ravel(np.asarray(value)).view(np.uint8)
        return memoryview(flat)
    try:
        view = memoryview(value)
    except TypeError:
        raise InvalidType(
            f"the {what} is {type(value).__name__}; expected a Buffer, a DeviceArray, a numpy array, bytes or what has "
            "__dlpack__"
        ) from None
    if not view.c_contiguous:
        raise InvalidType(f"the {what} is a memoryview that is not contiguous")
    return view.cast("B") if view.nbytes else memoryview(b"")


def has_buffer(value: object) -> bool:
    """Whether a value has the buffer protocol."""
    try:
        memoryview(value)  # type: ignore[arg-type]  # which is asked
    except (TypeError, ValueError, BufferError):
        return False
    return True


def from_dlpack(value: Any, what: str) -> npt.NDArray[np.generic]:
    """Return the host memory that another library's array tells of. Raises InvalidType where it tells of none."""
    try:
        return np.from_dlpack(value)
    except Exception as error:  # of another library
        kind = type(value).__name__
        raise InvalidType(f"{what} is {kind}, and its __dlpack__ gives no host memory: {error}") from error


def check_unmasked(value: object, what: str) -> None:
    """Raise InvalidType for a masked array: device memory has no mask."""
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise InvalidType(f"{what} is a masked array, and device memory has no mask; .filled(value) makes a plain one")


def host_array(value: Any) -> npt.NDArray[np.generic]:
    """Return a contiguous array of what is to be uploaded: an array, bytes, a buffer, what has DLPack, or a list.

    Raises InvalidType for device memory, a masked array, what the device cannot hold and what is no array.
    """
    if type(value) is not np.ndarray:
        if isinstance(value, Buffer) and not hasattr(value, "array"):
            raise InvalidType(f"{value!r} is device memory already; stream.copy(stream.empty_like(x), x) copies it")
        check_unmasked(value, "what is uploaded")
        if type(value) is str:
            raise InvalidType(f"what is uploaded is the str {value!r}; .encode() gives bytes")
        if isinstance(value, bytes | bytearray) and not isinstance(value, np.generic):
            value = np.frombuffer(value, np.uint8)
        elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__") and not has_buffer(value):
            value = from_dlpack(value, "what is uploaded")
    array: npt.NDArray[np.generic] = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    if not array.dtype.isnative:
        native = str(array.dtype.newbyteorder("="))
        raise InvalidType(f"what is uploaded is {array.dtype.str}; .astype({native!r}) has the machine's byte order")
    return array


def mismatch(dtype: DType, source: DType, from_host: bool) -> InvalidType:
    """Return the error for a copy between two element types."""
    if not source.isnative or not dtype.isnative:
        cure = "a copy moves bytes as they are, so .astype(...) the side that is not in the machine's byte order"
    elif from_host:
        cure = f".astype({str(dtype)!r}) converts it, .view({str(dtype)!r}) keeps the bytes"
    else:
        cure = ".view(...) one of them, where the bytes are meant"
    return InvalidType(f"the source is {source} and the destination {dtype}; {cure}")


def check_shapes(dst: tuple[int, ...], src: tuple[int, ...]) -> None:
    """Raise InvalidValue unless two shapes are one, leading extents of 1 apart, as in an assignment of numpy."""
    short, long = sorted((dst, src), key=len)
    if long[: (lead := len(long) - len(short))] != (1,) * lead or long[lead:] != short:
        raise InvalidValue(
            f"the source has shape {src} and the destination {dst}; .reshape(...) one of them, or say nbytes= for bytes"
        )


def copy_kind(to: int, back: int) -> int:
    """Return which way the bytes go between two devices (as in an `End`, negative for the host)."""
    if to < 0:
        return H2H if back < 0 else D2H
    if back < 0:
        return H2D
    return D2D if to == back else PEER


def _bytes_in(value: object, dtype: DType) -> bytes:
    check_range(value, dtype)
    return np.asarray(value).astype(dtype, casting="unsafe").tobytes()


def fill_pattern(value: object, dtype: DType | None) -> bytes:
    """Return the bytes that a fill repeats: of the array's type, of a numpy scalar's, or one byte of an int.

    Raises InvalidValue when `value` does not fit, InvalidType when it is no number.
    """
    if dtype is not None and not isinstance(value, bytes | bytearray):
        if isinstance(value, str) or not isinstance(value, int | float | complex | np.generic):
            raise InvalidType(f"the fill value is {value!r}; expected a number that fits {dtype}")
        try:
            return bytes(strictly(_bytes_in, value, dtype))
        except (TypeError, ValueError, OverflowError, FloatingPointError):
            raise InvalidValue(f"the fill value {value!r} does not fit {dtype}") from None
    if isinstance(value, np.generic):
        pattern = value.tobytes()
    elif isinstance(value, bytes | bytearray):
        pattern = bytes(value)
    elif isinstance(value, int):
        if not 0 <= value <= 0xFF:
            raise InvalidValue(f"the fill value is {value}; expected 0 to 255 for bytes, or a numpy scalar of its type")
        pattern = bytes([value])
    else:
        raise InvalidType(f"the fill value is {value!r}; expected an int, a numpy scalar or 1, 2 or 4 bytes")
    if len(pattern) not in (1, 2, 4):
        raise InvalidValue(f"the fill pattern has {len(pattern)} bytes; expected 1, 2 or 4")
    return pattern


def check_range(value: Any, dtype: DType) -> None:
    """Raise OverflowError, ValueError or TypeError unless `dtype` holds `value`: its range, its fraction, its kind."""
    if np.iscomplexobj(value) and dtype.kind != "c":
        raise TypeError(value)
    if dtype.kind not in "iu":
        return
    info = np.iinfo(dtype)
    if value != int(value):
        raise ValueError(value)
    if not info.min <= value <= info.max:
        raise OverflowError(value)


def word_of(
    target: object, value: int, condition: Condition | str, width: int, mask: int | None = None
) -> Word:
    """Resolve the word that a value wait or a value write is about.

    Raises InvalidType when `target` is no device memory or `value` no int, InvalidValue for a width other than 32 and
    64, a value that does not fit, an address that is not aligned or a word that is not inside `target`.
    """
    if not isinstance(target, Buffer):
        raise InvalidType(f"a value in {type(target).__name__}; expected a Buffer or a DeviceArray")
    if width not in (32, 64):
        raise InvalidValue(f"width is {width!r} bits; expected 32 or 64")
    if not isinstance(value, int | np.integer):
        raise InvalidType(f"the value is {value!r}; expected an int")
    value = int(value)  # numpy's would overflow where values and masks meet
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise InvalidValue(f"the value {value} does not fit {width} bits")
    if mask is not None:
        if not isinstance(mask, int | np.integer):
            raise InvalidType(f"the mask is {mask!r}; expected an int, or None for all bits")
        mask = int(mask)
        if not 0 <= mask < 1 << width:
            raise InvalidValue(f"the mask {mask:#x} does not fit {width} bits")
    size = width // 8
    if target.nbytes < size:
        raise InvalidValue(f"{target!r} has {target.nbytes} bytes; a {width}-bit word has {size}")
    if target.address % size:
        raise InvalidValue(f"{target!r} is at {target.address:#x}; a {width}-bit word is aligned to {size} bytes")
    chosen = Condition.of(condition)
    if target.allocation.freed_by is not None:
        raise IllegalAddress(target.allocation.freed_message(repr(target)))
    return Word(target.allocation, target.offset, value, chosen, mask)
