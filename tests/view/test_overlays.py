"""What is painted on a page: differences and times node by node, also in functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfsmith
from tfsmith.errors import UsageError
from tfsmith.ir.tensor import make_tensor
from tfsmith.testing.models import conv_net
from tfsmith.testing.write import write_frozen
from tfsmith.verbs.view import view_model
from tfsmith.view.page import Mark, Overlay
from tfsmith.view.page_data import place_of

TF2_MODEL = Path(__file__).parents[2] / "tests" / "docs" / "files" / "tf2_model"


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("overlays") / "conv.pb"
    write_frozen(conv_net(), path)
    return path


def tampered(path: Path) -> tfsmith.Model:
    """The model with another bias in its second convolution."""
    model = tfsmith.load(path)
    bias = model.graph["conv2d_1/bias"].constant
    assert bias is not None
    with model.edit() as g:
        g.set("conv2d_1/bias", {"value": make_tensor(np.asarray(bias.numpy()) + np.float32(0.5))})
    return g.model


def by_node(overlay: Overlay) -> dict[str, Mark]:
    return {mark.node: mark for mark in reversed(overlay.marks)}


def test_verify_paints_the_difference_at_each_node(frozen: Path) -> None:
    (overlay,) = view_model(frozen, verify=tampered(frozen), engine="reference").overlays
    marks = by_node(overlay)
    assert overlay.measure == "difference"
    assert marks["conv2d_1/bias"].kind == "parts"
    assert marks["conv2d_1/bias"].value == pytest.approx(0.5, rel=1e-4)
    assert overlay.marks[0].node == "conv2d_1/bias"  # the list begins where they part
    assert marks["conv2d/BiasAdd"].kind == "same"
    assert marks["conv2d/BiasAdd"].value == 0
    assert marks["conv2d_1/BiasAdd"].kind == "differs"
    assert marks["conv2d_1/BiasAdd"].value == pytest.approx(0.5, rel=1e-4)
    assert marks["conv2d_1/Conv2D"].kind == "same"
    assert "The models do not agree." in overlay.notes


def test_verify_of_equal_models_paints_no_difference(frozen: Path) -> None:
    (overlay,) = view_model(frozen, verify=frozen, engine="reference").overlays
    assert len(overlay.marks) > 10
    assert {mark.kind for mark in overlay.marks} == {"same"}
    assert overlay.notes[0] == "The models agree."


@pytest.mark.parametrize("engine", ["reference", "openvino", "auto"])
def test_profile_paints_the_time_of_each_node(frozen: Path, engine: str) -> None:
    (overlay,) = view_model(frozen, profile=True, engine=engine).overlays
    times = [mark.value for mark in overlay.marks]
    assert times == sorted(times, key=lambda value: -(value or 0))
    assert all(value is not None and value >= 0 for value in times)
    nodes = {mark.node for mark in overlay.marks}
    assert nodes <= {node.name for node in tfsmith.load(frozen).graph}
    assert "dense/BiasAdd" in nodes
    if engine == "openvino":  # it moves convolutions to another layout, and forgets what they were
        assert any("the engine gives to no node" in note for note in overlay.notes)
    else:
        assert {"conv2d/Conv2D", "conv2d_1/Conv2D"} <= nodes
    assert f" on {'openvino' if engine == 'openvino' else 'reference'} " in overlay.notes[0]


@pytest.mark.tensorflow
def test_an_engine_that_does_not_time_nodes_is_refused(frozen: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the engine tensorflow .* does not say what each node takes; name one"):
        view_model(frozen, profile=True, engine="tensorflow", out=tmp_path / "no.html")
    assert not list(tmp_path.iterdir())


def test_profile_of_a_model_with_functions_is_in_the_functions() -> None:
    (overlay,) = view_model(TF2_MODEL, profile=True, engine="reference").overlays
    library = tfsmith.load(TF2_MODEL).graph.library
    placed = [mark for mark in overlay.marks if mark.sheet]
    assert placed
    assert all(mark.node in library[mark.sheet].by_name for mark in placed)


def test_a_flat_name_is_found_in_the_function_that_it_came_from() -> None:
    model = tfsmith.load(TF2_MODEL)
    call = next(node for node in model.graph if node.op in ("StatefulPartitionedCall", "PartitionedCall"))
    function = call.attrs["f"].funcs[0].name
    inner = model.graph.library[function].nodes[0].name
    assert place_of(model, f"{call.name}/{inner}") == (function, inner)
    assert place_of(model, call.name) == ("", call.name)
    assert place_of(model, f"{call.name}/nothing") is None
    assert place_of(model, "nothing/at/all") is None


def test_an_engine_is_named_only_for_what_runs(frozen: Path) -> None:
    with pytest.raises(UsageError, match="engine"):
        view_model(frozen, engine="reference")
