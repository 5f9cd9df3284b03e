"""Names of other libraries: each is answered with what to write, by one table, and is known to nothing else."""

import copy
import inspect
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.neighbours import EACH_TIME, NAMES, cure, page
from atops.runtime.owning_queue import OwningQueue
from tests.test_docs import unknown

KINDS = {
    "Stream": atops.Stream, "Event": atops.Event, "Completion": atops.Completion, "Device": atops.Device,
    "Buffer": atops.Buffer, "DeviceArray": atops.DeviceArray, "Driver": atops.Driver, "Kernel": k.Kernel, "k": k,
    "MemoryPool": atops.MemoryPool, "HostArray": atops.HostArray, "atops": atops,
}  # fmt: skip
PAGE = Path(__file__).parents[2] / "docs" / "coming_from" / "names.md"


@k.kernel
def nothing(x):
    """Do nothing."""


@pytest.fixture
def things():
    """Have one of each."""
    driver = atops.Driver(atops.EmulatorOptions(trace=0))
    device = atops.Device(0, driver)
    stream = device.create_stream()
    yield {
        "Stream": stream, "Event": stream.record(), "Completion": stream.fill(device.zeros(4), 0), "Device": device,
        "Buffer": device.allocate(4), "DeviceArray": device.zeros(4), "Driver": driver, "Kernel": nothing, "k": k,
        "MemoryPool": device.default_pool, "HostArray": device.host_malloc(4), "atops": atops,
    }  # fmt: skip
    driver.close()


def test_each_name_has_its_cure(things):
    """AttributeError with the text, by the objects; `dir` and `hasattr` know nothing of it."""
    assert set(NAMES) == set(KINDS) == set(things)
    for kind, names in NAMES.items():
        for spelled, instead in names.items():
            name = spelled.removesuffix("()")
            with pytest.raises(AttributeError) as caught:
                getattr(things[kind], name)
            assert str(caught.value) == f"{kind} has no {spelled}; use {instead}" == cure(kind, name)
            assert caught.value.name == name and not hasattr(things[kind], name)
            assert name not in dir(things[kind]) and getattr(things[kind], name, 7) == 7
            if isinstance(KINDS[kind], type):
                with pytest.raises(AttributeError, match=re.escape(str(caught.value))):
                    getattr(KINDS[kind], name)
                assert not hasattr(KINDS[kind], "__getattr__")  # every read of an attribute would take longer


def test_each_cure_exists():
    """What a cure names is there: of the same class where it names no object."""
    for kind, names in NAMES.items():
        for instead in names.values():
            assert not list(unknown(instead.removesuffix(EACH_TIME))), instead
            first = re.match(r"(\w+)(.?)", instead)
            assert first is not None
            if first[2] != "." and " " not in instead:
                assert hasattr(KINDS[kind], first[1]) or kind == "Kernel", (kind, instead)


def test_an_array_answers_for_its_buffer(things):
    """What a buffer has a cure for, an array has, too; a wrapper of a stream answers as the stream."""
    for name in ("numpy", "get", "copy_to_host"):
        with pytest.raises(AttributeError, match=rf"Buffer has no {name}\(\); use stream.fetch\(array\)"):
            getattr(things["DeviceArray"], name)
    with pytest.raises(AttributeError, match="Stream has no synchronize"):
        atops.ExternalStream(things["Stream"]).synchronize  # noqa: B018  # to look is the test


def test_other_names_are_answered_as_python_does(things):
    """With the class and the name, and no cure."""
    for kind, thing in things.items():
        with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
            thing.no_such_name  # noqa: B018  # as above
        assert not hasattr(thing, "__array_interface__") or kind in ("k", "atops")
    with pytest.raises(AttributeError, match="'Stream' object has no attribute 'no_such_name'"):
        things["Stream"].no_such_name  # noqa: B018


def test_a_subclass_may_have_such_a_name(things):
    """As a method, or as an attribute of its objects: both are there, for `dir`, too."""

    class Mine(atops.Stream):
        def __init__(self, device):
            super().__init__(OwningQueue(device.context))
            self.query = 7

        def synchronize(self):
            return 8

    mine = Mine(things["Device"])
    assert (mine.query, mine.synchronize()) == (7, 8) and {"query", "synchronize", "upload"} <= set(dir(mine))
    assert not hasattr(mine, "memcpy") and "memcpy" not in dir(mine)


def test_what_moves_elements_is_no_view():
    """`view` and `reshape` keep bytes where they are: neither is the cure for a transpose or a conversion."""
    for name in ("astype", "T", "transpose"):
        said = cure("DeviceArray", name)
        assert said is not None and "view" not in said and "reshape" not in said


@pytest.mark.parametrize(
    "kind, wrong, meant", [("Stream", "uplaod", "upload"), ("Device", "memory_inf", "memory_info")]
)
def test_a_misspelt_name_gets_the_suggestion_of_python(things, capsys, kind, wrong, meant):
    """Of a name that is there, never of one of another library."""
    with pytest.raises(AttributeError) as caught:
        getattr(things[kind], wrong)
    sys.__excepthook__(caught.type, caught.value, None)
    assert f"has no attribute '{wrong}'. Did you mean: '{meant}'?" in capsys.readouterr().err


def test_protocols_of_copies_and_of_numpy_are_as_before(things):
    """Probes find nothing: the same refusals, and a kernel is its own copy."""
    for kind in ("Stream", "Event", "Completion", "Driver", "DeviceArray"):
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(atops.errors.AtopsError, match="cannot be"):
                use(things[kind])
    assert copy.copy(nothing) is nothing
    with pytest.raises((TypeError, ValueError)):
        np.add(np.zeros(4, np.float32), things["DeviceArray"])
    assert not inspect.iscoroutine(things["Stream"]) and not callable(things["Device"])


def test_the_page_is_the_table():
    """docs/coming_from/names.md is what `page` returns: print(page(), end="") makes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
