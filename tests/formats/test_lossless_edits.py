"""Edits change what they name and nothing else: unknown fields stay in the messages that were edited."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.attack import call, function, tf2_model
from tests.support.helpers import attr_value, field, graph_def, node_def

import tfsmith
from tfsmith import records
from tfsmith.formats.graph.metagraph import plan_meta_graph
from tfsmith.formats.graph.nodes import attr_from_span, plan_attr
from tfsmith.ir.body import Part
from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.storage import from_bytes
from tfsmith.wire import parse

UNKNOWN = field(1999, b"from the future")
FLOAT = attr_value(type=1)


def test_meta_info_keeps_what_we_do_not_know(tmp_path: Path) -> None:
    x = node_def("x", "Placeholder", attrs={"dtype": FLOAT})
    kind = field(1, b"T") + field(2, b"type") + field(7, field(1, b""))
    ops = field(2, field(1, field(1, b"Mine") + field(4, kind)))
    info = field(1, b"v1") + ops + field(3, field(1, b"type.googleapis.com/a")) + field(4, b"serve") + UNKNOWN
    path = tmp_path / "m.meta"
    path.write_bytes(field(1, info) + field(2, graph_def([x])))
    meta = tfsmith.load(path).meta
    added = OpDef("Other", (), (ArgDef("y", type_attr="T"),), ())
    new = records.replace(meta.info, tags=("other",), ops={**meta.info.ops, "Other": added})
    edited = records.replace(meta, info_part=Part.of(new), raw=None)
    written = parse("MetaGraphDef", plan_meta_graph(edited).tobytes()).meta_info_def
    assert list(written.tags) == ["other"]
    assert [op.name for op in written.stripped_op_list.op] == ["Mine", "Other"]
    assert written.stripped_op_list.op[0].attr[0].HasField("allowed_values")
    assert written.any_info.type_url == "type.googleapis.com/a"
    assert b"from the future" in written.SerializeToString()


def test_a_function_with_other_returns_keeps_the_rest(tmp_path: Path) -> None:
    nodes = [node_def("a", "Relu", ["x"], {"T": FLOAT}), node_def("b", "Neg", ["x"], {"T": FLOAT})]
    body = function("f", nodes, "a:activations:0") + UNKNOWN
    model = tfsmith.load(
        tf2_model(tmp_path / "m", [node_def("x", "Placeholder", attrs={"dtype": FLOAT}), call("c", "f")], [body])
    )
    found = model.graph.library["f"]
    same = found.replace_nodes(found.nodes)
    other = found.replace_nodes(found.nodes, ret={"y": "b:y:0"})
    for edited, wanted in ((same, "a:activations:0"), (other, "b:y:0")):
        library = model.graph.library.replace({"f": edited})
        meta = records.replace(model.meta, graph_part=Part.of(model.graph.replace(library=library)), raw=None)
        written = parse("MetaGraphDef", plan_meta_graph(meta).tobytes()).graph_def.library.function[0]
        assert dict(written.ret) == {"y": wanted}
        assert b"from the future" in written.SerializeToString()
        assert [node.name for node in written.node_def] == ["a", "b"]


@pytest.mark.parametrize("kind", ["list", "list(int)", "list(float)", "list(type)", "list(string)"])
def test_an_empty_list_is_written_as_one(kind: str) -> None:
    written = plan_attr(Attr.of_kind(kind, ())).tobytes()
    assert attr_from_span(from_bytes(written), "a") == Attr("list", ())
