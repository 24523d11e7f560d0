"""A checkpoint without its graph: what it holds is told, and the graphs beside it that fit are offered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tfsmith
from tfsmith.errors import UsageError
from tfsmith.passes.variables import fit_checkpoint
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, linear_regression
from tfsmith.testing.write import write_checkpoint_files
from tfsmith.verbs._files import fitting_graphs


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The checkpoint of a regression, its graph as text beside it, and the graphs of other models."""
    write_checkpoint_files(linear_regression(), tmp_path / "own", step=7)
    write_checkpoint_files(bert_classifier(BertConfig(30, 16, 1, 2, 32)), tmp_path / "other", step=7)
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001", "graph.pbtxt"):
        shutil.copy(tmp_path / "own" / name, folder)
    shutil.copy(tmp_path / "other" / "model.ckpt-7.meta", folder / "bert.meta")
    (folder / "broken.pb").write_bytes(b"\x0a\xff")
    return folder


def test_only_the_graph_that_fits_is_offered(bare: Path) -> None:
    assert fitting_graphs(tfsmith.load(bare / "model.ckpt-7")) == (bare / "graph.pbtxt",)


@pytest.mark.parametrize("verb", ["export", "freeze"])
def test_the_refusal_lists_tensors_and_offers_the_graph(bare: Path, verb: str) -> None:
    checkpoint = tfsmith.load(bare / "model.ckpt-7")
    with pytest.raises(UsageError) as refused:
        tfsmith.export(checkpoint, bare / "out") if verb == "export" else tfsmith.freeze(checkpoint)
    said = f"{refused.value.what}; {refused.value.remedy}"  # the paths of the test make the line too long
    assert f"no graph to {verb}; it holds 2 tensors: model_variables/intercept, model_variables/slope" in said
    assert "graph.pbtxt; pass that as MODEL and this as checkpoint=" in said
    assert "bert.meta" not in said


def test_what_is_offered_works(bare: Path) -> None:
    offered = fitting_graphs(tfsmith.load(bare / "model.ckpt-7"))
    tfsmith.save(tfsmith.freeze(tfsmith.load(offered[0], checkpoint=bare / "model.ckpt-7")).model, bare / "frozen.pb")
    assert not tfsmith.load(bare / "frozen.pb").graph.op_counts().get("VariableV2")


def test_without_a_graph_that_fits_the_remedy_says_what_to_pass(bare: Path) -> None:
    (bare / "graph.pbtxt").unlink()
    with pytest.raises(UsageError, match=r"pass the \.meta or the graph as MODEL"):
        tfsmith.export(tfsmith.load(bare / "model.ckpt-7"), bare / "out")


def test_a_graph_of_other_shapes_does_not_fit(tmp_path: Path) -> None:
    for size in (16, 24):
        write_checkpoint_files(bert_classifier(BertConfig(30, size, 1, 2, 32)), tmp_path / str(size), step=1)
    own = fit_checkpoint(tfsmith.load(tmp_path / "16" / "model.ckpt-1.meta"))
    mixed = tfsmith.load(tmp_path / "16" / "graph.pbtxt", checkpoint=tmp_path / "24" / "model.ckpt-1")
    assert own.is_whole
    assert not fit_checkpoint(mixed).is_whole
    assert "bert/pooler/dense/kernel" in fit_checkpoint(mixed).missing
