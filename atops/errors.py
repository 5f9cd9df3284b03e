"""The error tree under its public name, for `from atops.errors import ...`: the classes of `atops.base.errors`."""

from __future__ import annotations

from atops.base import errors as tree
from atops.base.errors import *  # noqa: F403  # each is listed there, once

__all__ = tree.__all__

__doc__ = tree.__doc__  # what help(atops.errors) shows
