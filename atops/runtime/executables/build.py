"""Making an executable of an ONNX model: constants out of the graph, dims inferred, tables written. Nothing is run."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from atops.base.errors import InvalidType, InvalidValue, NotFound, NotSupported
from atops.runtime.executables.file import (
    ALIGNMENT,
    ConstantRecord,
    ExecutableFile,
    HeaderRecord,
    ProfileRecord,
    ResourceRecord,
    SectionKind,
    TensorRecord,
    pack,
)
from atops.runtime.executables.graph import (
    Message,
    Package,
    dtype_name,
    functions_of,
    messages_in,
    onnx_package,
    tensor_type,
)

__all__ = ("BuildOptions", "Ranges", "build_file")

Ranges = Mapping[str, tuple[int, int]]

# A request for a resource bundle as C lays it out: count of clusters, claim, both flags, and a bundle in 512 bytes.
REQUEST: Final = struct.Struct("<QB??512s5x")
BUNDLE: Final = struct.Struct("<iIQQiIiII12x")  # mode, hole, host and device memory, policy, video fields, clusters
CLUSTER_MODE: Final = 2


class BuildOptions(NamedTuple):
    """What `atops.executable.build` takes beside the model."""

    name: str
    ranges: Ranges
    refit: bool | Collection[str]
    compilation_id: int | None
    clusters: int
    memory: int


def build_file(model: object, options: BuildOptions) -> ExecutableFile:
    """Return the executable of a model. Raises as `atops.executable.build` does, but for what cannot be evaluated."""
    onnx = onnx_package()
    source = _read(onnx, model)
    try:
        onnx.checker.check_model(source)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise InvalidValue(f"the model is not valid ONNX: {str(error).splitlines()[0]}") from error
    ranges = options.ranges
    _check_ranges(source, ranges)
    built, largest = (_inferred(onnx, source, ranges, at_most) for at_most in (False, True))
    stored = [each for each in source.graph.initializer if each.data_type != onnx.TensorProto.STRING]
    names = [each.name for each in stored]
    wanted = [value for value in built.graph.input if value.name not in set(names)]
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in stored}
    contents, constants = _constants(stored, arrays, _managed(names, options.refit))
    inputs = _records(wanted, largest.graph.input, ranges)
    outputs = _records(built.graph.output, largest.graph.output, {})
    _make_inputs(onnx, built.graph, wanted, constants)
    functions = functions_of(built)
    _check_unique([each.name for each in functions], "functions")
    header = HeaderRecord(options.name or source.graph.name or "graph", options.refit is not False)
    return ExecutableFile.of({
        SectionKind.HEADER: pack([header]),
        SectionKind.RESOURCE: pack([ResourceRecord(1, 1, sum(map(len, contents.values())))]),
        SectionKind.INPUT: pack(inputs),
        SectionKind.OUTPUT: pack(outputs),
        SectionKind.CODE: built.SerializeToString(deterministic=True),
        SectionKind.FUNCTIONS: pack(functions),
        SectionKind.PROFILE: pack([ProfileRecord(options.compilation_id)]),
        SectionKind.TARGET_RESOURCE: _request(options.clusters, options.memory),
        SectionKind.TENSOR_TABLE: pack(constants),
        **contents,
    })  # fmt: skip


def _request(clusters: int, memory: int) -> bytes:
    return REQUEST.pack(clusters, 0, False, False, BUNDLE.pack(CLUSTER_MODE, 0, 0, memory, 0, 0, 0, 0, clusters))


def _read(onnx: Package, model: Message) -> Message:
    """Return a copy of the model with all its tensors inside. Raises InvalidType, InvalidValue, OSError."""
    if isinstance(model, onnx.ModelProto):
        found = onnx.ModelProto()
        found.CopyFrom(model)
    elif isinstance(model, bytes | bytearray | memoryview):
        found = onnx.ModelProto()
        try:
            found.ParseFromString(bytes(model))
        except Exception as error:  # of the class that this version of protobuf has for it
            raise InvalidValue(f"the model of {len(model)} bytes is no ONNX: {error}") from None
    elif isinstance(model, str | os.PathLike):
        try:
            found = onnx.load(os.fspath(model))
        except OSError:
            raise
        except Exception as error:  # as above
            raise InvalidValue(f"{os.fspath(model)!r} is no ONNX model: {error}") from None
    else:
        raise InvalidType(f"the model is {type(model).__name__}; expected an ONNX ModelProto, its bytes or a path")
    outside = next((tensor.name for tensor in messages_in(found, "TensorProto") if tensor.external_data), None)
    if outside is not None:
        raise InvalidValue(f"tensor {outside!r} is outside the model; give the path of the model, or put it in")
    return found


def _check_ranges(model: Message, ranges: Ranges) -> None:
    """Raise NotFound for a range of no dimension, InvalidValue for one without extents."""
    known = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    for name, bounds in ranges.items():
        if name not in known - {""}:
            raise NotFound(f"no input has a dimension called {name!r}; there are {sorted(known - {''})}")
        least, most = bounds
        if not (isinstance(least, int) and isinstance(most, int) and 0 <= least <= most < 1 << 63):
            raise InvalidValue(f"the range of {name!r} is {bounds!r}; expected a least extent, and one no smaller")


def _inferred(onnx: Package, model: Message, ranges: Ranges, at_most: bool) -> Message:
    """Return the model with shapes inferred.

    Dimensions whose range is one extent have it; with `at_most`, the others have their largest.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    fixed = False
    for value in found.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            least, most = ranges.get(dim.dim_param, (0, 1))
            if dim.dim_param in ranges and (at_most or least == most):
                dim.dim_value = most
                fixed = True
    if fixed:  # what the outputs are declared as may be what no longer holds: it is inferred anew
        for value in found.graph.output:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.Clear()
    try:
        return onnx.shape_inference.infer_shapes(found, check_type=True, data_prop=True)
    except Exception as error:  # the package raises what it likes
        raise InvalidValue(f"the shapes of the model do not fit: {str(error).splitlines()[0]}") from error


def _records(values: Iterable[Message], largest: Iterable[Message], ranges: Ranges) -> list[TensorRecord]:
    """Return the records of inputs or outputs; `largest` are the values at their largest extents."""
    tops = {value.name: value for value in largest}
    found = []
    for value in values:
        element, dtype, rank = tensor_type(value)
        if rank > 8:
            raise NotSupported(f"{value.name!r} has {rank} dimensions; 8 at most")
        dims, least, most = [], [], []
        for dim, top in zip(
            value.type.tensor_type.shape.dim, tops[value.name].type.tensor_type.shape.dim, strict=True
        ):  # fmt: skip
            extent = dim.dim_value if dim.HasField("dim_value") else -1
            dims.append(extent)
            least.append(extent if extent >= 0 else ranges.get(dim.dim_param, (0, 0))[0])
            most.append(top.dim_value if top.HasField("dim_value") else -1)
        found.append(TensorRecord(value.name, element, dtype, tuple(dims), tuple(least), tuple(most), 0))
    _check_unique([each.name for each in found], "inputs or outputs")
    return found


def _managed(names: Sequence[str], refit: bool | Collection[str]) -> frozenset[str]:
    """Return which constants refit may change. Raises NotFound for what is none."""
    if isinstance(refit, bool):
        return frozenset(names if refit else ())
    if isinstance(refit, str) or not isinstance(refit, Collection):
        raise InvalidType(f"refit is {refit!r}; expected False, True or names of constants")
    missing = set(refit) - set(names)
    if missing:
        raise NotFound(f"there are no constants {sorted(missing)}; the model has {sorted(names)}")
    return frozenset(refit)


def _constants(
    stored: Iterable[Message], arrays: Mapping[str, object], managed: frozenset[str]
) -> tuple[dict[SectionKind, bytes], list[ConstantRecord]]:
    """Return the sections of the constants, plain and managed, and where each lies."""
    laid = {True: bytearray(), False: bytearray()}
    records = []
    for uid, tensor in enumerate(stored):
        array = np.ascontiguousarray(arrays[tensor.name]).reshape(tuple(tensor.dims))
        into = laid[tensor.name in managed]
        into.extend(bytes(-len(into) % ALIGNMENT))
        dtype = dtype_name(tensor.data_type, tensor.name)
        record = ConstantRecord(
            tensor.name, uid, tensor.data_type, dtype, tuple(tensor.dims), len(into), tensor.name in managed
        )
        into.extend(array.tobytes())
        records.append(record)
    kinds = {True: SectionKind.MANAGED_CONSTANT, False: SectionKind.CONSTANT}
    present = {record.managed for record in records}
    return {kinds[each]: bytes(laid[each]) for each in sorted(present)}, records


def _make_inputs(onnx: Package, graph: Message, wanted: Sequence[Message], constants: Sequence[ConstantRecord]) -> None:
    """Let the constants be the last inputs of the graph."""
    inputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in wanted]
    for each in constants:
        inputs.append(onnx.helper.make_tensor_value_info(each.name, each.element, each.dims))
    known = {each.name for each in constants}
    rest = [each for each in graph.initializer if each.name not in known]
    if rest:
        raise NotSupported(f"constant {rest[0].name!r} holds text; device memory cannot")
    del graph.initializer[:]
    del graph.input[:]
    graph.input.extend(inputs)


def _check_unique(names: Sequence[str], what: str) -> None:
    if len(set(names)) != len(names):
        raise NotSupported(f"two {what} of the model have one name: {sorted(names)}")
