"""What `import atops` gives by name: all that programs need, each the very object of the floor that owns it."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re

import pytest

import atops
from atops import kernels

HOMES = {
    "base.trace.records": ("Kind", "Status", "Trace", "TraceRecord"),
    "runtime.device": ("Device", "DeviceStatistics"),
    "runtime.memory.host_array": ("HostArray",),
    "runtime.properties": ("DeviceProperties",),
    "runtime.stream_reports": ("StreamStatistics",),
    "runtime.board.symbols": ("Symbol",),
}


@pytest.mark.parametrize(("home", "name"), [(home, name) for home, names in HOMES.items() for name in names])
def test_what_verbs_return_has_a_name(home: str, name: str):
    """The types of what the API's verbs return are at hand, for annotations and checks."""
    assert getattr(atops, name) is getattr(importlib.import_module(f"atops.{home}"), name)


def test_methods_are_pickled_by_their_names():
    """Those of base classes too, as the arguments of a worker process are."""
    for method in (atops.Device.allocate, atops.Stream.fill, atops.Device.create_stream):
        assert pickle.loads(pickle.dumps(method)) is method


def test_the_errors_are_at_hand():
    """Every error can be caught by a name under `atops.errors`, and be imported from there; its help has the tree."""
    tree, module = importlib.import_module("atops.base.errors"), importlib.import_module("atops.errors")
    assert module is atops.errors and module.__all__ == tree.__all__ and module.__doc__ == tree.__doc__
    assert all(getattr(module, name) is getattr(tree, name) for name in tree.__all__)
    with pytest.raises(atops.errors.InvalidType):
        atops.Device("first")  # type: ignore[arg-type]  # the point


def test_every_name_is_listed_and_there():
    """`dir(atops)` has the public names and no other; each is there, those that are imported late too."""
    assert [name for name in dir(atops) if not name.startswith("__")] == sorted(atops.__all__)
    assert all(hasattr(atops, name) for name in atops.__all__)
    assert atops.tops is importlib.import_module("atops.tops")
    with pytest.raises(AttributeError, match="module 'atops' has no attribute 'Devise'") as failure:
        _ = atops.Devise
    assert (failure.value.name, failure.value.obj) == ("Devise", atops)


def test_the_language_lists_its_names_only():
    """`dir(atops.kernels)` has the names of the language and its macros; no module or name that it is made of."""
    macros = {"AGCU_ARCH", "GCU_ARCH", "__AGCU_ARCH__", "__GCU_ARCH__"}
    assert {*kernels.__all__, *macros} <= set(dir(kernels))
    assert {name for name in dir(kernels) if not name.startswith("__")} <= {*kernels.__all__, *macros}


def test_the_floors_in_the_help_are_there():
    """Each module that the package's own help names can be imported."""
    named = set(re.findall(r"\batops\.(\w+)", atops.__doc__ or ""))
    assert named >= {"tops", "kernels"}
    assert [importlib.import_module(f"atops.{name}").__name__ for name in named]


def test_host_work_takes_arguments():
    """The types of `call` and `add_callback` let type checkers pass functions that take arguments."""
    for verb in (atops.Stream.call, atops.Stream.add_callback):
        assert inspect.signature(verb).parameters["function"].annotation == "Callable[..., object]"


def test_the_types_are_those_of_what_the_verbs_return():
    """A device's host memory, its statistics, a stream's, and a trace are of these types."""
    with atops.Device(0) as device:
        stream = device.create_stream()
        stream.zeros(4).close()
        stream.sync()
        assert isinstance(device.host_malloc(4), atops.HostArray)
        assert isinstance(device.statistics(), atops.DeviceStatistics)
        assert isinstance(stream.statistics(), atops.StreamStatistics)
        trace = device.driver.tracer.snapshot()
        assert isinstance(trace, atops.Trace) and isinstance(trace.records[-1], atops.TraceRecord)
        assert isinstance(trace.records[-1].kind, atops.Kind) and trace.records[-1].status is atops.Status.DONE
