"""Shape functions against the real TensorFlow: where we name a size it agrees, and what we refuse it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ir.graph import Graph, Versions
from tfsmith.ir.node import Attr, Endpoint, Node, attr
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.ops.inference import Inference
from tfsmith.ops.shapes import constant, infer, shape_functions
from tfsmith.ops.sizes import Conflict, Known
from tfsmith.testing.builder import GRAPH_VERSION

pytestmark = pytest.mark.tensorflow
FLOAT = dtype_named("float32")

Dims = tuple["int | None", ...]
SHAPES: list[Dims | None] = [None, (), (3,), (None,), (2, 3), (None, 3), (2, None), (1, 3), (2, 3, 4), (None, 1, None)]
MATRICES: list[Dims | None] = [
    None,
    (),
    (2, 3),
    (3, 2),
    (None, 3),
    (3, None),
    (4, 5),
    (2, 3, 4),
    (None, 4, 2),
    (1, 3, 2),
]
IMAGES: list[Dims | None] = [
    None,
    (2, 8, 9, 3),
    (None, 8, 8, 3),
    (2, None, 7, 3),
    (1, 5, 5, None),
    (2, 3),
    (1, 1, 1, 3),
]
KERNELS: list[Dims | None] = [None, (3, 3, 3, 4), (1, 1, 3, 2), (2, 2, None, 4), (3, 3, 5, 4), (3, 3)]


class Values:
    """An input that is a constant."""

    def __init__(self, *values: Any, rank: int = 1, kind: Any = np.int32) -> None:
        self.array = np.array(values if rank else values[0], kind)


Input = Any  # a shape, or Values
Case = tuple[str, Sequence[Input], dict[str, Any]]


def unary(ops: str) -> Iterator[Case]:
    for op in ops.split():
        for dims in SHAPES:
            yield op, [dims], {}


def binary(ops: str) -> Iterator[Case]:
    for op in ops.split():
        for left in SHAPES:
            for right in SHAPES:
                yield op, [left, right], {}


def reductions() -> Iterator[Case]:
    axes = [Values(0), Values(-1), Values(0, 1), Values(2), Values(0, rank=0), (2,), None]
    for op in ("Mean", "Sum", "Max", "Prod", "ArgMax"):
        for dims in SHAPES:
            for one in axes:
                for keeps in (False, True) if op != "ArgMax" else (False,):
                    if op == "ArgMax" and (not isinstance(one, Values) or one.array.ndim):
                        continue
                    yield op, [dims, one], {} if op == "ArgMax" else {"keep_dims": keeps}


def products() -> Iterator[Case]:
    for left in MATRICES:
        for right in MATRICES:
            for flips in ((False, False), (True, False), (False, True)):
                yield "MatMul", [left, right], {"transpose_a": flips[0], "transpose_b": flips[1]}
                yield "BatchMatMulV2", [left, right], {"adj_x": flips[0], "adj_y": flips[1]}
            for equation in ("ab,bc->ac", "abc,cd->abd", "...b,b...->..."):
                yield "Einsum", [left, right], {"equation": equation, "N": 2}


def windows() -> Iterator[Case]:
    for dims in IMAGES:
        for stride in (1, 2):
            for padding in ("SAME", "VALID"):
                attrs = {"strides": [1, stride, stride, 1], "padding": padding}
                for kernel in KERNELS:
                    yield "Conv2D", [dims, kernel], attrs
                    yield "DepthwiseConv2dNative", [dims, kernel], attrs
                    yield "Conv2D", [dims, kernel], {**attrs, "strides": [1, 1, 1, 1], "dilations": [1, 2, 2, 1]}
                    yield "Conv2D", [dims, kernel], {**attrs, "padding": "EXPLICIT",
                                                     "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}  # fmt: skip
                for size in (1, 2, 3):
                    for op in ("MaxPool", "AvgPool"):
                        yield op, [dims], {**attrs, "ksize": [1, size, size, 1]}
        for one in [(3,), (None,), (4,), None]:
            for training in (True, False):
                yield "FusedBatchNormV3", [dims, one, one, (None,), (None,)], {"is_training": training}
        yield "ResizeBilinear", [dims, Values(4, 5)], {}
        yield "ResizeBilinear", [dims, (2,)], {}
        yield "LRN", [dims], {}
        for bias in [(3,), (None,), (5,), (1, 3)]:
            yield "BiasAdd", [dims, bias], {}
            yield "BiasAdd", [dims, bias], {"data_format": "NCHW"}


def moves() -> Iterator[Case]:
    for dims in [*SHAPES, (1, 1), (6,), (2, 1, 3)]:
        for wanted in [Values(6), Values(-1), Values(3, -1), Values(-1, 2), Values(2, 3), Values(4, -1), (2,), (None,),
                       Values(-1, -1), Values(0, -1), None]:  # fmt: skip
            yield "Reshape", [dims, wanted], {}
            yield "BroadcastTo", [dims, wanted], {}
        for axis in (0, 1, -1, -2, 3):
            yield "ExpandDims", [dims, Values(axis, rank=0)], {}
            yield "OneHot", [dims, Values(5, rank=0), Values(1, rank=0, kind=np.float32),
                             Values(0, rank=0, kind=np.float32)], {"axis": axis}  # fmt: skip
            yield "Squeeze", [dims], {"squeeze_dims": [axis]}
            yield "Unpack", [dims], {"axis": axis, "num": 2}
            yield "Split", [Values(axis, rank=0), dims], {"num_split": 2}
            yield "SplitV", [dims, Values(1, 2), Values(axis, rank=0)], {"num_split": 2}
            yield "SplitV", [dims, Values(1, -1), Values(axis, rank=0)], {"num_split": 2}
            yield "GatherV2", [dims, (4, None), Values(axis, rank=0)], {}
            for other in SHAPES:
                yield "ConcatV2", [dims, other, Values(axis, rank=0)], {"N": 2}
                yield "Pack", [dims, other], {"axis": axis, "N": 2}
        yield "Squeeze", [dims], {}
        for order in [Values(0), Values(1, 0), Values(2, 0, 1), Values(0, 0), Values(-1, 0), (2,), None]:
            yield "Transpose", [dims, order], {}
        for begin, size in [((0,), (2,)), ((1,), (-1,)), ((0, 1), (1, -1)), ((0, 2), (2, 2)), ((5,), (1,))]:
            yield "Slice", [dims, Values(*begin), Values(*size)], {}
            yield "Slice", [dims, (len(begin),), Values(*size)], {}
        for counts in [Values(2), Values(2, 3), (2,)]:
            yield "Tile", [dims, counts], {}
        for paddings in [Values((1, 2)), Values((1, 2), (0, 0)), (2, 2), None]:
            yield "Pad", [dims, paddings], {}
        for ids in [(4, 1), (None, 2), (3,), None]:
            yield "GatherNd", [dims, ids], {}
        for op in ("Shape", "Size", "Rank", "Where"):
            yield op, [dims], {}
        for count in (1, 3, 9):
            yield "TopKV2", [dims, Values(count, rank=0)], {}
        for other in SHAPES:
            yield "AddN", [dims, other], {"N": 2}
            yield "ShapeN", [dims, other], {"N": 2}
    for wanted in [Values(2, 3), Values(0), (2,), (None,), None]:
        yield "Fill", [wanted, ()], {}
        yield "RandomUniform", [wanted], {"dtype": FLOAT}
    for bounds in [(0, 5, 1), (5, 0, -2), (0, 0, 1), (0, 5, -1)]:
        yield "Range", [Values(bound, rank=0) for bound in bounds], {}
    yield "Range", [(), (), ()], {}
    yield "LinSpace", [(), (), Values(4, rank=0)], {}
    for one in SHAPES:
        yield "SelectV2", [one, (2, 3), (3,)], {}
        yield "Select", [(2, 3), one, (2, 3)], {}
        yield "SparseSoftmaxCrossEntropyWithLogits", [(None, 3), one], {}
        yield "SoftmaxCrossEntropyWithLogits", [one, (2, 3)], {}


def slices() -> Iterator[Case]:
    masks = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"]
    bounds = [((0,), (1,), (1,)), ((1,), (-1,), (1,)), ((0, 1), (2, 3), (1, 1)), ((-1, 0), (-9, 9), (-1, 2)),
              ((0, 0, 0), (1, 2, 3), (1, 1, 1)), ((7,), (8,), (1,))]  # fmt: skip
    for dims in [*SHAPES, (5, 6, 7)]:
        for begin, end, stride in bounds:
            known = [Values(*begin), Values(*end), Values(*stride)]
            yield "StridedSlice", [dims, *known], {}
            yield "StridedSlice", [dims, (len(begin),), (len(begin),), known[2]], {}
            yield "StridedSlice", [dims, (len(begin),), (len(begin),), known[2]], {"begin_mask": 1, "end_mask": 1}
            for mask in masks:
                for bits in (1, 2):
                    yield "StridedSlice", [dims, *known], {mask: bits}
            yield "StridedSlice", [dims, *known], {"ellipsis_mask": 1, "shrink_axis_mask": 2}
            yield "StridedSlice", [dims, *known], {"new_axis_mask": 1, "shrink_axis_mask": 2}


UNARY = (
    "Abs Relu Softmax LogSoftmax Tanh Identity StopGradient Neg Sqrt Rsqrt Square Exp Log Erf Sigmoid ZerosLike IsNan "
    "Elu LeakyRelu Floor Round CheckNumerics L2Loss OnesLike Sign Selu Softplus"
)
BINARY = "AddV2 Mul Sub RealDiv Maximum Minimum SquaredDifference Less Equal Pow FloorDiv"
CASES = {
    "unary": lambda: unary(UNARY),
    "binary": lambda: binary(BINARY),
    "reductions": reductions,
    "products": products,
    "windows": windows,
    "moves": moves,
    "slices": slices,
}


def make(op: str, inputs: Sequence[Input], attrs: dict[str, Any]) -> tuple[list[Node], dict[str, Attr], int]:
    """A graph with one node of this op, its attributes, and how many outputs it has."""
    definition = builtin_op(op)
    assert definition is not None
    wanted = {one.name: one for one in definition.attrs}
    found = {one.name: one.default for one in definition.attrs if one.default is not None}
    found |= {name: attr(value) for name, value in attrs.items()}
    args = [arg for arg in definition.inputs for _ in range(arg.count(found) if arg.number_attr else 1)]
    for arg, one in zip(args, inputs, strict=True):
        if arg.type_attr and isinstance(one, Values):
            found[arg.type_attr] = attr(ArrayTensor.of(one.array).dtype)
    for name in wanted:
        if wanted[name].kind == "type" and name not in found:
            allowed = wanted[name].allowed
            found[name] = attr(FLOAT if not allowed or FLOAT in allowed else allowed[0])
    nodes: list[Node] = []
    for number, (arg, one) in enumerate(zip(args, inputs, strict=True)):
        kind = found[arg.type_attr].value if arg.type is None else arg.type
        if isinstance(one, Values):
            tensor = ArrayTensor.of(one.array)
            nodes.append(Node(f"i{number}", "Const", (), {"dtype": tensor.dtype, "value": tensor}))
        else:
            nodes.append(Node(f"i{number}", "Placeholder", (), {"dtype": kind, "shape": Shape.of(one)}))
    nodes.append(Node("node", op, tuple(node.name for node in nodes), found))
    return nodes, found, definition.output_count(found)


def theirs(tf: Any, nodes: list[Node]) -> list[Any] | None:
    """The shapes that TensorFlow infers, or None if it refuses."""
    message = tf.compat.v1.GraphDef.FromString(plan_graph(Graph(tuple(nodes), Versions(GRAPH_VERSION))).tobytes())
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(message, name="")
        except ValueError:
            return None
        return [output.shape.as_list() if output.shape.rank is not None else None
                for output in graph.get_operation_by_name("node").outputs]  # fmt: skip


def complaint(tf: Any, op: str, inputs: Sequence[Input], attrs: dict[str, Any]) -> str | None:
    """What is wrong with what we say of a node, if anything is."""
    nodes, found, count = make(op, inputs, attrs)
    wanted = theirs(tf, nodes)
    known = [constant(node.get("value")) if node.op == "Const" else Known.of(node.get("shape")) for node in nodes[:-1]]
    what = f"{op} {[node.get('shape', node.get('value')) for node in nodes[:-1]]} {attrs}"
    try:
        ours = infer(op, known, found, count)
    except Conflict as conflict:
        return None if wanted is None else f"{what}: we refuse ({conflict}), TensorFlow says {wanted}"
    for one, other in zip(ours, wanted or (), strict=False):
        dims = one.shape.dims
        if dims is None:
            continue
        if other is None or len(dims) != len(other) or any(a not in (-1, b) for a, b in zip(dims, other, strict=True)):
            return f"{what}: we say {one.shape}, TensorFlow says {other}"
    return None


@pytest.mark.parametrize("family", CASES)
def test_tensorflow_agrees(family: str) -> None:
    import tensorflow as tf

    cases = list(CASES[family]())
    complaints = [found for case in cases if (found := complaint(tf, *case)) is not None]
    assert complaints == [], f"{len(complaints)} of {len(cases)}"


def test_we_know_nearly_as_much() -> None:
    """Of what TensorFlow refuses and of the sizes that it knows, nearly all is known to us, too."""
    import tensorflow as tf

    known, all_known, refused, all_refused = 0, 0, 0, 0
    for case in (*reductions(), *products(), *moves()):
        nodes, found, count = make(*case)
        wanted = theirs(tf, nodes)
        inputs = [constant(one.get("value")) if one.op == "Const" else Known.of(one.get("shape")) for one in nodes[:-1]]
        try:
            ours = infer(case[0], inputs, found, count)
        except Conflict:
            refused, all_refused = refused + 1, all_refused + 1
            continue
        all_refused += wanted is None
        for one, other in zip(ours, wanted or (), strict=False):
            sizes = [size for size in other or () if size is not None]
            all_known += len(sizes)
            known += sum(1 for size in one.shape.dims or () if size >= 0)
    assert known > 0.96 * all_known
    assert refused > 0.85 * all_refused


def test_shapes_that_the_graph_computes() -> None:
    """A chain through Shape, StridedSlice, Pack and Reshape, with an open batch size."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 12, 64], "x")
        batch, length, width = tf.unstack(tf.shape(x))
        flat = tf.reshape(x, [-1, 64], "flat")
        heads = tf.reshape(flat, tf.stack([batch, length, 4, 16]), "heads")
        turned = tf.transpose(heads, [0, 2, 1, 3], "turned")
        tf.matmul(turned, turned, transpose_b=True, name="scores")
        tf.reshape(turned, tf.stack([batch, -1]), "rows")
        tf.fill(tf.concat([tf.shape(x)[:1], [length * 2]], 0), 1.0, "ones")
        tf.reshape(x, [tf.shape(x)[0] * length, width], "again")
        message = graph.as_graph_def()
        shapes = {op.name: op.outputs[0].shape.as_list() for op in graph.get_operations() if op.outputs}
    ours = tfsmith.load(message).graph
    inference = Inference(ours)
    assert inference.conflicts == []
    for node in ours:
        dims = inference.known(ours, Endpoint(node.name, 0)).shape.dims
        for mine, their in zip(dims or (), shapes[node.name], strict=True):
            assert their is None or mine in (-1, their), node.name
    named = {
        name: inference.known(ours, Endpoint(name, 0)).dims for name in ("flat", "heads", "scores", "rows", "again")
    }
    assert named == {
        "flat": ("12*x.0", 64),
        "heads": ("x.0", 12, 4, 16),
        "scores": ("x.0", 4, 12, 12),
        "rows": ("x.0", 768),
        "again": ("12*x.0", 64),
    }
    assert inference.known(ours, Endpoint("ones", 0)).dims == ("x.0", 24)


def test_every_function_is_of_an_op() -> None:
    assert [op for op in shape_functions() if builtin_op(op) is None] == []
