"""Pipelines and searches of schedules on a cluster of Dask: the extra `atops[dask]`.

pipeline   `pipeline(source, stages, client)`: chunks on the workers, results in order
board      `board(client)`: the devices of all workers, and what they have done as one trace
schedules  what `atops.check(..., client=client)` deals out
worker     what runs on a worker: a plugin with its board, and the chunks of pipelines
cluster    what is asked of a client: versions, the board on every worker, what a lost cluster raises
"""

try:
    import distributed as _  # noqa: F401  # the package of this name that Dask has
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "atops.distributed needs the package distributed: pip install 'atops[dask]'", name=missing.name
    ) from missing

from atops.distributed import schedules
from atops.distributed.board import ClusterBoard, ClusterStatistics, WorkerBoard, board
from atops.distributed.pipeline import ClusterPipeline, PlainPipeline, pipeline

__all__ = (
    "ClusterBoard", "ClusterPipeline", "ClusterStatistics", "PlainPipeline", "WorkerBoard", "board", "pipeline",
    "schedules",
)  # fmt: skip
