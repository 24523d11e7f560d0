"""`configure`: attributes set by op or name, typed by the op's definition."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from tests.support.helpers import UNKNOWN, attr_value, field, files_of, graph_def, node_def, payloads, write_files

import tfsmith
from tfsmith import records
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError, NotFoundInModelError, OutputError, UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr
from tfsmith.ir.types import dtype_named
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_saved_model
from tfsmith.verbs.configure import save_in_place
from tfsmith.wire import new

FLOAT = attr_value(type=1)
X = node_def("x", "Placeholder", attrs={"dtype": FLOAT}, extra=UNKNOWN)
MATMUL = node_def("a/y", "MatMul", ["x", "x"], {"T": FLOAT, "transpose_a": attr_value(b=True)}, extra=UNKNOWN)
CUSTOM = node_def("a/z", "Bert", ["a/y"], {"Size": attr_value(i=3), "Kind": FLOAT})


def library() -> bytes:
    message = new("FunctionDefLibrary")
    function = message.function.add()
    function.signature.name = "f"
    node = function.node_def.add(name="inner", op="Bert")
    node.attr["Size"].i = 3
    function.node_def.add(name="other", op="NoOp")
    return bytes(message.SerializeToString())


GRAPH = graph_def([X, MATMUL, CUSTOM], library=library(), extra=UNKNOWN)


def model() -> Model:
    return tfsmith.load(GRAPH)


def test_by_op_in_graph_and_functions() -> None:
    done = tfsmith.configure(model(), {"Size": "7"}, ops=["Bert"])
    assert [(one.body, one.node) for one in done.changed] == [(None, "a/z"), ("f", "inner")]
    assert done.model.graph["a/z"].get("Size") == 7
    assert done.model.graph.library["f"]["inner"].get("Size") == 7
    assert (done.unchanged, done.nearest) == ((), ())


def test_nothing_else_changes(tmp_path: Path) -> None:
    done = tfsmith.configure(model(), {"Size": "7"}, ops=["Bert"])
    tfsmith.save(done.model, tmp_path / "m.pb")
    saved = (tmp_path / "m.pb").read_bytes()
    assert payloads(saved, 1)[:2] == [X, MATMUL]
    assert payloads(saved, 4) == payloads(GRAPH, 4)
    assert payloads(saved, 1234) == payloads(GRAPH, 1234)
    assert tfsmith.load(saved).graph["a/z"].get("Kind") == dtype_named("float32")
    assert saved != GRAPH


@pytest.mark.parametrize(
    ("glob", "ops", "found"),
    [("a/*", (), ["a/y", "a/z"]), ("a/y", (), ["a/y"]), ("*", ("MatMul",), ["a/y"]), ("in*", (), ["inner"])],
)
def test_by_name(glob: str, ops: tuple[str, ...], found: list[str]) -> None:
    done = tfsmith.configure(model(), {"_mark": "x"}, nodes=[glob], ops=ops)
    assert [one.node for one in done.changed] == found


@pytest.mark.parametrize(
    ("settings", "node", "wanted"),
    [
        ({"transpose_b": "true"}, "a/y", Attr("bool", True)),
        ({"transpose_a": False}, "a/y", Attr("bool", False)),
        ({"T": "float32"}, "a/y", Attr("type", dtype_named("float32"))),
        ({"Kind": "qint8"}, "a/z", Attr("type", dtype_named("qint8"))),  # as it is now
        ({"New": "qint8"}, "a/z", Attr("type", dtype_named("qint8"))),  # as it looks
        ({"New": "12"}, "a/z", Attr("int", 12)),
        ({"New": "1.5"}, "a/z", Attr("float", 1.5)),
        ({"New": "true"}, "a/z", Attr("bool", True)),
        ({"New": "/some/path"}, "a/z", Attr("string", b"/some/path")),
        ({"New:string": "12"}, "a/z", Attr("string", b"12")),
        ({"New:list(int)": "1,2"}, "a/z", Attr("list(int)", (1, 2))),
        ({"New:list(int)": ""}, "a/z", Attr("list", ())),
        ({"_private": "x"}, "a/y", Attr("string", b"x")),
    ],
)
def test_values_are_typed(settings: dict[str, Any], node: str, wanted: Attr) -> None:
    done = tfsmith.configure(model(), settings, nodes=[node])
    assert done.model.graph[node].attrs[next(iter(settings)).partition(":")[0]] == wanted


@pytest.mark.parametrize(
    ("settings", "ops", "says"),
    [
        (
            {"transpose": "true"},
            ["MatMul"],
            "op MatMul has no attribute 'transpose'; its attributes are: ",
        ),
        ({"transpose_a": "maybe"}, ["MatMul"], "attribute 'transpose_a' cannot be set: 'maybe' is no bool"),
        ({"transpose_a": 3}, ["MatMul"], "attribute 'transpose_a' cannot be set: 3 is no bool; pass a bool"),
        ({"T": "flot"}, ["MatMul"], "TensorFlow has no dtype 'flot'"),
        ({"Size": "big"}, ["Bert"], "attribute 'Size' cannot be set: 'big' is no int"),
        ({"Size": 2**70}, ["Bert"], "does not fit 64 bits"),
        ({"Size:number": "1"}, ["Bert"], "there is no kind 'number' of attributes"),
        ({}, ["Bert"], "there is nothing to set"),
        ({"a": "1"}, [], "no node is chosen"),
    ],
)
def test_what_cannot_be(settings: dict[str, Any], ops: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        tfsmith.configure(model(), settings, ops=ops)
    assert says in str(caught.value)
    assert caught.value.remedy


def test_what_does_not_fit_the_graph() -> None:
    with pytest.raises(InvalidModelError) as caught:
        tfsmith.configure(model(), {"T": "int32"}, ops=["MatMul"])
    assert str(caught.value) == (
        "the graph, node 'a/y': op MatMul: input 'a' is float32, not int32; "
        "put a Cast before it, or take another tensor"
    )


@pytest.mark.parametrize(
    ("op", "attrs", "settings", "text"),
    [
        ("MatMul", {"T": FLOAT}, {"T": "string"}, "attribute 'T' cannot be string; it may be bfloat16, float16, *"),
        ("Conv2D", {"T": FLOAT}, {"padding": "FOO"}, "attribute 'padding' cannot be FOO; it may be SAME, *"),
        ("AddN", {"T": FLOAT}, {"N": "0"}, "attribute 'N' is 0, and the least is 1"),
    ],
)
def test_values_that_an_op_does_not_allow(op: str, attrs: dict[str, Any], settings: dict[str, Any], text: str) -> None:
    found = tfsmith.load(graph_def([X, node_def("n", op, ["x", "x"], attrs)]))
    with pytest.raises(UsageError) as caught:
        tfsmith.configure(found, settings, ops=[op])
    assert fnmatchcase(str(caught.value), f"node 'n': op {op}: {text}; pass another value")


def test_nothing_found_and_nothing_new() -> None:
    done = tfsmith.configure(model(), {"a": "1"}, ops=["Brt"])
    assert (done.changed, done.unchanged, done.nearest[0]) == ((), (), "Bert")
    assert tfsmith.configure(model(), {"a": "1"}, nodes=["a/zz"]).nearest[0] == "a/z"
    same = model()
    done = tfsmith.configure(same, {"Size": "3"}, ops=["Bert"])
    assert (done.changed, len(done.unchanged)) == ((), 2)
    assert done.model is same
    alone = records.replace(same, kind="checkpoint", meta_graphs=())
    with pytest.raises(NotFoundInModelError, match="a checkpoint holds variables but no graph"):
        tfsmith.configure(alone, {"a": "1"}, ops=["Bert"])


# The command


def test_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_files(tmp_path, {"m.pb": GRAPH}) / "m.pb"
    assert main(["configure", str(path), "--op", "Bert", "--set", "Size=9", "--set", "Kind=qint8"]) == 0
    out = capsys.readouterr().out
    assert "a/z: Size = 9 (was 3)\na/z: Kind = qint8 (was float32)\ninner in f: Size = 9 (was 3)\n" in out
    assert out.endswith(f"Wrote {path} ({path.stat().st_size} B)\n")
    assert tfsmith.load(path).graph["a/z"].get("Size") == 9
    before = path.stat()
    assert main(["configure", str(path), "--op", "Bert", "--set", "Size=9"]) == 0
    assert capsys.readouterr().out == "2 nodes had these values already\n"
    assert path.stat().st_ino == before.st_ino  # nothing was written
    assert [one.name for one in tmp_path.iterdir()] == ["m.pb"]


def test_nothing_found_is_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_files(tmp_path, {"m.pb": GRAPH}) / "m.pb"
    assert main(["configure", str(path), "--op", "Brt", "--set", "Size=9"]) == 1
    assert capsys.readouterr().out == "No node has op Brt; the nearest are Bert; nothing was written\n"
    assert path.read_bytes() == GRAPH


def test_text_stays_text(tmp_path: Path) -> None:
    tfsmith.save(tfsmith.load(GRAPH), tmp_path / "m.pbtxt")
    assert main(["configure", str(tmp_path / "m.pbtxt"), "--op", "Bert", "--set", "Size=9"]) == 0
    assert "i: 9" in (tmp_path / "m.pbtxt").read_text()


def test_a_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_saved_model(linear_regression(), tmp_path / "sm")
    before = files_of(folder)
    words = ["--op", "Placeholder", "--set", "shape=2,?"]
    assert main(["configure", str(folder), *words, "-o", str(tmp_path / "main.pb"), "--as", "keep"]) == 0
    assert main(["configure", str(folder), *words, "-o", str(tmp_path / "whole"), "--link"]) == 0
    assert files_of(folder) == before
    assert main(["configure", str(folder), *words]) == 0
    capsys.readouterr()
    changed = files_of(folder)
    assert changed["saved_model.pb"] == (tmp_path / "main.pb").read_bytes() != before["saved_model.pb"]
    assert files_of(tmp_path / "whole") == changed == {**before, "saved_model.pb": changed["saved_model.pb"]}
    data = "variables/variables.data-00000-of-00001"
    assert (folder / data).samefile(tmp_path / "whole" / data)
    assert main(["configure", str(folder), *words, "-o", str(tmp_path / "whole")]) == 2
    assert "error" in capsys.readouterr().err


def test_links(tmp_path: Path) -> None:
    """The main file may be a link to another in the folder, as the guide of the original tools has it."""
    folder = write_saved_model(linear_regression(), tmp_path / "sm")
    (folder / "saved_model.pb").rename(folder / "modified.pb")
    (folder / "saved_model.pb").symlink_to("modified.pb")
    assert main(["configure", str(folder), "--op", "Placeholder", "--set", "shape=2,?"]) == 0
    assert (folder / "saved_model.pb").is_symlink()
    (folder / "modified.pb").rename(tmp_path / "outside.pb")
    (folder / "saved_model.pb").unlink()
    (folder / "saved_model.pb").symlink_to(tmp_path / "outside.pb")
    done = tfsmith.configure(tfsmith.load(folder), {"shape": "3,?"}, ops=["Placeholder"])
    with pytest.raises(OutputError, match="a link that leads out of the model"):
        save_in_place(done.model)


def test_models_without_a_file() -> None:
    with pytest.raises(OutputError, match="no file that could be changed in place"):
        save_in_place(model())


@pytest.mark.parametrize("words", [["--set", "Size"], ["--set", "=3"], []])
def test_bad_usage(tmp_path: Path, words: list[str]) -> None:
    path = write_files(tmp_path, {"m.pb": GRAPH + field(1300, b"")}) / "m.pb"
    assert main(["configure", str(path), "--op", "Bert", *words]) == 2
