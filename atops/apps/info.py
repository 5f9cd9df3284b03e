"""`atops info`: what the board is made of, as `rocminfo` would say it."""

from __future__ import annotations

import argparse
import json
import platform
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from atops.base.errors import AtopsError
from atops.base.options import EmulatorOptions
from atops.device.arch import Architecture, architecture
from atops.device.links import Topology
from atops.runtime.timeline_text import format_bytes

__all__ = ("add_arguments", "architecture_table", "described", "device_table", "figures", "main", "plain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--json", action="store_true", help="print it for a program to read")
    parser.add_argument("--arch", choices=("gcu210", "gcu300"), help="architecture (default: ATOPS_ARCH, or gcu300)")
    parser.add_argument("--devices", type=int, metavar="N", help="devices on the board (default: ATOPS_DEVICES, or 1)")


def main(arguments: argparse.Namespace) -> int:
    """Print the board. Returns 0, or 2 when the environment or the arguments ask for a board that cannot be."""
    console = Console()
    changes = {name: value for name in ("arch", "devices") if (value := getattr(arguments, name)) is not None}
    try:
        options = EmulatorOptions.from_environment(**changes)
    except AtopsError as error:
        console.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    arch = architecture(options.arch)
    topology = Topology.of(arch, options.devices, options.esl)
    if arguments.json:
        print(json.dumps(described(options, arch, topology), indent=1))
        return 0
    console.print(f"[bold]atops[/] board of {options.devices} x {arch.name}, Python {platform.python_version()}, "
                  f"numpy {np.__version__}", highlight=False)  # fmt: skip
    console.print(architecture_table(arch))
    if options.devices == 0:
        console.print("no devices: ATOPS_DEVICES, or --devices, sets how many")
    else:
        console.print(device_table(options, arch, topology))
    return 0


def architecture_table(arch: Architecture) -> Table:
    """Return an architecture's figures, each with where it comes from."""
    table = Table(title=f"{arch.name} ({arch.product}, {arch.code_name})", title_justify="left", box=None)
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("source", style="dim")
    for what, figure, name in figures(arch):
        table.add_row(what, figure, arch.sources.get(name, ""))
    return table


def figures(arch: Architecture) -> list[tuple[str, str, str]]:
    """Return (what, figure with its unit, field) of an architecture."""
    return [
        ("clusters", str(arch.clusters), "clusters"),
        ("SIPs in a cluster", str(arch.sips_per_cluster), "sips_per_cluster"),
        ("threads in a block, at most", str(arch.max_threads_per_block), "max_threads_per_block"),
        ("blocks in a grid, at most", " x ".join(map(str, arch.max_grid)), "max_grid"),
        ("L1 of a SIP, usable", format_bytes(arch.l1_usable), "l1_bytes"),
        ("L2 of a cluster, usable", format_bytes(arch.l2_usable), "l2_bytes"),
        ("L3", format_bytes(arch.l3_bytes), "l3_bytes"),
        ("L3 banks", str(arch.banks), "banks"),
        ("L3 bandwidth", f"{arch.l3_bandwidth / 1e9:.0f} GB/s", "l3_bandwidth"),
        ("copy engines", str(arch.clusters * arch.copy_engines_per_cluster), "copy_engines_per_cluster"),
        ("host link", f"{arch.host_link}, {arch.host_bandwidth / 1e9:.1f} GB/s", "host_link"),
        ("float32, float16", f"{arch.fp32_flops / 1e12:.0f}, {arch.fp16_flops / 1e12:.0f} TFLOPS", "fp32_flops"),
        ("int8", f"{arch.int8_ops / 1e12:.0f} TOPS", "int8_ops"),
        ("vector types", "yes" if arch.vector_types else "no", "vector_types"),
        ("direct access to global memory", "yes" if arch.direct_global_access else "no", "direct_global_access"),
        ("kernel signals", str(arch.kernel_signals), "kernel_signals"),
        ("device addresses", f"{arch.address_bits} bits", "address_bits"),
    ]


def device_table(options: EmulatorOptions, arch: Architecture, topology: Topology) -> Table:
    """Return the devices: address of their memory, and the access word to each other device."""
    table = Table(title="devices", title_justify="left", box=None)
    table.add_column("device", justify="right")
    table.add_column("memory")
    table.add_column("from address")
    for other in range(options.devices):
        table.add_column(f"to {other}", justify="right")
    for ordinal in range(options.devices):
        words = [f"{topology.access_word(ordinal, other):#x}" for other in range(options.devices)]
        table.add_row(str(ordinal), format_bytes(arch.l3_bytes), f"{(2 * ordinal + 1) << 36:#x}", *words)
    return table


def described(options: EmulatorOptions, arch: Architecture, topology: Topology) -> dict[str, Any]:
    """Return the board as JSON takes it. Sizes in bytes, rates in bytes or operations per second."""
    fields = [field for field in Architecture.__dataclass_fields__ if field != "sources"]
    return {
        "devices": [
            {
                "ordinal": ordinal,
                "memory_bytes": arch.l3_bytes,
                "base_address": (2 * ordinal + 1) << 36,
                "access_words": [topology.access_word(ordinal, other) for other in range(options.devices)],
            }
            for ordinal in range(options.devices)
        ],
        "architecture": {field: plain(getattr(arch, field)) for field in fields},
        "sources": dict(arch.sources),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def plain(value: Any) -> Any:
    """Return a value as JSON takes it."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return {str(key): plain(each) for key, each in value.items()} if hasattr(value, "items") else str(value)
