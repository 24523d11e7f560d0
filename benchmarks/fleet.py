"""How many models a second `tfsmith fleet` scans: in one process, in two, and on a Ray cluster of this machine."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import tfsmith
from benchmarks.measure import Figures
from benchmarks.report import Row
from benchmarks.setup import Setup
from tfsmith.testing.half_plus import write_half_plus

__all__ = ["rows"]


def rows(setup: Setup) -> list[Row]:
    """A scan of small SavedModels. The time to start processes, or to reach the cluster, counts."""
    from ray.cluster_utils import Cluster

    count = 20 if setup.quick else 500
    made: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = write_half_plus(folder / "one", 2.0)
        for number in range(count):
            shutil.copytree(one, folder / "models" / str(number))

        def measure(what: str, jobs: int = 1, ray: str | None = None) -> None:
            report = folder / f"{len(made)}.jsonl"
            done = tfsmith.fleet("scan", [str(folder / "models")], report=report, jobs=jobs, ray=ray)
            if done.done != {"yes": count}:
                raise RuntimeError(f"{what}: {done.done}")
            text = f"fleet scan of {count:,} models, {what}: {count / done.seconds:,.0f} a second"
            made.append(Row("fleet", text, Figures((done.seconds,), 0)))

        measure("1 job")
        measure("2 jobs", jobs=2)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        try:
            measure("Ray, 2 processors", ray=cluster.address)
        finally:
            cluster.shutdown()
    return made
