"""The flags, exit codes and error lines of our `saved_model_cli`; no TensorFlow needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfsmith.compat.saved_model_cli import main
from tfsmith.wire import new

TAG_SETS = "The given SavedModel contains the following tag-sets:\n'gpu, serve'\n"
KEYS = (
    "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n"
    'SignatureDef key: "serving_default"\n'
)
OPS = "The MetaGraph with tag set ['serve', 'gpu'] contains the following ops: {'Placeholder'}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    message = new("SavedModel")
    meta = message.meta_graphs.add()
    meta.meta_info_def.tags.extend(["serve", "gpu"])
    meta.graph_def.node.add(name="x", op="Placeholder")
    signature = meta.signature_def["serving_default"]
    signature.inputs["x"].name = "x:0"
    signature.inputs["x"].dtype = 1
    signature.method_name = "m"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(message.SerializeToString())
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["show", "--dir", "DIR"], TAG_SETS),
        (["--dir", "DIR", "show"], TAG_SETS),
        (["show", "--dir=DIR", "--all", "--noall"], TAG_SETS),
        (
            ["show", "--dir", "DIR", "--list_ops"],
            "--list_ops must be paired with a tag-set or with --all.\n" + TAG_SETS,
        ),
        (["show", "--dir", "DIR", "--tag_set", "gpu,serve"], KEYS),
        (["--tag_set", "serve,gpu", "show", "--dir", "DIR"], KEYS),
        (["show", "--dir", "DIR", "--tag_set", "serve, gpu,", "--list_ops"], OPS + KEYS),
        (["show", "--dir", "DIR", "--tag_set", "serve,gpu", "--list_ops", "--nolist_ops"], KEYS),
    ],
)
def test_flags(flags: list[str], expected: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag.replace("DIR", str(folder)) for flag in flags]) == 0

    assert capsys.readouterr() == (expected, "")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "arguments are required: show"),
        (["run", "--dir", "DIR"], "invalid choice: 'run'"),
        (["show"], "--dir is missing"),
        (["show", "--dir", "DIR", "--sig", "x"], "unrecognized arguments: --sig"),
        (["show", "--dir", "DIR", "--all=true"], "--all"),
        (["show", "--dir", "DIR/nowhere"], "nowhere"),
        (["show", "--dir", "DIR", "--tag_set", "serve"], "the tag sets are: 'gpu,serve'"),
        (
            ["show", "--dir", "DIR", "--tag_set", "serve,gpu", "--signature_def", "x"],
            "the signatures are: serving_default",
        ),
    ],
)
def test_errors_are_one_line(flags: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([flag.replace("DIR", str(folder)) for flag in flags])
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_graph_is_no_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = new("GraphDef")
    graph.node.add(name="x", op="Placeholder")
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())

    assert main(["show", "--dir", str(tmp_path / "graph.pb")]) == 2
    assert "this is no SavedModel; pass a folder with saved_model.pb" in capsys.readouterr().err


def test_what_was_found_before_an_error_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tag_set", "serve,gpu", "--list_ops", "--signature_def", "x"]

    assert main(["show", "--dir", str(folder), *flags]) == 2
    assert capsys.readouterr().out == OPS


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"
