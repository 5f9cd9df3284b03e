"""Refit: changing the managed constants of an executable in steps, each of which needs the one before it (2.11)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from atops.base.errors import IllegalState, NotSupported
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.executables.constants import Constants
from atops.runtime.executables.file import SectionKind
from atops.runtime.executables.tables import ConstantRecord
from atops.runtime.memory.host_array import HostArray
from atops.runtime.resources.bundle import ResourceBundle

if TYPE_CHECKING:
    from atops.runtime.stream import Stream

__all__ = ("ManagedConstant", "Refit", "RefitStep")


class RefitStep(IntEnum):
    """How far a refit has come."""

    NONE = 0
    DATA = 1  # the bytes can be written
    FUNCTIONS = 2  # functions can be called
    UPDATED = 3  # devices have the new bytes, and the key is still that of the old ones


class ManagedConstant(NamedTuple):
    """A constant that refit may change: write `data`, and set `flag[0]` to 1, in pinned memory that devices reach."""

    record: ConstantRecord
    data: npt.NDArray[Any]
    flag: npt.NDArray[np.uint8]


class Refit:
    """The refit of one executable, over and over. Call it from one thread at a time."""

    def __init__(self, name: str, permitted: bool, constants: Constants) -> None:
        self._name = name
        self._permitted = permitted
        self._constants = constants
        self._staging: HostArray | None = None
        self.step = RefitStep.NONE
        self.key_is_old = False

    def managed(self, driver: Driver) -> tuple[ManagedConstant, ...]:
        """Return the managed constants as they are, in pinned memory that is the same each time, to be written.

        The first step; it also begins a refit anew. Raises NotSupported where the executable was built without refit.
        """
        self._check(RefitStep.NONE, "GetConstManagedData")
        image = self._constants.images.get(SectionKind.MANAGED_CONSTANT, b"")
        records = [each for each in self._constants.records if each.managed]
        staging = self._staging
        if staging is None or not staging.is_live or staging.driver is not driver:
            self.close()
            staging = self._staging = Device(0, driver).host_malloc(len(image) + len(records))
            staging.array[: len(image)] = np.frombuffer(image, np.uint8)
            staging.array[len(image) :] = 0
        self.step = RefitStep.DATA if self.step in (RefitStep.NONE, RefitStep.UPDATED) else self.step
        found = []
        for index, record in enumerate(records):
            part = staging.array[record.offset : record.offset + record.nbytes]
            flag = staging.array[len(image) + index :][:1]
            found.append(ManagedConstant(record, part.view(record.kind).reshape(record.dims), flag))
        return tuple(found)

    def functions(self) -> None:
        """Permit calls of functions from now on. Raises IllegalState before `managed`, NotSupported."""
        self._check(RefitStep.DATA, "GetSubFuncInfo")
        if self.step is RefitStep.UPDATED:
            raise self._out_of_order("GetSubFuncInfo", "GetConstManagedData")
        self.step = RefitStep.FUNCTIONS

    def check_call(self) -> None:
        """Raise IllegalState unless functions may be called now, NotSupported where there is no refit."""
        self._check(RefitStep.DATA, "CallSubFunc")
        if self.step is not RefitStep.FUNCTIONS:
            raise self._out_of_order("CallSubFunc", "GetSubFuncInfo")

    def update(self, stream: Stream, bundle: ResourceBundle | None = None) -> None:
        """Take over the constants whose flag is set, and upload those in the order of `stream`; clear the flags.

        Launches on other devices get them when they need them. Raises IllegalState before `managed`, NotSupported,
        OutOfMemory, and what the stream raises; then the old constants stay.
        """
        self._check(RefitStep.DATA, "UpdateRuntimeResource")
        kind, constants, staging = SectionKind.MANAGED_CONSTANT, self._constants, self._staging
        assert staging is not None, "made by the first step"
        old = constants.images.get(kind, b"")
        if not staging.is_live:
            raise self._out_of_order("UpdateRuntimeResource", "GetConstManagedData, since its driver has closed,")
        image, changed = bytearray(old), False
        for index, record in enumerate(each for each in constants.records if each.managed):
            if staging.array[len(old) + index]:
                part = slice(record.offset, record.offset + record.nbytes)
                image[part] = staging.array[part].tobytes()
                changed = True
        if changed:
            constants.replace(bytes(image))
        try:
            constants.use(stream, lambda found: None, bundle)
        except BaseException:
            if changed:
                constants.replace(old)
            raise
        staging.array[len(old) :] = 0
        self.key_is_old |= changed
        self.step = RefitStep.UPDATED

    def key_renewed(self) -> None:
        """Note that the key is that of the constants again. Raises IllegalState before `update`, NotSupported."""
        self._check(RefitStep.DATA, "UpdateConstantKey")
        if self.step is not RefitStep.UPDATED:
            raise self._out_of_order("UpdateConstantKey", "UpdateRuntimeResource")
        self.key_is_old = False
        self.step = RefitStep.NONE

    def close(self) -> None:
        """Give the pinned memory back. Idempotent."""
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.close()

    def _check(self, least: RefitStep, call: str) -> None:
        if not self._permitted:
            raise NotSupported(f"{call} of executable {self._name}, which was built without refit; build(refit=True)")
        if self.step < least:
            raise self._out_of_order(call, "GetConstManagedData")

    def _out_of_order(self, call: str, first: str) -> IllegalState:
        step = self.step.name
        return IllegalState(f"{call} of executable {self._name} at step {step} of its refit; {first} comes first")
