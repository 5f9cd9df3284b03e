"""The FIFO of printed texts: order, what is lost when it is full, and whose texts are not shown yet."""

from __future__ import annotations

import threading

import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.device.print_fifo import RECORD_BYTES, PrintFifo


def texts(fifo: PrintFifo) -> list[str]:
    """Take everything, as text."""
    return [printed.text for printed in fifo.take()[0]]


def test_texts_come_out_in_order_with_their_origins():
    """What is empty is not kept; taking empties it."""
    fifo = PrintFifo()
    for text, origin in (("a\n", 1), ("", 1), ("b", 2)):
        fifo.put(text, origin)
    assert len(fifo) == 2
    assert fifo.take() == ([("a\n", 1), ("b", 2)], 0)
    assert fifo.take() == ([], 0)


def test_a_full_fifo_loses_its_oldest():
    """Exactly as many as must go; a text counts its bytes and a header; one that can never fit is lost itself."""
    fifo = PrintFifo(2 * (RECORD_BYTES + 4))
    for text in ("old.", "mid.", "ää"):
        fifo.put(text)
    assert fifo.take()[1] == 1
    for text in ("one.", "two.", "x" * 1000):
        fifo.put(text)
    assert fifo.lost == 2
    assert fifo.take() == ([("one.", None), ("two.", None)], 1)
    fifo.put("five.")
    fifo.put("six.")
    assert texts(fifo) == ["six."]


def test_the_size_can_be_set():
    """A smaller one loses the oldest at once; what is no size is refused."""
    fifo = PrintFifo()
    assert fifo.size == 1 << 20
    for number in range(5):
        fifo.put(str(number))
    fifo.size = 2 * (RECORD_BYTES + 1)
    assert texts(fifo) == ["3", "4"]
    with pytest.raises(InvalidValue, match="FIFO is 0; expected at least 1"):
        fifo.size = 0
    with pytest.raises(InvalidType, match=r"FIFO is 1\.5"):
        fifo.size = 1.5  # type: ignore[assignment]
    assert "34 bytes, 3 lost" in repr(fifo)


def test_an_origin_is_owed_until_its_texts_are_shown():
    """Taking is not showing; what is put meanwhile is owed on; what was lost is owed until the loss is told."""
    fifo = PrintFifo(100)
    assert fifo.quiet
    fifo.put("a", "first")
    fifo.take()
    fifo.put("b", "second")
    assert fifo.owes("first") and fifo.owes("second") and not fifo.owes("third")
    fifo.settle()
    assert not fifo.owes("first") and fifo.owes("second") and not fifo.quiet
    fifo.put("x" * 200, "third")
    assert fifo.owes("third")
    fifo.take()
    fifo.settle()
    assert fifo.quiet


def test_many_threads_put_at_once():
    """Nothing is lost or doubled, and each thread's texts keep their order."""
    fifo = PrintFifo()
    threads = [threading.Thread(target=lambda n=n: [fifo.put(f"{n} {i}") for i in range(200)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = texts(fifo)
    assert len(found) == 800
    for n in range(4):
        assert [text for text in found if text.startswith(f"{n} ")] == [f"{n} {i}" for i in range(200)]
