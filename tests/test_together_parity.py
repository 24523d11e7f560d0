"""tfsmith and TensorFlow in one process, whichever comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import planted
from tests.support.helpers import python

pytestmark = pytest.mark.tensorflow

OURS = """
import tfsmith
model = tfsmith.load(sys.argv[1])
names = [node.name for node in model.graph]
assert model.variables["dense/kernel"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
text = tfsmith.graph_text(model)
"""
THEIRS = """
import tensorflow as tf
graph_def = tf.compat.v1.GraphDef()
graph_def.node.add(name="a", op="NoOp")
assert tf.constant([1, 2]).numpy().tolist() == [1, 2]
from tensorflow.core.framework.node_def_pb2 import NodeDef
"""
BOTH = """
from tfsmith.wire import message_class
ours = message_class("NodeDef")
assert ours is not NodeDef and ours.DESCRIPTOR is not NodeDef.DESCRIPTOR
assert ours.DESCRIPTOR.file.pool is not NodeDef.DESCRIPTOR.file.pool
assert ours.FromString(NodeDef(name="n").SerializeToString()).name == "n"
assert [node.name for node in tfsmith.load(graph_def).graph] == ["a"]
from google.protobuf import text_format
parsed = text_format.Parse(text, tf.compat.v1.GraphDef())
assert [node.name for node in parsed.node] == names
"""


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_both_orders(tmp_path: Path, order: str) -> None:
    folder = planted.write_saved_model(tmp_path / "model")
    parts = [OURS, THEIRS] if order == "ours first" else [THEIRS, OURS]
    check = 'assert "tensorflow" not in sys.modules\n' if order == "ours first" else ""
    done = python("-c", "import sys\n" + parts[0] + check + parts[1] + BOTH, str(folder))
    assert done.returncode == 0, done.stderr
