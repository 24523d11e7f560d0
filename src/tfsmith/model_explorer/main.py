"""What Model Explorer loads: an adapter for all our formats, and what verify, scan and profile find as node data.

Model Explorer imports `main` of each extension that it is told of; so this file imports it in turn, and nobody else
imports this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from dacite import from_dict
from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs, graph_builder, node_data_builder
from model_explorer.config_editor import TextInputConfigEditor
from model_explorer.node_data_provider import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)

from tfsmith.errors import TfsmithError
from tfsmith.verbs.view import view_data, view_model
from tfsmith.view.explorer import explorer_graphs, explorer_node_data

__all__ = ["TfsmithAdapter", "TfsmithNodeData"]

ADAPTER = "tfsmith"
_ENDINGS = ["pb", "pbtxt", "meta", "index", "keras", "h5", "hdf5", "onnx", "zip", "gz", "graphdef"]
_OTHER = "other"
_VERIFY, _SCAN, _PROFILE = "tfsmith_verify", "tfsmith_scan", "tfsmith_profile"


class TfsmithAdapter(Adapter):  # type: ignore[misc]
    """Opens every model that tfsmith opens: by the file that its folder or checkpoint is named by."""

    metadata = AdapterMetadata(
        id=ADAPTER,
        name="tfsmith",
        description="TensorFlow models of all ages, with functions: SavedModel, .meta, checkpoints, GraphDef, Keras.",
        source_repo="https://pypi.org/project/tfsmith",
        fileExts=_ENDINGS,
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """The model's graph and its functions."""
        graphs = explorer_graphs(view_data(named_by(model_path)))
        return {"graphs": [from_dict(graph_builder.Graph, graph) for graph in graphs]}


class TfsmithNodeData(NodeDataProvider):  # type: ignore[misc]
    """What verify, scan and profile find, painted on the graph."""

    metadata: ClassVar = [
        NodeDataProviderMetadata(
            id=key,
            name=f"tfsmith {key.partition('_')[2]}",
            description=text,
            filter=NodeDataProviderFilter(adapterIds=[ADAPTER]),
        )
        for key, text in (
            (_VERIFY, "Runs this model and another, and shows how far apart they are at each node."),
            (_SCAN, "Shows what the model can do to the machine that runs it. Runs nothing."),
            (_PROFILE, "Runs the model, and shows what each node takes."),
        )
    ]

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        """For verify: which other model."""
        if provider_id != _VERIFY:
            return GetConfigEditorsResult(configEditors=[])
        text = "The path of the model to compare it with"
        editor = TextInputConfigEditor(id=_OTHER, label="Other model", description=text, required=True)
        return GetConfigEditorsResult(configEditors=[editor])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any
    ) -> NodeDataProviderResult:
        """The values of a graph's nodes."""
        options: dict[str, Any] = {_SCAN: {"scan": True}, _PROFILE: {"profile": True}}.get(provider_id, {})
        if provider_id == _VERIFY:
            options = {"verify": named_by(str(config_values.get(_OTHER, "")))}
        try:
            (overlay,) = view_model(named_by(model_path), **options).overlays
        except TfsmithError as error:
            return NodeDataProviderResult(error=str(error))
        found = explorer_node_data(overlay).get(graph_id, {"name": f"tfsmith {overlay.title}", "results": {}})
        results = {name: node_data_builder.NodeDataResult(**one) for name, one in found["results"].items()}
        return NodeDataProviderResult(result=node_data_builder.GraphNodeData(results=results, name=found["name"]))


def named_by(path: str) -> Path:
    """The model that a file belongs to: of a checkpoint Model Explorer is given one of its files."""
    found = Path(path).expanduser()
    return found.with_suffix("") if found.suffix == ".index" else found
