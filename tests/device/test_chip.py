"""The hardware of a device: scratchpads are made when touched, kept between kernels, and replaced."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.device.arch import architecture
from atops.device.chip import RECORD_BYTES, Chip, KernelSignals, PrintFifo, keeping_clusters
from atops.device.exec.thread import Request
from atops.device.memory.value_wait import Condition, satisfied
from tests.every import every


def test_a_chip_has_what_its_architecture_says():
    """Clusters, SIPs, capacities and signals come from the table."""
    arch = architecture("gcu300")
    chip = Chip(arch, 3, memory="global")
    assert (chip.ordinal, chip.memory, len(chip.clusters)) == (3, "global", arch.clusters)
    assert [sip.ordinal for sip in chip.clusters[1].sips] == list(range(arch.sips_per_cluster))
    assert chip.clusters[0].sips[0].l1.nbytes == arch.l1_usable
    assert chip.clusters[0].l2.nbytes == arch.l2_usable
    assert len(chip.signals) == arch.kernel_signals


def test_scratchpads_keep_their_bytes():
    """The same memory comes back, with what was stored in it; each SIP has its own."""
    cluster = Chip(architecture("gcu300"), 0).clusters[0]
    cluster.sips[2].l1[:4] = [1, 2, 3, 4]
    assert cluster.sips[2].l1[:4].tolist() == [1, 2, 3, 4]
    assert not np.shares_memory(cluster.sips[2].l1, cluster.sips[3].l1)
    assert cluster.sips[2].l1 is cluster.sips[2].l1


def test_a_part_of_a_scratchpad_is_the_base_of_its_views():
    """They begin at a multiple of a vector's bytes; any view of a view names the part of the scratchpad it is of."""
    cluster = Chip(architecture("gcu300"), 0).clusters[1]
    for memory in (cluster.l2, *(sip.l1 for sip in cluster.sips)):
        assert memory.ctypes.data % 128 == 0
        part = np.ndarray((8, 4), np.float32, memory, 256)
        assert part.base is memory and part[2:].T.view(np.int32)[1:].base is part and not part.any()


def test_an_abandoned_kernel_keeps_the_old_memory():
    """After a renewal the old memory has no other owner."""
    cluster = Chip(architecture("gcu300"), 0).clusters[0]
    old = cluster.sips[0].l1
    cluster.renew()
    assert not np.shares_memory(old, cluster.sips[0].l1)


def test_clusters_of_a_closed_chip_are_kept_as_new():
    """All 0, for a chip of the same kind; what an array of a kernel is part of is not, and no cluster with a thread."""

    def used(chip):
        sip, l2 = chip.clusters[0].sips[0], chip.clusters[0].l2
        sip.l1[:8] = l2[:8] = 7
        sip.l1.used = l2.used = 8
        sip.sync = Request()
        sip.sync.frame = (each for each in ()).gi_frame
        return sip, np.ndarray((2,), np.int32, sip.l1)

    with keeping_clusters():
        first = Chip(architecture("gcu300"), 0)
        clusters = first.clusters[:]
        sip, array = used(first)
        first.close()
        assert first.clusters == []
        assert Chip(architecture("gcu210"), 0).clusters[0] not in clusters
        second = Chip(architecture("gcu300"), 0)
        assert second.clusters[0] is not clusters[0] and sip.sync is None  # it was in use
        del clusters, sip
        clusters, array = second.clusters[:], used(second)[1]
        second.close()
        third = Chip(architecture("gcu300"), 1)
        assert third.clusters == clusters
        new = third.clusters[0]
        assert not new.sips[0].l1[:8].any() and not new.l2[:8].any() and new.sips[0].sync.frame is None
        assert array.tolist() == [0x07070707] * 2 and not np.shares_memory(array, new.sips[0].l1)
        third.close()
    assert Chip(architecture("gcu300"), 0).clusters[0] is not new


# ---- kernel signals: values modulo 2**32, their conditions, and which waits end


class Waiter:
    def __init__(self, condition, value, log=None):
        self.condition, self.value, self.log = condition, value, log if log is not None else []

    def met(self, now):
        return satisfied(now, self.value, Condition.of(self.condition))

    def wake(self):
        self.log.append(self)


TABLE = [
    ("gte", 5, 5, True),
    ("gte", 4, 5, False),
    ("gte", 0, 0xFFFFFFFF, True),  # cyclic: 0 comes just after the largest
    ("gte", 0xFFFFFFFF, 0, False),
    ("gte", 0x7FFFFFFF, 0, True),
    ("gte", 0x80000000, 0, False),
    ("gteunsigned", 0, 0xFFFFFFFF, False),
    ("gteunsigned", 0xFFFFFFFF, 0, True),
    ("gteunsigned", 5, 5, True),
    ("eq", 5, 5, True),
    ("eq", 5, 6, False),
    ("and", 6, 2, True),
    ("and", 6, 1, False),
    ("and", 6, 0, False),
    ("nor", 0, 0, True),
    ("nor", 0xFFFFFFFF, 0, False),
    ("nor", 0xFFFF0000, 0x0000FFFF, False),
    ("nor", 0xFFFF0000, 0x0000FFFE, True),
]


@every("condition, now, value, met", TABLE)
def test_conditions(condition, now, value, met):
    """Each condition compares as the runtime's wait-value does."""
    assert Waiter(condition, value).met(now) is met


def test_values_wrap_and_add_returns_the_value_before():
    """Values are 32 bits wide."""
    signals = KernelSignals(4)
    signals.set(1, -1)
    assert signals.read(1) == 0xFFFFFFFF
    assert signals.add(1, 2) == 0xFFFFFFFF
    assert [signals.read(index) for index in range(4)] == [0, 1, 0, 0]
    assert len(signals) == 4


def test_waiters_are_woken_in_order_when_their_own_condition_is_met():
    """A store wakes those it satisfies, the longest-waiting first; the others stay."""
    signals, log = KernelSignals(2), []
    waiters = [Waiter("gte", value, log) for value in (3, 1, 2)]
    assert not any(signals.park(0, waiter) for waiter in waiters)
    signals.set(1, 9)
    assert log == []
    signals.set(0, 2)
    assert log == [waiters[1], waiters[2]]
    signals.add(0)
    assert log == [waiters[1], waiters[2], waiters[0]]
    signals.set(0, 0)
    signals.set(0, 9)
    assert len(log) == 3


def test_a_condition_already_met_does_not_park():
    """A late waiter goes on at once, and nothing is left in the lot."""
    signals = KernelSignals(1)
    signals.set(0, 7)
    assert signals.park(0, Waiter("eq", 7))
    assert "0 waiting" in repr(signals)


def test_a_waiter_that_gave_up_is_not_woken():
    """A discarded waiter is forgotten."""
    signals, log = KernelSignals(1), []
    waiter = Waiter("eq", 1, log)
    signals.park(0, waiter)
    signals.discard(0, waiter)
    signals.set(0, 1)
    assert log == []


def test_waiters_may_use_the_signals_when_they_are_woken():
    """No lock is held while a waiter is woken."""
    signals = KernelSignals(2)

    class Chain(Waiter):
        def wake(self):
            signals.set(1, 5)

    signals.park(0, Chain("eq", 1))
    signals.set(0, 1)
    assert signals.read(1) == 5


@pytest.mark.parametrize("index", [-1, 4])
def test_there_are_no_other_signals(index):
    """An index out of range is refused everywhere, with the right ones."""
    signals = KernelSignals(4)
    for use in (signals.read, lambda i: signals.set(i, 1), signals.add, lambda i: signals.park(i, Waiter("eq", 9))):
        with pytest.raises(InvalidValue, match=f"kernel signal is {index}; this chip has 0 to 3"):
            use(index)


def test_reset_stores_zero_everywhere():
    """After a reset every signal is 0 again."""
    signals = KernelSignals(3)
    signals.set(2, 5)
    signals.reset()
    assert [signals.read(index) for index in range(3)] == [0, 0, 0]


# ---- the FIFO of printed texts: order, what is lost when it is full, and whose texts are not shown yet


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
    fifo.mark_shown()
    assert not fifo.owes("first") and fifo.owes("second") and not fifo.quiet
    fifo.put("x" * 200, "third")
    assert fifo.owes("third")
    fifo.take()
    fifo.mark_shown()
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
