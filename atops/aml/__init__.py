"""AML's areas over HIP under their own names: memory of each kind behind `aml_area_mmap` and `aml_area_munmap`.

Functions return AML_SUCCESS or a negated code; `aml_area_hip_create` returns that and the area. What returns a pointer
returns None on failure, and `aml_errno`, one of each thread, is the negated code. It is an attribute of this module:
read it as `aml.aml_errno`, and set it to AML_SUCCESS before a call that is to be judged by it. Nothing is raised.

    err, area = aml.aml_area_hip_create(0, aml.AML_AREA_HIP_FLAG_ALLOC_UNIFIED)
    pointer = aml.aml_area_mmap(area, 4096, None)

`Area` is the same in Python's form, over the object API:

    with atops.aml.Area(device=0, unified=True) as area:
        memory = area.mmap(4096)

In this package are

    codes         constants, error codes, `aml_errno`
    areas         what every area is
    hip_areas     areas of device memory: their flags, options and operations
    python_areas  `Area`
"""

from __future__ import annotations

import sys
from types import ModuleType

from atops.aml import areas, codes, hip_areas
from atops.aml.areas import *  # noqa: F403  # the names of the header
from atops.aml.codes import *  # noqa: F403
from atops.aml.hip_areas import *  # noqa: F403
from atops.aml.python_areas import Area as Area

_NAMES = (name for part in (areas, codes, hip_areas) for name in part.__all__)
__all__ = tuple(sorted({"Area", *(name for name in _NAMES if name.lower().startswith("aml"))}))


class _Aml(ModuleType):
    """This module, with one attribute that each thread has of its own."""

    @property
    def aml_errno(self) -> int:
        """The negated code of the thread's last failed mapping, or what the thread has set; AML_SUCCESS at first."""
        return codes.ERRNO.value

    @aml_errno.setter
    def aml_errno(self, value: int) -> None:
        codes.ERRNO.value = value


sys.modules[__name__].__class__ = _Aml
