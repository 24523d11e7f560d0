"""Small versions of `python -m benchmarks.load`: nothing leaks, and threads may share a Model."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.load import make_checkpoint, make_graph, open_many, read_by_threads

import tfsmith


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts maps and descriptors where Linux lists them")
def test_models_that_are_let_go_leave_nothing(tmp_path: Path) -> None:
    prefix = make_checkpoint(tmp_path / "m.ckpt", 0.01)
    assert Path(f"{prefix}.data-00000-of-00001").stat().st_size > 1 << 22  # so large that it is mapped
    assert open_many(prefix, 100) == (0, 0)


def test_threads_share_a_model(tmp_path: Path) -> None:
    assert read_by_threads(make_checkpoint(tmp_path / "m.ckpt", 0.01), 8, 2)
    assert read_by_threads(make_graph(tmp_path / "m.pb", 500), 8, 2)


def test_the_generators_make_sound_files(tmp_path: Path) -> None:
    prefix = make_checkpoint(tmp_path / "m.ckpt", 0.01)
    assert tfsmith.verify_checksums(prefix)
    model = tfsmith.load(make_graph(tmp_path / "m.pb", 300))
    assert [len(model.graph), model.graph["node299"].inputs[0]] == [300, "node298"]
