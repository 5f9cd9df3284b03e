"""The architecture table: its figures, their grades, and how it is looked up."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from atops.base.errors import InvalidValue
from atops.base.options import ARCHITECTURE_NAMES, EmulatorOptions
from atops.device.arch import ARCHITECTURES, Architecture, Grade, architecture
from tests.every import every

# What bears no grade: names, alignments, and what only a name says.
UNGRADED = {
    "name", "product", "code_name", "gcu_arch_name", "compute_capability", "gcu_arch", "agcu_arch",
    "malloc_alignment", "vector_alignment", "direct_global_access", "sources",
}  # fmt: skip


@every(
    "name, field, value",
    [
        ("gcu210", "product", "i20"), ("gcu210", "code_name", "dorado"), ("gcu210", "compute_capability", (2, 1)),
        ("gcu210", "l1_usable", 1032192), ("gcu210", "l2_bytes", 24 << 20), ("gcu210", "l2_usable", 24 << 20),
        ("gcu210", "l3_bytes", 16 << 30), ("gcu210", "l3_bandwidth", 819_000_000_000), ("gcu210", "agcu_arch", 200),
        ("gcu210", "gcu_arch", 210), ("gcu210", "vector_types", False), ("gcu210", "direct_global_access", False),
        ("gcu210", "max_grid", (65536, 256, 256)), ("gcu210", "fp32_flops", 32 * 10**12),
        ("gcu300", "product", "S60"), ("gcu300", "gcu_arch_name", "dtu-enflame-tops--gcu300"),
        ("gcu300", "compute_capability", (3, 0)), ("gcu300", "l1_bytes", 3 << 19), ("gcu300", "l1_usable", 1572352),
        ("gcu300", "l2_bytes", 64 << 20), ("gcu300", "l2_usable", 60 << 20), ("gcu300", "l2_reserved", 4 << 20),
        ("gcu300", "l3_bytes", 48 << 30), ("gcu300", "l3_bandwidth", 672_000_000_000), ("gcu300", "agcu_arch", 300),
        ("gcu300", "vector_bytes", (128, 256, 512)), ("gcu300", "host_bandwidth", 63_000_000_000),
        ("gcu300", "mapped_window_bytes", 256 << 20), ("gcu300", "direct_global_access", True),
    ],
)  # fmt: skip
def test_figures(name: str, field: str, value: Any) -> None:
    """Each chip has its published figures."""
    assert getattr(architecture(name), field) == value


@pytest.mark.parametrize("chip", ARCHITECTURES.values(), ids=lambda chip: chip.name)
def test_every_figure_has_a_graded_source(chip: Architecture) -> None:
    """A figure that is there is graded, and nothing else is."""
    fields = {field.name for field in dataclasses.fields(chip)}
    absent = {field for field in fields if getattr(chip, field) == 0 and field not in ("vector_types",)}
    assert set(chip.sources) == fields - UNGRADED - absent
    assert set(chip.sources.values()) <= set(get_args(Grade))


@pytest.mark.parametrize("chip", ARCHITECTURES.values(), ids=lambda chip: chip.name)
def test_figures_fit_together(chip: Architecture) -> None:
    """What is usable is no more than what there is, and all of L3 can be addressed and divided into banks."""
    assert 0 < chip.l1_usable <= chip.l1_bytes < chip.l2_usable <= chip.l2_bytes < chip.l3_bytes
    assert chip.l3_bytes % (chip.banks * chip.malloc_alignment) == 0
    assert chip.l3_bytes < 1 << chip.address_bits
    assert chip.sips == chip.clusters * chip.sips_per_cluster == 24
    assert max(chip.max_block) == chip.max_threads_per_block == 12
    assert chip.l2_bandwidth == chip.sips * 64 * chip.clock_khz * 1000 > chip.l3_bandwidth  # 64 bytes a thread and tick


def test_grades_differ_where_the_sources_do() -> None:
    """The same figure may be known better for one chip than for the other."""
    assert ARCHITECTURES["gcu210"].sources["fp32_flops"] == "vendor"
    assert ARCHITECTURES["gcu300"].sources["fp32_flops"] == "chosen"
    assert ARCHITECTURES["gcu210"].sources["l1_bytes"] == "secondary"
    assert ARCHITECTURES["gcu300"].sources["l1_bytes"] == "client"


@pytest.mark.parametrize("name", ["gcu400", "", None, ["gcu300"]])
def test_unknown_architectures_are_refused(name: Any) -> None:
    """The message names the value and the known architectures."""
    with pytest.raises(InvalidValue) as caught:
        architecture(name)
    assert repr(name) in str(caught.value)
    assert "'gcu210' or 'gcu300'" in str(caught.value)


def test_the_table_cannot_be_changed() -> None:
    """Hardware facts are read-only."""
    chip = architecture("gcu300")
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.clusters = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        ARCHITECTURES["gcu400"] = chip  # type: ignore[index]
    with pytest.raises(TypeError):
        chip.sources["clusters"] = "vendor"  # type: ignore[index]
    assert hash(chip) == hash(architecture("gcu300"))


def test_the_options_take_every_architecture() -> None:
    """The names that EmulatorOptions(arch=...) takes, on the floor below the table, are the table's."""
    assert tuple(ARCHITECTURES) == ARCHITECTURE_NAMES
    assert [EmulatorOptions(arch=name).arch for name in ARCHITECTURES] == list(ARCHITECTURES)
