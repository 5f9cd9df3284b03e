"""Masks: algebra, questions and selection."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.kernels.vectors.vector_type import VectorType, vector, vector2, vector4
from tests.every import every
from tests.kernels.vector_host import FLOATS, INTEGERS, MASKS, sample


@pytest.mark.parametrize("kind", [each for each in MASKS if "long" not in each.name], ids=str)
def test_combined_operators(kind: VectorType):
    """x&~y, x|~y, ~(x&y), ~(x|y) and ~(x^y) are the truth tables of their names, for every pair of truths."""
    a, b = np.arange(kind.lanes) % 2 == 1, np.arange(kind.lanes) // 2 % 2 == 1
    x, y = kind.wrap(a), kind.wrap(b)
    for made, truth in (
        (x & ~y, [p and not q for p, q in zip(a, b, strict=True)]),
        (x | ~y, [p or not q for p, q in zip(a, b, strict=True)]),
        (~(x & y), [not (p and q) for p, q in zip(a, b, strict=True)]),
        (~(x | y), [not (p or q) for p, q in zip(a, b, strict=True)]),
        (~(x ^ y), [p == q for p, q in zip(a, b, strict=True)]),
    ):
        assert made.type is kind and made.values.tolist() == truth


def test_masks_of_64_bits_have_no_algebra():
    """What comparing long gives can be compared and asked, not combined."""
    x = vector4["long"].wrap(np.arange(128))
    mask = x < 64
    for run in (lambda: mask & mask, lambda: mask | mask, lambda: mask ^ mask, lambda: ~mask):
        with pytest.raises(InvalidType, match=r"is not for __vector4 bool long; .*: .*__vector4 bool int"):
            run()
    assert mask.count() == 64 and (mask == mask).all()


def test_masks_do_not_compute():
    """Arithmetic, shifts and increments are not for truth values."""
    mask = vector["bool int"].wrap(np.ones(32, bool))
    for run in (lambda: mask + mask, lambda: mask * 1, lambda: -mask, lambda: mask << 1, mask.increment,
                mask.decrement):  # fmt: skip
        with pytest.raises(InvalidType, match="is not for __vector bool int; it is for "):
            run()
    assert mask.values.all()


def test_a_mask_answers():
    """any, all and count are Python's bool and int, over all lanes of an array of masks."""
    kind = vector["bool char"]
    lanes = np.zeros((3, 128), bool)
    assert kind.wrap(lanes).any() is False and kind.wrap(lanes[0]).count() == 0 and kind.wrap(~lanes).all() is True
    lanes[1, 5] = True
    mask = kind.wrap(lanes)
    assert mask.any() is True and mask.all() is False and mask.count() == 1 and type(mask.count()) is int
    assert mask[1].any() and not mask[0].any()


@every("kind", FLOATS + INTEGERS + MASKS, ids=str)
def test_selection(kind: VectorType):
    """Lanes come from x where the mask is true and from y elsewhere; one of them may be a scalar."""
    x, y = kind.wrap(sample(kind, 1)), kind.wrap(sample(kind, 2))
    mask = kind.mask.wrap(sample(kind.mask, 3))
    for made, a, b in ((mask.select(x, y), x.values, y.values), (mask.select(x, 1), x.values, kind.one),
                       (mask.select(0, y), kind.element.type(0), y.values)):  # fmt: skip
        assert made.type is kind and made.values.dtype == kind.element
        assert made.values.tobytes() == np.where(mask.values, a, b).tobytes()


def test_selection_of_what_does_not_fit():
    """The operands have one type that the mask fits; a scalar is held exactly; arrays have as many vectors."""
    mask = vector["bool int"].wrap(np.ones(32, bool))
    x, i, wide = (kind.wrap(sample(kind)) for kind in (vector["float"], vector["int"], vector2["float"]))
    for a, b in ((wide, wide), (1, 2), (1, wide)):
        with pytest.raises(InvalidType, match=r"select of a __vector bool int expects a vector it fits, got"):
            mask.select(a, b)
    for b, error in ((i, InvalidType), (0.1, InvalidValue), (x.values, InvalidType), (None, InvalidType)):
        with pytest.raises(error, match="y of select"):
            mask.select(x, b)
    rows, others = x.type.wrap(sample(x.type, count=2)), mask.type.wrap(np.ones((3, 32), bool))
    assert mask.select(rows, x).values.shape == (2, 32)
    with pytest.raises(InvalidValue, match="as many vectors as masks"):
        others.select(rows, x)
