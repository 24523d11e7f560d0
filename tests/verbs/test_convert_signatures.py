"""Convert: signatures and tags, and what TensorFlow 2 keeps besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.convert_models import (
    TF2_MODEL,
    array,
    edits,
    saved_model,
    write_models,
)

import tfsmith
from tfsmith.errors import (
    NotFoundInModelError,
    UsageError,
)
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.formats.savedmodel import rename_tensors
from tfsmith.ir.tensor import StringTensor, Tensor
from tfsmith.ir.types import SCALAR, Shape
from tfsmith.passes.variables import restore_sources
from tfsmith.wire import new, parse


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_models(tmp_path)


# Signatures and tags


def test_signatures(folder: Path) -> None:
    changes = edits(add={"product": ({"x": "x:0"}, {"y": "y:0"})}, rename={"serving_default": "old"})
    options = {**changes, "method_name": "m", "set_tags": ("serve", "gpu")}
    tfsmith.convert(folder / "in" / "sm", folder / "sm", **options)
    model = tfsmith.load(folder / "sm")
    assert set(model.signatures) == {"product", "old"}
    assert model.signatures["product"].method_name == "m"
    assert model.signatures["product"].inputs["x"].shape == Shape((-1, 2))
    assert model.signatures["old"] == saved_model().signatures["serving_default"]
    assert model.tag_sets == (("serve", "gpu"),)
    before, after = tfsmith.load(folder / "in" / "sm").meta, model.meta
    assert [span.tobytes() for span in after.graph_part.raw or ()] == [
        span.tobytes() for span in before.graph_part.raw or ()
    ]
    tfsmith.convert(folder / "sm", folder / "less", **edits(remove=("old",)))
    assert set(tfsmith.load(folder / "less").signatures) == {"product"}


BAD_EDITS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"remove": ("serving",)}, NotFoundInModelError, r"no signature 'serving'; the signatures are: serving_default"),
    ({"rename": {"no": "yes"}}, NotFoundInModelError, "no signature 'no'"),
    ({"rename": {"serving_default": "other"}}, UsageError, "two signatures would be called 'other'"),
    ({"rename": {"other": ""}}, UsageError, "a signature must have a name"),
    ({"add": {"other": ({}, {"y": "y:0"})}}, UsageError, r"there is a signature 'other' already.*remove_signatures="),
    ({"add": {"new": ({}, {"y": "yy:0"})}}, NotFoundInModelError, "there is no node 'yy'"),
]


@pytest.mark.parametrize(("change", "error", "words"), BAD_EDITS)
def test_signatures_that_cannot_be(tmp_path: Path, change: dict[str, Any], error: type[Exception], words: str) -> None:
    model = saved_model(serving_default="y:0", other="y:0")
    with pytest.raises(error, match=words):
        tfsmith.convert(model, tmp_path / "out", **edits(**change))
    assert not list(tmp_path.iterdir())


def test_signatures_need_a_graph(folder: Path) -> None:
    with pytest.raises(NotFoundInModelError, match="holds variables but no graph"):
        tfsmith.convert(folder / "in" / "m", folder / "out", as_="checkpoint", **edits(remove=("a",)))


# Models of TensorFlow 2, which have two object graphs


def test_tf2_signatures_there_and_back(tmp_path: Path) -> None:
    tfsmith.convert(TF2_MODEL, tmp_path / "a", **edits(rename={"logits": "raw"}))
    renamed = tfsmith.load(tmp_path / "a").meta
    objects, before = renamed.objects, tfsmith.load(TF2_MODEL).meta.objects
    assert objects is not None
    assert before is not None
    number = objects.nodes[0].children["signatures"]
    assert set(renamed.signatures) - {"__saved_model_init_op"} == {"serving_default", "raw"}
    assert objects.nodes[number].children == {
        "serving_default": before.nodes[number].children["serving_default"],
        "raw": before.nodes[number].children["logits"],
    }
    assert not (tmp_path / "a" / "fingerprint.pb").exists()
    tfsmith.convert(tmp_path / "a", tmp_path / "b", **edits(rename={"raw": "logits"}))
    again = tfsmith.load(tmp_path / "b").meta
    assert [span.tobytes() for span in again.objects_part.raw or ()] == [
        span.tobytes() for span in tfsmith.load(TF2_MODEL).meta.objects_part.raw or ()
    ]
    assert again.signatures == tfsmith.load(TF2_MODEL).meta.signatures
    tfsmith.convert(tmp_path / "b", tmp_path / "c", **edits(remove=("serving_default",)))
    fewer = tfsmith.load(tmp_path / "c").meta.objects
    assert fewer is not None
    assert set(fewer.nodes[number].children) == {"logits"}


def test_tf2_edits_add_up() -> None:
    objects = tfsmith.load(TF2_MODEL).meta.objects
    assert objects is not None
    number = objects.nodes[0].children["signatures"]
    twice = objects.rename_children(number, {"logits": "a"}).rename_children(
        number, {"a": "b", "serving_default": None}
    )
    assert twice.edits == {number: {"logits": "b", "serving_default": None}}
    assert set(twice.nodes[number].children) == {"b"}


def test_tf2_added_signature_is_told_of(tmp_path: Path) -> None:
    model = tfsmith.load(TF2_MODEL)
    info = model.signatures["logits"]
    asked = {"new": ({"x": info.inputs["x"].name}, {"y": info.outputs["logits"].name})}
    converted = tfsmith.convert(TF2_MODEL, tmp_path / "out", **edits(add=asked))
    assert any("tf.saved_model.load does not see" in str(note) for note in converted.notes)
    assert "new" in tfsmith.load(tmp_path / "out").signatures
    assert converted.model.meta.objects_part.raw is not None


def test_tf2_names_must_keep_their_ending(tmp_path: Path) -> None:
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    with pytest.raises(UsageError, match=rf"would not find 'w{end}' under the name 'kernel'; .*end in '{end}'"):
        tfsmith.convert(TF2_MODEL, tmp_path / "out", rename=((f"w{end}", "kernel"),))
    tfsmith.convert(TF2_MODEL, tmp_path / "out", rename=((f"w{end}", f"kernel{end}"),))
    model = tfsmith.load(tmp_path / "out")
    assert f"kernel{end}" in model.variables
    assert {source.key for source in restore_sources(model.meta).values()} == {f"kernel{end}", f"b{end}"}
    assert b"kernel/.ATTR" in model.variables["_CHECKPOINTABLE_OBJECT_GRAPH"].numpy().item()
    assert model.meta.objects is not None


def test_tf2_dropped_objects_are_told_of(tmp_path: Path) -> None:
    converted = tfsmith.convert(TF2_MODEL, tmp_path / "out", dtype="bfloat16")
    assert "Python objects of TensorFlow 2 are left out" in str(converted.notes[0])
    meta = tfsmith.load(tmp_path / "out").meta
    assert meta.objects is None
    assert set(meta.signatures) == {"serving_default", "logits"}
    assert "_CHECKPOINTABLE_OBJECT_GRAPH" not in tfsmith.load(tmp_path / "out").variables


def test_tf2_objects_stay_without_a_variable(tmp_path: Path) -> None:
    converted = tfsmith.convert(TF2_MODEL, tmp_path / "out", drop=("b/*",))
    assert "the answers need variables that were dropped: b" in str(converted.notes[0])
    model = tfsmith.load(tmp_path / "out")
    before, after = tfsmith.load(TF2_MODEL).meta.objects_part.raw or (), model.meta.objects_part.raw or ()
    assert [span.tobytes() for span in after] == [span.tobytes() for span in before]
    assert {source.key for source in restore_sources(model.meta).values()} == {"w/.ATTRIBUTES/VARIABLE_VALUE"}
    assert b"b/.ATTR" not in model.variables["_CHECKPOINTABLE_OBJECT_GRAPH"].numpy().item()
    assert len(model.graph.library) == len(tfsmith.load(TF2_MODEL).graph.library)


def test_the_objects_of_a_checkpoint() -> None:
    graph = new("TrackableObjectGraph")
    for key in ("w/key", "w/.SLOT/key", "b/key"):
        graph.nodes.add().attributes.add(name="V", full_name=key[0], checkpoint_key=key)
    graph.nodes.add().slot_variables.add(original_variable_node_id=0, slot_name="m", slot_variable_node_id=1)
    data = graph.SerializeToString() + b"\xd2\x4d\x01x"  # and a field that nobody knows
    assert rename_tensors(data, {}) == data
    after = rename_tensors(data, {"w/key": "v/key", "w/.SLOT/key": None})
    assert after.endswith(b"\xd2\x4d\x01x")
    found = parse("TrackableObjectGraph", after)
    assert [[tensor.checkpoint_key for tensor in node.attributes] for node in found.nodes] == [
        ["v/key"], [], ["b/key"], [],
    ]  # fmt: skip
    assert not found.nodes[3].slot_variables


def test_an_object_graph_that_is_none(tmp_path: Path) -> None:
    values: dict[str, Tensor] = {"_CHECKPOINTABLE_OBJECT_GRAPH": array(1, 2), "w": array(1)}
    write_bundle(tmp_path / "m", values)
    with pytest.raises(tfsmith.TfsmithError, match=r"is float32 \[2\], not a string"):
        tfsmith.convert(tmp_path / "m", tmp_path / "n.ckpt", rename=(("w", "v"),))
    write_bundle(tmp_path / "k", {**values, "_CHECKPOINTABLE_OBJECT_GRAPH": StringTensor(SCALAR, (b"\xff\xff",))})
    with pytest.raises(tfsmith.TfsmithError):
        tfsmith.convert(tmp_path / "k", tmp_path / "n.ckpt", rename=(("w", "v"),))
    assert not list(tmp_path.glob("n*"))
