"""The reference engine against TensorFlow: loops and conditions of both kinds, lists, tables with assets, state."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.errors import EngineError

pytestmark = pytest.mark.tensorflow

X = np.array([[1.0, 2.0, -0.5], [0.25, -3.0, 4.0]], np.float32)


def run_v1(build: Callable[[Any], dict[str, Any]], feeds: dict[str, Any], path: Path) -> None:
    """Builds a graph of TensorFlow 1, with its own control flow, and compares all of its outputs."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.disable_control_flow_v2()
        try:
            outputs = build(tf)
        finally:
            v1.enable_control_flow_v2()
        wanted = session.run(outputs, {f"{key}:0": value for key, value in feeds.items()})
        ops = {operation.type for operation in graph.get_operations()}
    assert "Switch" in ops
    tf.io.write_graph(graph.as_graph_def(), str(path), "graph.pb", as_text=False)
    names = {key: tensor.name for key, tensor in outputs.items()}
    found = tfsmith.run(path / "graph.pb", feeds, list(names.values()), engine="reference")
    for key, name in names.items():
        np.testing.assert_allclose(found[name], wanted[key], rtol=1e-6)
        assert found[name].dtype == np.asarray(wanted[key]).dtype


def loops(tf: Any) -> dict[str, Any]:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 3], "x")
    n = v1.placeholder(tf.int32, [], "n")

    def inner(i: Any, y: Any) -> Any:
        small = v1.cond(tf.reduce_sum(y) < 10.0, lambda: y * 2.0, lambda: y - 1.0)
        _, z = v1.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + 1.0), [0, small])
        return i + 1, z

    count, y = v1.while_loop(lambda i, y: i < n, inner, [0, x])
    array = tf.TensorArray(tf.float32, size=n, clear_after_read=False)
    step = [tf.constant(0), tf.zeros_like(x), array]
    _, state, array = v1.while_loop(
        lambda i, state, array: i < n,
        lambda i, state, array: (i + 1, state + x, array.write(i, state * 2.0)),
        step,
    )
    dead = v1.cond(n > 100, lambda: v1.while_loop(lambda i: i < 5, lambda i: i + 1, [n]), lambda: -n)
    mapped = v1.map_fn(lambda row: tf.reduce_max(row) * row, x)
    return {"count": count, "y": y, "state": state, "stack": array.stack(), "dead": dead, "mapped": mapped}


@pytest.mark.parametrize("count", [0, 1, 4, 101])
def test_control_flow_of_tf1(count: int, tmp_path: Path) -> None:
    if count == 0:  # what an empty TensorArray holds has no shape
        run_v1(lambda tf: {k: v for k, v in loops(tf).items() if k != "stack"}, {"x": X, "n": count}, tmp_path)
        return
    run_v1(loops, {"x": X, "n": count}, tmp_path)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("module")
    words = folder / "words.txt"
    words.write_bytes(b"one\r\ntwo\nthree\n")
    pairs = folder / "pairs.txt"
    pairs.write_bytes(b"a 1.5\nb 2.5")

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            init = tf.lookup.TextFileInitializer(
                str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            )
            self.words = tf.lookup.StaticHashTable(init, -1)
            columns = tf.lookup.TextFileInitializer(str(pairs), tf.string, 0, tf.float32, 1, delimiter=" ")
            self.pairs = tf.lookup.StaticHashTable(columns, 0.0)
            known = tf.lookup.KeyValueTensorInitializer([3, 5], ["three", "five"], tf.int64, tf.string)
            self.numbers = tf.lookup.StaticHashTable(known, "?")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def lookup(self, x: Any) -> Any:
            found = self.words.lookup(x)
            return {"ids": found, "values": self.pairs.lookup(x), "names": self.numbers.lookup(found + 3)}

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32)])
        def flow(self, x: Any, n: Any) -> Any:
            array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
            total = tf.zeros_like(x)
            for i in tf.range(n):
                if tf.reduce_sum(total) > 3.0:
                    total -= 1.0
                else:
                    total += x
                array = array.write(i, total)
            case = tf.switch_case(n, [lambda: x, lambda: -x], default=lambda: x * 10.0)
            scanned = tf.scan(lambda sum, row: sum + row, x)
            return {"total": total, "stack": array.stack(), "case": case, "scanned": scanned}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def checked(self, x: Any) -> Any:
            tf.debugging.assert_positive(x, message="all must be positive")
            tf.print(tf.constant("it was checked"))
            return {"y": tf.sqrt(x)}

    made = Module()
    signatures = {"lookup": made.lookup, "flow": made.flow, "checked": made.checked}
    tf.saved_model.save(made, str(folder / "model"), signatures=signatures)
    words.unlink()
    pairs.unlink()
    return folder / "model", made


def test_tables_with_assets(module: tuple[Path, Any], tmp_path: Path) -> None:
    path, made = module
    x = np.array([b"two", b"four", b"one", b"b"], object)
    wanted = {key: value.numpy() for key, value in made.lookup(x).items()}
    found = tfsmith.run(path, {"x": x}, signature="lookup", engine="reference")
    for key, values in wanted.items():
        np.testing.assert_array_equal(found[key], values)
        assert found[key].dtype == values.dtype
    shutil.copytree(path, tmp_path / "moved")
    found = tfsmith.run(tmp_path / "moved", {"x": x}, signature="lookup", engine="reference")
    np.testing.assert_array_equal(found["ids"], wanted["ids"])
    (tmp_path / "moved" / "assets" / "words.txt").unlink()
    with pytest.raises(EngineError, match=r"the asset 'words.txt' is missing; fetch the model again") as caught:
        tfsmith.run(tmp_path / "moved", {"x": x}, signature="lookup", engine="reference")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [1, 5])
def test_control_flow_of_tf2(module: tuple[Path, Any], count: int) -> None:
    path, made = module
    wanted = {key: value.numpy() for key, value in made.flow(X, count).items()}
    found = tfsmith.run(path, {"x": X, "n": count}, signature="flow", engine="reference")
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-6)


def test_assertions_and_prints(module: tuple[Path, Any]) -> None:
    path, _ = module
    with tfsmith.compile(path, signature="checked", engine="reference") as runner:
        assert runner.run({"x": [4.0, 9.0]})["y"].tolist() == [2.0, 3.0]
        with pytest.raises(EngineError, match=r"Assert failed: assertion failed: .*all must be positive"):
            runner.run({"x": [4.0, -9.0]})
        assert runner.run({"x": [1.0]})["y"].tolist() == [1.0]
        assert "the model prints: it was checked" in runner.notes
