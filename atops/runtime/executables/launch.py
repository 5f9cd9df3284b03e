"""A launch of an executable: the entry that a kernel's threads have, which evaluates the graph on device memory.

So it is a launch like any other: it takes a cluster, stands in its stream, is traced, aborted and fails as kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.dtypes import DType
from atops.base.errors import AtopsError, ExecutionError, LaunchFailure, PeerAccessNotEnabled, StreamAborted
from atops.device.memory.allocation import Allocation
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.commands.launch import Launch, LaunchOptions
from atops.runtime.core.completion import Completion
from atops.runtime.executables.file import FunctionRecord
from atops.runtime.executables.graph import Graph
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import read_from, write_to
from atops.runtime.resources.bundle import ResourceBundle
from atops.runtime.stream import Stream

__all__ = ("GraphLaunch", "InputOperand", "OutputOperand")

ONE_THREAD: Final = LaunchConfig(1, 1)


class InputOperand(NamedTuple):
    """An input or a constant: where its bytes are, and what they mean. Constants are not copied."""

    name: str
    memory: Buffer
    dtype: DType
    shape: tuple[int, ...]
    constant: bool = False

    def read(self) -> Any:
        """Return the array. Raises IllegalAddress when its memory was freed meanwhile."""
        data = read_from(self.memory.allocation, self.memory.offset, self.memory.nbytes, self.name)
        array = data.view(self.dtype).reshape(self.shape)
        if not self.constant:
            return array.copy()  # a result may be this very array, and its memory an output's
        array.flags.writeable = False
        return array


class OutputOperand(NamedTuple):
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


class GraphLaunch:
    """A graph, or one of its functions, bound to its operands. It is what a bound kernel is to a launch."""

    make: Callable[[], Coroutine[Any, Any, Any]] | None = None
    prepares = False

    def __init__(
        self,
        name: str,
        graph: Graph,
        inputs: Sequence[InputOperand],
        outputs: Sequence[OutputOperand],
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

    def enqueue(self, stream: Stream, bundle: ResourceBundle | None = None) -> Completion:
        """Enqueue it, as one block of one thread, in a resource bundle if one is given; the result is `shapes`.

        Raises PeerAccessNotEnabled for memory that the device does not reach, and what the stream and the bundle raise.
        """
        context = stream.context
        self._check_access(context.reaches)
        launch = Launch(self, ONE_THREAD, LaunchOptions(bundle=bundle))
        if context.resources is not None:
            launch = context.resources.admit(stream, launch)
        return stream.submit(launch, self.shapes)

    def _check_access(self, can_access: Callable[[Allocation], bool]) -> None:
        """Raise PeerAccessNotEnabled for memory that the device does not reach."""
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
        except LaunchFailure as error:
            failure = LaunchFailure(f"executable {self.name}: {error}")
            raise failure from error.__cause__
        self.shapes.extend(array.shape for array in results)

    def prepare(self, grid: object) -> None:
        """Look at nothing: there is no target and no promise."""

    def finish(self, thread: Any, value: object) -> None:
        """Settle nothing: it issues no transfers and returns no value."""

    def __repr__(self) -> str:
        return f"<GraphLaunch {self.name}: {len(self._inputs)} inputs, {len(self._outputs)} outputs>"
