"""Where vectors may be made, and how errors name the thread."""

from __future__ import annotations

import re

import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, LaunchFailure, NotSupported
from atops.kernels.vectors.lanes import here, vector_thread
from tests.kernel_bench import Bench
from tests.kernels.vector_host import fails, in_kernel


def test_a_thread_of_gcu300_may(bench: Bench):
    """The running thread is returned, and messages begin with it and its line."""
    seen = []

    def body():
        seen.extend((str(vector_thread("__vector int")), here()))

    in_kernel(bench, body)
    assert seen[0].startswith("thread (0,0,0)")
    assert re.fullmatch(rf"{re.escape(seen[0])} at test_.*:\d+ in .*: ", seen[1])


def test_others_are_refused(make_bench):
    """The host is told that vectors are the device's, a gcu210 kernel which chip has them."""
    assert here() == ""
    with pytest.raises(IllegalState, match="__vector int was asked for on the host; vectors are made inside a kernel"):
        vector_thread("__vector int")
    bench = make_bench()

    @k.kernel(arch="agcu200")
    def held():
        vector_thread("__vector int")

    with pytest.raises(LaunchFailure, match=r"needs gcu300.*is gcu300 as agcu200"):
        bench.launch(held, (1, 1))
    fails(make_bench(arch="gcu210"), lambda: vector_thread("__vector int"), NotSupported, "needs gcu300.*is gcu210")
