"""Pictures of the widgets for the documentation: drawn from traces that never change, written only when asked for.

ATOPS_MAKE_PICTURES=1 writes docs/pictures/<widget>-light.png and -dark.png; without it nothing is written.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.widgets.host import Shown

__all__ = ("FOLDER", "WANTED", "keep")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WANTED = "ATOPS_MAKE_PICTURES"  # the variable that has them written


def keep(shown: Shown, name: str, theme: str) -> None:
    """Write the picture of a widget if pictures are wanted. Call it when what should be seen is drawn."""
    if os.environ.get(WANTED):
        shown.screenshot(FOLDER / f"{name}-{theme}.png")
