"""`atops info`: the board and its devices, as a table or as JSON. It starts no device."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from rich.console import Console

from atops.base.errors import UsageError
from atops.base.options import EmulatorOptions
from atops.device.arch import ARCHITECTURES, Architecture, architecture
from atops.device.topology import Topology
from atops.trace.words import format_bytes

__all__ = ("add_arguments", "main", "versions")

GRADES = {
    "vendor": "the vendor published it",
    "client": "shipped client code uses it",
    "secondary": "a third party's guide or sheet has it",
    "chosen": "not public, chosen here",
}
WORDS = (
    "to N: how that row's device reaches device N, as topsDeviceCanAccessPeer tells it. "
    "0x100: under the same PCIe switch; 0x200: across root complexes; the last two digits: its ESL ports that lead "
    "there, a bit for each; 0x0: itself."
)
WIDEST = 100  # columns of what is wrapped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--json", action="store_true", help="print it for a program to read")
    parser.add_argument("--arch", choices=ARCHITECTURES, help="architecture (default: ATOPS_ARCH, or gcu300)")
    parser.add_argument("--devices", type=int, metavar="N", help="devices on the board (default: ATOPS_DEVICES, or 1)")


def main(arguments: argparse.Namespace) -> int:
    """Print the board. Returns 0, or 2 when the environment or the arguments ask for a board that cannot be."""
    changes = {name: value for name in ("arch", "devices") if (value := getattr(arguments, name)) is not None}
    try:
        options = EmulatorOptions.from_environment(**changes)
    except UsageError as error:
        print(f"atops info: error: {error}", file=sys.stderr)
        return 2
    arch = architecture(options.arch)
    topology = Topology.of(arch, options.devices, options.esl)
    if arguments.json:
        print(json.dumps(_described(options, arch, topology), indent=1))
    else:
        _show(Console(highlight=False, markup=False, soft_wrap=True), options, arch, topology)
    return 0


def _show(console: Console, options: EmulatorOptions, arch: Architecture, topology: Topology) -> None:
    """Print the board as tables: nothing is cut off, and no line is wider than it must be."""
    rows = [("", "", "source"), *((what, figure, arch.sources.get(name, "")) for what, figure, name in _figures(arch))]
    grades = [f"{grade}: {meaning}" for grade, meaning in GRADES.items() if grade in arch.sources.values()]
    width = min(console.width, WIDEST)
    console.print(f"{arch.name} ({arch.product}, {arch.code_name})", style="bold")
    console.print(_aligned(rows, "<><"))
    console.print(textwrap.fill("; ".join(grades) + ".", width))
    console.print()
    if not topology.devices:
        console.print("no devices: --devices, or ATOPS_DEVICES, sets how many")
    else:
        several = topology.devices > 1
        console.print(f"{topology.devices} devices" if several else "1 device", style="bold")
        console.print(_aligned(_devices(topology), ">" * (2 + topology.devices)))
        if several:
            console.print(textwrap.fill(WORDS, width))
    console.print()
    console.print("driver options", style="bold")
    settings = [f"{name}={value}" for name, value in asdict(options).items() if name not in ("arch", "devices")]
    console.print(textwrap.fill(" ".join(settings), width))
    console.print()
    known = versions()
    console.print(f"atops {known['atops']}, {known['implementation']} {known['python']}, numpy {known['numpy']}")


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> str:
    """Return rows as lines of columns, each of which `sides` aligns to the left (<) or the right (>)."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map("{:{}{}}".format, row, sides, widths)).rstrip() for row in rows)


def _figures(arch: Architecture) -> list[tuple[str, str, str]]:
    """Return (what, figure with its unit, field) of an architecture."""
    return [
        ("clusters", str(arch.clusters), "clusters"),
        ("SIPs in a cluster", str(arch.sips_per_cluster), "sips_per_cluster"),
        ("threads in a block, at most", str(arch.max_threads_per_block), "max_threads_per_block"),
        ("blocks in a grid, at most", " x ".join(map(str, arch.max_grid)), "max_grid"),
        ("L1 of a SIP, usable", format_bytes(arch.l1_usable), "l1_usable"),
        ("L2 of a cluster, usable", format_bytes(arch.l2_usable), "l2_usable"),
        ("L2 bandwidth, in all", f"{arch.l2_bandwidth / 1e9:g} GB/s", "l2_bandwidth"),
        ("L3", format_bytes(arch.l3_bytes), "l3_bytes"),
        ("L3 banks", str(arch.banks), "banks"),
        ("L3 bandwidth", f"{arch.l3_bandwidth / 1e9:.0f} GB/s", "l3_bandwidth"),
        ("DTE engines of a SIP", str(arch.dte_per_sip), "dte_per_sip"),
        ("copy engines", str(arch.clusters * arch.copy_engines_per_cluster), "copy_engines_per_cluster"),
        (f"host link, {arch.host_link}", f"{arch.host_bandwidth / 1e9:g} GB/s", "host_link"),
        ("float32", f"{arch.fp32_flops / 1e12:g} TFLOPS", "fp32_flops"),
        ("float16", f"{arch.fp16_flops / 1e12:g} TFLOPS", "fp16_flops"),
        ("int8", f"{arch.int8_ops / 1e12:g} TOPS", "int8_ops"),
        ("clock", f"{arch.clock_khz / 1e6:g} GHz", "clock_khz"),
        ("ESL ports", str(arch.esl_ports), "esl_ports"),
        ("bandwidth of an ESL port", f"{arch.esl_bandwidth / 1e9:g} GB/s", "esl_bandwidth"),
        ("constants of a kernel", format_bytes(arch.constant_bytes), "constant_bytes"),
        ("stack of a thread", format_bytes(arch.stack_bytes), "stack_bytes"),
        ("vector types", "yes" if arch.vector_types else "no", "vector_types"),
        ("indexing of global memory", "yes" if arch.direct_global_access else "no", "direct_global_access"),
        ("kernel signals", str(arch.kernel_signals), "kernel_signals"),
        ("device address", f"{arch.address_bits} bits", "address_bits"),
    ]


def _devices(topology: Topology) -> list[list[str]]:
    """Return a row for each device: where its memory begins, and the access word to each other device."""
    ordinals = range(topology.devices)
    rows = [["device", "L3 at", *(f"to {other}" for other in ordinals)]]
    for device in ordinals:
        words = [f"{topology.access_word(device, other):#x}" for other in ordinals]
        rows.append([str(device), f"{_base_address(device):#x}", *words])
    return rows if topology.devices > 1 else [row[:2] for row in rows]


def _base_address(ordinal: int) -> int:
    """Return where the memory of a device begins, unless something else of the process lies there."""
    return (2 * ordinal + 1) << 36


def _described(options: EmulatorOptions, arch: Architecture, topology: Topology) -> dict[str, object]:
    """Return the board as JSON takes it. Sizes in bytes, rates in bytes or operations per second."""
    fields = [field for field in Architecture.__dataclass_fields__ if field != "sources"]
    ordinals = range(topology.devices)
    return {
        "devices": [
            {
                "ordinal": device,
                "memory_bytes": arch.l3_bytes,
                "base_address": _base_address(device),
                "access_words": [topology.access_word(device, other) for other in ordinals],
            }
            for device in ordinals
        ],
        "architecture": {field: getattr(arch, field) for field in fields},
        "sources": dict(arch.sources),
        "options": asdict(options),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of atops, of Python and of numpy."""
    try:
        own = importlib.metadata.version("atops")
    except importlib.metadata.PackageNotFoundError:
        own = "(not installed)"
    return {
        "atops": own,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "numpy": np.__version__,
    }
