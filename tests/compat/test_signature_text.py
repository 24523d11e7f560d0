"""The text of `saved_model_cli show` for models made by hand, against what TensorFlow prints."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.documents import MIGRAPHX

from tfsmith.compat.signature_text import (
    all_text,
    find_meta_graph,
    ops_text,
    signature_keys_text,
    signature_text,
    tag_sets_text,
)
from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, MetaInfo, Model, Signature, TensorInfo
from tfsmith.ir.node import Func, Node
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.types import UNKNOWN, Shape, dtype_named


def info(name: str, dtype: str, *dims: int) -> TensorInfo:
    return TensorInfo(name, dtype_named(dtype), Shape(dims))


def meta_graph(
    *tags: str,
    signatures: Mapping[str, Signature] | None = None,
    nodes: tuple[Node, ...] = (),
    library: Library | None = None,
) -> MetaGraph:
    return MetaGraph(
        Part.of(Graph(nodes, library=library)),
        info_part=Part.of(MetaInfo(tags)),
        signatures_part=Part.of({} if signatures is None else signatures),
    )


def function(name: str, *nodes: Node) -> Function:
    return Function(name, Part.of(FunctionParts(OpDef(name), nodes, {})))


def bert() -> Signature:
    inputs = {
        "segment_ids": info("segment_ids_1:0", "int32", 1, 128),
        "label_ids": info("label_ids_1:0", "int32", 1),
        "input_mask": info("input_mask_1:0", "int32", 1, 128),
        "input_ids": info("input_ids_1:0", "int32", 1, 128),
    }
    return Signature(inputs, {"probabilities": info("loss/output:0", "float32", 1, 2)})


def test_the_signature_of_the_migraphx_guide() -> None:
    meta = meta_graph("serve", signatures={"serving_default": bert()})

    assert signature_text(meta, "serving_default") == MIGRAPHX


def test_shapes_and_names_of_all_kinds() -> None:
    sparse = TensorInfo("", dtype_named("int64"), Shape((-1, 7)), "sparse", {"values": info("v:0", "int64", -1)})
    inputs = {
        "unknown": TensorInfo("s:0", dtype_named("string"), UNKNOWN),
        "scalar": info("b:0", "bool"),
        "sparse": sparse,
        "ref": info("w:0", "float32_ref", 3, -1),
    }

    text = signature_text(meta_graph(signatures={"k": Signature(inputs, {}, "")}), "k")

    assert text == (
        "The given SavedModel SignatureDef contains the following input(s):\n"
        "  inputs['ref'] tensor_info:\n"
        "      dtype: DT_FLOAT_REF\n"
        "      shape: (3, -1)\n"
        "      name: w:0\n"
        "  inputs['scalar'] tensor_info:\n"
        "      dtype: DT_BOOL\n"
        "      shape: ()\n"
        "      name: b:0\n"
        "  inputs['sparse'] tensor_info:\n"
        "      dtype: DT_INT64\n"
        "      shape: (-1, 7)\n"
        "      name: \n"
        "  inputs['unknown'] tensor_info:\n"
        "      dtype: DT_STRING\n"
        "      shape: unknown_rank\n"
        "      name: s:0\n"
        "The given SavedModel SignatureDef contains the following output(s):\n"
        "Method name is: \n"
    )


def test_tag_sets_are_sorted_by_the_order_of_the_file_and_shown_sorted() -> None:
    metas = tuple(meta_graph(*tags) for tags in (["train"], ["b", "it's"], ["b", "a"], []))

    assert tag_sets_text(Model("saved_model", metas)) == (
        "The given SavedModel contains the following tag-sets:\n''\n'a, b'\n\"b, it's\"\n'train'\n"
    )


def test_keys() -> None:
    meta = meta_graph("serve", signatures={"z": Signature({}, {}), 'a"b': Signature({}, {})})

    assert signature_keys_text(meta) == (
        "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n"
        'SignatureDef key: "a"b"\n'
        'SignatureDef key: "z"\n'
    )


def test_ops_are_those_of_the_graph_and_of_called_functions_only() -> None:
    library = Library(
        {
            "called": function("called", Node("m", "Mul"), Node("i", "by_op")),
            "by_op": function("by_op", Node("a", "Add"), Node("again", "by_op")),
            "body": function("body", Node("s", "Sub")),
        }
    )
    nodes = (
        Node("x", "Placeholder"),
        Node("y", "StatefulPartitionedCall", ("x",), {"f": Func("called", {})}),
        Node("z", "PartitionedCall", ("x",), {"f": Func("lost", {})}),
        Node("w", "While", ("x",), {"body": Func("body", {})}),
    )

    assert ops_text(meta_graph("serve", "gpu", nodes=nodes, library=library)) == (
        "The MetaGraph with tag set ['serve', 'gpu'] contains the following ops: "
        "{'Add', 'Mul', 'PartitionedCall', 'Placeholder', 'StatefulPartitionedCall', 'While', 'lost'}\n"
    )


def test_no_ops_are_an_empty_set() -> None:
    assert ops_text(meta_graph()) == "The MetaGraph with tag set [] contains the following ops: set()\n"


def test_all() -> None:
    train = meta_graph("train", nodes=(Node("n", "NoOp"),))
    serve = meta_graph("serve", "gpu", signatures={"k": Signature({}, {"y": info("y:0", "float32", -1)}, "m")})

    assert all_text(Model("saved_model", (train, serve))) == (
        "\n"
        "MetaGraphDef with tag-set: 'serve, gpu' contains the following SignatureDefs:\n"
        "\n"
        "signature_def['k']:\n"
        "  The given SavedModel SignatureDef contains the following input(s):\n"
        "  The given SavedModel SignatureDef contains the following output(s):\n"
        "    outputs['y'] tensor_info:\n"
        "        dtype: DT_FLOAT\n"
        "        shape: (-1)\n"
        "        name: y:0\n"
        "  Method name is: m\n"
        "The MetaGraph with tag set ['serve', 'gpu'] contains the following ops: set()\n"
        "\n"
        "MetaGraphDef with tag-set: 'train' contains the following SignatureDefs:\n"
        "The MetaGraph with tag set ['train'] contains the following ops: {'NoOp'}\n"
    )


def test_the_first_of_two_equal_tag_sets_counts() -> None:
    first, second = meta_graph("a", "b"), meta_graph("b", "a")

    assert find_meta_graph(Model("saved_model", (first, second)), ["b", "a"]) is first


def test_what_is_not_there_is_named_with_what_is() -> None:
    meta = meta_graph("serve", signatures={"serving_default": bert()})

    with pytest.raises(NotFoundInModelError, match=r"'train'; the tag sets are: 'serve'$"):
        find_meta_graph(Model("saved_model", (meta,)), ["train"])
    with pytest.raises(NotFoundInModelError, match=r"signature 'x'; the signatures are: serving_default$"):
        signature_text(meta, "x")
