"""What `atops demo` takes on its command line, and what it refuses."""

from __future__ import annotations

import argparse
from pathlib import Path

from atops.base.options import MAX_DEVICES
from atops.device.arch import ARCHITECTURES

__all__ = ("add_arguments",)

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
MOST = 1 << 30  # bytes of a chunk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the demo takes."""
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files and folders (default: Python's standard library)")
    add("--trace", metavar="OUT.json", type=_target, help="write a Chrome/Perfetto trace (.gz: compressed)")
    add("--records", metavar="OUT.txt", type=_target, help="write the trace's records in order, without their times")
    add("--inline", action="store_true", help="run everything in one thread, in an order that can be replayed")
    add("--seed", type=int, metavar="N", help="choose the order of an inline run (default: first come, first served)")
    add("--arch", choices=ARCHITECTURES, help="architecture (default: ATOPS_ARCH, or gcu300)")
    add("--devices", type=_positive, metavar="N", help=f"1 to {MAX_DEVICES} devices (default: ATOPS_DEVICES, or 1)")
    add("--streams", type=_positive, default=4, metavar="N", help="streams of each device (default: 4)")
    add("--in-flight", type=_positive, default=8, metavar="N", help="chunks in flight on each device (default: 8)")
    add("--chunk", type=_size, default=1 << 20, metavar="SIZE", help="bytes of a chunk: 65536, 64K, 4M (default: 1M)")


def _positive(text: str) -> int:
    """Return a number of at least 1. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def _size(text: str) -> int:
    """Return a size in bytes. Raises ArgumentTypeError."""
    digits = text.rstrip("kKmM")
    unit = UNITS.get(text[len(digits) :].upper())
    if unit is None or not (digits.isascii() and digits.isdigit() and 0 < int(digits) * unit <= MOST):
        most = f"{MOST // UNITS['M']}M"
        raise argparse.ArgumentTypeError(f"expected 1 to {most}, such as 65536, 64K or 4M, got {text!r}")
    return int(digits) * unit


def _target(text: str) -> str:
    """Return a path to write to. Raises ArgumentTypeError, before anything is counted, where no file can be."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return text
