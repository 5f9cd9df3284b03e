"""What every widget has in a notebook's shell."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import traitlets
from IPython.core.interactiveshell import InteractiveShell

from atops.base.errors import InvalidValue
from atops.base.trace.records import Trace
from atops.device.call_site import NAMERS, file_shown
from atops_widgets import Timeline, watch
from atops_widgets.drawing.base import FeedWidget, cell_shown
from tests.every import every


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """The shell of a notebook."""
    before = list(NAMERS)
    NAMERS[:] = [cell_shown]
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()
    NAMERS[:] = before


def test_lines_of_cells_are_called_as_the_notebook_does(shell: InteractiveShell) -> None:
    """`In[5]` and no name of a file that the kernel made up: as soon as widgets are imported, in every message."""
    file = shell.compile.cache("x = 1", 5)
    assert file_shown(file) == "In[5]"
    assert file_shown("/somewhere/main.py") == "main.py"


def test_importing_widgets_names_cells() -> None:
    """Without the extension, and before any widget is made."""
    program = "import atops_widgets; from atops.device import call_site; print(len(call_site.NAMERS))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_widget_may_be_closed_while_another_thread_sends() -> None:
    """What it was about to say is dropped, and the thread that draws sees no error."""

    class Closing:
        """A comm whose widget is closed just when it is asked whether it reaches a page."""

        comm_id = "0"
        asked = False
        on_msg = on_close = send = close = staticmethod(lambda *_, **__: None)

        @property
        def kernel(self) -> bool:
            if self.asked:
                widget.close()
            return True

    widget = Timeline(Trace())
    widget.comm = comm = Closing()
    comm.asked = True
    widget.send({"type": "ping"})
    assert widget.comm is None


@pytest.mark.parametrize("make", [lambda: Timeline("none.json"), lambda: watch(5)], ids=["timeline", "watch"])
def test_a_widget_that_was_not_made_is_not_closed(make: Callable[[], object]) -> None:
    """Its own error says all: nothing comes behind it when the object goes."""
    with pytest.raises((OSError, InvalidValue)):
        make()
    gc.collect()  # what an end raises is a failure of the test


@pytest.mark.parametrize("make", [Timeline, watch])
@pytest.mark.parametrize("name, before, bad", [
    ("selected", 5, [10**30, -7]),
    ("cursor", 5.0, [math.nan, math.inf, -math.inf, -1e300]),
    ("span", [1.0, 2.0], [[5.0], [5.0, 1.0], [1.0, 1.0], [0.0, math.inf], [math.nan, 1.0], [1.0, 2.0, 3.0]]),
])  # fmt: skip
def test_traits_take_only_what_a_picture_can_show(
    make: Callable[[Trace], FeedWidget], name: str, before: object, bad: list[object]
) -> None:
    """Anything else is an error that names widget, value and what is expected; the trait and picture stay."""
    widget = make(Trace())
    setattr(widget, name, before)
    for value in bad:
        with pytest.raises(traitlets.TraitError) as caught:
            setattr(widget, name, value)
        said = f"The '{name}' trait of a {type(widget).__name__} instance expected "
        assert str(caught.value).startswith(said) and str(caught.value).endswith(f", not {value!r}.")
        assert getattr(widget, name) == before
    assert widget.drawings()


@every("arguments, said", [
    ({"since": "x"}, "since expects seconds, at least 0, got 'x'"),
    ({"since": None}, "since expects seconds, at least 0, got None"),
    ({"share": "x"}, "share expects a part of one processor, above 0 and at most 1, got 'x'"),
])  # fmt: skip
def test_what_watch_expects(arguments: dict[str, Any], said: str) -> None:
    """What is no number is refused as a number outside of the range is."""
    with pytest.raises(InvalidValue, match=said):
        watch(Trace(), **arguments)
