from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfsmith
from tfsmith.errors import CorruptFileError, LimitError, UnreadableFileError, UsageError
from tfsmith.formats.checkpoint import read_checkpoint_state, write_checkpoint_state
from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.ir.tensor import ArrayTensor


def test_reads_the_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-200"\n'
        'all_model_checkpoint_paths: "model.ckpt-100"\n'
        'all_model_checkpoint_paths: "model.ckpt-200"\n'
        "all_model_checkpoint_timestamps: 1603.5\n"
        "last_preserved_timestamp: 1600.25\n"
    )
    for path in (tmp_path, tmp_path / "checkpoint"):
        state = read_checkpoint_state(path)
        assert state.latest == tmp_path / "model.ckpt-200"
        assert state.all == (tmp_path / "model.ckpt-100", tmp_path / "model.ckpt-200")
        assert state.timestamps == (1603.5,)
        assert state.last_preserved_timestamp == 1600.25


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("m-1", "m-1"),
        ("./m-1", "m-1"),
        ("sub/m-1", "sub/m-1"),
        ("/elsewhere/train/m-1", "m-1"),  # the folder has moved since
        ("/etc/../etc/passwd", "passwd"),
        ("ünï/m", "ünï/m"),
    ],
)
def test_names_mean_paths_in_the_folder(tmp_path: Path, name: str, meant: str) -> None:
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n', "utf-8")
    state = read_checkpoint_state(tmp_path)
    assert state.latest == tmp_path / meant
    assert state.latest_name == name
    assert state.all == ()


def test_an_absolute_name_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/sub/m-1"\n')
    assert read_checkpoint_state(tmp_path).latest == tmp_path / "sub" / "m-1"


def test_names_never_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "../../secret"\n')
    state = read_checkpoint_state(tmp_path)
    with pytest.raises(CorruptFileError, match="outside") as caught:
        _ = state.latest
    assert caught.value.path == str(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "text", ["", "x", 'model_checkpoint_path: "', "all_model_checkpoint_paths: 'a'", "a { b { c: 1 } }"]
)
def test_refuses_other_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoint").write_text(text)
    with pytest.raises(CorruptFileError) as caught:
        read_checkpoint_state(tmp_path)
    assert caught.value.path == str(tmp_path / "checkpoint")


def test_refuses_no_text_too_much_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptFileError):
        read_checkpoint_state(tmp_path)
    (tmp_path / "checkpoint").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(LimitError):
        read_checkpoint_state(tmp_path)
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(UnreadableFileError):
        read_checkpoint_state(tmp_path)


def test_writes_what_it_reads(tmp_path: Path) -> None:
    file = write_checkpoint_state(tmp_path, "m-2", ["m-1"], timestamps=[1.5], last_preserved_timestamp=0.5)
    assert file.read_text() == (
        'model_checkpoint_path: "m-2"\n'
        'all_model_checkpoint_paths: "m-1"\n'
        'all_model_checkpoint_paths: "m-2"\n'
        "all_model_checkpoint_timestamps: 1.5\n"
        "last_preserved_timestamp: 0.5\n"
    )
    state = read_checkpoint_state(tmp_path)
    assert state.all_names == ("m-1", "m-2")
    write_checkpoint_state(tmp_path, 'a "quoted" ü\n')
    assert read_checkpoint_state(tmp_path).latest_name == 'a "quoted" ü\n'


@pytest.mark.parametrize("step", [3, "3"])
def test_a_step_by_number_or_digits(tmp_path: Path, step: Any) -> None:
    write_checkpoint(tmp_path / "model.ckpt-3", {"v": ArrayTensor.of([1.0])})
    found = tfsmith.load(tmp_path, step=step)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 3


@pytest.mark.parametrize("step", ["last", "-3", 3.0, [3]])
def test_what_is_no_step(tmp_path: Path, step: Any) -> None:
    write_checkpoint(tmp_path / "model.ckpt-3", {"v": ArrayTensor.of([1.0])})
    with pytest.raises(UsageError) as error:
        tfsmith.load(tmp_path, step=step)
    assert str(error.value) == f"{tmp_path}: {step!r} is no step; pass a whole number"
