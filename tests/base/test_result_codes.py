"""Result codes: the header's values, the names the header lacks, and a sentence for each code."""

from __future__ import annotations

import pytest

from atops.base import errors
from atops.base.result_codes import EXPLANATIONS, Result, explain
from tests.every import every


@every(
    "name, value",
    [
        ("Success", 0), ("InvalidValue", 1), ("OutOfMemory", 2), ("MemoryAllocation", 2), ("InitializationError", 3),
        ("InvalidConfiguration", 9), ("InvalidDevicePointer", 17), ("MissingConfiguration", 52), ("NoDevice", 100),
        ("NoBinaryForGcu", 209), ("InvalidResourceHandle", 400), ("IllegalState", 401), ("NotReady", 600),
        ("IllegalAddress", 700), ("HostMemoryNotRegistered", 713), ("LaunchFailure", 719), ("NotSupported", 801),
        ("CapturedEvent", 907), ("Unknown", 999), ("RuntimeMemory", 1052), ("Tbd", 1054),
    ],
)  # fmt: skip
def test_values_are_the_headers(name: str, value: int) -> None:
    """A name has the value that the public header gives it."""
    assert Result[name] == value


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("DeInitialized", 4, "Deinitialized"),
        ("DeviceAlreadyInUse", 216, "ContextAlreadyInUse"),
        ("TooManyPeers", 711, "TooManyPeers"),
        ("MemoryFree", 999, "Unknown"),
        ("MemoryAllocation", 2, "OutOfMemory"),
        ("InvalidResourceHandle", 400, "InvalidHandle"),
    ],
)
def test_names_of_one_value_have_one_canonical_name(name: str, value: int, canonical: str) -> None:
    """Aliases are the very member that the header names first."""
    assert Result[name].value == value
    assert Result[name].name == canonical


def test_there_are_as_many_names_as_header_and_text_have() -> None:
    """The header has 78 names; the text adds four."""
    assert len(Result.__members__) == 78 + 4


def test_every_code_is_explained() -> None:
    """Each distinct code has one sentence of its own, which says what to do after what happened."""
    assert set(EXPLANATIONS) == set(Result)
    assert len(set(EXPLANATIONS.values())) == len(Result)
    for code, sentence in EXPLANATIONS.items():
        assert sentence.endswith("."), code
        assert sentence.count(".") == 1, code
        assert sentence[0].isupper() and len(sentence) > 30, code
        assert "; " in sentence or ", " in sentence, code


def test_explain_takes_any_number() -> None:
    """A code, a member and a number that is no code are all explained."""
    assert explain(700) == explain(Result.IllegalAddress) == EXPLANATIONS[Result.IllegalAddress]
    assert explain(216) == EXPLANATIONS[Result.DeviceAlreadyInUse]
    assert "12345" in explain(12345) and explain(12345).endswith(".")
    assert "-1" in explain(-1)


def test_every_error_carries_a_code_that_is_explained() -> None:
    """What the exceptions become at the C edge can be looked up."""
    for name in errors.__all__:
        assert getattr(errors, name).code in EXPLANATIONS
