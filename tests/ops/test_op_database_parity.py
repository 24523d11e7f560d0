"""Our packaged op definitions against those of the installed TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tfsmith.formats.graph.graphdef import op_from_message, op_to_message
from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import OpDef, builtin_ops, op_summary
from tfsmith.ir.tensor import FilledTensor
from tfsmith.wire import parse

pytestmark = pytest.mark.tensorflow

LIST_OPS = """
import sys
import tensorflow
from tensorflow.python.client import pywrap_tf_session as session
sys.stdout.buffer.write(session.TF_GetBuffer(session.TF_GetAllOpList()))
"""


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    """The ops of the installed TensorFlow, by name; of a fresh process, for converters of other tests register more."""
    from tensorflow.core.framework import op_def_pb2

    done = subprocess.run([sys.executable, "-c", LIST_OPS], capture_output=True, check=True)
    return {op.name: op for op in op_def_pb2.OpList.FromString(done.stdout).op}


def test_the_database_is_of_the_installed_release() -> None:
    import tensorflow as tf

    assert tf.__version__ == builtin_ops().version, "run `python tools/make_op_database.py`, and commit what it writes"


def _comparable(op: OpDef) -> Any:
    attrs = [(attr.name, attr.kind, _value(attr.default), attr.minimum, attr.allowed) for attr in op.attrs]
    return op.name, op.inputs, op.outputs, attrs, op.is_stateful, op.is_commutative, op.is_aggregate


def _value(default: Attr | None) -> Any:
    if default is None:
        return None
    values = default.value if isinstance(default.value, tuple) else (default.value,)
    plain = [(v.dtype, v.shape, v.numpy().tolist()) if isinstance(v, FilledTensor) else v for v in values]
    return default.kind, plain


def test_every_op_is_the_same(theirs: dict[str, Any]) -> None:
    ours = builtin_ops()
    assert set(ours) == set(theirs)
    assert len(ours) == len(theirs) > 1500
    different = {}
    for name, message in theirs.items():
        wanted = _comparable(op_from_message(parse("OpDef", message.SerializeToString())))
        if _comparable(ours[name]) != wanted:
            different[name] = (_comparable(ours[name]), wanted)
    assert different == {}


def test_definitions_become_messages_again(theirs: dict[str, Any]) -> None:
    """What TensorFlow needs of a definition; prose is not kept."""
    for name, message in theirs.items():
        wanted = type(message).FromString(message.SerializeToString())
        for field in ("summary", "description", "deprecation", "is_distributed_communication"):
            wanted.ClearField(field)
        wanted.ClearField("allows_uninitialized_input")
        for arg in (*wanted.input_arg, *wanted.output_arg):
            for field in ("description", "handle_data", "experimental_full_type"):
                arg.ClearField(field)
        for attr in wanted.attr:
            attr.ClearField("description")
        found = type(message).FromString(op_to_message(builtin_ops()[name]).SerializeToString())
        assert found == wanted, name


def test_the_prose_is_that_of_the_python_functions() -> None:
    import tensorflow as tf

    for name in ("MatMul", "ReadFile", "Conv2D", "PartitionedCall"):
        doc = getattr(tf.raw_ops, name).__doc__
        assert op_summary(name)
        assert " ".join(doc.split()).startswith(op_summary(name))
    assert op_summary("NoSuchOp") == ""
    assert sum(1 for name in builtin_ops() if op_summary(name)) > 1400


def test_outputs_have_the_numbers_that_tensorflow_gives_them(theirs: dict[str, Any]) -> None:
    """`node:arg:index` against what a function graph of the real TensorFlow says."""
    import tensorflow as tf

    import tfsmith

    @tf.function
    def several(x: Any) -> Any:
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=tf.ones([2]), offset=tf.zeros([2]), mean=[], variance=[], is_training=True
        )
        parts = tf.split(y, 2, axis=3)
        values, indices = tf.nn.top_k(tf.reshape(parts[1], [-1]), 3)
        return mean + variance, parts[0], values, indices, tf.argmax(mean)

    concrete = several.get_concrete_function(tf.TensorSpec([1, 4, 4, 2]))
    graph_def = tf.compat.v1.GraphDef()
    graph_def.library.function.append(concrete.function_def)
    function = tfsmith.load(graph_def).graph.library[concrete.name.decode()]
    by_name = {op.name: op for op in concrete.graph.get_operations()}
    checked = 0
    for node in function:
        found = [(source, output) for source, output in function.inputs_of(node) if output >= 0]
        wanted = [(_source(tensor, function.args), tensor.value_index) for tensor in by_name[node.name].inputs]
        assert found == wanted, node.name
        checked += len(found)
    assert checked > 10
    assert any(output > 0 for node in function for _, output in function.inputs_of(node))


def _source(tensor: Any, args: tuple[str, ...]) -> str:
    return args[0] if tensor.op.type == "Placeholder" else str(tensor.op.name)
