"""Models pickle and deepcopy: what lies in a file by that file, what was edited by value. Threads may share them."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy
import pytest
from tests.docs.runner import ROOT
from tests.support import planted

import tfsmith
from tfsmith.errors import UnreadableFileError
from tfsmith.formats.graph.metagraph import plan_meta_graph
from tfsmith.ir.model import Model
from tfsmith.storage import Span
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files

FILES = ROOT / "tests" / "docs" / "files"


def _bytes(model: Model) -> list[bytes]:
    """All that a model would write of its graphs."""
    return [plan_meta_graph(meta).tobytes() for meta in model.meta_graphs]


def _values(model: Model) -> dict[str, Any]:
    return {name: tensor.numpy().tolist() for name, tensor in model.variables.items()}


def _look(model: Model) -> object:
    """Decodes all that is lazy."""
    meta = model.meta
    functions = {name: [node.attrs for node in function] for name, function in meta.graph.library.items()}
    shown = [(node.name, dict(node.attrs)) for node in meta.graph], dict(meta.graph.uses), functions, meta.objects
    return repr((shown, meta.signatures, meta.info, meta.saver)), _values(model)


def _checkpoint(folder: Path) -> Path:
    write_checkpoint_files(linear_regression(), folder, step=1)
    return folder / "model.ckpt-1"


def _graph(folder: Path) -> Path:
    tfsmith.save(tfsmith.load(_checkpoint(folder)), folder / "graph.pb")
    return folder / "graph.pb"


def _text(folder: Path) -> Path:
    tfsmith.save(tfsmith.load(_checkpoint(folder)), folder / "other.pbtxt")
    return folder / "other.pbtxt"


MODELS: list[Callable[[Path], Path]] = [
    lambda folder: planted.write_saved_model(folder / "planted"),
    lambda _: FILES / "tf2_model",
    lambda _: FILES / "old",
    lambda _: FILES / "partitioned",
    lambda _: FILES / "vocabulary",
    _checkpoint,
    _graph,
    _text,
]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("looked", [False, True])
def test_a_model_by_its_file(tmp_path: Path, make: Callable[[Path], Path], looked: bool) -> None:
    model = tfsmith.load(make(tmp_path))
    if looked:
        _look(model)
    found = pickle.loads(pickle.dumps(model))
    assert (found.kind, found.path, found.side_files) == (model.kind, model.path, model.side_files)
    assert _bytes(found) == _bytes(model)
    assert _look(found) == _look(model)
    assert copy.deepcopy(model) is copy.copy(model) is model


def test_its_file_is_not_in_the_pickle(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path)
    model = tfsmith.load(path)
    _look(model)
    assert b"linear_regression/mul" in _bytes(model)[0]
    assert b"linear_regression/mul" not in pickle.dumps(model)


@pytest.mark.parametrize("make", MODELS)
def test_an_edited_model_by_value(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with tfsmith.load(make(tmp_path)).edit() as g:
        g.add("Abs", [g.const(numpy.arange(3.0), name="made")], name="new")
        g.signature("more", outputs={"y": "new:0"})
    found = pickle.loads(pickle.dumps(g.model))
    assert _bytes(found) == _bytes(g.model)
    assert found.graph["made"].get("value").numpy().tolist() == [0.0, 1.0, 2.0]
    untouched = [node.raw for node in found.graph if node.name not in ("made", "new")]
    assert all(isinstance(raw, Span) for raw in untouched)


def test_another_process_opens_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _checkpoint(tmp_path)
    monkeypatch.chdir(tmp_path)
    model = tfsmith.load("model.ckpt-1")
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    code = """
import pickle, sys
model = pickle.load(open(sys.argv[1], "rb"))
print({name: tensor.numpy().tolist() for name, tensor in model.variables.items()})
"""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pickle")], cwd=folder, capture_output=True, text=True
    )
    assert done.stdout == f"{_values(model)}\n", done.stderr


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = _graph(tmp_path)
    data = pickle.dumps(tfsmith.load(path))
    os.utime(path, (1, 1))
    with pytest.raises(UnreadableFileError) as error:
        pickle.loads(data)
    what = "the file has changed since the model that uses it was pickled; load the model again"
    assert str(error.value) == f"{path}: {what}"


@pytest.mark.parametrize("make", MODELS)
def test_many_threads_read_one_model(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    wanted = _look(tfsmith.load(path))
    for _ in range(3):
        model, barrier = tfsmith.load(path), Barrier(8)

        def read(model: Model = model, barrier: Barrier = barrier) -> tuple[object, int]:
            barrier.wait()
            return _look(model), id(model.graph)

        with ThreadPoolExecutor(8) as pool:
            results = [job.result() for job in [pool.submit(read) for _ in range(8)]]
        assert all(found == wanted for found, _ in results)
        assert len({graph for _, graph in results}) == 1
