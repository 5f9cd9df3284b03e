"""The fast way to evaluate a graph: a session of the optional package onnxruntime, where that can run the graph.

It is made at the first launch and not before, because making one may fold constants. It knows no device.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

__all__ = ("fast_session", "messages_in")

log = logging.getLogger("atops.executable")

NATIVE: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13})  # ONNX's numbers of the types that numpy has
SILENT: Final = 4  # severity: fatal only; what fails is raised


def fast_session(model: Any) -> Any:
    """Return a session for a model; None where the package is missing, or the model is better left to the reference.

    That is so with element types that numpy does not have, with operators that the package does not know, and with
    loops, which the reference's evaluator can end between two turns.
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


def messages_in(message: Any, kind: str) -> Iterator[Any]:
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
