"""What a run of the demo found, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from atops.apps.histogram import BINS
from atops.base.records import Trace

__all__ = ("Outcome",)


@dataclass
class Outcome:
    """What a run of the demo found."""

    files: int
    bytes: int = 0
    chunks: int = 0
    mismatches: list[int] = field(default_factory=list)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    seconds: float = 0.0
    trace: Trace = field(default_factory=Trace)
