"""Models and marks inside Model Explorer: as its JSON has them, and with the real package where it is installed.

`pip install -e '.[model-explorer]' pytest`, then `pytest tests/view/test_model_explorer.py`, runs all of it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.view_models import write_cut_off

import tfsmith
from tfsmith.errors import UsageError
from tfsmith.testing.models import conv_net
from tfsmith.testing.write import write_checkpoint_files, write_frozen
from tfsmith.verbs.view import view_data, view_model
from tfsmith.view.explorer import explorer_graphs, explorer_node_data

ROOT = Path(__file__).parents[2]
TF2_MODEL = ROOT / "tests" / "docs" / "files" / "tf2_model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explorer")
    write_frozen(conv_net(), made / "conv.pb")
    write_checkpoint_files(conv_net(), made, step=1)
    for part in ("index", "data-00000-of-00001"):  # the weights without their graph
        shutil.copyfile(made / f"model.ckpt-1.{part}", made / f"weights.ckpt.{part}")
    return made


def by_id(graphs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    return {graph["id"]: {node["id"]: node for node in graph["nodes"]} for graph in graphs}


def test_a_graph_has_scopes_edges_attributes_and_shapes(folder: Path) -> None:
    nodes = by_id(explorer_graphs(view_data(folder / "conv.pb")))["graph"]
    node = nodes["conv2d/Conv2D"]
    assert (node["label"], node["namespace"]) == ("Conv2D", "conv2d")
    assert node["incomingEdges"][0]["sourceNodeId"] == "images"
    assert {"key": "padding", "value": "SAME"} in node["attrs"]
    assert node["outputsMetadata"][0]["attrs"][0]["value"].startswith("float32[?,")
    assert len(nodes) == len(tfsmith.load(folder / "conv.pb").graph)


def test_functions_are_graphs_that_their_calls_lead_to() -> None:
    graphs = by_id(explorer_graphs(view_data(TF2_MODEL)))
    library = tfsmith.load(TF2_MODEL).graph.library
    assert set(graphs) == {"graph", *library}
    calls = [name for node in graphs["graph"].values() for name in node["subgraphIds"]]
    assert calls
    assert set(calls) <= set(library)


def test_checkpoints_and_cut_off_graphs(folder: Path, tmp_path: Path) -> None:
    (graph,) = explorer_graphs(view_data(folder / "weights.ckpt"))
    assert graph["id"] == "variables"
    names = {node["id"] for node in graph["nodes"]}
    assert "dense/kernel" in names
    nodes = by_id(explorer_graphs(view_data(write_cut_off(tmp_path / "cut.pb"))))["graph"]
    assert nodes["gone"]["label"] == "(not in the file)"
    assert [edge["sourceNodeId"] for edge in nodes["net/y"]["incomingEdges"]] == ["x", "gone", "lost"]


def test_what_is_painted_is_node_data(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "times.json"
    view_model(folder / "conv.pb", profile=True, engine="reference", out=out)
    (graph,) = json.loads(out.read_text()).values()
    assert graph["name"] == "tfsmith profile (ms)"
    assert graph["results"]["conv2d/Conv2D"]["value"] > 0
    verify = view_model(folder / "conv.pb", verify=folder / "conv.pb", engine="reference").overlays[0]
    assert explorer_node_data(verify)["graph"]["results"]["dense/BiasAdd"]["value"] == 0
    with pytest.raises(UsageError, match="node data"):
        view_model(folder / "conv.pb", out=tmp_path / "more.json")
    with pytest.raises(UsageError, match="node data"):
        view_model(folder / "conv.pb", out=tmp_path / "more.json", scan=True, profile=True)


def run(command: dict[str, Any]) -> Any:
    """What Model Explorer's own extension manager answers."""
    from model_explorer.extension_manager import ExtensionManager

    manager = ExtensionManager(["tfsmith.model_explorer"])
    manager.load_extensions()
    return manager.run_cmd(command)


def test_model_explorer_loads_the_adapter_and_opens_all_formats(folder: Path) -> None:
    pytest.importorskip("model_explorer", reason="Model Explorer is not installed (extra `model-explorer`)")
    files = {
        "conv.pb": "graph",
        "model.ckpt-1.meta": "graph",
        "model.ckpt-1.index": "graph",
        "weights.ckpt.index": "variables",
    }
    for name, graph_id in files.items():
        command = {"cmdId": "convert", "extensionId": "tfsmith", "modelPath": str(folder / name), "settings": {}}
        answer = run({**command, "deleteAfterConversion": False})
        assert answer["graphs"][0]["id"] == graph_id, answer
        assert len(answer["graphs"][0]["nodes"]) > 5
    path = str(TF2_MODEL / "saved_model.pb")
    answer = run({"cmdId": "convert", "extensionId": "tfsmith", "modelPath": path, "settings": {}})
    assert len(answer["graphs"]) == 1 + len(tfsmith.load(TF2_MODEL).graph.library)


@pytest.mark.parametrize("kind", ["verify", "scan", "profile"])
def test_model_explorer_gets_results_as_node_data(folder: Path, kind: str) -> None:
    pytest.importorskip("model_explorer", reason="Model Explorer is not installed (extra `model-explorer`)")
    command = {"extensionId": f"tfsmith_{kind}", "modelPath": str(folder / "conv.pb"), "graphId": "graph"}
    editors = run({**command, "cmdId": "get_config_editors"})["configEditors"]
    values = {editor["id"]: str(folder / "conv.pb") for editor in editors}
    assert bool(values) == (kind == "verify")
    answer = run({**command, "cmdId": "run", "configValues": values})
    assert answer["error"] == ""
    results = answer["result"]["results"]
    if kind == "verify":
        assert results["dense/BiasAdd"]["value"] == 0
    elif kind == "profile":
        assert results["dense/BiasAdd"]["value"] > 0
    wrong = run({**command, "cmdId": "run", "configValues": {}, "modelPath": "nowhere.pb"})
    assert "nowhere.pb" in wrong["error"]
