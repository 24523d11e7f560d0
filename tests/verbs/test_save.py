"""One way out: the ending decides, in every verb alike; nothing is replaced unless told to, and no input ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.helpers import files_of

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import OutputError
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

OUTPUT = "linear_regression/add"


@pytest.mark.parametrize(
    ("name", "kind"), [("x.meta", "metagraph"), ("x.pb", "graphdef"), ("x.pbtxt", "graphdef"), ("v1.0", "saved_model")]
)
def test_the_ending_decides(tmp_path: Path, name: str, kind: str) -> None:
    """In `save` as in `convert`, and whatever the model was."""
    write_saved_model(linear_regression(), tmp_path / "saved_model")
    prefix = write_checkpoint_files(linear_regression(), tmp_path / "training", step=3)
    for number, source in enumerate((tmp_path / "saved_model", prefix)):
        for verb in (tfsmith.save, tfsmith.convert):
            folder = tmp_path / f"{verb.__name__}{number}"
            folder.mkdir()
            verb(tfsmith.load(source), folder / name)
            assert tfsmith.load(folder / name).kind == kind
            assert (folder / "x.index").exists() == (kind == "metagraph")


def test_what_overrides_the_ending(tmp_path: Path) -> None:
    write_saved_model(linear_regression(), tmp_path / "saved_model")
    model = tfsmith.load(tmp_path / "saved_model")
    tfsmith.save(model, tmp_path / "x.y", format="keep")
    assert files_of(tmp_path / "x.y") == files_of(tmp_path / "saved_model")
    tfsmith.save(model, tmp_path / "x.pb", format="keep")
    assert (tmp_path / "x.pb").read_bytes() == (tmp_path / "saved_model" / "saved_model.pb").read_bytes()
    tfsmith.save(model, tmp_path / "y", format="checkpoint")
    assert tfsmith.load(tmp_path / "y").kind == "checkpoint"
    tfsmith.save(model, tmp_path / "z.safetensors")
    assert sorted(tfsmith.load(tmp_path / "z.safetensors").variables) == sorted(model.variables)


LISTED = (
    ".pb (GraphDef), .pbtxt (its text), .meta (MetaGraphDef with its checkpoint), no ending or / (SavedModel folder), "
    ".ckpt (checkpoint), .npz, .safetensors, .h5 (Keras' weights), .keras"
)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("m.pt", f"the ending .pt is of no kind of file that is written; use {LISTED}"),
        ("a.b/m.txt", f"the ending .txt is of no kind of file that is written; use {LISTED}"),
        ("-", "a model is not written to stdout; pass the name of a file or folder"),
    ],
)
def test_endings_that_are_refused(tmp_path: Path, name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_frozen(linear_regression(), tmp_path / "frozen.pb")
    monkeypatch.chdir(tmp_path)
    before = files_of(tmp_path)
    for verb in (tfsmith.save, tfsmith.convert):
        with pytest.raises(OutputError) as caught:
            verb(tfsmith.load("frozen.pb"), name)
        assert str(caught.value) == f"{name}: {says}"
        assert len(str(caught.value)) < 300
    assert files_of(tmp_path) == before


def test_inputs_are_protected_whatever_force_says(tmp_path: Path) -> None:
    """Training folders hold many checkpoints: beside the one that is read, others may be written."""
    folder = tmp_path / "training"
    prefix = write_checkpoint_files(linear_regression(), folder, step=3)
    write_saved_model(linear_regression(), tmp_path / "saved_model")
    before = files_of(tmp_path)
    model = tfsmith.load(folder)
    for name in ("model.ckpt-3", "model.ckpt-3.meta", "model.ckpt-3.index"):
        with pytest.raises(OutputError):
            tfsmith.save(model, folder / name, force=True)
    with pytest.raises(OutputError, match="the output is also the input; choose another name"):
        tfsmith.save(model, folder / "checkpoint", format="pb", force=True)
    with pytest.raises(OutputError, match="the output lies inside of an input; choose a place outside of"):
        tfsmith.save(tfsmith.load(tmp_path / "saved_model"), tmp_path / "saved_model" / "new.pb")
    with pytest.raises(OutputError, match="the output is also the input"):
        tfsmith.save(model, folder, force=True)
    assert files_of(tmp_path) == before
    tfsmith.save(tfsmith.load(prefix), folder / "new.ckpt")
    after = files_of(tmp_path)
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["training/new.ckpt.data-00000-of-00001", "training/new.ckpt.index"]


def test_a_file_is_replaced_only_if_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with every other verb that writes a model."""
    write_checkpoint_files(linear_regression(), tmp_path / "training", step=3)
    out = tmp_path / "frozen.pb"
    command = ["freeze", str(tmp_path / "training"), "--outputs", OUTPUT, "-o", str(out)]
    assert main(command) == 0
    first = out.read_bytes()
    out.write_bytes(b"mine")
    assert main(command) == 2
    assert f"{out}: the output exists already; choose another, or pass --force" in capsys.readouterr().err
    assert out.read_bytes() == b"mine"
    assert main([*command, "--force"]) == 0
    assert out.read_bytes() == first
