"""A cluster of two worker processes, and clients of both kinds. Each test leaves its workers as they were."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

if os.environ.get("CI"):
    import distributed
else:
    distributed = pytest.importorskip("distributed", exc_type=ImportError)
from distributed.utils import _offload_executor


@pytest.fixture(scope="package", autouse=True)
def offload() -> None:
    """Start the thread that Dask keeps for large messages, once in a process: no test's own then."""
    _offload_executor.submit(int).result()


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """Two workers of one thread each. It lives as long as there are tests of it."""
    for name in ("distributed.worker", "distributed.scheduler", "distributed.nanny", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    how = {"env": {"DASK_LOGGING__DISTRIBUTED": "critical"}, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", **how) as made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A plain client."""
    with distributed.Client(cluster, set_as_default=False) as made:
        yield made
