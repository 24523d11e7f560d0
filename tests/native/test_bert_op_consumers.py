"""The consumers in Go and Java load the op, and run a model that has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.linear_regression import story
from tests.native.cases import make_case

pytestmark = pytest.mark.tensorflow

X = np.array([[0.0], [1.0], [-1.0], [2.0]])
"""What the consumers ask."""
INPUT, OUTPUT = "inputs/x_sample", "linear_regression/add"


@pytest.fixture(scope="module")
def model(bert_op: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A graph with the op, that takes and gives what the line of the consumers does; and what it gives."""
    import tensorflow as tf

    case = make_case(batch=4, length=1)
    rows = np.linspace(-1, 1, case.embedded.shape[-1], dtype=np.float32)
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float64, [None, 1], name=INPUT)
        embedded = tf.sin(tf.cast(x, tf.float32)[:, :, None] * rows)
        encoded = bert_op(embedded=embedded, input_mask=case.mask, weights=case.weights, **case.attributes)
        tf.add(tf.cast(tf.reduce_sum(encoded * rows, 2), tf.float64), 0.5, name=OUTPUT)
        with tf.compat.v1.Session() as session:
            expected = session.run(f"{OUTPUT}:0", {f"{INPUT}:0": X})
    path = tmp_path_factory.mktemp("consumed") / "with_op.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path, expected.ravel()


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    shell = f"export PATH={Path(sys.executable).parent}:$PATH; {command}"
    return subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, check=False)


def _copy(folder: Path) -> Path:
    return Path(shutil.copytree(story.HERE, folder / "linear_regression"))


def test_go(model: tuple[Path, Any], bert_library: Path, tmp_path: Path) -> None:
    missing = [program for program in story.GO if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} cannot be found")
    path, expected = model
    folder = _copy(tmp_path)
    made = _run(f"{story.LIBRARY} && {story.WITH_C}go build -o consumer go_consumer/go_consumer.go", folder)
    assert made.returncode == 0, made.stderr
    done = _run(f"{story.WITH_C}./consumer {path} {bert_library}", folder)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(story.read_results(done.stdout), expected, atol=1e-5)
    without = _run(f"{story.WITH_C}./consumer {path}", folder)
    assert without.returncode == 1
    assert "Bert" in without.stderr


def test_java(request: pytest.FixtureRequest, model: tuple[Path, Any], tmp_path: Path) -> None:
    """TensorFlow for Java brings a TensorFlow of its own, for which the op has to be built."""
    library: Path | None = request.config.getoption("--java-bert-op", None)
    if library is None:
        pytest.skip("--java-bert-op is not given: the library of the op, built for the TensorFlow of Java's")
    missing = [program for program in story.JAVA if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} cannot be found")
    path, expected = model
    folder = _copy(tmp_path)
    made = _run("mvn -q -f java_consumer package", folder)
    assert made.returncode == 0, made.stdout
    done = _run(f"{story.JAR} {path} {library}", folder)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(story.read_results(done.stdout), expected, atol=1e-5)
