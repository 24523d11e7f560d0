"""`save` writes what the model is; a name that says otherwise is refused. Verbs replace nothing unless told to."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import OutputError
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

OUTPUT = "linear_regression/add"


@pytest.mark.parametrize("name", ["x.meta", "x.pb", "x.pbtxt"])
def test_a_saved_model_under_the_name_of_a_file(tmp_path: Path, name: str) -> None:
    write_saved_model(linear_regression(), tmp_path / "saved_model")
    model = tfsmith.load(tmp_path / "saved_model")
    with pytest.raises(OutputError, match=r"the folder of a SavedModel, but the name ends in \.\w+; tfsmith.convert"):
        tfsmith.save(model, tmp_path / name)
    assert not (tmp_path / name).exists()
    tfsmith.save(model, tmp_path / name, format="saved_model")
    assert list((tmp_path / name).glob("saved_model.pb*"))


def test_the_remedy_works(tmp_path: Path) -> None:
    write_saved_model(linear_regression(), tmp_path / "saved_model")
    tfsmith.convert(tfsmith.load(tmp_path / "saved_model"), tmp_path / "x.meta")
    assert tfsmith.load(tmp_path / "x.meta").kind == "metagraph"
    assert (tmp_path / "x.index").exists()


def test_a_graph_under_the_name_of_a_meta_graph(tmp_path: Path) -> None:
    write_frozen(linear_regression(), tmp_path / "frozen.pb")
    model = tfsmith.load(tmp_path / "frozen.pb")
    with pytest.raises(OutputError, match=r"as a GraphDef, but the name ends in \.meta"):
        tfsmith.save(model, tmp_path / "x.meta")
    for name in ("x.pb", "x.pbtxt", "x", "x.graph"):
        tfsmith.save(model, tmp_path / name)


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
