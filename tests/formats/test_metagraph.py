"""Every part of a meta graph: read, and written again from what was read, it is the same message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.helpers import field, graph_def, node_def, write_files

import tfsmith
from tfsmith.errors import CorruptFileError, InvalidModelError
from tfsmith.formats.graph.metagraph import plan_collections, plan_meta_graph
from tfsmith.ir.body import Part
from tfsmith.ir.model import Asset, Collection, MetaGraph, MetaInfo, Saver, Signature, TensorInfo
from tfsmith.ir.types import Shape, dtype
from tfsmith.records import replace
from tfsmith.storage import Span
from tfsmith.wire import WritePlan, new, parse


def _message() -> Any:
    meta = new("MetaGraphDef")
    info = meta.meta_info_def
    info.tags.extend(["serve", "gpu"])
    info.tensorflow_version, info.tensorflow_git_version, info.meta_graph_version = "1.2", "abc", "v"
    info.stripped_default_attrs = True
    info.function_aliases["f"] = "g"
    op = info.stripped_op_list.op.add(name="Mine", summary="words", is_stateful=True)
    op.input_arg.add(name="x", type_attr="T", number_attr="N")
    op.attr.add(name="T", type="type").allowed_values.list.type.extend([1, 2])
    op.attr.add(name="N", type="int", has_minimum=True, minimum=1).default_value.i = 4
    meta.graph_def.node.add(name="x", op="Placeholder")
    meta.graph_def.versions.producer = 5
    saver = meta.saver_def
    saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name = "f:0", "s:0", "r"
    saver.max_to_keep, saver.sharded, saver.keep_checkpoint_every_n_hours, saver.version = 5, True, 0.5, 2
    _fill_collections(meta.collection_def)
    _fill_signature(meta.signature_def["serving_default"])
    meta.asset_file_def.add(filename="vocab.txt").tensor_info.name = "a:0"
    root = meta.object_graph_def.nodes.add()
    root.user_object.identifier = "_root"
    root.children.add(node_id=1, local_name="v")
    meta.object_graph_def.nodes.add().variable.dtype = 1
    meta.object_graph_def.concrete_functions["f"].bound_inputs.append(1)
    return meta


def _fill_collections(collections: Any) -> None:
    collections["node"].node_list.value.extend(["a:0", "b"])
    collections["int"].int64_list.value.extend([1, -(2**62)])
    collections["float"].float_list.value.extend([0.5])
    collections["bytes"].bytes_list.value.extend([b"\xff"])
    collections["any"].any_list.value.add(type_url="type.googleapis.com/unknown.Type", value=b"abc")
    collections["no any"].any_list.SetInParent()
    collections["none"].SetInParent()
    variable = new("VariableDef")
    variable.variable_name, variable.snapshot_name = "w:0", "w/read:0"
    collections["trainable_variables"].bytes_list.value.append(variable.SerializeToString())
    loop = new("WhileContextDef")
    loop.context_name, loop.parallel_iterations = "while/ctx", 10
    collections["while_context"].bytes_list.value.append(loop.SerializeToString())


def _fill_signature(signature: Any) -> None:
    signature.method_name = "tensorflow/serving/predict"
    dense = signature.inputs["dense"]
    dense.name, dense.dtype = "x:0", 1
    dense.tensor_shape.dim.add(size=-1)
    sparse = signature.inputs["sparse"]
    sparse.dtype = 9
    sparse.tensor_shape.unknown_rank = True
    sparse.coo_sparse.values_tensor_name, sparse.coo_sparse.indices_tensor_name = "v:0", "i:0"
    sparse.coo_sparse.dense_shape_tensor_name = "d:0"
    ragged = signature.outputs["ragged"]
    ragged.dtype = 1
    ragged.tensor_shape.dim.add(size=2)
    ragged.composite_tensor.type_spec.type_spec_class = 3
    ragged.composite_tensor.components.add(name="values:0", dtype=1).tensor_shape.unknown_rank = True
    default = signature.defaults["dense"]
    default.dtype = 1
    default.tensor_shape.SetInParent()
    default.float_val.append(2.0)


@pytest.fixture(scope="module")
def meta() -> MetaGraph:
    return tfsmith.load(_message()).meta


def test_parts_are_read(meta: MetaGraph) -> None:
    assert meta.tags == ("serve", "gpu")
    assert (meta.info.tensorflow_version, meta.info.function_aliases) == ("1.2", {"f": "g"})
    assert meta.info.stripped_default_attrs
    assert meta.info.ops["Mine"].attrs[1].default == parse_int(4)
    assert meta.saver == Saver("f:0", "s:0", "r", 5, True, 0.5, 2)
    assert meta.assets == (Asset("a:0", "vocab.txt"),)
    assert list(meta.collections) == sorted(meta.collections)
    signature = meta.signatures["serving_default"]
    assert signature.inputs["dense"] == TensorInfo("x:0", dtype(1), Shape((-1,)))
    assert signature.inputs["sparse"].components["values"].name == "v:0"
    assert signature.outputs["ragged"].encoding == "composite"
    assert signature.defaults["dense"].numpy().tolist() == 2.0


def parse_int(value: int) -> Any:
    from tfsmith.ir.node import attr

    return attr(value)


def test_objects_are_plain_data(meta: MetaGraph) -> None:
    assert meta.objects is not None
    root, variable = meta.objects.nodes
    assert (root.kind, root.children, root.details["identifier"]) == ("user_object", {"v": 1}, "_root")
    assert (variable.kind, variable.details) == ("variable", {"dtype": "DT_FLOAT"})
    assert meta.objects.concrete_functions == {"f": {"bound_inputs": (1,)}}


def test_collections_of_every_kind(meta: MetaGraph) -> None:
    found = meta.collections
    assert (found["node"].kind, found["node"].values) == ("node", ("a:0", "b"))
    assert (found["int"].kind, found["int"].values) == ("int64", (1, -(2**62)))
    assert (found["float"].kind, found["float"].values) == ("float", (0.5,))
    assert (found["bytes"].kind, found["bytes"].values, found["bytes"].messages) == ("bytes", (b"\xff",), ())
    assert found["any"].values == (("type.googleapis.com/unknown.Type", b"abc"),)
    assert found["any"].messages == ()
    assert (found["no any"].kind, found["none"].kind) == ("any", "none")
    assert found["trainable_variables"].messages == ({"variable_name": "w:0", "snapshot_name": "w/read:0"},)
    assert found["while_context"].messages == ({"context_name": "while/ctx", "parallel_iterations": 10},)


def test_get_collection() -> None:
    model = tfsmith.load(_message())
    assert model.get_collection("node") == ("a:0", "b")
    assert model.get_collection("trainable_variables")[0] == {"variable_name": "w:0", "snapshot_name": "w/read:0"}
    assert model.get_collection("bytes") == (b"\xff",)
    assert model.get_collection("nothing") == ()


def test_parts_written_afresh_are_the_same_messages(meta: MetaGraph) -> None:
    """As when a pass has changed them."""
    fresh = replace(
        meta,
        info_part=Part.of(meta.info),
        saver_part=Part.of(meta.saver),
        collections_part=Part.of(meta.collections),
        signatures_part=Part.of(meta.signatures),
        assets_part=Part.of(meta.assets),
        raw=None,
    )
    plan = plan_meta_graph(fresh)
    assert isinstance(plan, WritePlan)
    again, want = parse("MetaGraphDef", plan.tobytes()), _message()
    for name in ("meta_info_def", "saver_def", "graph_def", "collection_def", "signature_def", "object_graph_def"):
        assert getattr(again, name) == getattr(want, name), name
    assert again == want


def test_parts_that_were_never_there_stay_away() -> None:
    data = field(2, graph_def([node_def("a", "NoOp")]))
    meta = tfsmith.load(data).meta
    assert (meta.saver, meta.objects, meta.assets, meta.tags) == (None, None, (), ())
    plan = plan_meta_graph(meta.replace_graph(meta.graph))
    assert isinstance(plan, WritePlan)
    assert plan.tobytes() == data


def test_meta_graph_made_in_memory() -> None:
    graph = tfsmith.load(graph_def([node_def("a", "NoOp")])).graph
    signature = Signature({"x": TensorInfo("a:0", dtype(1), Shape((1,)))}, {})
    meta = MetaGraph(Part.of(graph), Part.of(MetaInfo(("serve",))), signatures_part=Part.of({"s": signature}))
    plan = plan_meta_graph(meta)
    assert not isinstance(plan, Span)
    found = tfsmith.load(plan.tobytes())
    assert (found.tag_sets, found.signatures["s"].inputs) == ((("serve",),), signature.inputs)


def test_damaged_parts_say_where(tmp_path: Path) -> None:
    graph = field(2, graph_def([node_def("a", "NoOp")]))
    data = graph + field(4, field(1, b"good") + field(2, b"")) + field(4, b"\x0a\x09bad") + field(5, b"\xff")
    write_files(tmp_path, {"m.meta": data})
    meta = tfsmith.load(tmp_path / "m.meta").meta
    at = data.index(field(4, b"\x0a\x09bad"))
    with pytest.raises(
        CorruptFileError, match=rf"m\.meta, byte {at}: a meta graph cannot be decoded; the file is damaged"
    ):
        meta.collections  # noqa: B018
    with pytest.raises(CorruptFileError, match=r"m\.meta, byte \d+"):
        meta.signatures  # noqa: B018
    assert len(meta.graph) == 1


def test_tag_set_of_two_meta_graphs_is_refused() -> None:
    meta = new("MetaGraphDef")
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.node.add(name="a", op="NoOp")
    data = b"\x08\x01" + field(2, meta.SerializeToString()) * 2
    with pytest.raises(InvalidModelError, match="2 meta graphs have the tag set 'serve'"):
        tfsmith.load(data, tags=["serve"])


def test_collections_are_written_by_key() -> None:
    plan = WritePlan()
    plan_collections(plan, 4, {"b": Collection("node", ("x",)), "a": Collection("int64", (1,))})
    found = parse("MetaGraphDef", plan.tobytes()).collection_def
    assert plan.tobytes().index(b"\x01a") < plan.tobytes().index(b"\x01b")
    assert (found["a"].int64_list.value, found["b"].node_list.value) == ([1], ["x"])
