"""Sites name the user's line, not the package's."""

from __future__ import annotations

import json
import linecache
import os
import sys
from types import CodeType

import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

from atops.device import call_site as site
from atops.device.call_site import (
    Site,
    asked_at,
    asserted,
    caller,
    calling_place,
    file_shown,
    program_place,
    source_name,
)


def inside(source: str) -> dict[str, object]:
    """Run source as if it were a file of the package, and return its names."""
    names: dict[str, object] = {"caller": caller, "Mixin": NDArrayOperatorsMixin}
    exec(compile(source, os.path.join(site.PACKAGE, "planted.py"), "exec"), names)
    return names


def test_the_caller_is_the_first_frame_outside_the_package():
    """Frames of the package are skipped; the file, line and function are those of the call that led there."""
    outer = inside("def outer():\n    return inner()\ndef inner():\n    return caller()\n")["outer"]
    found = outer()  # type: ignore[operator]
    line = test_the_caller_is_the_first_frame_outside_the_package.__code__.co_firstlineno + 3
    name = test_the_caller_is_the_first_frame_outside_the_package.__name__
    assert str(found) == f"test_call_site.py:{line} in {name}"
    assert found.path == __file__
    assert found.line == line


def test_a_compiled_text_has_the_name_that_its_log_has():
    """Python tells texts of one name apart by a digest, which messages leave out; other files keep their names."""
    for path, name, shown in (
        ("<scale.py 0a1b2c3d>", "scale.py", "scale.py"),
        ("<lib/scale.py 0a1b2c3d>", "lib/scale.py", "scale.py"),
        ("<string>", "<string>", "<string>"),
        ("/a/folder/scale.py", "/a/folder/scale.py", "scale.py"),
    ):
        assert (source_name(path), file_shown(path)) == (name, shown)
    names: dict[str, object] = {"caller": caller}
    exec(compile("\ndef ask():\n    return caller()\n", "<scale.py 0a1b2c3d>", "exec"), names)
    assert str(names["ask"]()) == "scale.py:3 in ask"  # type: ignore[operator]


def test_a_stack_that_is_all_inside_names_the_asker():
    """Without a frame outside, the innermost frame is the answer."""
    found: list[Site] = []
    code = compile("found.append(caller())", os.path.join(site.PACKAGE, "planted.py"), "exec")
    alone(code, {"caller": caller, "found": found})
    assert str(found[0]) == "planted.py:1 in <module>"


def alone(code: CodeType, names: dict[str, object]) -> None:
    """Run code in a thread whose every Python frame is in the package."""
    import _thread

    over = _thread.allocate_lock()
    over.acquire()
    names["over"] = over.release
    source = "def run():\n    try:\n        exec(code, names)\n    finally:\n        names['over']()\n"
    run = inside_with(source, code=code, names=names)["run"]
    _thread.start_new_thread(run, ())  # type: ignore[arg-type]
    assert over.acquire(timeout=30)


def inside_with(source: str, **names: object) -> dict[str, object]:
    """As `inside`, with more names."""
    planted = inside("")
    planted.update(names)
    exec(compile(source, os.path.join(site.PACKAGE, "planted.py"), "exec"), planted)
    return planted


def test_sites_compare_by_place():
    """Two visits of one line are equal and hash alike; another line differs."""
    first, again = [caller() for _ in range(2)]
    other = caller()
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != "somewhere"
    assert repr(other).startswith("<Site test_call_site.py:")


def test_frames_of_numpy_are_skipped():
    """The operators of numpy call back from one of its files; the place is the line with the operator."""
    found: list[Site] = []
    planted = inside("class Asks(Mixin):\n    def __array_ufunc__(self, *a, **n):\n        return caller()\n")
    found.append(planted["Asks"]() + 1)  # type: ignore[operator]
    line = test_frames_of_numpy_are_skipped.__code__.co_firstlineno + 4
    assert str(found[0]) == f"test_call_site.py:{line} in test_frames_of_numpy_are_skipped"


def test_the_place_of_a_program_is_in_no_library():
    """Wherever a thread is when it is looked at: in numpy, or in Python's own library."""
    places: list[Site | None] = []

    def look(pairs: object) -> None:
        frame = sys._getframe(1)
        assert frame.f_code.co_filename != __file__, "a library calls this"
        places.append(program_place(frame))

    json.loads("{}", object_pairs_hook=look)
    assert str(places[0]).startswith("test_call_site.py:") and program_place(None) is None


def test_the_same_place_is_the_same_site():
    """An answer given before comes back for the same place, and is none for another or from deeper in the package."""
    outer = inside("def outer(last):\n    return inner(last)\ndef inner(last):\n    return caller(1, last)\n")["outer"]
    last = None
    for _ in range(3):
        found = outer(last)  # type: ignore[operator]
        assert last is None or found == last
        last = found
    first, again = None, None
    for _ in range(2):
        first, again = again, caller(0, again)
    assert first is again
    assert caller(0, again) != again


def test_frames_known_to_be_inside_may_be_all_there_are():
    """A thread that runs a function of the package has no frame outside it; the function is the answer then."""
    import _thread

    over = _thread.allocate_lock()
    over.acquire()
    found: list[Site] = []
    source = "def run():\n    try:\n        found.append(caller(1))\n    finally:\n        over.release()\n"
    _thread.start_new_thread(inside_with(source, found=found, over=over)["run"], ())  # type: ignore[arg-type]
    assert over.acquire(timeout=30)
    assert str(found[0]) == "planted.py:3 in run"


def test_a_place_can_be_given_for_what_is_done_later():
    """Inside `asked_at` both questions are answered with that place; after it, and after an error, as before."""
    site = caller()
    with pytest.raises(RuntimeError), asked_at(site):
        assert caller() is site
        assert calling_place() == (site.code, site.instruction)
        raise RuntimeError
    assert caller() != site


# ---- the text of an assertion, found from the failing instruction


SOURCES = {
    "one line": ("def f(check, x):\n    assert x.real > 3 and x, 'why'\n", "x.real > 3 and x"),
    "two on a line": ("def f(check, x):\n    assert x == 0; assert x > 1\n", "x > 1"),
    "several lines": ("def f(check, x):\n    assert (\n        x > 1 and\n        x < 5\n    )\n", "x > 1 and x < 5"),
    "beyond ascii": ("def f(check, x):\n    'ää'; assert x != 0 or 'ä' == x\n", "x != 0 or 'ä' == x"),
    "no assertion": ("def f(check, x):\n    raise AssertionError('x > 1')\n", None),
    "no source": (None, None),
}


def failed(name: str, source: str, known: bool = True) -> tuple[CodeType, int]:
    """Run a function that fails, and return its code and the instruction where it failed."""
    namespace: dict[str, object] = {}
    exec(compile(source, name, "exec"), namespace)
    if known:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)

    def check(condition: object, message: object = None) -> None:
        if not condition:
            raise AssertionError

    with pytest.raises(AssertionError) as caught:
        namespace["f"](check, 0)
    frames = caught.value.__traceback__
    while frames.tb_frame.f_code.co_filename != name:
        frames = frames.tb_next
    return frames.tb_frame.f_code, frames.tb_lasti


@pytest.mark.parametrize("case", SOURCES)
def test_an_assert_statement(case: str):
    """Its condition as it is written; none where there is no statement or no source."""
    source, condition = SOURCES[case]
    place = failed(f"<{case}>", source or SOURCES["one line"][0], known=source is not None)
    assert asserted(*place) == condition


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        ("check(x > 1, 'why')", "x > 1"),
        ("check(message='why', condition=x > (2))", "x > (2)"),
        ("check(max(x, 0), str(max(1, 2)))", "max(x, 0)"),
        ("check(\n        x\n        > 1)", "x > 1"),
        ("check(*[x > 1])", "*[x > 1]"),
        ("check(**{'condition': x})", None),
    ],
)
def test_the_call_of_an_assert_function(call: str, condition: str | None):
    """Its first argument, or the one called condition."""
    place = failed(f"<{call}>", f"def f(check, x):\n    {call}\n")
    assert asserted(*place, by_call=True) == condition


def test_a_source_that_has_changed():
    """A file that is no Python any more, or has no such line, gives nothing."""
    place = failed("<changed>", SOURCES["one line"][0])
    for source in ("no ( python", "x = 1\n"):
        linecache.cache["<changed>"] = (len(source), None, source.splitlines(keepends=True), "<changed>")
        assert asserted(*place) is None
