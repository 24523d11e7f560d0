"""Open, then save: the same bytes. And after one edit: everything that was not edited is still the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import planted
from tests.support.helpers import field, files_of, graph_def, node_def, payloads, split, unknown, write_files

import tfsmith
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.wire import parse

GRAPH, META = planted.graph(), planted.meta_graph("serve")


def _marks(data: bytes) -> list[bytes]:
    """What the planted fields say, in any order."""
    return sorted(re.findall(rb"unknown in [^\x98]*", data))


@pytest.mark.parametrize(("data", "name"), [(GRAPH, "g.pb"), (META, "m.meta"), (planted.saved_model(), "s.bin")])
def test_file_comes_back_as_it_was(data: bytes, name: str, tmp_path: Path) -> None:
    write_files(tmp_path, {name: data})
    model = tfsmith.load(tmp_path / name)
    assert len(model.graph) == 5
    target = tmp_path / "out"
    tfsmith.save(model, target, format="keep")
    assert _main_file(target).read_bytes() == data


@pytest.mark.parametrize("data", [GRAPH, META, planted.saved_model()])
def test_bytes_come_back_after_everything_was_looked_at(data: bytes, tmp_path: Path) -> None:
    model = tfsmith.load(data)
    for meta in model.meta_graphs:
        assert meta.graph.uses
        assert meta.graph.versions.producer == 1286
        assert [node.attrs for node in meta.graph]
        assert [function.uses for function in meta.graph.library.values()]
        assert meta.info.ops is not None
        assert meta.saver is None or meta.saver.version == 2
        assert (meta.collections, meta.signatures, meta.assets, meta.objects) is not None
    tfsmith.save(model, tmp_path / "out", format="keep")
    found = files_of(tmp_path)
    assert list(found.values()) == [data]


@pytest.mark.parametrize("data", [b"", graph_def([]), graph_def([], library=b""), graph_def([node_def("a", "NoOp")])])
def test_small_graph_comes_back(data: bytes, tmp_path: Path) -> None:
    from tfsmith.wire import new

    message = new("GraphDef")
    message.ParseFromString(data)
    tfsmith.save(tfsmith.load(message), tmp_path / "out.pb")
    assert (tmp_path / "out.pb").read_bytes() == data


def test_saved_model_folder_comes_back(tmp_path: Path) -> None:
    folder = planted.write_saved_model(tmp_path / "model")
    model = tfsmith.load(folder)
    tfsmith.save(model, tmp_path / "copy")
    before, after = files_of(folder), files_of(tmp_path / "copy")
    assert sorted(after) == sorted(before)
    assert after == before
    assert sorted(before) == [
        "assets.extra/notes.txt",
        "assets/deep/er.txt",
        "assets/vocab.txt",
        "fingerprint.pb",
        "keras_metadata.pb",
        "saved_model.pb",
        "variables/variables.data-00000-of-00002",
        "variables/variables.data-00001-of-00002",
        "variables/variables.index",
        "variables/variables.notes",
    ]


def test_saved_model_without_index_keeps_its_data_file(tmp_path: Path) -> None:
    folder = planted.write_saved_model(tmp_path / "model")
    (folder / "variables/variables.index").unlink()
    tfsmith.save(tfsmith.load(folder), tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(folder)


@pytest.mark.parametrize("shards", [1, 3])
def test_checkpoint_comes_back(shards: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    planted.write_variables(tmp_path / "a/model.ckpt-5", shards)
    before = files_of(tmp_path / "a")
    tfsmith.save(tfsmith.load(tmp_path / "a/model.ckpt-5"), tmp_path / "b/model.ckpt-5")
    after = files_of(tmp_path / "b")
    state = after.pop("checkpoint")
    assert state.startswith(b'model_checkpoint_path: "model.ckpt-5"')
    assert after == before


def test_meta_and_its_checkpoint_come_back(tmp_path: Path) -> None:
    write_files(tmp_path / "a", {"m.meta": META})
    planted.write_variables(tmp_path / "a/m")
    (tmp_path / "b").mkdir()
    model = tfsmith.load(tmp_path / "a/m")
    assert set(model.variables) == {"dense/kernel", "global_step", "words"}
    tfsmith.save(model, tmp_path / "b/m.meta")
    after = files_of(tmp_path / "b")
    del after["checkpoint"]
    assert after == files_of(tmp_path / "a")


def test_existing_checkpoint_state_is_left_alone(tmp_path: Path) -> None:
    write_files(tmp_path / "b", {"checkpoint": b'model_checkpoint_path: "other"\n'})
    (tmp_path / "a").mkdir()
    planted.write_variables(tmp_path / "a/m")
    tfsmith.save(tfsmith.load(tmp_path / "a/m"), tmp_path / "b/m.ckpt")
    assert (tmp_path / "b/checkpoint").read_bytes() == b'model_checkpoint_path: "other"\n'


def _edit(model: Model, name: str, change: Callable[[Node], Node]) -> Model:
    graph = model.graph
    return model.replace_graph(graph.map_nodes({name: change(graph[name])}))


def _saved(model: Model, folder: Path) -> bytes:
    tfsmith.save(model, folder / "edited", format="keep", force=True)
    return _main_file(folder / "edited").read_bytes()


def _main_file(target: Path) -> Path:
    """What was written under this name, as what it was."""
    meta = target.with_name(f"{target.name}.meta")
    return meta if meta.exists() else target / "saved_model.pb" if target.is_dir() else target


def _rename(node: Node) -> Node:
    return node.replace(inputs=(*node.inputs, _waits_for(node.name)), attrs={"new": 5})


def _waits_for(name: str) -> str:
    return "^small" if name == "x" else "^x"


@pytest.mark.parametrize("name", ["x", "small", "large", "call", "sum"])
def test_edit_leaves_all_else_in_a_graph(name: str, tmp_path: Path) -> None:
    after = _saved(_edit(tfsmith.load(GRAPH), name, _rename), tmp_path)
    _check_graph(GRAPH, after, name)


def _check_graph(before: bytes, after: bytes, name: str) -> None:
    old, new = payloads(before, 1), payloads(after, 1)
    at = [parse("NodeDef", node).name for node in old].index(name)
    assert new[:at] == old[:at]
    assert new[at + 1 :] == old[at + 1 :]
    _check_node(old[at], new[at])
    assert sorted(item for item in split(after) if item[0] != 1) == sorted(i for i in split(before) if i[0] != 1)
    assert _marks(after) == _marks(before)


def _check_node(before: bytes, after: bytes) -> None:
    """Every attribute that the edit does not name, and all that the schema does not know, is there verbatim."""
    kept = [item for item in split(before) if item[0] >= 5]
    assert kept
    assert [item for item in split(after) if item[0] >= 5][:-1] == kept
    added = field(5, field(1, b"new") + field(2, b"\x18\x05"))
    assert split(after)[-1] == (5, added)
    message = parse("NodeDef", after)
    assert list(message.input) == [*parse("NodeDef", before).input, _waits_for(message.name)]
    assert message.device == parse("NodeDef", before).device


def test_edited_attribute_is_written_once_and_dropped_ones_are_gone(tmp_path: Path) -> None:
    model = tfsmith.load(GRAPH)
    edited = _edit(model, "sum", lambda node: node.replace(op="Mine", attrs={"_class": None, "T": 7.5}))
    assert edited.graph["sum"].get("T") == 7.5
    assert "_class" not in edited.graph["sum"].attrs
    node = parse("NodeDef", payloads(_saved(edited, tmp_path), 1)[4])
    assert (node.name, node.op, list(node.input)) == ("sum", "Mine", ["call", "small:0", "^large"])
    assert {key: value.f for key, value in node.attr.items()} == {"T": 7.5}


def test_edits_add_up(tmp_path: Path) -> None:
    model = _edit(tfsmith.load(GRAPH), "sum", lambda node: node.replace(attrs={"a": 1, "_class": None}))
    model = _edit(model, "sum", lambda node: node.replace(name="total", attrs={"a": None, "b": "text"}))
    assert set(model.graph["total"].attrs) == {"T", "b"}
    node = parse("NodeDef", payloads(_saved(model, tmp_path), 1)[4])
    assert (node.name, sorted(node.attr), node.attr["b"].s) == ("total", ["T", "b"], b"text")


def test_edit_leaves_all_else_in_a_meta_graph(tmp_path: Path) -> None:
    after = _saved(_edit(tfsmith.load(META), "small", _rename), tmp_path)
    assert [number for number, _ in split(after)] == [number for number, _ in split(META)]
    assert [item for item in split(after) if item[0] != 2] == [item for item in split(META) if item[0] != 2]
    _check_graph(payloads(META, 2)[0], payloads(after, 2)[0], "small")


def test_edit_leaves_all_else_in_a_saved_model(tmp_path: Path) -> None:
    folder = planted.write_saved_model(tmp_path / "model")
    model = tfsmith.load(folder, tags=["gpu", "serve"])
    tfsmith.save(_edit(model, "large", _rename), tmp_path / "edited")
    before, after = files_of(folder), files_of(tmp_path / "edited")
    old, new = before.pop("saved_model.pb"), after.pop("saved_model.pb")
    assert after == before
    assert sorted(item for item in split(new) if item[0] != 2) == sorted(item for item in split(old) if item[0] != 2)
    (first, second), (old_first, old_second) = payloads(new, 2), payloads(old, 2)
    assert first == old_first
    assert [item for item in split(second) if item[0] != 2] == [item for item in split(old_second) if item[0] != 2]
    _check_graph(payloads(old_second, 2)[0], payloads(second, 2)[0], "large")
    assert _marks(new) == _marks(old)


def test_edit_in_a_function_leaves_all_else(tmp_path: Path) -> None:
    graph = tfsmith.load(GRAPH).graph
    function = graph.library["twice"]
    nodes = tuple(node.replace(op="Mul") if node.name == "add" else node for node in function.nodes)
    library = graph.library.replace({**graph.library, "twice": function.replace_nodes(nodes)})
    after = _saved(tfsmith.load(GRAPH).replace_graph(graph.replace(library=library)), tmp_path)
    assert payloads(after, 1) == payloads(GRAPH, 1)
    old, new = payloads(GRAPH, 2)[0], payloads(after, 2)[0]
    assert split(new)[0] == split(old)[0]
    assert split(new)[2:] == split(old)[2:]
    old_body, new_body = payloads(old, 1)[1], payloads(new, 1)[1]
    assert sorted(i for i in split(new_body) if i[0] != 3) == sorted(i for i in split(old_body) if i[0] != 3)
    assert payloads(new_body, 3)[1] == payloads(old_body, 3)[1]
    assert payloads(new_body, 3)[0] == payloads(old_body, 3)[0].replace(field(2, b"AddV2"), field(2, b"Mul"))
    assert _marks(after) == _marks(GRAPH)
    again = tfsmith.load(after).graph.library["twice"]
    assert (again.ret, again["add"].op, again.args) == ({"y": "add:z:0"}, "Mul", ("x",))


def test_edit_keeps_an_empty_library(tmp_path: Path) -> None:
    data = graph_def([node_def("a", "NoOp")], library=b"")
    after = _saved(_edit(tfsmith.load(data), "a", lambda node: node.replace(op="Other")), tmp_path)
    assert after == data.replace(field(1, node_def("a", "NoOp")), field(1, node_def("a", "Other")))


def test_edit_keeps_fields_with_a_wrong_wire_type(tmp_path: Path) -> None:
    odd = b"\x08\x05" + b"\x28\x07"  # `name` and `attr` as numbers: to protobuf these are unknown fields
    data = graph_def([node_def("a", "NoOp", extra=odd)])
    after = _saved(_edit(tfsmith.load(data), "a", lambda node: node.replace(op="Other")), tmp_path)
    assert payloads(after, 1) == [node_def("a", "Other", extra=odd)]


def test_parts_of_one_message_add_up(tmp_path: Path) -> None:
    """Protobuf allows a message in parts; two graphs put end to end are one graph."""
    first = graph_def([node_def("a", "NoOp")], library=field(1, planted.function("double")), producer=21)
    second = graph_def([node_def("b", "double", ["a"])], library=field(1, planted.function("twice")), producer=24)
    model = tfsmith.load(first + second)
    assert [node.name for node in model.graph] == ["a", "b"]
    assert list(model.graph.library) == ["double", "twice"]
    assert model.graph.versions.producer == 24
    assert model.graph.op_def("twice") is not None
    tfsmith.save(model, tmp_path / "same.pb")
    assert (tmp_path / "same.pb").read_bytes() == first + second
    edited = _edit(model, "a", lambda node: node.replace(op="Other"))
    want = parse("GraphDef", first + second)
    want.node[0].op = "Other"
    assert parse("GraphDef", _saved(edited, tmp_path)) == want


def test_new_nodes_go_where_they_are_put(tmp_path: Path) -> None:
    model = tfsmith.load(GRAPH)
    added = Node("added", "Mine", attrs={"dtype": 1, "shape": [1, 2]}, device="/cpu:0")
    graph = model.graph.replace(nodes=(added, *model.graph.nodes))
    after = _saved(model.replace_graph(graph), tmp_path)
    assert payloads(after, 1)[1:] == payloads(GRAPH, 1)
    node = parse("NodeDef", payloads(after, 1)[0])
    assert (node.name, node.op, node.device, node.attr["dtype"].i) == ("added", "Mine", "/cpu:0", 1)
    assert list(node.attr["shape"].list.i) == [1, 2]


def test_versions_can_be_replaced(tmp_path: Path) -> None:
    from tfsmith.ir.graph import Versions

    model = tfsmith.load(GRAPH)
    after = _saved(model.replace_graph(model.graph.replace(versions=Versions(5, 4, (3,)))), tmp_path)
    found = parse("GraphDef", after).versions
    assert (found.producer, found.min_consumer, list(found.bad_consumers)) == (5, 4, [3])


def test_planted_fields_are_really_unknown() -> None:
    """Guards the other tests: had the schema these fields, they would prove less."""
    assert len(_marks(planted.saved_model())) > 30
    assert unknown("x") in field(1, unknown("x"))
    assert not parse("GraphDef", GRAPH).node[0].attr["shape"].shape.dim
