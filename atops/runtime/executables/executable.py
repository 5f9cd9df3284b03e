"""An executable: a compiled graph with its constants, launched on streams. TOPS Runtime API, 2.11.

Opening one reads and checks it and runs nothing. What it has on devices goes with `close`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.dtypes import DType
from atops.base.errors import (
    AtopsError,
    ExecutionError,
    IllegalState,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    NotFound,
    PeerAccessNotEnabled,
    StreamAborted,
)
from atops.device.memory.allocation import Allocation
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.handles import IsStream
from atops.runtime.commands.launch import Launch, LaunchOptions
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
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.memory.scatter import read_from, write_to
from atops.runtime.resources.bundle import ResourceBundle
from atops.runtime.stream import Stream, queue_of, stream_from

__all__ = ("Executable", "SectionInfo")


ONE_THREAD: Final = LaunchConfig(1, 1)


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
        stream: IsStream,
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
        stream = stream_from(stream)
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
        self, stream: IsStream, function: str, inputs: Sequence[DeviceArray], outputs: Sequence[Buffer]
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
            ends.append(_InputOperand(parameter.name, array, array.dtype, array.shape))
        ready = zip(record.outputs, outputs, strict=True)
        results = [_OutputOperand(each.name, memory, each.kind) for each, memory in ready]
        launch = _GraphLaunch(f"{self.name}.{record.name}", self._graph, ends, results, record)
        return launch.enqueue(stream_from(stream))

    def load_constants(self, stream: IsStream, bundle: ResourceBundle | None = None) -> list[Buffer]:
        """Return memory of its own for each constant, uploaded in the order of `stream`; close each when done.

        `launch(..., constants=...)` takes them. Raises OutOfMemory, and what the stream raises; then nothing is left.
        """
        self._check_open()
        return self._constants.load(stream_from(stream), bundle)

    def _submit(
        self,
        stream: Stream,
        ends: list[_InputOperand],
        results: list[_OutputOperand],
        constants: Sequence[Buffer],
        bundle: ResourceBundle | None,
    ) -> Completion:
        fixed = [
            _InputOperand(record.name, memory, record.kind, record.dims, constant=True)
            for record, memory in zip(self.constants, constants, strict=True)
        ]
        name = self.name if self.compilation_id is None else f"compilation {self.compilation_id}"
        return _GraphLaunch(name, self._graph, [*ends, *fixed], results).enqueue(stream, bundle)

    def _input(self, record: TensorRecord, array: DeviceArray, exact: bool) -> _InputOperand:
        _check_type(record.name, record.dtype, array)
        dims = array.shape
        if exact and dims != record.dims:
            raise InvalidValue(f"input {record.name!r} has dims {dims}; expected the built ones, {record.dims}")
        limits = zip(dims, record.minimum, record.maximum, strict=False)
        if len(dims) != len(record.dims) or any(each < least or -1 < most < each for each, least, most in limits):
            raise InvalidValue(
                f"input {record.name!r} has dims {dims}; expected {record.minimum} to {record.maximum} (-1: any)"
            )
        return _InputOperand(record.name, array, record.kind, dims)

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

    def update(self, stream: IsStream, bundle: ResourceBundle | None = None) -> None:
        """Take over the constants whose flag is set and upload them in the order of `stream`: the third step.

        Raises IllegalState before the first, NotSupported, OutOfMemory, and what the stream raises.
        """
        self._check_open()
        self._refit.update(stream_from(stream), bundle)

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


def _output(record: TensorRecord, memory: Buffer) -> _OutputOperand:
    if not isinstance(memory, Buffer):
        raise InvalidType(f"output {record.name!r} is {type(memory).__name__}; expected device memory")
    if memory.nbytes < record.nbytes:
        raise InvalidValue(f"output {record.name!r} has {record.nbytes} bytes; {memory!r} has {memory.nbytes}")
    return _OutputOperand(record.name, memory, record.kind)


def _check_type(name: str, dtype: str, array: DeviceArray) -> None:
    if not isinstance(array, DeviceArray):
        raise InvalidType(f"input {name!r} is {type(array).__name__}; expected a device array")
    if array.dtype.name != dtype:
        raise InvalidType(f"input {name!r} is {dtype}, not {array.dtype}; .view(...) the memory")


def _check_count(what: str, given: Sequence[object], wanted: Sequence[object]) -> None:
    if len(given) != len(wanted):
        raise InvalidValue(f"{len(given)} {what} are given; expected {len(wanted)}")


# ---- launches: a graph has the place of the entry that a kernel's threads have, evaluated on device memory. So it is a
# launch like any other: it takes a cluster, stands in its stream, is traced, aborted and fails as kernels do.


class _InputOperand(NamedTuple):
    """An input or a constant: where its bytes are, and what they mean. Constants are not copied."""

    name: str
    memory: Buffer
    dtype: DType
    shape: tuple[int, ...]
    constant: bool = False

    def read(self) -> object:
        """Return the array. Raises IllegalAddress when its memory was freed meanwhile."""
        data = read_from(self.memory.allocation, self.memory.offset, self.memory.nbytes, self.name)
        array = data.view(self.dtype).reshape(self.shape)
        if not self.constant:
            return array.copy()  # a result may be this very array, and its memory an output's
        array.flags.writeable = False
        return array


class _OutputOperand(NamedTuple):
    """An output: where it goes, how much room there is, and the type that it must have."""

    name: str
    memory: Buffer
    dtype: DType

    def write(self, array: Any) -> None:
        """Store a result. Raises LaunchFailure for another type, IllegalAddress where it does not fit."""
        if array.dtype != self.dtype:
            raise LaunchFailure(f"output {self.name!r} came out as {array.dtype}; the executable says {self.dtype}")
        allocation, offset = self.memory.allocation, self.memory.offset
        if array.nbytes > self.memory.nbytes:
            raise allocation.violation(offset, array.nbytes, f"output {self.name!r} of shape {array.shape}")
        write_to(allocation, offset, np.ascontiguousarray(array).reshape(-1).view(np.uint8), self.name)


class _GraphLaunch:
    """A graph, or one of its functions, bound to its operands. It is what a bound kernel is to a launch."""

    make: Callable[[], Coroutine[object, None, Any]] | None = None
    prepares = False
    suspends = True
    native = None

    def __init__(
        self,
        name: str,
        graph: Graph,
        inputs: Sequence[_InputOperand],
        outputs: Sequence[_OutputOperand],
        function: FunctionRecord | None = None,
    ) -> None:
        self.name = name
        self.shapes: list[tuple[int, ...]] = []  # of the outputs, once it has run
        self._graph = graph
        self._function = function
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self.memory = (*(each.memory for each in self._inputs), *(each.memory for each in self._outputs))
        self.allocations: tuple[Allocation, ...] = tuple(dict.fromkeys(each.allocation for each in self.memory))
        ends = [(each.memory, False) for each in inputs] + [(each.memory, True) for each in outputs]
        self.touches = [(end.allocation, end.offset, end.offset + end.nbytes, write) for end, write in ends]

    def enqueue(self, stream: Stream, bundle: ResourceBundle | None = None) -> Completion:
        """Enqueue it, as one block of one thread, in a resource bundle if one is given; the result is `shapes`.

        Raises PeerAccessNotEnabled for memory that the device does not reach, and what the stream and the bundle raise.
        """
        queue = queue_of(stream)
        context = queue.context
        self._check_access(context.reaches)
        launch = Launch(self, ONE_THREAD, LaunchOptions(bundle=bundle))
        if context.resources is not None:
            launch = context.resources.admit(queue, launch)
        return queue.keep(queue.submit(launch, self.shapes), self.allocations)

    def _check_access(self, can_access: Callable[[Allocation], bool]) -> None:
        for allocation in self.allocations:
            if not can_access(allocation):
                raise PeerAccessNotEnabled(
                    f"executable {self.name}: {allocation!r} is memory of {allocation.where}; enable peer access to it "
                    "or copy it first"
                )

    def resolve(self, can_access: Callable[[Allocation], bool]) -> None:
        """Look once more, just before it runs. Raises IllegalAddress for freed memory, PeerAccessNotEnabled."""
        for allocation in self.allocations:
            allocation.check(0, 0, f"executable {self.name}")
        self._check_access(can_access)

    def start(self, thread: Any) -> None:
        """Evaluate, and store the results. Raises LaunchFailure, IllegalAddress, or what has stopped the grid."""
        def stop() -> AtopsError | None:
            error: ExecutionError | None = thread.grid.error
            return error

        try:
            feeds = {each.name: each.read() for each in self._inputs}
            results = self._graph.run(feeds, stop, self._function)
            if stop() is not None:
                raise StreamAborted(f"executable {self.name} was stopped before it stored its results")
            for output, array in zip(self._outputs, results, strict=True):
                output.write(array)
            if (detector := thread.grid.detector) is not None:
                for each in self._inputs:
                    detector.touched(each.memory.allocation, each.memory.offset, each.memory.nbytes, False)
                for output, array in zip(self._outputs, results, strict=True):
                    detector.touched(output.memory.allocation, output.memory.offset, array.nbytes, True)
        except LaunchFailure as error:
            failure = LaunchFailure(f"executable {self.name}: {error}")
            raise failure from error.__cause__
        self.shapes.extend(array.shape for array in results)

    def prepare(self, grid: object) -> None:
        """Look at nothing: there is no target and no promise."""

    def finish(self, thread: object, value: object) -> None:
        """Settle nothing: it issues no transfers and returns no value."""

    def __repr__(self) -> str:
        return f"<GraphLaunch {self.name}: {len(self._inputs)} inputs, {len(self._outputs)} outputs>"
