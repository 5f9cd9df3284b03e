"""The timeline of a run whose kernels took virtual time: spans beside copies, as long as they are in the trace."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import atops
from atops.base.trace.records import Kind
from atops_widgets import Timeline
from tests.widgets.host import Host

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "overlap_by_virtual_time.py"


def test_overlap_is_seen(host: Host, tmp_path: Path) -> None:
    """Each kernel is a rectangle as wide as its time, and in the pipeline of two buffers lies over the next copy."""
    pipeline = runpy.run_path(str(EXAMPLE))["pipeline"]

    async def main() -> None:
        async with atops.profile(tmp_path / "run.trace") as profile:
            await pipeline(2)
        records.extend(each for each in profile.records if each.kind in (Kind.LAUNCH, Kind.COPY_H2D))

    records: list[atops.TraceRecord] = []
    atops.run(main, atops.EmulatorOptions(clock="virtual"))
    shown = host.show(Timeline(tmp_path / "run.trace"))
    shown.until("view.rects.length > 0")
    drawn = {seq: (x, x + width) for seq, x, width in shown.get("view.rects.map((r) => [r.seq, r.x, r.width])")}
    kernels = [each for each in records if each.kind is Kind.LAUNCH]
    copies = [each for each in records if each.kind is Kind.COPY_H2D]
    assert len(kernels) == len(copies) == 6
    widths = [[drawn[each.seq][1] - drawn[each.seq][0] for each in some] for some in (kernels, copies)]
    expected = kernels[0].duration_ns / copies[0].duration_ns
    assert all(abs(kernel / copy - expected) < 0.05 for kernel, copy in zip(*widths, strict=True))
    for kernel, copy in zip(kernels, copies[1:], strict=False):  # the next chunk comes while this one is worked on
        assert abs(drawn[kernel.seq][0] - drawn[copy.seq][0]) < 2 or drawn[copy.seq][0] > drawn[kernel.seq][0]
        assert drawn[copy.seq][0] < drawn[kernel.seq][1]
