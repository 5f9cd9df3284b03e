"""An executable: a compiled graph with its constants, launched on streams. TOPS Runtime API, 2.11.

Opening one reads and checks it and runs nothing. What it has on devices goes with `close`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from atops.base.errors import IllegalState, InvalidHandle, InvalidType, InvalidValue, NotFound
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.driver import Driver
from atops.runtime.executables.constants import Constants, ManagedConstant, Refit
from atops.runtime.executables.file import (
    MOST_BYTES,
    ExecutableFile,
    FunctionRecord,
    Section,
    SectionKind,
    TensorRecord,
    read_contents,
)
from atops.runtime.executables.graph import Graph
from atops.runtime.executables.launch import GraphLaunch, InputOperand, OutputOperand
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.resources.bundle import ResourceBundle
from atops.runtime.stream import Stream

__all__ = ("Executable", "SectionInfo")


class SectionInfo(NamedTuple):
    """A section, its position among all, and where its copy on one bank of a device begins (0: nowhere)."""

    position: int
    section: Section
    address: int


class Executable:
    """What `atops.executable.build` and `load` make.

    `inputs`, `outputs`, `constants` and `functions` are its tables. Launches, refit and saving may come from any thread
    as long as no two refit at once.
    """

    def __init__(self, file: ExecutableFile, graph: Graph) -> None:
        """Take a file and its graph. Raises InvalidImage where the tables are damaged or do not fit the graph."""
        found = read_contents(file)
        self.inputs, self.outputs, self.constants, self.functions = found[3:7]
        graph.check_tables(self.inputs, self.outputs, self.constants, self.functions)
        self.name, self.refittable = found.header
        self.geometry = found.resource.blocks, found.resource.threads
        self.compilation_id = found.profile.compilation_id
        self._file = file
        self._graph = graph
        self._constants = Constants(self.constants, found.images)
        self._refit = Refit(self.name, self.refittable, self._constants)
        self._closed = False

    # ---- lifecycle

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Executable:
        """Open an executable. Raises InvalidImage, InvalidType, and NotSupported without the package onnx."""
        file = ExecutableFile.from_bytes(data)
        return cls(file, Graph.from_bytes(file.content(SectionKind.CODE)))

    @classmethod
    def load(cls, path: str | bytes | os.PathLike[str]) -> Executable:
        """Open the executable in a file. Raises OSError where there is none, else as `from_bytes`."""
        with open(path, "rb") as file:
            return cls.from_bytes(file.read(MOST_BYTES + 1))

    def to_bytes(self) -> bytes:
        """Return it as a file has it, with the constants as they are now.

        Raises IllegalState after a refit whose constants have no new key yet: `renew_key` makes one.
        """
        if self._refit.key_is_old:
            raise IllegalState(f"the constants of executable {self.name} have an old key; renew_key() first")
        return self._file.to_bytes()

    def save(self, path: str | bytes | os.PathLike[str]) -> None:
        """Write it to a file. Raises OSError, and IllegalState as `to_bytes`."""
        data = self.to_bytes()
        with open(path, "wb") as file:
            file.write(data)

    def close(self) -> None:
        """Give back what it has on devices once the work that uses it is over; it cannot be used again. Idempotent."""
        self._closed = True
        self._refit.close()
        self._constants.close()

    # ---- launching

    def launch(
        self,
        stream: Stream,
        inputs: Sequence[DeviceArray],
        outputs: Sequence[Buffer],
        *,
        constants: Sequence[Buffer] | None = None,
        exact: bool = False,
        bundle: ResourceBundle | None = None,
    ) -> Completion:
        """Enqueue a run: inputs of the types and within the dims of `inputs`, outputs with room for the results.

        The completion's result is the list of the outputs' shapes. `constants` take the place of the executable's own,
        in the order of its table. `exact`: no dims but the built ones. `bundle` is where it runs. Raises InvalidValue
        for a wrong number, dims or room, InvalidType for a wrong element type, PeerAccessNotEnabled, OutOfMemory for
        the constants, LaunchOutOfResources; the completion fails with LaunchFailure, or IllegalAddress where an output
        does not fit.
        """
        self._check_open()
        _check_count("inputs", inputs, self.inputs)
        _check_count("outputs", outputs, self.outputs)
        ends = [self._input(record, array, exact) for record, array in zip(self.inputs, inputs, strict=True)]
        results = [_output(record, memory) for record, memory in zip(self.outputs, outputs, strict=True)]
        if constants is None:
            return self._constants.use(
                stream, lambda found: self._submit(stream, ends, results, found, bundle), bundle
            )  # fmt: skip
        _check_count("constants", constants, self.constants)
        for record, memory in zip(self.constants, constants, strict=True):
            if memory.nbytes != record.nbytes:
                raise InvalidValue(f"constant {record.name!r} has {record.nbytes} bytes, what is given {memory.nbytes}")
        return self._submit(stream, ends, results, constants, bundle)

    def call(
        self, stream: Stream, function: str, inputs: Sequence[DeviceArray], outputs: Sequence[Buffer]
    ) -> Completion:
        """Enqueue a call of one of its functions; the result is the list of the outputs' shapes.

        Only in a refit, once `function_text` was asked for. Raises IllegalState, NotSupported, NotFound for the name;
        else as `launch`.
        """
        self.check_call()
        record = self.function(function)
        _check_count("inputs", inputs, record.inputs)
        _check_count("outputs", outputs, record.outputs)
        ends = []
        for parameter, array in zip(record.inputs, inputs, strict=True):
            _check_type(parameter.name, parameter.dtype, array)
            ends.append(InputOperand(parameter.name, array, array.dtype, array.shape))
        ready = zip(record.outputs, outputs, strict=True)
        results = [OutputOperand(each.name, memory, each.kind) for each, memory in ready]
        return GraphLaunch(f"{self.name}.{record.name}", self._graph, ends, results, record).enqueue(stream)

    def load_constants(self, stream: Stream, bundle: ResourceBundle | None = None) -> list[Buffer]:
        """Return memory of its own for each constant, uploaded in the order of `stream`; close each when done.

        `launch(..., constants=...)` takes them. Raises OutOfMemory, and what the stream raises; then nothing is left.
        """
        self._check_open()
        return self._constants.load(stream, bundle)

    def _submit(
        self,
        stream: Stream,
        ends: list[InputOperand],
        results: list[OutputOperand],
        constants: Sequence[Buffer],
        bundle: ResourceBundle | None,
    ) -> Completion:
        fixed = [
            InputOperand(record.name, memory, record.kind, record.dims, constant=True)
            for record, memory in zip(self.constants, constants, strict=True)
        ]
        name = self.name if self.compilation_id is None else f"compilation {self.compilation_id}"
        return GraphLaunch(name, self._graph, [*ends, *fixed], results).enqueue(stream, bundle)

    def _input(self, record: TensorRecord, array: DeviceArray, exact: bool) -> InputOperand:
        _check_type(record.name, record.dtype, array)
        dims = array.shape
        if exact and dims != record.dims:
            raise InvalidValue(f"input {record.name!r} has dims {dims}; expected the built ones, {record.dims}")
        limits = zip(dims, record.minimum, record.maximum, strict=False)
        if len(dims) != len(record.dims) or any(each < least or -1 < most < each for each, least, most in limits):
            raise InvalidValue(
                f"input {record.name!r} has dims {dims}; expected {record.minimum} to {record.maximum} (-1: any)"
            )
        return InputOperand(record.name, array, record.kind, dims)

    # ---- refit

    def managed_constants(self, driver: Driver) -> tuple[ManagedConstant, ...]:
        """Return the constants that refit may change, to be written: its first step.

        Raises NotSupported where it was built without refit.
        """
        self._check_open()
        return self._refit.managed(driver)

    def function_text(self) -> str:
        """Return the functions as JSON text, and permit `call` from now on: the second step.

        Raises IllegalState before the first, NotSupported.
        """
        self._check_open()
        self._refit.functions()
        return json.dumps([
            {
                "name": each.name,
                "inputs": [{"name": end.name, "dtype": end.dtype} for end in each.inputs],
                "outputs": [{"name": end.name, "dtype": end.dtype} for end in each.outputs],
            }
            for each in self.functions
        ])  # fmt: skip

    def check_call(self) -> None:
        """Raise IllegalState unless `call` is permitted now, NotSupported where it was built without refit."""
        self._check_open()
        self._refit.check_call()

    def update(self, stream: Stream, bundle: ResourceBundle | None = None) -> None:
        """Take over the constants whose flag is set and upload them in the order of `stream`: the third step.

        Raises IllegalState before the first, NotSupported, OutOfMemory, and what the stream raises.
        """
        self._check_open()
        self._refit.update(stream, bundle)

    def renew_key(self) -> None:
        """Let the key be that of the constants as they are: the last step, before it can be saved again.

        Raises IllegalState before an update, NotSupported.
        """
        self._check_open()
        self._refit.key_renewed()
        kind = SectionKind.MANAGED_CONSTANT
        if kind in self._constants.images:
            self._file = self._file.with_content(kind, self._constants.images[kind])

    # ---- queries

    def function(self, name: str) -> FunctionRecord:
        """Return a function by its name. Raises NotFound."""
        found = next((each for each in self.functions if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in self.functions) or "none"
            raise NotFound(f"executable {self.name} has no function {name!r}; it has {known}")
        return found

    @property
    def target_resource(self) -> bytes:
        """The resource bundle that it asks for, as a topsResourceRequest_t in C."""
        return self._file.content(SectionKind.TARGET_RESOURCE)

    @property
    def sections(self) -> tuple[Section, ...]:
        """Its sections, in the order of the file."""
        return self._file.sections

    def section(self, kind: int, context: DeviceContext, bank: int) -> SectionInfo:
        """Return a section, and where its copy on one bank of a device begins. Raises NotFound for one it has not."""
        for position, section in enumerate(self._file.sections):
            if section.kind == kind:
                return SectionInfo(position, section, self._constants.address(context, section.kind, bank))
        raise NotFound(f"executable {self.name} has no section of type {int(kind)}")

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidHandle(f"executable {self.name} is closed")

    def __repr__(self) -> str:
        fate = ", closed" if self._closed else ""
        return f"<Executable {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs{fate}>"


def _output(record: TensorRecord, memory: Buffer) -> OutputOperand:
    if not isinstance(memory, Buffer):
        raise InvalidType(f"output {record.name!r} is {type(memory).__name__}; expected device memory")
    if memory.nbytes < record.nbytes:
        raise InvalidValue(f"output {record.name!r} has {record.nbytes} bytes; {memory!r} has {memory.nbytes}")
    return OutputOperand(record.name, memory, record.kind)


def _check_type(name: str, dtype: str, array: DeviceArray) -> None:
    if not isinstance(array, DeviceArray):
        raise InvalidType(f"input {name!r} is {type(array).__name__}; expected a device array")
    if array.dtype.name != dtype:
        raise InvalidType(f"input {name!r} is {dtype}, not {array.dtype}; .view(...) the memory")


def _check_count(what: str, given: Sequence[object], wanted: Sequence[object]) -> None:
    if len(given) != len(wanted):
        raise InvalidValue(f"{len(given)} {what} are given; expected {len(wanted)}")
