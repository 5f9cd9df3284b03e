"""The native runtime needs a compiler: without one its tests are skipped, but not in CI."""

from tests.kernels.cxx.conftest import _compiler

__all__ = ("_compiler",)
