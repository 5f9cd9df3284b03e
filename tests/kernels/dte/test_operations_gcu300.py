"""The functions of the operations that gcu300 adds: mistakes, and what gcu210 says to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, random_array
from tests.every import every
from tests.kernel_bench import Bench

NAMES = [row.name for row in OPERATIONS.values() if row.gcu_arch == 300]


@pytest.mark.slow
@every("form", ["{}", "{}_async"])
@every("name", NAMES)
def test_gcu210_has_none_of_them(make_bench: Any, name: str, form: str):
    """The refusal names thread, line, operation and chip; nothing has moved."""
    bench, case = make_bench(arch="gcu210"), EXAMPLES[name]
    source, below = random_array(case.src, case.src_kind), random_array(case.dst, case.dst_kind)
    x, y = bench.upload(source), bench.upload(below)
    function = getattr(k, form.format(name))

    @k.kernel
    def run(x, y):
        with k.dte_scope() as dte:
            function(dte, y, x, **case.parameters)

    with pytest.raises(DteError, match=rf"thread \(0,0,0\) .*gcu300.py:\d+ in .*{name} needs gcu300; this is gcu210"):
        bench.launch(run, (1, 1), x, y)
    assert y.host.tobytes() == below.tobytes() and x.host.tobytes() == source.tobytes()


def test_mirrors_begin_with_their_axis():
    """The names suggest the other axis, so that the help begins with the one that it is."""
    for form in ("pad", "deslice"):
        assert getattr(k, f"mirror_tb_{form}").__doc__.startswith("Last axis reversed")
        assert getattr(k, f"mirror_lr_{form}").__doc__.startswith("Last axis but one reversed")


def test_errors_name_operation_and_line(bench: Bench):
    """Wrong windows, widths, phases and strides are the kernel's mistakes at their line."""
    source = random_array((3, 4), np.dtype(np.int16))
    x, f = bench.upload(source), k
    for call, why in (
        (lambda c, x: f.slice_pad(c, x, x, [0, 0], [2, 2], [0, 0], [0, 0], [0, 0]), "slice_pad: dimension 0 of dst"),
        (lambda c, x: f.slice_deslice(c, x, x, [0, 0], [2, 2], [2, 0]), "slice_deslice: in dimension 0 the window"),
        (lambda c, x: f.slice_broadcast(c, x, x, [0, 0], [3]), "slice_broadcast: slice_shape is"),
        (lambda c, x: f.slice_expand(c, x, x.view(np.uint8), [0, 0], [3, 8], 2, 0), "slice_expand: phase is 2"),
        (lambda c, x: f.shrink_deslice(c, x.view(np.uint8), x, 0, 1, [0, 0]), "shrink_deslice: src has elements"),
        (lambda c, x: f.memset_deslice(c, x, x, [0, 0], 1e9), "memset_deslice: value is"),
        (lambda c, x: f.mirror_tb_pad(c, x, x, [0, 0], [0, -1], [0, 0]), "mirror_tb_pad: high of dimension 1"),
        (lambda c, x: f.mirror_lr_deslice(c, x, x, 0), "mirror_lr_deslice: dst_offsets is 0"),
        (lambda c, x: f.sub_sample(c, x, x, [1, 0]), "sub_sample: dim_stride of dimension 1 is 0"),
    ):

        @k.kernel
        def wrong(x, call):
            with k.dte_scope() as dte:
                call(dte, x)

        with pytest.raises(DteError, match=rf"thread \(0,0,0\).*test_operations_gcu300.py:\d+ in .*{why}"):
            bench.launch(wrong, (1, 1), x, call)
    assert np.array_equal(x.host, source)
