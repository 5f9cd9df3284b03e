"""A board of two devices for each test, as tests/tops has it."""

from __future__ import annotations

from tests.tops.conftest import world

__all__ = ("world",)
