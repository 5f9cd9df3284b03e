"""The ONNX graph inside an executable: read and checked without running any of it, then evaluated on numpy arrays.

The optional package onnx is imported when the first executable is made. It knows no device, no stream and no section.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import AtopsError, InvalidImage, InvalidType, LaunchFailure, NotSupported
from atops.base.log_fields import get_logger
from atops.runtime.executables.file import ConstantRecord, FunctionRecord, ParameterRecord, TensorRecord

__all__ = ("Graph", "dtype_name", "fast_session", "functions_of", "messages_in", "onnx_package", "tensor_type")

Package = Any  # onnx, which may be missing
Message = Any  # one of its messages: protobuf makes their classes when it is imported
Stop = Callable[[], AtopsError | None]


class _Running(threading.local):
    """What the evaluation on this OS thread asks whether it must end."""

    stop: Stop | None = None


RUNNING = _Running()
UNTRIED = object()
NATIVE: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13})  # ONNX's numbers of the types that numpy has
SILENT: Final = 4  # severity: fatal only; what fails is raised

log = get_logger("atops.executable")


def onnx_package() -> Package:
    """Return the package onnx. Raises NotSupported, naming the extra that installs it, where there is none."""
    try:
        import onnx
        import onnx.reference
    except ImportError as error:
        raise NotSupported(f"executables need the package onnx ({error}); install atops[onnx]") from None
    return onnx


@functools.cache
def _evaluator() -> type[Any]:
    """Return the class that evaluates: the reference's, which a launch can end between the turns of a loop."""
    reference: type[Any] = onnx_package().reference.ReferenceEvaluator

    class Evaluator(reference):  # type: ignore[misc]  # the package may be missing where types are checked
        """Asks at the start of each graph, function and turn of a loop whether it should go on."""

        def run(self, *arguments: object, **named: object) -> Any:
            stop = RUNNING.stop
            error = None if stop is None else stop()
            if error is not None:
                raise error.fresh()
            return super().run(*arguments, **named)

    return Evaluator


class Graph:
    """A checked model without its constants, which are inputs here. Safe from several OS threads at once."""

    def __init__(self, model: Message) -> None:
        self.model = model
        self._idle = [_evaluator()(model)]
        self._session: Any = UNTRIED

    @classmethod
    def of_built(cls, content: bytes) -> Graph:
        """Take a model that was just built. Raises NotSupported for operators and types that nothing here evaluates."""
        try:
            return cls(onnx_package().ModelProto.FromString(content))
        except Exception as error:  # the package raises what it likes
            raise NotSupported(f"the model cannot be run: {_first_line(error)}") from error

    @classmethod
    def from_bytes(cls, content: bytes) -> Graph:
        """Read a graph. Raises InvalidImage for what is none or is damaged, NotSupported without the package."""
        onnx = onnx_package()
        try:
            model = onnx.ModelProto.FromString(content)
            if any(tensor.external_data for tensor in messages_in(model, "TensorProto")):
                raise ValueError("a tensor is outside the file")
            onnx.checker.check_model(model)
            return cls(model)
        except Exception as error:  # the package raises what it likes
            raise InvalidImage(f"the executable's graph is damaged: {_first_line(error)}") from None

    def run(self, feeds: Mapping[str, object], stop: Stop, function: FunctionRecord | None = None) -> list[Any]:
        """Return the results of the graph, or of one of its functions, for arrays by the names of inputs.

        `stop` is asked now and then for an error that ends it. Raises that, LaunchFailure for what evaluation raises.
        """
        try:
            with np.errstate(all="ignore"):
                found = self._evaluate(feeds, stop, function)
        except AtopsError:
            raise
        except Exception as error:  # an operator raises what it likes
            raise LaunchFailure(f"evaluation failed: {type(error).__name__}: {_first_line(error)}") from error
        return [np.asarray(each) for each in found]

    def _evaluate(self, feeds: Mapping[str, object], stop: Stop, function: FunctionRecord | None) -> Sequence[Any]:
        if function is None and self._session is UNTRIED:
            self._session = fast_session(self.model)  # threads that meet here make one each, and the last one stays
        if function is None and self._session is not None:
            found: Sequence[Any] = self._session.run(None, dict(feeds))
            return found
        try:
            evaluator = self._idle.pop()
        except IndexError:
            evaluator = _evaluator()(self.model)
        before, RUNNING.stop = RUNNING.stop, stop
        try:
            if function is None:
                found = evaluator.run(None, feeds)
            else:
                found = evaluator.functions_[function.domain, function.name].run(None, feeds, attributes={})
        finally:
            RUNNING.stop = before
        self._idle.append(evaluator)
        return found

    def check_tables(
        self,
        inputs: Sequence[TensorRecord],
        outputs: Sequence[TensorRecord],
        constants: Sequence[ConstantRecord],
        functions: Sequence[FunctionRecord],
    ) -> None:
        """Raise InvalidImage unless tables and graph tell of the same inputs, outputs, constants and functions."""
        graph = self.model.graph
        given = [(each.name, each.element, each.dtype, len(each.dims)) for each in inputs]
        given += [(each.name, each.element, each.dtype, len(each.dims)) for each in constants]
        results = [(each.name, each.element, each.dtype) for each in outputs]
        try:
            wanted = [(value.name, *tensor_type(value)) for value in graph.input]
            made = [(value.name, *tensor_type(value)[:2]) for value in graph.output]
            known = functions_of(self.model)
        except AtopsError as error:
            raise InvalidImage(f"the executable's graph has what no table tells: {error}") from None
        if given != wanted or results != made or tuple(functions) != known or list(graph.initializer):
            raise InvalidImage("the executable's tables do not tell of the inputs, outputs and functions of its graph")


def tensor_type(value: Message) -> tuple[int, str, int]:
    """Return ONNX's number of a value's element type, its name, and its rank. Raises NotSupported for other values."""
    kind = value.type
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        raise NotSupported(f"{value.name!r} is no tensor of known rank; declare its shape in the model")
    element = kind.tensor_type.elem_type
    return element, dtype_name(element, value.name), len(kind.tensor_type.shape.dim)


def dtype_name(element: int, what: str) -> str:
    """Return the name of an element type, given ONNX's number. Raises NotSupported for what no device memory holds."""
    try:
        return element_name(onnx_package().helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, ValueError, TypeError, InvalidType):
        raise NotSupported(f"{what!r} has ONNX's element type {element}, which device memory cannot hold") from None


def functions_of(model: Message) -> tuple[FunctionRecord, ...]:
    """Return the functions of a model. A parameter whose type the function does not declare is float32.

    Raises NotSupported for types that no device memory holds.
    """
    found = []
    for function in model.functions:
        types = {value.name: value.type.tensor_type.elem_type for value in function.value_info}
        ends = [
            tuple(_parameter(name, types.get(name) or 1) for name in names)
            for names in (function.input, function.output)
        ]
        found.append(FunctionRecord(function.name, function.domain, ends[0], ends[1]))
    return tuple(found)


def _parameter(name: str, element: int) -> ParameterRecord:
    return ParameterRecord(name, element, dtype_name(element, name))


def _first_line(error: Exception) -> str:
    """Return what an error of the package says, without the whole graph that some of them print."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


# ---- the fast way to evaluate


def fast_session(model: Message) -> object:
    """Return a session of the optional package onnxruntime, which evaluates faster; None where that is not installed.

    None too where the model is better left to the reference: with element types that numpy does not have, with
    operators that the package does not know, and with loops, which the reference can end between two turns.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    ends = (*model.graph.input, *model.graph.output)
    if any(value.type.tensor_type.elem_type not in NATIVE for value in ends):
        return None
    if any(node.op_type == "Loop" for node in messages_in(model, "NodeProto")):
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the device has one thread for its kernels
    options.log_severity_level = SILENT
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # of many classes, all for what it cannot run
        log.debug("onnxruntime does not take %s: %s", model.graph.name, error)
        return None


def messages_in(message: Message, kind: str) -> Iterator[Message]:
    """Yield every message of a kind inside one, however deep: "TensorProto" in attributes, "NodeProto" in bodies."""
    if message.DESCRIPTOR.name == kind:
        yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        repeated = getattr(field, "is_repeated", None)
        if field.label == field.LABEL_REPEATED if repeated is None else repeated:
            for each in value:
                yield from messages_in(each, kind)
        else:
            yield from messages_in(value, kind)
