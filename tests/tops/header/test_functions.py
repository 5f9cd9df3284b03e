"""The table of functions against what is exported: names, arguments, defaults, twins."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import get_args, get_type_hints

import pytest

import atops.tops as tops
from atops.tops import aio
from atops.tops.functions.api import TWINS
from atops.tops.header.functions import FUNCTIONS
from tests.every import every
from tests.tops.conformance import implementation

SECTIONS = {
    "2.1": 9, "2.2": 17, "2.3": 4, "2.4": 11, "2.5": 7, "2.6": 40, "2.7": 8, "2.8": 9, "2.9": 6, "2.10": 11, "2.11": 61,
}  # fmt: skip
DEFAULTS = {"0": 0, "topsMemcpyHostToDevice": 1, "topsMemcpyDeviceToHost": 2}
PRESENT = [name for name in FUNCTIONS if hasattr(tops, name)]
MISSING = [name for name in FUNCTIONS if not hasattr(tops, name)]


def test_every_function_has_a_row():
    """The API has 183 functions in 11 sections."""
    assert len(FUNCTIONS) == 183
    assert Counter(function.section for function in FUNCTIONS.values()) == SECTIONS


@pytest.mark.xfail(bool(MISSING), reason=f"{len(MISSING)} are not there yet: {' '.join(MISSING)}", strict=True)
def test_every_function_exists():
    """Every function of the table can be called by its name."""
    assert not MISSING


@every("name", PRESENT)
def test_signature(name):
    """A function takes the parameters of its row by their names in C, and tells that it returns a code and results."""
    signature = inspect.signature(implementation(name))
    expected = [(each.name, DEFAULTS.get(each.default, inspect.Parameter.empty)) for each in FUNCTIONS[name].parameters]
    assert [(each.name, each.default) for each in signature.parameters.values()] == expected
    assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())
    code, *results = get_args(get_type_hints(implementation(name))["return"])
    assert code is (tops.topsrtcResult if name.startswith("topsrtc") else tops.topsError_t)
    assert len(results) == FUNCTIONS[name].outs
    assert get_args(signature.return_annotation) == (code, *results)
    assert implementation(name).__doc__


@every("name", PRESENT)
def test_twin(name):
    """A function has an awaitable twin if, and only if, its row says that it can block."""
    assert hasattr(aio, name) == (name in aio.__all__) == FUNCTIONS[name].waits
    assert getattr(aio, name, None) is TWINS.get(name)
    if FUNCTIONS[name].waits:
        twin = getattr(aio, name)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(implementation(name))


def test_exports():
    """What is exported is listed, once, and nothing that is listed is missing."""
    assert set(PRESENT) <= set(tops.__all__)
    assert all(hasattr(tops, name) for name in tops.__all__)
    functions = {name for name in tops.__all__ if "tops" in name and inspect.isfunction(getattr(tops, name))}
    assert functions == set(PRESENT)


def test_results_follow_the_code():
    """Every function returns a code first: those that C has return text return it after a success."""
    assert {function.returns for function in FUNCTIONS.values()} == {"topsError_t", "topsrtcResult", "const char *"}
    texts = [function for function in FUNCTIONS.values() if function.returns == "const char *"]
    assert [function.outs for function in texts] == [1] * 3


