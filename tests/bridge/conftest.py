"""The fixtures of the tests of C-style functions, through which the bridge is tested."""

from __future__ import annotations

from tests.tops.conftest import world as world
