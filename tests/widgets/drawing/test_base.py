"""What every widget has in a notebook's shell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from atops.base.trace.records import Trace
from atops.device.call_site import NAMERS, file_shown
from atops_widgets import Timeline


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """The shell of a notebook."""
    before = list(NAMERS)
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()
    NAMERS[:] = before


def test_lines_of_cells_are_called_as_the_notebook_does(shell: InteractiveShell) -> None:
    """A widget alone, without the extension, says `In[5]` and no name of a file that the kernel made up."""
    NAMERS.clear()
    file = shell.compile.cache("x = 1", 5)
    Timeline(Trace())
    assert file_shown(file) == "In[5]"
    assert file_shown("/somewhere/main.py") == "main.py"


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
