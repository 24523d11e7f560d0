"""Text format in and out: ours beside google.protobuf's, on the same BERT-like graph of about 1.2 MB.

Run as `python benchmarks/text_format.py [repeats]`. Prints the best time of each and their ratio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from google.protobuf import text_format

from tfsmith.storage import Span, from_bytes
from tfsmith.wire import message_class, new
from tfsmith.wire.text_reader import text_to_wire
from tfsmith.wire.text_writer import write_text

_LAYERS, _HIDDEN, _HEADS, _SEQUENCE = 12, 768, 12, 128


class _Gather:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def write_span(self, span: Span) -> None:
        self.parts.append(span.tobytes())


class _Builder:
    """Adds nodes as TensorFlow's exporter would write them, `_output_shapes` included."""

    def __init__(self) -> None:
        self.graph = new("GraphDef")
        self.graph.versions.producer = 1087

    def node(self, name: str, op: str, inputs: list[str], shape: list[int], **types: int) -> Any:
        node = self.graph.node.add(name=name, op=op, input=inputs)
        for key, value in (types or {"T": 1}).items():
            node.attr[key].type = value
        output = node.attr["_output_shapes"].list.shape.add()
        for size in shape:
            output.dim.add(size=size)
        return node

    def constant(self, name: str, shape: list[int], *, floats: list[float] = [], ints: list[int] = []) -> None:  # noqa: B006
        node = self.node(name, "Const", [], shape, dtype=1 if floats else 3)
        tensor = node.attr["value"].tensor
        tensor.dtype = 1 if floats else 3
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        if len(ints) > 1:
            tensor.tensor_content = b"".join(value.to_bytes(4, "little", signed=True) for value in ints)
        tensor.int_val.extend(ints if len(ints) == 1 else [])
        tensor.float_val.extend(floats)

    def variable(self, name: str, shape: list[int]) -> str:
        variable = self.node(name, "VariableV2", [], shape, dtype=1)
        for size in shape:
            variable.attr["shape"].shape.dim.add(size=size)
        variable.attr["container"].s = variable.attr["shared_name"].s = b""
        variable.attr["_class"].list.s.append(f"loc:@{name}".encode())
        start = f"{name}/Initializer/truncated_normal"
        self.constant(f"{start}/shape", [len(shape)], ints=shape)
        self.constant(f"{start}/mean", [], floats=[0.0])
        self.constant(f"{start}/stddev", [], floats=[0.02])
        random = self.node(f"{start}/TruncatedNormal", "TruncatedNormal", [f"{start}/shape"], shape, T=3, dtype=1)
        random.attr["seed"].i = random.attr["seed2"].i = 0
        self.node(f"{start}/mul", "Mul", [f"{start}/TruncatedNormal", f"{start}/stddev"], shape)
        self.node(start, "Add", [f"{start}/mul", f"{start}/mean"], shape)
        assign = self.node(f"{name}/Assign", "Assign", [name, start], shape)
        assign.attr["use_locking"].b = assign.attr["validate_shape"].b = True
        assign.attr["_class"].list.s.append(f"loc:@{name}".encode())
        read = self.node(f"{name}/read", "Identity", [name], shape)
        read.attr["_class"].list.s.append(f"loc:@{name}".encode())
        return f"{name}/read"

    def dense(self, name: str, source: str, inner: int, outer: int) -> str:
        kernel = self.variable(f"{name}/kernel", [inner, outer])
        bias = self.variable(f"{name}/bias", [outer])
        product = self.node(f"{name}/MatMul", "MatMul", [source, kernel], [-1, outer])
        product.attr["transpose_a"].b = product.attr["transpose_b"].b = False
        self.node(f"{name}/BiasAdd", "BiasAdd", [f"{name}/MatMul", bias], [-1, outer]).attr["data_format"].s = b"NHWC"
        return f"{name}/BiasAdd"

    def norm(self, name: str, source: str) -> str:
        gamma = self.variable(f"{name}/LayerNorm/gamma", [_HIDDEN])
        beta = self.variable(f"{name}/LayerNorm/beta", [_HIDDEN])
        start = f"{name}/LayerNorm/batchnorm"
        self.constant(f"{name}/LayerNorm/moments/mean/reduction_indices", [1], ints=[1])
        mean = [source, f"{name}/LayerNorm/moments/mean/reduction_indices"]
        for part in ("mean", "variance"):
            moment = self.node(f"{name}/LayerNorm/moments/{part}", "Mean", mean, [-1, 1], T=1, Tidx=3)
            moment.attr["keep_dims"].b = True
        self.constant(f"{start}/add/y", [], floats=[1e-12])
        self.node(f"{start}/add", "AddV2", [f"{name}/LayerNorm/moments/variance", f"{start}/add/y"], [-1, 1])
        self.node(f"{start}/Rsqrt", "Rsqrt", [f"{start}/add"], [-1, 1])
        self.node(f"{start}/mul", "Mul", [f"{start}/Rsqrt", gamma], [-1, _HIDDEN])
        self.node(f"{start}/mul_1", "Mul", [source, f"{start}/mul"], [-1, _HIDDEN])
        self.node(f"{start}/sub", "Sub", [beta, f"{start}/mul"], [-1, _HIDDEN])
        self.node(f"{start}/add_1", "AddV2", [f"{start}/mul_1", f"{start}/sub"], [-1, _HIDDEN])
        return f"{start}/add_1"


def bert_like_graph() -> Any:
    """A GraphDef like that of a TF1 BERT-base for training, about 1.2 MB as text."""
    builder = _Builder()
    last = "bert/embeddings/dropout/mul_1"
    builder.variable("bert/embeddings/word_embeddings", [30522, _HIDDEN])
    for index in range(_LAYERS):
        scope = f"bert/encoder/layer_{index}"
        heads = [-1, _SEQUENCE, _HEADS, _HIDDEN // _HEADS]
        for part in ("query", "key", "value"):
            dense = builder.dense(f"{scope}/attention/self/{part}", last, _HIDDEN, _HIDDEN)
            builder.constant(f"{scope}/attention/self/{part}/Reshape/shape", [4], ints=heads)
            shape = f"{scope}/attention/self/{part}/Reshape/shape"
            builder.node(f"{scope}/attention/self/{part}/Reshape", "Reshape", [dense, shape], heads, T=1, Tshape=3)
        output = builder.dense(f"{scope}/attention/output/dense", f"{scope}/attention/self/Reshape_3", _HIDDEN, _HIDDEN)
        normed = builder.norm(f"{scope}/attention/output", output)
        wide = builder.dense(f"{scope}/intermediate/dense", normed, _HIDDEN, 4 * _HIDDEN)
        narrow = builder.dense(f"{scope}/output/dense", wide, 4 * _HIDDEN, _HIDDEN)
        last = builder.norm(f"{scope}/output", narrow)
    return builder.graph


def best(work: Callable[[], object], repeats: int) -> float:
    """The shortest time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def ours_out(wire: bytes) -> bytes:
    sink = _Gather()
    write_text("GraphDef", from_bytes(wire), sink)
    return b"".join(sink.parts)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    graph = bert_like_graph()
    wire = graph.SerializeToString(deterministic=True)
    text = text_format.MessageToString(graph)
    graph_class = message_class("GraphDef")
    assert graph_class.FromString(text_to_wire(text, "GraphDef")) == graph
    assert ours_out(wire) == text.encode()

    rows = [
        (
            "read",
            best(lambda: text_to_wire(text, "GraphDef"), repeats),
            best(lambda: text_format.Parse(text, new("GraphDef")), repeats),
        ),
        (
            "write",
            best(lambda: ours_out(wire), repeats),
            best(lambda: text_format.MessageToString(graph_class.FromString(wire)), repeats),
        ),
    ]
    print(f"GraphDef of {len(graph.node)} nodes, {len(text) / 1e6:.2f} MB of text, best of {repeats}")
    print(f"{'':6} {'tfsmith':>10} {'protobuf':>10} {'ratio':>7}")
    for name, ours, theirs in rows:
        print(f"{name:6} {ours * 1e3:7.1f} ms {theirs * 1e3:7.1f} ms {theirs / ours:6.1f}x")


if __name__ == "__main__":
    main()
