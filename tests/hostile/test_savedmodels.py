"""SavedModels, meta graphs and training folders made to do harm: nothing outside of them is read or written."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.attack import (
    FLOAT,
    X,
    Y,
    attack,
    call,
    const,
    function,
    meta_graph,
    refused,
    remove,
    shape,
    sound,
    tensor,
    tf2_model,
    write_saved_model,
)
from tests.support.helpers import attr_value, field, graph_def, node_def, write_files

import tfsmith
from tfsmith.errors import TfsmithError, UnreadableFileError, UsageError
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files
from tfsmith.testing.write import write_saved_model as write_test_model
from tfsmith.wire import VARINT, new, tag

GRAPH = graph_def([X, Y])
FETCH = "fetch"
BAD_TEXT = [b"\xff\xfe", b"a\x1b[31mb", b"a\nb", b"\0", "\u009b31m".encode(), "\u202e".encode()]


def signature(key: bytes, output: bytes, shape_proto: bytes = b"") -> tuple[int, bytes]:
    """A field of a MetaGraphDef: a signature with one output."""
    info = field(1, output) + tag(2, VARINT) + b"\1" + field(3, shape_proto)
    return 5, field(1, key) + field(2, field(2, field(1, b"out") + field(2, info)))


def collection(key: bytes, kind: int, value: bytes) -> tuple[int, bytes]:
    """A field of a MetaGraphDef: a collection of node names (1) or of messages (2)."""
    return 4, field(1, key) + field(2, field(kind, field(1, value)))


# Tags, signatures, collections


def test_no_meta_graph(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m")
    refused("show", path, says=["saved_model.pb", "the SavedModel has no meta graph", "export it again"])


def test_thousands_of_meta_graphs(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH), *[b""] * 10_000)
    refused("show", path, says=["saved_model.pb, byte ", "too many fields", "do not trust the file"])


def test_tag_sets_that_say_nothing(tmp_path: Path) -> None:
    twice = write_saved_model(tmp_path / "twice", meta_graph(GRAPH), meta_graph(GRAPH))
    assert sound("show", twice, "--all").code == 0
    says = [str(twice), "2 meta graphs have the tag set 'serve'", "remove the others"]
    refused("show", twice, "--tag-set", "serve", says=says)
    refused(
        "freeze", twice, "-o", tmp_path / "o", "--tag-set", "x", says=["no meta graph with the tag set 'x'", "serve"]
    )
    empty = write_saved_model(tmp_path / "empty", meta_graph(GRAPH, tags=[]))
    assert sound("show", empty, "--all", "--tag-set", "").code == 0
    assert sound("freeze", empty, "-o", tmp_path / "o", "--outputs", "y").code == 0


@pytest.mark.parametrize("text", BAD_TEXT)
@pytest.mark.parametrize("place", ["tag", "signature", "collection", "message", "variable", "asset", "saver", "node"])
def test_text_that_is_none_or_commands_a_terminal(tmp_path: Path, place: str, text: bytes) -> None:
    graph = graph_def([X, Y, field(1, text) + field(2, b"NoOp")]) if place == "node" else GRAPH
    part = {
        "signature": signature(text, b"y:0"),
        "collection": collection(text, 1, text),
        "message": collection(b"things", 2, text),
        "variable": collection(b"variables", 2, field(1, text) + field(2, text)),
        "asset": (6, field(1, field(1, b"x:0")) + field(2, text)),
        "saver": (3, field(3, text)),
    }.get(place)
    meta = meta_graph(graph, [text] if place == "tag" else [b"serve"], [] if part is None else [part])
    path = write_saved_model(tmp_path / "m", meta)
    answers = attack(path, tmp_path / "out")
    assert all("\x1b" not in answer.out and "\0" not in answer.out for answer in answers)
    assert all("\x9b" not in answer.out and "\u202e" not in answer.out for answer in (*answers[:2], *answers[3:]))


def test_damaged_text_has_its_place(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=[signature(b"\xff", b"y:0")]))
    refused("show", path, says=["saved_model.pb, byte ", "cannot be decoded", FETCH])


def test_a_signature_of_what_is_not_there(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=[signature(b"serving_default", b"gone:0")]))
    assert "gone:0" in sound("show", path).out
    refused("freeze", path, "-o", tmp_path / "o", says=[str(path), "there is no node 'gone' in the graph"])
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=[signature(b"serving_default", b"^y")]))
    refused("freeze", path, "-o", tmp_path / "o", says=[str(path), "'^y' is a control edge", "name the node itself: y"])
    assert sound("show", path).code == 0


def test_a_signature_with_an_impossible_shape(tmp_path: Path) -> None:
    part = signature(b"serving_default", b"y:0", shape([2**40] * 5))
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=[part]))
    refused("show", path, says=["saved_model.pb", "output 'out' has the impossible shape", "the file is damaged"])


def test_collections_of_anything(tmp_path: Path) -> None:
    deep = b"x"
    for _ in range(3000):
        deep = field(1, deep)
    parts = [collection(b"variables", 2, deep), collection(b"while_context", 2, b"\xff" * 100)]
    parts += [collection(b"outputs", 1, name) for name in (b"^y", b"y:9", b"gone:0", b":", b"y:99999999999")]
    parts.append(
        (4, field(1, b"things") + field(2, field(5, field(1, field(1, b"a/tensorflow.NodeDef") + field(2, deep)))))
    )
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=parts))
    assert sound("show", path, "--json", "--all").code == 0
    attack(path, tmp_path / "out")


def test_structures_in_structures(tmp_path: Path) -> None:
    """The arguments of functions in the object graph are lists of lists of ..."""
    for depth in (20, 40, 100, 5000):
        value = b""
        for _ in range(depth):
            value = field(51, field(1, value))
        concrete = field(1, b"f") + field(2, field(3, value))
        path = write_saved_model(tmp_path / "m", meta_graph(GRAPH, parts=[(7, field(2, concrete))]))
        assert sound("show", path, "--all").code == 0
        model = tfsmith.load(path)
        if depth > 50:
            with pytest.raises(TfsmithError, match="object_graph_def cannot be decoded"):
                assert model.meta.objects
        else:
            assert model.meta.objects is not None


# Savers


RESTORE = node_def("r", "StatefulPartitionedCall")
VARIABLE = node_def("v", "VarHandleOp", attrs={"dtype": FLOAT, "shape": field(7, shape([2]))})
READ = node_def("y", "ReadVariableOp", ["v"], {"dtype": FLOAT})


def saver(name: str) -> tuple[int, bytes]:
    """A field of a MetaGraphDef: the saver."""
    message = new("SaverDef")
    message.restore_op_name = name
    return 3, bytes(message.SerializeToString())


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (node_def("names", "Placeholder", attrs={"dtype": attr_value(type=7)}), "is no constant of strings"),
        (const("names", tensor([1], floats=[1.0])), "is no constant of strings"),
        (const("names", tensor([0], 7), 7), "output 0 is used, but only 0 tensors are restored"),
        (const("names", tensor([1], 7, content=b"\x01\xff"), 7), "b'\\\\xff' is no name of a tensor"),
        (node_def("other", "NoOp"), "it takes 'names', which is not in the graph"),
    ],
)
def test_a_restore_op_that_does_not_say_what_it_restores(tmp_path: Path, names: bytes, says: str) -> None:
    nodes = [
        VARIABLE,
        READ,
        names,
        node_def("restore", "RestoreV2", ["names", "names", "names"], {"dtypes": field(1, b"\x32\1\1")}),
        node_def("assign", "AssignVariableOp", ["v", "restore"], {"dtype": FLOAT}),
        node_def("all", "NoOp", ["^assign"]),
    ]
    path = write_saved_model(tmp_path / "m", meta_graph(graph_def(nodes), parts=[saver("all")]))
    message = refused("freeze", path, "-o", tmp_path / "o", "--outputs", "y", says=["node 'restore'"])
    assert says.replace("\\\\", "\\") in message


def test_a_saver_of_nodes_that_are_not_there(tmp_path: Path) -> None:
    for name in ("gone", "", "^", ":0", "y"):
        path = write_saved_model(tmp_path / "m", meta_graph(graph_def([VARIABLE, READ]), parts=[saver(name)]))
        says = ["variable 'v' has no value: there is no checkpoint", "--checkpoint"]
        refused("freeze", path, "-o", tmp_path / "o", "--outputs", "y", says=says)


def test_restore_functions_without_end(tmp_path: Path) -> None:
    """Each function is looked at once, however often it is called."""
    last = function("f60", [node_def("i", "Identity", ["x"], {"T": FLOAT})], "i:output:0")
    twice = [
        function(f"f{level}", [call("c", f"f{level + 1}"), call("d", f"f{level + 1}")], "c:output:0")
        for level in range(60)
    ]
    nodes = [X, VARIABLE, READ, call("r", "f0")]
    path = tf2_model(tmp_path / "m", nodes, [*twice, last], saver("r"))
    refused("freeze", path, "-o", tmp_path / "o", "--outputs", "y", says=["variable 'v' has no value"])
    path = tf2_model(tmp_path / "n", nodes, [function("f0", [call("c", "f0")], "c:output:0")], saver("r"))
    says = ["function 'f0'", "functions call each other without end", "do not trust the file"]
    refused("freeze", path, "-o", tmp_path / "o", "--outputs", "y", says=says)


# Files beside the main file


@pytest.mark.parametrize("name", ["../../outside", "/etc/hostname", "..", "", "a/../../b", "assets"])
def test_assets_are_never_read_or_written_by_the_name_in_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    asset = (6, field(1, field(1, b"x:0")) + field(2, name.encode()))
    path = write_saved_model(tmp_path / "in" / "m", meta_graph(GRAPH, parts=[asset]), files={"assets/a.txt": b"a"})
    assert sound("show", path, "--all").code == 0
    before = sorted(tmp_path.rglob("*"))
    tfsmith.save(tfsmith.load(path), tmp_path / "in" / "out")
    made = [found for found in tmp_path.rglob("*") if found not in before]
    inside = sorted(found.relative_to(tmp_path / "in" / "out").as_posix() for found in made)
    assert inside == [".", "assets", "assets/a.txt", "saved_model.pb"]


def _socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)  # the name of a socket must be short
    server.bind(path.name)
    server.close()


STRANGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "link out": (lambda path: path.symlink_to("/etc/hostname"), "this link leads out of the model"),
    "link to a folder": (lambda path: path.symlink_to("/etc"), "this link leads out of the model"),
    "link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "loop of folders": (lambda path: path.symlink_to(".."), "this link leads out of the model"),
    "dangling link": (lambda path: path.symlink_to("gone"), "there is no such file"),
    "pipe": (os.mkfifo, "this is not a regular file"),
    "socket": (_socket, "cannot be opened"),
}


@pytest.mark.parametrize("kind", list(STRANGE))
def test_strange_files_beside_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH))
    (path / "assets").mkdir()
    make, says = STRANGE[kind]
    make(path / "assets" / "s")
    assert "assets/s" in sound("show", path, "--json").out
    with pytest.raises(UnreadableFileError, match=says) as caught:
        tfsmith.save(tfsmith.load(path), tmp_path / "out")
    assert caught.value.path == str(path / "assets" / "s")
    assert caught.value.remedy
    arguments = ("freeze", path, "-o", tmp_path / "out", "--outputs", "y", "--as", "saved_model")
    refused(*arguments, says=["assets/s", says])
    assert sorted(found.name for found in tmp_path.iterdir()) == ["m"]


def test_links_as_caches_have_them_are_files_of_the_model(tmp_path: Path) -> None:
    """Every file is a link to a folder of blobs, which lies outside."""
    path = write_saved_model(tmp_path / "snapshot", meta_graph(GRAPH), files={"assets/words.txt": b"a b"})
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, file in enumerate([path / "saved_model.pb", path / "assets/words.txt"]):
        file.rename(blobs / str(number))
        file.symlink_to(os.path.relpath(blobs / str(number), file.parent))
    tfsmith.save(tfsmith.load(path), tmp_path / "out")
    assert (tmp_path / "out/assets/words.txt").read_bytes() == b"a b"
    assert not (tmp_path / "out/assets/words.txt").is_symlink()


def test_names_of_files_cannot_command_a_terminal(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m", meta_graph(GRAPH), files={"other\x1b[31m\n": b"", "assets.extra/x": b""})
    (path / os.fsdecode(b"\xff")).write_bytes(b"")
    answer = sound("show", path)
    assert r"other\x1b[31m\n" in answer.out
    assert r"\udcff" in answer.out


def test_a_file_that_the_graph_names_is_told_of(tmp_path: Path) -> None:
    """Export copies the vocabulary that fills a table; a hostile graph may name any file of the user's instead."""
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"word\n")
    named = tensor([], 7, content=bytes([len(str(secret))]) + str(secret).encode())
    nodes = [
        X,
        Y,
        node_def("table", "HashTableV2", attrs={"key_dtype": attr_value(type=7), "value_dtype": attr_value(type=9)}),
        const("file", named, 7),
        node_def(
            "fill",
            "InitializeTableFromTextFileV2",
            ["table", "file"],
            attrs={"key_index": attr_value(i=0), "value_index": attr_value(i=-1)},
        ),
    ]
    path = write_saved_model(tmp_path / "m", meta_graph(graph_def(nodes)))
    exported = tfsmith.export(path, tmp_path / "out", inputs={"x": "x:0"}, outputs={"y": "y:0"})
    assert any("files from outside of the model are copied" in str(note) for note in exported.notes)
    assert any(str(secret) in note.nodes for note in exported.notes)
    write_files(path, {"secret.txt": b"other\n"})  # what lies beside the model comes first
    exported = tfsmith.export(path, tmp_path / "out2", inputs={"x": "x:0"}, outputs={"y": "y:0"})
    assert not any("files from outside" in str(note) for note in exported.notes)
    assert (tmp_path / "out2/assets/secret.txt").read_bytes() == b"other\n"


# Main files and checkpoints that are no files


def make(path: Path, kind: str) -> None:
    """Puts something that is no file there."""
    remove(path)
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to("gone")
    elif kind == "null":
        path.symlink_to(os.devnull)
    elif kind == "pipe":
        os.mkfifo(path)


@pytest.mark.parametrize("kind", ["folder", "dangling", "null", "pipe", "missing"])
def test_no_file_where_one_should_be(tmp_path: Path, kind: str) -> None:
    model = linear_regression()
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        remove(tmp_path / "m")
        path = write_test_model(model, tmp_path / "m")
        make(path / name, kind)
        answers = attack(path, tmp_path / "out", model.output_nodes[0])
        assert answers[-1].code == 2
        refused("show", path / name, says=[str(path / name)])
    prefix = write_checkpoint_files(model, tmp_path / "t")
    for ending in (".index", ".meta", ".data-00000-of-00001"):
        file = prefix.with_name(prefix.name + ending)
        kept = file.read_bytes()
        make(file, kind)
        for path in (tmp_path / "t", prefix, file):
            sound("show", path, "--all", "--verify")
            sound("freeze", path, "-o", tmp_path / "o.pb")
        remove(file)
        file.write_bytes(kept)


def test_a_checkpoint_that_lacks_a_file_is_looked_at_but_not_copied(tmp_path: Path) -> None:
    path = write_test_model(linear_regression(), tmp_path / "m")
    data = path / "variables/variables.data-00000-of-00001"
    data.unlink()
    assert sound("show", path, "--variables").code == 0
    refused("show", path, "--verify", says=[str(data), "a data file of the checkpoint is missing", FETCH])
    with pytest.raises(UnreadableFileError, match="a data file of the checkpoint is missing") as caught:
        tfsmith.save(tfsmith.load(path), tmp_path / "out")
    assert caught.value.path == str(data)
    assert not (tmp_path / "out").exists()


# The `checkpoint` file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'model_checkpoint_path: "../outside"', "the checkpoint '../outside' lies outside of the folder"),
        (b'model_checkpoint_path: "/etc/passwd"', "which is not there"),
        (b'model_checkpoint_path: "a\\0b"', "which is not there"),
        (b'model_checkpoint_path: "a\\033[31m\\n"', r"'a\x1b[31m\n', which is not there"),
        (b'model_checkpoint_path: ""', "names no checkpoint"),
        (b'model_checkpoint_path: "' + b"n" * 300 + b'"', "File name too long"),
        (b"model_checkpoint_path: \xff", "this is no `checkpoint` file"),
        (b"model_checkpoint_path: {}", "this is no `checkpoint` file"),
        (b"model_checkpoint_path: 7 nonsense", "this is no `checkpoint` file"),
        (b"", "names no checkpoint"),
        (b'model_checkpoint_path: "m"\n' * 100_000, "2700000 bytes are too many"),
    ],
)
def test_state_files(tmp_path: Path, text: bytes, says: str) -> None:
    write_checkpoint_files(linear_regression(), tmp_path / "t")
    (tmp_path / "outside.index").write_bytes(b"")
    (tmp_path / "t/checkpoint").write_bytes(text)
    refused("show", tmp_path / "t", says=[str(tmp_path / "t"), says])
    refused("freeze", tmp_path / "t", "-o", tmp_path / "o", says=[says])


# Paths


def test_paths_that_nobody_means(tmp_path: Path) -> None:
    model = tfsmith.load(write_saved_model(tmp_path / "m", meta_graph(GRAPH)))
    for job in (lambda: tfsmith.load(""), lambda: tfsmith.save(model, ""), lambda: tfsmith.load("x", checkpoint="")):
        with pytest.raises(UsageError, match="the path is empty; pass the path of"):
            job()
    for path in ("a\0b", "a\0b/c"):
        for work in (lambda: tfsmith.load(tmp_path / path), lambda: tfsmith.save(model, tmp_path / path)):  # noqa: B023
            with pytest.raises(TfsmithError, match="no file can have this name; leave the zero byte out"):
                work()


def test_the_output_is_the_input_under_another_name(tmp_path: Path) -> None:
    path = write_test_model(linear_regression(), tmp_path / "m")
    graph = tmp_path / "g.pb"
    graph.write_bytes(GRAPH)
    (tmp_path / "hard.pb").hardlink_to(graph)
    (tmp_path / "soft.pb").symlink_to(graph)
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    says = ["the output is also the input", "choose another name"]
    for name in ("g.pb", "hard.pb", "soft.pb", "folder/g.pb", "m/../g.pb", "folder/folder/hard.pb"):
        refused("freeze", graph, "-o", tmp_path / name, "--outputs", "y", says=says)
        refused("freeze", tmp_path / "folder/g.pb", "-o", tmp_path / name, "--outputs", "y", says=says)
    for name in ("m", "folder/m", "."):
        refused("freeze", path, "-o", tmp_path / name, "--as", "saved_model", "--force", says=says)
    for name in ("m/saved_model.pb", "m/variables", "m/variables/variables.index", "m/new"):
        inside = ["the output lies inside of an input", f"choose a place outside of {path}"]
        refused("freeze", path, "-o", tmp_path / name, "--as", "saved_model", "--force", says=inside)
    data = tmp_path / "data"
    data.hardlink_to(path / "variables/variables.data-00000-of-00001")
    refused("freeze", path, "-o", data, says=says)
    refused("freeze", graph, "-o", tmp_path / "loop", "--outputs", "y", says=["the output exists and is no folder"])
    sound("freeze", graph, "-o", tmp_path / "loop", "--outputs", "y", "--as", "pb", "--force")
    assert graph.read_bytes() == GRAPH


def test_the_output_is_a_file_that_the_values_come_from(tmp_path: Path) -> None:
    """A frozen graph has no checkpoint any more, but its values are still read from it while it is written."""
    prefix = write_checkpoint_files(linear_regression(), tmp_path / "t")
    before = {file.name: file.read_bytes() for file in (tmp_path / "t").iterdir()}
    (tmp_path / "other").hardlink_to(prefix.with_name(f"{prefix.name}.data-00000-of-00001"))
    says = ["the output is also the input", "choose another name"]
    for name in (f"t/{prefix.name}.index", f"t/{prefix.name}.data-00000-of-00001", "other", f"t/{prefix.name}", "t"):
        for given in ((prefix,), (tmp_path / "t/graph.pbtxt", "--checkpoint", prefix)):
            for how in ("pb", "pbtxt"):
                arguments = ("freeze", *given, "-o", tmp_path / name, "--as", how, "--outputs", "linear_regression/add")
                refused(*arguments, says=says)
    model = tfsmith.load(tmp_path / "t/graph.pbtxt", checkpoint=prefix)
    for made in (tfsmith.freeze(model, outputs=["linear_regression/add"]).model, model):
        with pytest.raises(TfsmithError, match="the output is also the input"):
            tfsmith.save(made, prefix.with_name(f"{prefix.name}.index"), format="pb")
    assert {file.name: file.read_bytes() for file in (tmp_path / "t").iterdir()} == before
