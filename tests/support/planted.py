"""A model with a field that no schema knows in every message: what is written back must have them all."""

from __future__ import annotations

from pathlib import Path

from tests.support.helpers import attr_value, const_node, field, graph_def, node_def, unknown, write_files

from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.ir.tensor import ArrayTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape
from tfsmith.wire import VARINT, encode_varint, new, tag

FLOAT = attr_value(type=1)


def function(name: str) -> bytes:
    """A FunctionDef: y = x + x."""
    signature = new("OpDef")
    signature.name = name
    signature.input_arg.add(name="x", type=1)
    signature.output_arg.add(name="y", type=1)
    message = new("FunctionDef")
    message.ret["y"] = "add:z:0"
    message.attr["_noinline"].b = True
    message.arg_attr[0].attr["_user_specified_name"].s = b"x"
    return b"".join(
        [
            field(1, signature.SerializeToString() + unknown("in OpDef")),
            field(3, node_def("add", "AddV2", ["x", "x"], {"T": FLOAT}, extra=unknown("in a function's NodeDef"))),
            field(3, node_def("end", "NoOp", ["^add"])),
            message.SerializeToString(deterministic=True),
            unknown("in FunctionDef"),
        ]
    )


def library() -> bytes:
    """A FunctionDefLibrary of two functions and a gradient."""
    gradient = new("GradientDef")
    gradient.function_name, gradient.gradient_func = "double", "twice"
    return b"".join(
        [
            field(1, function("double")),
            field(1, function("twice")),
            field(2, gradient.SerializeToString() + unknown("in GradientDef")),
            unknown("in FunctionDefLibrary"),
        ]
    )


def nodes() -> list[bytes]:
    """The nodes, small and large (those over 4096 bytes are read in another way)."""
    debug = field(6, field(1, b"original"))  # NodeDef.experimental_debug_info
    return [
        node_def("x", "Placeholder", (), {"dtype": FLOAT, "shape": field(7, b"") + unknown("in AttrValue")}),
        const_node("small", [1.5, 2.5, 3.5], extra=unknown("in NodeDef")),
        const_node("large", [float(number) for number in range(3000)], extra=unknown("in a large NodeDef")),
        node_def("call", "double", ["x"], {"T": FLOAT + unknown("in AttrValue")}, device="/cpu:0", extra=debug),
        node_def("sum", "AddV2", ["call", "small:0", "^large"], {"T": FLOAT, "_class": attr_value(s=b"loc:@x")}),
    ]


def graph() -> bytes:
    """A GraphDef."""
    versions = new("VersionDef")
    versions.producer, versions.min_consumer = 1286, 12
    versions.bad_consumers.append(5)
    plain = graph_def(nodes(), library=library())
    without_versions = plain[: plain.rindex(field(4, b"\x08\x15"))]
    return b"".join(
        [
            without_versions,
            tag(3, VARINT) + encode_varint(21),  # the deprecated field `version`
            field(4, versions.SerializeToString() + unknown("in VersionDef")),
            unknown("in GraphDef"),
        ]
    )


def meta_graph(*tags: str) -> bytes:
    """A MetaGraphDef."""
    info = new("MetaGraphDef.MetaInfoDef")
    info.tags.extend(tags)
    info.tensorflow_version = "2.99.0"
    info.stripped_op_list.op.add(name="Custom").attr.add(name="N", type="int", has_minimum=True, minimum=1)
    saver = new("SaverDef")
    saver.filename_tensor_name, saver.restore_op_name, saver.version = "save/Const:0", "save/restore_all", 2
    collection = new("CollectionDef")
    collection.node_list.value.extend(["x:0", "sum:0"])
    signature = new("SignatureDef")
    signature.inputs["x"].name = "x:0"
    signature.inputs["x"].dtype = 1
    signature.outputs["y"].name = "sum:0"
    signature.method_name = "tensorflow/serving/predict"
    asset = new("AssetFileDef")
    asset.tensor_info.name, asset.filename = "small:0", "vocab.txt"
    objects = new("SavedObjectGraph")
    objects.nodes.add().user_object.identifier = "_generic_user_object"
    return b"".join(
        [
            field(1, info.SerializeToString() + unknown("in MetaInfoDef")),
            field(2, graph()),
            field(3, saver.SerializeToString() + unknown("in SaverDef")),
            field(4, field(1, b"things") + field(2, collection.SerializeToString() + unknown("in CollectionDef"))),
            field(
                5, field(1, b"serving_default") + field(2, signature.SerializeToString() + unknown("in SignatureDef"))
            ),
            field(6, asset.SerializeToString() + unknown("in AssetFileDef")),
            field(7, objects.SerializeToString() + unknown("in SavedObjectGraph")),
            unknown("in MetaGraphDef"),
        ]
    )


def saved_model() -> bytes:
    """A SavedModel of two meta graphs."""
    version = tag(1, VARINT) + encode_varint(1)
    return version + field(2, meta_graph("serve")) + field(2, meta_graph("serve", "gpu")) + unknown("in SavedModel")


def write_variables(prefix: Path, shards: int = 1) -> None:
    """A checkpoint of a few tensors."""
    tensors: dict[str, Tensor] = {
        "dense/kernel": ArrayTensor.of([[1.0, 2.0], [3.0, 4.0]]),
        "global_step": ArrayTensor.of(7),
        "words": StringTensor(Shape((2,)), (b"one", b"two")),
    }
    write_checkpoint(prefix, tensors, shards=shards)


def write_saved_model(folder: Path) -> Path:
    """A SavedModel folder with everything that one may hold."""
    write_files(
        folder,
        {
            "saved_model.pb": saved_model(),
            "assets/vocab.txt": b"a\nb\n",
            "assets/deep/er.txt": b"x",
            "assets.extra/notes.txt": b"by the maker",
            "keras_metadata.pb": b"\x0a\x03abc",
            "fingerprint.pb": b"\x08\x01",
            "variables/variables.notes": b"beside the checkpoint",
            "variables/variables.index": b"",
        },
    )
    (folder / "variables/variables.index").unlink()
    write_variables(folder / "variables/variables", shards=2)
    return folder
