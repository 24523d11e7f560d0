"""Any path is recognised by what it holds; a wrong one is told what to pass instead."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest
from tests.support import planted
from tests.support.helpers import field, files_of, graph_def, node_def, somebody, unknown, write_files
from tests.support.table_files import table
from tests.support.v1_files import v1_entries, whole

import tfsmith
from tfsmith.errors import (
    CorruptFileError,
    InvalidModelError,
    NotFoundInModelError,
    TfsmithError,
    UnreadableFileError,
    UsageError,
    WrongFileError,
    worded,
)
from tfsmith.formats import sniff
from tfsmith.storage import from_bytes
from tfsmith.wire import new, parse

GRAPH = graph_def([node_def("a", "NoOp"), node_def("b", "NoOp", ["^a"])])
V1 = table(v1_entries({"w": (1, (2,), whole({"float_val": [1.0, 2.0]}))}))
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
LFS_ERROR = "this is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it"


def _error(path: Path, error: type[TfsmithError] = WrongFileError, **options: object) -> str:
    """What is said of a path, and what to do, in full: the line that is printed may leave out the middles of paths."""
    with pytest.raises(error) as caught:
        tfsmith.load(path, **options)  # type: ignore[arg-type]
    assert type(caught.value) is error
    text = worded(f"{caught.value.what}; {caught.value.remedy}")
    return text if caught.value.path == str(path) else f"{caught.value.path}: {text}"


@pytest.fixture
def saved_model(tmp_path: Path) -> Path:
    return planted.write_saved_model(tmp_path / "model")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A training folder with two checkpoints."""
    folder = tmp_path / "train"
    folder.mkdir()
    for step in (0, 90, 100):
        planted.write_variables(folder / f"model.ckpt-{step}")
    write_files(
        folder, {"model.ckpt-100.meta": planted.meta_graph(), "graph.pbtxt": b"node { name: 'a' op: 'NoOp' }\n"}
    )
    write_files(folder, {"checkpoint": b'model_checkpoint_path: "model.ckpt-100"\n'})
    return folder


# Right choices


def test_saved_model_folder(saved_model: Path) -> None:
    model = tfsmith.load(saved_model)
    assert (model.kind, model.path, model.tag_sets) == ("saved_model", saved_model, (("serve",), ("serve", "gpu")))
    assert model.checkpoint is not None
    assert model.checkpoint.prefix == saved_model / "variables/variables"
    assert model.variables["dense/kernel"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tfsmith.load(str(saved_model) + "/").kind == "saved_model"


def test_saved_model_in_text(saved_model: Path, tmp_path: Path) -> None:
    model = tfsmith.load(saved_model)
    tfsmith.save(model, tmp_path / "text", format="pbtxt")
    assert sorted(path.name for path in (tmp_path / "text").iterdir() if path.name.startswith("saved")) == [
        "saved_model.pbtxt"
    ]
    again = tfsmith.load(tmp_path / "text")
    assert [node.name for node in again.graph] == [node.name for node in model.graph]
    assert again.tag_sets == model.tag_sets


@pytest.mark.parametrize("name", ["g.pb", "g", "g.txt", "graph.meta", "saved_model"])
def test_graph_under_any_name(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {name: GRAPH})
    model = tfsmith.load(tmp_path / name)
    assert (model.kind, model.path) == ("graphdef", tmp_path / name)
    assert [node.name for node in model.graph] == ["a", "b"]


@pytest.mark.parametrize("name", ["m.meta", "m.pb", "m"])
def test_meta_graph_under_any_name(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {name: planted.meta_graph("x")})
    assert tfsmith.load(tmp_path / name).kind == "metagraph"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("node { name: 'a' op: 'NoOp' }", "graphdef"),
        ("# a comment\n\n  versions { producer: 3 }", "graphdef"),
        ("graph_def { node { name: 'a' op: 'NoOp' } }", "metagraph"),
        ("meta_info_def <\n>", "metagraph"),
        ("saved_model_schema_version: 1 meta_graphs { graph_def { } }", "saved_model"),
    ],
)
def test_text_under_any_name(tmp_path: Path, text: str, kind: str) -> None:
    write_files(tmp_path, {"f.anything": text.encode()})
    assert tfsmith.load(tmp_path / "f.anything").kind == kind
    assert tfsmith.load(text.encode()).kind == kind


def test_checkpoint_by_its_prefix(training: Path) -> None:
    model = tfsmith.load(training / "model.ckpt-90")
    assert (model.kind, model.has_graph, model.path) == ("checkpoint", False, training / "model.ckpt-90")
    assert model.checkpoint is not None
    assert (model.checkpoint.step, model.checkpoint.version, len(model.checkpoint.files)) == (90, 2, 2)
    assert sorted(model.variables) == ["dense/kernel", "global_step", "words"]


def test_prefix_and_meta_belong_together(training: Path) -> None:
    for name in ("model.ckpt-100", "model.ckpt-100.meta"):
        model = tfsmith.load(training / name)
        assert (model.kind, len(model.graph), len(model.variables)) == ("metagraph", 5, 3)


def test_folder_with_checkpoints(training: Path) -> None:
    assert tfsmith.load(training).path == training / "model.ckpt-100.meta"
    assert tfsmith.load(training, step=90).path == training / "model.ckpt-90"
    assert tfsmith.load(training, step=0).path == training / "model.ckpt-0"


def test_folder_without_state_file_has_one_checkpoint_or_needs_a_choice(training: Path, tmp_path: Path) -> None:
    (training / "checkpoint").unlink()
    expected = (
        "the folder has no `checkpoint` file that says which of its 3 checkpoints is the latest; "
        "pass one by its prefix or by step=: model.ckpt-0, model.ckpt-90, model.ckpt-100"
    )
    assert _error(training, UnreadableFileError) == expected
    (tmp_path / "one").mkdir()
    planted.write_variables(tmp_path / "one/only")
    assert tfsmith.load(tmp_path / "one").path == tmp_path / "one/only"


def test_graph_with_a_checkpoint_from_elsewhere(training: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"g.pb": GRAPH})
    for checkpoint in (
        training / "model.ckpt-90",
        training / "model.ckpt-90.index",
        training / "model.ckpt-90.data-00000-of-00001",
    ):
        model = tfsmith.load(tmp_path / "g.pb", checkpoint=checkpoint)
        assert model.checkpoint is not None
        assert (model.kind, model.checkpoint.step, len(model.variables)) == ("graphdef", 90, 3)
    latest = tfsmith.load(tmp_path / "g.pb", checkpoint=training)
    assert latest.checkpoint is not None
    assert latest.checkpoint.step == 100
    chosen = tfsmith.load(tmp_path / "g.pb", checkpoint=training, step=90)
    assert chosen.checkpoint is not None
    assert chosen.checkpoint.step == 90


def test_v1_checkpoint_in_one_file_and_its_meta(tmp_path: Path) -> None:
    write_files(tmp_path, {"old.ckpt-3": V1})
    alone = tfsmith.load(tmp_path / "old.ckpt-3")
    assert (alone.kind, alone.variables["w"].numpy().tolist()) == ("checkpoint", [1.0, 2.0])
    write_files(tmp_path, {"old.ckpt-3.meta": planted.meta_graph()})
    for name in ("old.ckpt-3", "old.ckpt-3.meta"):
        model = tfsmith.load(tmp_path / name)
        assert model.checkpoint is not None
        assert (model.kind, model.checkpoint.version, list(model.variables)) == ("metagraph", 1, ["w"])


def test_v1_checkpoint_becomes_v2_in_a_saved_model(tmp_path: Path) -> None:
    write_files(tmp_path, {"old": V1, "old.meta": planted.meta_graph()})
    tfsmith.save(tfsmith.load(tmp_path / "old"), tmp_path / "out", format="saved_model")
    model = tfsmith.load(tmp_path / "out")
    assert model.checkpoint is not None
    assert (model.checkpoint.version, model.variables["w"].numpy().tolist()) == (2, [1.0, 2.0])


def test_messages_in_memory() -> None:
    for name, kind in (("GraphDef", "graphdef"), ("MetaGraphDef", "metagraph"), ("SavedModel", "saved_model")):
        data = {"GraphDef": GRAPH, "MetaGraphDef": planted.meta_graph(), "SavedModel": planted.saved_model()}[name]
        assert tfsmith.load(data).kind == kind
        assert tfsmith.load(parse(name, data)).kind == kind
    assert tfsmith.load(new("GraphDef")).kind == "graphdef"
    assert tfsmith.load(new("MetaGraphDef")).kind == "metagraph"
    with pytest.raises(UsageError, match="5 is no model; pass a path, bytes, or a GraphDef"):
        tfsmith.load(5)
    with pytest.raises(CorruptFileError, match="these bytes are no TensorFlow message that we know"):
        tfsmith.load(b"")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (GRAPH + unknown("x"), "graphdef"),
        (unknown("x") + GRAPH, "graphdef"),
        (graph_def([]), "graphdef"),
        (graph_def([], library=b""), "graphdef"),
        (graph_def([], library=planted.library()), "graphdef"),
        (unknown("x") + planted.meta_graph(), "metagraph"),
        (field(2, graph_def([])), "metagraph"),
        (field(1, field(5, b"2.1")) + field(2, graph_def([])), "metagraph"),
        (unknown("x") + planted.saved_model(), "saved_model"),
        (field(2, planted.meta_graph()), "saved_model"),
        (field(1, node_def("s", "Relu")) + field(2, node_def("i", "Neg")) + field(3, b"x"), "pattern"),
        (field(1, node_def("s", "Relu")) + field(3, b"x"), "pattern"),
        (field(1, field(1, node_def("s", "Relu")) + field(3, b"x")) + field(2, node_def("t", "Bert")), "recipe"),
        (b'seed_nodes {\n  name: "s"\n}\n', "pattern"),
        (b'source_pattern {\n}\ntarget_node {\n  name: "t"\n}\n', "recipe"),
        (b"\x08\x01\x12\x00", "unknown"),
        (b"\x00\x01\x02", "unknown"),
        (b"hello, world", "unknown"),
        (b"node", "unknown"),
    ],
)
def test_sniffing(data: bytes, kind: str) -> None:
    assert sniff(from_bytes(data)).kind == kind


@pytest.mark.parametrize("cut", [100, 200, 1000, 5000, 12000])
def test_file_that_is_cut_off_is_still_recognised(cut: int, tmp_path: Path) -> None:
    data = planted.graph()
    write_files(tmp_path, {"g.pb": data[:cut]})
    with pytest.raises(CorruptFileError, match=r"g\.pb, byte \d+: .*fetch it again"):
        tfsmith.load(tmp_path / "g.pb").graph  # noqa: B018


# Wrong choices


def test_main_file_of_a_saved_model(saved_model: Path, tmp_path: Path) -> None:
    """It is the model itself, with its variables and its other files."""
    model = tfsmith.load(saved_model / "saved_model.pb")
    assert (model.kind, model.path) == ("saved_model", saved_model)
    tfsmith.save(model, tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(saved_model)


def test_a_checkpoint_with_an_empty_base_name(tmp_path: Path) -> None:
    """As one published package has it: `folder/.index` and `folder/.data-00000-of-00001`."""
    (tmp_path / "named").mkdir()
    planted.write_variables(tmp_path / "named/m", 2)
    folder = tmp_path / "ckpt"
    write_files(folder, {name.removeprefix("m"): data for name, data in files_of(tmp_path / "named").items()})
    wanted = tfsmith.load(tmp_path / "named/m").variables
    for path in (folder, folder / ".index", f"{folder}/"):
        model = tfsmith.load(path)
        assert model.kind == "checkpoint"
        assert sorted(model.variables) == sorted(wanted)
        assert model.variables["dense/kernel"].numpy().tobytes() == wanted["dense/kernel"].numpy().tobytes()
    tfsmith.save(tfsmith.load(folder), tmp_path / "m.ckpt")
    after = files_of(tmp_path)
    for ending in (".index", ".data-00000-of-00002", ".data-00001-of-00002"):
        assert after[f"m.ckpt{ending}"] == after[f"named/m{ending}"]
    for target in (folder / "x.npz", folder / ".ckpt"):
        with pytest.raises(tfsmith.TfsmithError, match="the output lies inside of an input"):
            tfsmith.save(tfsmith.load(folder), target, force=True)


def test_variables_folder_and_its_files(saved_model: Path) -> None:
    prefix = saved_model / "variables/variables"
    remedy = f"pass the SavedModel's folder {saved_model}, or for its variables alone the prefix {prefix}"
    variables = saved_model / "variables"
    assert _error(variables) == f"this is the folder of a SavedModel's variables; {remedy}"
    assert _error(variables / "variables.index") == f"this is the index of a checkpoint; {remedy}"
    data = variables / "variables.data-00000-of-00002"
    assert _error(data) == f"this is a shard of a checkpoint's data; {remedy}"
    assert tfsmith.load(prefix).kind == "checkpoint"


def test_files_of_a_checkpoint(training: Path) -> None:
    prefix = training / "model.ckpt-90"
    assert _error(training / "model.ckpt-90.index") == f"this is the index of a checkpoint; pass the prefix {prefix}"
    data = training / "model.ckpt-90.data-00000-of-00001"
    assert _error(data) == f"this is a shard of a checkpoint's data; pass the prefix {prefix}"
    (training / "model.ckpt-90.index").unlink()
    expected = f"its index model.ckpt-90.index is missing; fetch the whole set, then pass the prefix {prefix}"
    assert _error(data) == f"this is a shard of a checkpoint's data; {expected}"


def test_state_file(training: Path) -> None:
    expected = f"this is the list of a folder's checkpoints, not a checkpoint; pass the folder {training}"
    assert _error(training / "checkpoint") == expected


def _zip(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return out.getvalue()


def _onnx() -> bytes:
    return (
        b"\x08\x08"
        + field(2, b"pytorch")
        + field(3, b"2.1")
        + field(7, field(1, field(4, b"Conv")))
        + field(8, b"\x10\x0d")
    )


FOREIGN = [
    (b"", "the file is empty; its download or export failed; fetch it again"),
    (LFS, LFS_ERROR),
    (_zip("archive/data.pkl"), "this is a PyTorch file; pass a TensorFlow model"),
    (_zip("model.txt"), "this is a zip archive; unpack it first"),
    (b"\x1c\x00\x00\x00TFL3" + bytes(60), "this is a TensorFlow Lite model; pass the model that it was converted from"),
    (_onnx(), "this is an ONNX model; pass the TensorFlow model that it was made from"),
    (b"\x1f\x8b\x08" + bytes(40), "this is a gzip archive; unpack it first (gunzip, or tar xzf)"),
    (bytes(257) + b"ustar" + bytes(300), "this is a tar archive; unpack it first (tar xf)"),
    (b"\x93NUMPY\x01\x00", "this is a numpy array (.npy); pass a model"),
    (b"\x80\x02}q\x00.", "this is a Python pickle; pass the TensorFlow model that it was made from"),
    (
        field(1, node_def("s", "Relu")) + field(3, b"x"),
        "this is a pattern, and a model is wanted; pass the model that it is to be used on",
    ),
    (
        b"just some words\n",
        "this is no TensorFlow model that we know; "
        "pass a SavedModel folder, a .meta, a GraphDef .pb or .pbtxt, a checkpoint prefix, or a Keras file",
    ),
    (
        bytes(1000),
        "this is no TensorFlow model that we know; "
        "pass a SavedModel folder, a .meta, a GraphDef .pb or .pbtxt, a checkpoint prefix, or a Keras file",
    ),
]


@pytest.mark.parametrize(("data", "expected"), FOREIGN)
@pytest.mark.parametrize("name", ["f.pb", "model.h5"])
def test_files_of_other_programs(tmp_path: Path, data: bytes, expected: str, name: str) -> None:
    write_files(tmp_path, {name: data})
    assert _error(tmp_path / name) == expected


@pytest.mark.parametrize(("data", "expected"), [(b"", FOREIGN[0][1]), (LFS, LFS_ERROR)])
def test_files_of_a_set_that_were_not_fetched(saved_model: Path, training: Path, data: bytes, expected: str) -> None:
    """A clone without Git LFS has pointers in place of all large files."""
    (saved_model / "variables/variables.index").write_bytes(data)
    assert _error(saved_model) == f"{saved_model / 'variables/variables.index'}: {expected}"
    (saved_model / "saved_model.pb").write_bytes(data)
    assert _error(saved_model) == f"{saved_model / 'saved_model.pb'}: {expected}"
    (training / "model.ckpt-90.index").write_bytes(data)
    assert _error(training / "model.ckpt-90") == f"{training / 'model.ckpt-90.index'}: {expected}"


def test_paths_with_nothing_there(training: Path, tmp_path: Path) -> None:
    there = "there is no such file, folder or checkpoint prefix"
    assert _error(training / "graph.pbtx", UnreadableFileError) == f"{there}; did you mean graph.pbtxt?"
    assert _error(tmp_path / "zzz", UnreadableFileError) == f"{there}; check the path"
    assert _error(tmp_path / "a/b", UnreadableFileError) == "there is no such file or folder; check the path"
    assert _error(training / "graph.pbtxt/x", UnreadableFileError) == "there is no such file or folder; check the path"


def test_meta_without_its_checkpoint(tmp_path: Path) -> None:
    write_files(tmp_path, {"m.meta": planted.meta_graph()})
    expected = "this prefix has a .meta but no .index: the checkpoint itself is missing; for the graph alone pass "
    assert _error(tmp_path / "m", UnreadableFileError) == expected + str(tmp_path / "m.meta")
    assert not tfsmith.load(tmp_path / "m.meta").variables


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    remedy = "pass a folder with saved_model.pb or a `checkpoint` file, or one of its files"
    (tmp_path / "empty").mkdir()
    expected = f"this folder is no SavedModel and has no checkpoint; it is empty; {remedy}"
    assert _error(tmp_path / "empty") == expected
    write_files(tmp_path / "many", {f"f{number}": b"" for number in range(7)})
    expected = f"this folder is no SavedModel and has no checkpoint; it holds f0, f1, f2, f3, f4 ...; {remedy}"
    assert _error(tmp_path / "many") == expected


def test_folder_of_saved_models(saved_model: Path, tmp_path: Path) -> None:
    expected = f"this folder holds SavedModels in its folders; pass one: {saved_model}"
    assert _error(tmp_path) == expected


def test_steps_and_checkpoints_that_make_no_sense(training: Path, saved_model: Path) -> None:
    assert (
        _error(training, NotFoundInModelError, step=5) == "there is no checkpoint of step 5; the steps are: 0, 90, 100"
    )
    step = "step= chooses among the checkpoints of a folder"
    assert _error(training / "model.ckpt-90", UsageError, step=5) == f"{step}; pass the folder"
    assert _error(saved_model, UsageError, step=5) == f"{step}; this is a SavedModel; leave step= out"
    graph = training / "graph.pbtxt"
    prefix = training / "model.ckpt-90"
    assert _error(graph, UsageError, checkpoint=prefix, step=5) == f"{prefix}: {step}; pass the folder as checkpoint="
    missing = training / "none"
    expected = f"{missing}: there is no checkpoint with this prefix; check the path"
    assert _error(graph, UnreadableFileError, checkpoint=missing) == expected
    expected = (
        "MODEL is itself a checkpoint, so it has no graph for another one; "
        "pass the graph as MODEL and the checkpoint as checkpoint="
    )
    assert _error(prefix, UsageError, checkpoint=prefix) == expected


def test_latest_checkpoint_that_is_gone(training: Path) -> None:
    write_files(training, {"checkpoint": b'model_checkpoint_path: "model.ckpt-500"\n'})
    with pytest.raises(UnreadableFileError) as caught:
        tfsmith.load(training)
    assert str(caught.value) == (
        f"{training / 'checkpoint'}: the latest checkpoint is said to be 'model.ckpt-500', which is not there; "
        "pass one of those that are: model.ckpt-0, model.ckpt-90, model.ckpt-100"
    )


def test_tag_sets(saved_model: Path) -> None:
    assert tfsmith.load(saved_model, tags=["gpu", "serve"]).selected == 1
    with pytest.raises(NotFoundInModelError) as caught:
        tfsmith.load(saved_model, tags=["train"])
    expected = (
        f"{saved_model}: there is no meta graph with the tag set 'train'; the tag sets are: 'serve' and 'gpu,serve'"
    )
    assert str(caught.value) == expected


def test_saved_model_without_meta_graph(tmp_path: Path) -> None:
    write_files(tmp_path, {"saved_model.pb": b"\x08\x01"})
    with pytest.raises(InvalidModelError) as caught:
        tfsmith.load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'saved_model.pb'}: the SavedModel has no meta graph; "
        "the file is cut off, or the export failed; export it again"
    )


def test_main_file_that_is_something_else(tmp_path: Path) -> None:
    write_files(tmp_path, {"saved_model.pb": GRAPH})
    with pytest.raises(CorruptFileError, match=r"saved_model\.pb, byte 0: this is no SavedModel; pass a SavedModel"):
        tfsmith.load(tmp_path)


def test_index_under_another_name(training: Path) -> None:
    (training / "model.ckpt-90.index").rename(training / "renamed")
    assert _error(training / "renamed") == (
        "this table holds no tensors; "
        "if it is the index of a V2 checkpoint, give it back its name PREFIX.index, and pass the prefix"
    )


def test_graph_that_has_its_parts_twice(tmp_path: Path) -> None:
    write_files(tmp_path, {"m.meta": planted.meta_graph() + field(2, GRAPH)})
    with pytest.raises(CorruptFileError, match=r"m\.meta, byte \d+: graph_def is there twice"):
        tfsmith.load(tmp_path / "m.meta")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_places_without_permission(tmp_path: Path) -> None:
    write_files(tmp_path / "closed", {"g.pb": GRAPH})
    (tmp_path / "closed").chmod(0)
    try:
        for path in (tmp_path / "closed/g.pb", tmp_path / "closed"):
            with somebody(), pytest.raises(UnreadableFileError, match=r"\(Permission denied\)|there is no such file"):
                tfsmith.load(path)
    finally:
        (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize("name", ["x" * 300, "a\x00b", "ä" * 200])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFileError):
        tfsmith.load(tmp_path / name)


def test_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "gone").symlink_to("nowhere")
    for name in ("a", "b", "self"):
        with pytest.raises(UnreadableFileError, match="this link leads back to itself; mend the link"):
            tfsmith.load(tmp_path / name)
    with pytest.raises(UnreadableFileError, match="this is a link to nowhere, which is not there; mend the link"):
        tfsmith.load(tmp_path / "gone")
