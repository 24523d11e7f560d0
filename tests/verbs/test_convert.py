"""Convert without TensorFlow: what comes out, what is refused, and that nothing is half-written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.convert_models import array, edits, ops, saved_model, small, values_of, write_models
from tests.support.helpers import files_of
from tests.support.table_files import table
from tests.support.v1_files import TENSORS, VALUES, v1_entries

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import OutputError, UnreadableFileError, UsageError
from tfsmith.formats import destination_of
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, MetaInfo, Model, Saver
from tfsmith.ir.node import Node
from tfsmith.passes.saver import has_saver
from tfsmith.passes.variables import restore_sources
from tfsmith.records import replace
from tfsmith.storage.place import Output
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_saved_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_models(tmp_path)


# Kinds of files


def test_nothing_asked_nothing_changed(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "sm", folder / "copy")
    assert files_of(folder / "copy") == files_of(folder / "in" / "sm")
    tfsmith.convert(folder / "in" / "m", folder / "n.meta")
    for ending in (".meta", ".index", ".data-00000-of-00001"):
        assert (folder / f"n{ending}").read_bytes() == (folder / "in" / f"m{ending}").read_bytes()


def test_saved_model_to_meta_and_back(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "sm", folder / "m.ckpt.meta")
    model = tfsmith.load(folder / "m.ckpt.meta")
    assert model.kind == "metagraph"
    assert set(model.variables) == {"w", "w/Adam", "global_step"}
    tfsmith.convert(folder / "m.ckpt.meta", folder / "back")
    assert files_of(folder / "back") == files_of(folder / "in" / "sm")


def test_meta_to_saved_model_gets_tags_and_says_what_is_missing(folder: Path) -> None:
    converted = tfsmith.convert(folder / "in" / "m.meta", folder / "sm")
    assert tfsmith.load(folder / "sm").tag_sets == (("serve",),)
    (note,) = converted.notes
    assert "no signature" in str(note)
    assert "add_signatures=" in str(note)


def test_graph_alone(folder: Path) -> None:
    converted = tfsmith.convert(folder / "in" / "m.meta", folder / "in" / "m.pbtxt")
    assert 'op: "ApplyAdam"' in (folder / "in" / "m.pbtxt").read_text()
    assert "without the values of its variables: w, w/Adam, global_step" in str(converted.notes[0])
    tfsmith.convert(folder / "in" / "m.pbtxt", folder / "g.pb")
    again = tfsmith.load(folder / "g.pb")
    assert again.kind == "graphdef"
    assert ops(again) == ops(small())
    tfsmith.convert(folder / "g.pb", folder / "h.pbtxt")
    assert (folder / "h.pbtxt").read_bytes() == (folder / "in" / "m.pbtxt").read_bytes()


def test_a_graph_and_its_checkpoint_become_a_meta(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m.meta", folder / "g.pb")
    tfsmith.convert(folder / "g.pb", folder / "both.meta", checkpoint=folder / "in" / "m")
    model = tfsmith.load(folder / "both.meta")
    assert has_saver(model.meta)
    assert {name: source.key for name, source in restore_sources(model.meta).items()} == {
        name: name for name in ("w", "w/Adam", "global_step")
    }


def test_a_checkpoint_of_another_model(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m.meta", folder / "g.pb")
    for values, words in (
        ({"v": array(1, 2)}, "no value for variable 'w'"),
        ({"w": array(1)}, r"the graph says \[2\]"),
    ):
        with Output(folder / "other", force=True) as output:
            write_bundle(output.aside, values)
        with pytest.raises(tfsmith.TfsmithError, match=words):
            tfsmith.convert(folder / "g.pb", folder / "both.meta", checkpoint=folder / "other")
        assert not list(folder.glob("both*"))


def test_a_graph_alone_has_no_signatures(folder: Path) -> None:
    converted = tfsmith.convert(folder / "in" / "sm", folder / "g.pb")
    assert [note.what for note in converted.notes] == [
        "a graph alone has no signatures",
        "the graph alone is written, without the values of its variables",
    ]
    asked = {"a": ({"x": "x:0"}, {"y": "y:0"})}
    converted = tfsmith.convert(folder / "g.pb", folder / "h.pb", **edits(add=asked))
    assert [note.what for note in converted.notes] == ["a graph alone has no signatures"]


def test_saved_model_as_text(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "sm", folder / "text", as_="pbtxt")
    assert (folder / "text" / "saved_model.pbtxt").is_file()
    assert set(tfsmith.load(folder / "text").signatures) == {"serving_default"}


@pytest.mark.parametrize("sharded", [False, True])
def test_v1_to_v2(tmp_path: Path, sharded: bool) -> None:
    (tmp_path / ("old-00000-of-00001" if sharded else "old")).write_bytes(table(v1_entries(TENSORS)))
    tfsmith.convert(tmp_path / "old", tmp_path / "new.ckpt")
    model = tfsmith.load(tmp_path / "new.ckpt")
    assert model.checkpoint is not None
    assert model.checkpoint.version == 2
    for name, values in VALUES.items():
        assert model.variables[name].numpy().tolist() == values


def test_the_saver_of_v1_is_replaced(folder: Path) -> None:
    model = small()
    old = replace(model.meta, saver_part=Part.of(replace(model.meta.saver or Saver(), version=1)))
    tfsmith.save(replace(model, meta_graphs=(old,)), folder / "old.meta")
    tfsmith.convert(folder / "old.meta", folder / "new.meta")
    assert has_saver(tfsmith.load(folder / "new.meta").meta)
    assert not has_saver(tfsmith.load(folder / "old.meta").meta)


def test_shards(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m", folder / "split.meta", shards=2)
    assert len(list(folder.glob("split.data-*"))) == 2
    tfsmith.convert(folder / "split", folder / "same.meta", rename=(("w", "v"),))
    assert len(list(folder.glob("same.data-*"))) == 2
    tfsmith.convert(folder / "same", folder / "one", shards=1, as_="checkpoint")
    assert len(list(folder.glob("one.data-*"))) == 1
    assert not (folder / "one.meta").exists()
    assert values_of(folder / "one") == {"v": [1, 2], "w/Adam": [3, 4], "global_step": 7}
    with pytest.raises(UsageError, match="cannot have 0 data files"):
        tfsmith.convert(folder / "one", folder / "none.ckpt", shards=0)


CHOICES: list[tuple[str, Any, Any, str, str]] = [
    ("a.pb", None, "saved_model", "graphdef", "a.pb"),
    ("a.pbtxt", None, "metagraph", "graphdef", "a.pbtxt"),
    ("a.meta", None, "saved_model", "metagraph", "a.meta"),
    ("a.ckpt", None, "saved_model", "checkpoint", "a.ckpt"),
    ("a.ckpt-12", None, "metagraph", "checkpoint", "a.ckpt-12"),
    ("a.ckpt-12.meta", None, "metagraph", "metagraph", "a.ckpt-12.meta"),
    ("a", None, "metagraph", "saved_model", "a"),
    ("a", None, "graphdef", "saved_model", "a"),
    ("models/1", None, "graphdef", "saved_model", "models/1"),
    ("v1.0", None, "metagraph", "saved_model", "v1.0"),
    ("a.pb/", None, "metagraph", "saved_model", "a.pb"),
    ("a.npz", None, "checkpoint", "checkpoint", "a.npz"),
    ("a.ckpt", "checkpoint", "saved_model", "checkpoint", "a.ckpt"),
    ("a", "meta", "saved_model", "metagraph", "a.meta"),
    ("a.pbtxt", "meta", "saved_model", "metagraph", "a.pbtxt"),
    ("a", "pbtxt", "saved_model", "saved_model", "a"),
    ("a", "pbtxt", "metagraph", "graphdef", "a"),
    ("a.pb", "saved_model", "graphdef", "saved_model", "a.pb"),
    ("a.pb", "keep", "metagraph", "metagraph", "a.pb.meta"),
    ("a", "keep", "checkpoint", "checkpoint", "a"),
]


@pytest.mark.parametrize(("path", "format", "kind", "wanted", "written"), CHOICES)
def test_what_out_means(path: str, format: Any, kind: Any, wanted: str, written: str) -> None:
    found = destination_of(path, format, kind)
    assert (found.holds, found.path) == (wanted, Path(written))


def test_out_that_cannot_hold_it(folder: Path) -> None:
    checkpoint = folder / "alone"
    tfsmith.convert(folder / "in" / "m", checkpoint, as_="checkpoint")
    before = files_of(folder)
    for name in ("a.pb", "a.pbtxt", "a.meta"):
        with pytest.raises(OutputError, match=r"a checkpoint has no graph, so it cannot become .*checkpoint="):
            tfsmith.convert(checkpoint, folder / name)
    with pytest.raises(OutputError, match=r"one file of a checkpoint; pass the prefix a"):
        tfsmith.convert(checkpoint, folder / "a.index")
    with pytest.raises(OutputError, match=r"only convert writes ONNX, to a name that ends in \.onnx"):
        tfsmith.convert(checkpoint, folder / "a", as_="onnx")  # type: ignore[arg-type]
    frozen = Model("graphdef", (MetaGraph(Part.of(Graph((Node("c", "NoOp"),)))),))
    with pytest.raises(UsageError, match=r"no variables, so it cannot become a checkpoint; `tfsmith\.thaw\(model\)`"):
        tfsmith.convert(frozen, folder / "a", as_="checkpoint")
    assert files_of(folder) == before


def test_an_existing_output(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m", folder / "out.meta", shards=2)
    for name, source in (("out.meta", "m"), ("out.meta", "m.meta"), ("in/sm", "m.meta"), ("in/m.meta", "sm")):
        before = files_of(folder)
        with pytest.raises(OutputError, match=r"the output exists already; choose another, or pass force=True"):
            tfsmith.convert(folder / "in" / source, folder / name)
        assert files_of(folder) == before
    tfsmith.convert(folder / "in" / "m", folder / "out.meta", shards=1, force=True)
    assert sorted(path.name for path in folder.glob("out*")) == ["out.data-00000-of-00001", "out.index", "out.meta"]
    with pytest.raises(OutputError, match="the output is also the input"):
        tfsmith.convert(folder / "out", folder / "out.meta", force=True)


def test_several_meta_graphs(folder: Path) -> None:
    one = saved_model().meta
    other = replace(one, info_part=Part.of(MetaInfo(("serve", "tpu"))))
    tfsmith.save(replace(saved_model(), meta_graphs=(one, other)), folder / "two")
    tfsmith.convert(folder / "two", folder / "copy")
    assert files_of(folder / "copy") == files_of(folder / "two")
    with pytest.raises(UsageError, match=r"2 meta graphs, so it is not clear.*tags=.*'serve' and 'serve,tpu'"):
        tfsmith.convert(folder / "two", folder / "x", set_tags=("gpu",))
    with pytest.raises(UsageError, match=r"2 meta graphs, and only one can be written"):
        tfsmith.convert(folder / "two", folder / "x.meta")
    tfsmith.convert(folder / "two", folder / "tpu", tags=("tpu", "serve"), set_tags=("gpu",))
    assert tfsmith.load(folder / "tpu").tag_sets == (("gpu",),)


# Links


def test_link(folder: Path) -> None:
    converted = tfsmith.convert(
        folder / "in" / "sm", folder / "sm", link=True, **edits(rename={"serving_default": "s"})
    )
    assert not converted.notes
    for name in ("variables.index", "variables.data-00000-of-00001"):
        assert (folder / "sm" / "variables" / name).samefile(folder / "in" / "sm" / "variables" / name)
    tfsmith.convert(folder / "sm", folder / "m.meta", link=True)
    data = folder / "m.data-00000-of-00001"
    assert data.samefile(folder / "in" / "sm" / "variables" / "variables.data-00000-of-00001")
    # only names change: the data file is still the same
    tfsmith.convert(folder / "m", folder / "n.meta", link=True, rename=(("w", "v"),))
    assert (folder / "n.data-00000-of-00001").samefile(data)
    assert values_of(folder / "n") == {"v": [1, 2], "w/Adam": [3, 4], "global_step": 7}


def test_a_link_to_a_symlink_is_to_the_file(folder: Path) -> None:
    (folder / "cache").mkdir()
    for path in sorted((folder / "in").glob("m.*")):
        (folder / "cache" / path.name).symlink_to(os.path.relpath(path, folder / "cache"))
    tfsmith.convert(folder / "cache" / "m", folder / "out.meta", link=True)
    assert not (folder / "out.index").is_symlink()
    assert values_of(folder / "out") == values_of(folder / "in" / "m")


def test_what_cannot_be_linked_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    converted = tfsmith.convert(folder / "in" / "m", folder / "out.meta", link=True)
    assert "not linked: out.data-00000-of-00001, out.index" in str(converted.notes[0])
    assert values_of(folder / "out") == values_of(folder / "in" / "m")
    assert not list(folder.rglob("*tfsmith-*"))


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["convert", *map(str, arguments)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "names.txt").write_text("# old and new\nw v\nre:^w/=v/\n")
    (folder / "names.json").write_text('{"global_step": "step"}')
    names: list[str | Path] = ["--rename", folder / "names.txt", "--rename", folder / "names.json"]
    code, out, err = run(capsys, folder / "in" / "m", "-o", folder / "out.meta", *names, "--shards", "2")
    assert (code, err) == (0, "")
    assert out == f"Wrote {folder / 'out.meta'} (graph, 3 tensors, 2.1 kB)\n3 renamed\n"
    assert set(values_of(folder / "out")) == {"v", "v/Adam", "step"}
    code, out, err = run(
        capsys, folder / "in" / "sm", "-o", folder / "sm", "--inference-only", "--dtype", "float16", "--json",
        "--add-signature", "a", "--input", "x=x:0", "--output", "y=y:0", "--rename-signature", "serving_default=b",
        "--set-tags", "serve,gpu", "--tag-set", "serve", "--link",
    )  # fmt: skip
    assert code == 0
    facts = json.loads(out)
    assert facts["dropped"] == ["global_step", "w/Adam"]
    assert facts["cast"] == ["w"]
    assert set(facts["signatures"]) == {"a", "b"}
    assert (facts["kind"], facts["tensors"], facts["bytes"]) == ("saved_model", 1, 4)
    assert facts["warnings"][0].startswith("not linked: variables.data-00000-of-00001")
    assert err.startswith("warning: not linked")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rename", "w="], "--rename 'w=' is not understood; write OLD=NEW"),
        (["--rename", "missing.txt"], "missing.txt: the file of names cannot be read"),
        (["--rename-signature", "a"], "--rename-signature 'a' is not understood"),
        (["--add-signature", "a"], "signature 'a' has no output"),
        (["--dtype", "int8"], "invalid choice: 'int8'"),
        (["--drop", "nothing"], "there is no tensor 'nothing'"),
        (["--tag-set", "gpu"], "there is no meta graph with the tag set 'gpu'"),
    ],
)
def test_the_command_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    before = files_of(folder)
    code, out, err = run(capsys, folder / "in" / "sm", "-o", folder / "out", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    assert files_of(folder) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"one two three\n", "line 1 is no pair of names"),
        (b"w v\nw\n", "line 2 is no pair of names"),
        (b"{", "this is no JSON"),
        (b'{"w": 1}', "the new names must be text"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_files_of_names_that_are_none(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    (folder / "names").write_bytes(content)
    code, _, err = run(capsys, folder / "in" / "m", "-o", folder / "out", "--rename", folder / "names")
    assert code == 2
    assert words in err
    assert not (folder / "out.meta").exists()


def test_a_model_of_the_testing_package(tmp_path: Path) -> None:
    model = linear_regression(variables="resource")
    prefix = write_checkpoint_files(model, tmp_path / "training")
    write_saved_model(model, tmp_path / "sm")
    tfsmith.convert(prefix, tmp_path / "half", dtype="float16")
    tfsmith.convert(tmp_path / "sm", tmp_path / "half_sm", dtype="float16")
    for path in (tmp_path / "half", tmp_path / "half_sm"):
        loaded = tfsmith.load(path)
        assert {tensor.dtype.name for tensor in loaded.variables.values()} == {"float16"}
        reads = [node for node in loaded.graph if node.op == "Cast"]
        assert reads
        assert all(node.get("DstT").name == "float64" or node.get("DstT").name == "float16" for node in reads)


def test_unreadable_error_is_ours(folder: Path) -> None:
    with pytest.raises(UnreadableFileError):
        tfsmith.convert(folder / "nothing", folder / "out")
