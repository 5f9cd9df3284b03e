"""The rules of shapes that the reference prints are the rules that the DTE checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.errors import InvalidValue
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, Case, draw_case


def holds(name: str, dst: Any, src: Any, parameters: dict[str, Any]) -> bool:
    """Evaluate an operation's rules in each dimension."""
    names = {"dst": dst, "src": src, "max": max, **parameters}
    return all(
        eval(rule, {"__builtins__": {}}, {**names, "i": axis})
        for rule in OPERATIONS[name].work.rules
        for axis in range(src.ndim if "[" in rule else 1)
    )


def passes(name: str, dst: Any, src: Any, parameters: dict[str, Any]) -> bool:
    """Tell whether the operation's check lets the operands through."""
    try:
        OPERATIONS[name].check(dst, src, parameters)
    except InvalidValue:
        return False
    return True


def arrays(case: Case, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the operands of a case, the destination with another shape."""
    return np.zeros(shape, case.dst_kind), None if case.src is None else np.zeros(case.src, case.src_kind)


def test_every_operation_has_its_rules():
    """Only a memset demands nothing of shapes."""
    assert [name for name, row in OPERATIONS.items() if not row.work.rules] == ["memset"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "memset"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_rules_are_what_the_check_demands(name: str, data: st.DataObject):
    """A right case passes and satisfies the rules; with an extent one more or less both say the same again."""
    case = draw_case(data.draw, name)
    assert passes(name, *arrays(case, case.dst), case.parameters)
    assert holds(name, *arrays(case, case.dst), case.parameters)
    axis = data.draw(st.integers(0, len(case.dst) - 1))
    changed = list(case.dst)
    changed[axis] = max(0, changed[axis] + data.draw(st.sampled_from((-1, 1))))
    operands = arrays(case, tuple(changed))
    assert holds(name, *operands, case.parameters) is passes(name, *operands, case.parameters)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("memcpy", (3,)), ("deslice", (3, 4)), ("transpose", (2, 3)), ("pad", (4, 4)), ("broadcast", (2, 3, 3)),
     ("sub_sample", (2, 2)), ("mirror_tb", (3, 2)), ("slice_expand", (2, 2)), ("shrink_deslice", (2, 4))],
)  # fmt: skip
def test_a_wrong_shape_breaks_the_rules(name: str, shape: tuple[int, ...]):
    """The examples with a destination of another shape satisfy neither rules nor check."""
    operands = arrays(EXAMPLES[name], shape)
    assert not holds(name, *operands, EXAMPLES[name].parameters)
    assert not passes(name, *operands, EXAMPLES[name].parameters)


@pytest.mark.parametrize("name", ["slice_expand", "shrink_deslice"])
def test_element_sizes_are_part_of_the_rules(name: str):
    """With another ratio the element types do not fit."""
    case = EXAMPLES[name]
    wrong = {**case.parameters, "ratio": 1 - case.parameters["ratio"], "phase": 0}
    operands = arrays(case, case.dst)
    assert not holds(name, *operands, wrong) and not passes(name, *operands, wrong)
