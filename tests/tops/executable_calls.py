"""Executables for the tests of their C-style functions: handles, memory and the lists that launches take."""

from __future__ import annotations

from typing import Any

import numpy as np

import atops.tops as tops
from atops import executable
from tests.runtime.executable_models import BIAS, SHAPE, WEIGHT, fixed, linear

LAYER = executable.build(linear(), ranges={"n": (2, 8)}, refit=["b"], name="layer").to_bytes()
STIFF = executable.build(linear(), ranges={"n": (5, 5)}, name="stiff").to_bytes()  # without refit
PAIR = executable.build(fixed(), name="pair").to_bytes()
ROWS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
EXPECTED = ROWS @ WEIGHT + BIAS
VALUES = np.arange(6, dtype=np.float32).reshape(SHAPE)


def opened(data: bytes = LAYER) -> int:
    """Return the handle of an executable."""
    return tops.check(tops.topsCreateExecutable(data, len(data)))


def upload(array: Any) -> int:
    """Return memory of topsMalloc with the contents of an array."""
    pointer = tops.check(tops.topsMalloc(array.nbytes))
    tops.check(tops.topsMemcpyHtoD(pointer, np.ascontiguousarray(array), array.nbytes))
    return pointer


def download(pointer: int, shape: Any, dtype: Any = np.float32) -> Any:
    """Return the contents of memory, once everything before is done."""
    found = np.zeros(shape, dtype)
    tops.check(tops.topsMemcpyDtoH(found, pointer, found.nbytes))
    return found


def launch(data: bytes = STIFF, rows: Any = ROWS, **given: Any) -> dict[str, Any]:
    """Return the arguments of a launch of a linear layer, good but for what is given."""
    row = {
        "exe": None, "res": None, "inputs": None, "input_count": 1, "input_dims": list(rows.shape), "input_rank": [2],
        "outputs": None, "output_count": 1, "stream": None, **given,
    }  # fmt: skip
    row["exe"] = opened(data) if row["exe"] is None else row["exe"]
    row["inputs"] = [upload(rows)] if row["inputs"] is None else row["inputs"]
    row["outputs"] = [tops.check(tops.topsMalloc(96))] if row["outputs"] is None else row["outputs"]
    return row


def with_constants(data: bytes = STIFF, rows: Any = ROWS, **given: Any) -> dict[str, Any]:
    """Return the arguments of a launch with constants that were loaded."""
    row = launch(data, rows, **given)
    stream = row.pop("stream")
    loaded, count = tops.check(tops.topsExecutableLoadConstData(row["exe"], None))
    return {**row, "const_datas": loaded, "const_datas_count": count, "stream": stream, **given}
