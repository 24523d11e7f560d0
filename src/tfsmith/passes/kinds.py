"""The same model as another kind of file: a graph alone, a `.meta`, a SavedModel, a checkpoint. No value is read."""

from __future__ import annotations

from tfsmith.errors import Note, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.model import Collection, Kind, MetaGraph, Model, format_tags
from tfsmith.ops import VARIABLES
from tfsmith.passes.export import AssetFile, add_main_op, find_assets
from tfsmith.passes.interface import INIT_COLLECTIONS, INIT_SIGNATURE
from tfsmith.passes.saver import has_saver, new_saver, remove_saver, saved_variables
from tfsmith.records import record, replace

__all__ = ["Repacked", "repack"]


@record
class Repacked:
    """The model as the other kind, the files that its tables are filled from, and what to beware of."""

    model: Model
    assets: tuple[AssetFile, ...] = ()
    notes: tuple[Note, ...] = ()


def repack(model: Model, kind: Kind) -> Repacked:
    """Makes a model of another kind; one that is of that kind already stays as it is.

    What its new kind needs is added: a saver for the variables, tags, a node that fills the tables. What it cannot
    hold is left out and told of.

    Raises:
        NotFoundInModelError: A graph is needed, and there is none.
        UsageError: There are no variables for a checkpoint, or several meta graphs where one is meant.
    """
    if kind == "checkpoint":
        return Repacked(_checkpoint(model))
    if kind == "saved_model" and model.kind == "saved_model":
        return Repacked(model)
    if len(model.meta_graphs) > 1:
        sets = " and ".join(format_tags(meta.tags) for meta in model.meta_graphs)
        what = f"the model has {len(model.meta_graphs)} meta graphs, and only one can be written"
        raise UsageError(what, path=model.path, remedy=f"choose one ({{tags}}): {sets}")
    if kind == "graphdef":
        return _graph_alone(model)
    meta = model.meta if not model.variables or has_saver(model.meta) else _with_saver(model)
    if kind == "saved_model":
        return _saved_model(model, meta)
    beside = tuple(asset.filename for asset in meta.assets)
    remedy = "they stay where they are; the graph reads them by the paths that it was made with"
    notes = (Note("a .meta has no assets", beside, remedy),) if beside else ()
    is_same = model.kind == "metagraph" and meta is model.meta
    return Repacked(model if is_same else _wrapped(model, kind, meta), notes=notes)


def _checkpoint(model: Model) -> Model:
    if not model.variables:
        remedy = "{thaw(model)} makes variables of its constants" if model.has_graph else "pass another"
        raise UsageError("the model has no variables, so it cannot become a checkpoint", path=model.path, remedy=remedy)
    return replace(model, kind="checkpoint", meta_graphs=(), selected=0, side_files=(), raw=None, extras=())


def _wrapped(model: Model, kind: Kind, meta: MetaGraph) -> Model:
    return replace(model, kind=kind, meta_graphs=(meta,), selected=0, side_files=(), raw=None, extras=())


def _graph_alone(model: Model) -> Repacked:
    notes: list[Note] = []
    signatures = tuple(key for key in model.signatures if key != INIT_SIGNATURE)
    if signatures:
        notes.append(Note("a graph alone has no signatures", signatures, "a SavedModel or a .meta keeps them"))
    if model.kind == "graphdef":
        return Repacked(model, notes=tuple(notes))
    variables = tuple(node.name for node in model.graph if node.op in VARIABLES)
    if variables:
        what = "the graph alone is written, without the values of its variables"
        remedy = "{freeze(model)} makes constants of them; a .meta or a SavedModel keeps them in a checkpoint"
        notes.append(Note(what, variables, remedy))
    alone = Model("graphdef", (MetaGraph(model.meta.graph_part),), path=model.path, origins=model.origins)
    return Repacked(alone, notes=tuple(notes))


def _with_saver(model: Model) -> MetaGraph:
    graph, variables = remove_saver(model.graph, model.meta.saver), saved_variables(model)
    return new_saver(model.meta, graph, variables)


def _saved_model(model: Model, meta: MetaGraph) -> Repacked:
    graph, main_op = add_main_op(meta, meta.graph)
    if graph is not meta.graph:
        meta = meta.replace_graph(graph)
    if main_op is not None and not _is_named(meta, main_op):
        collections = {**meta.collections, INIT_COLLECTIONS[0]: Collection("node", (main_op,))}
        meta = replace(meta, collections_part=Part.of(collections), raw=None)
    if not meta.tags:
        meta = replace(meta, info_part=Part.of(replace(meta.info, tags=("serve",))), raw=None)
    assets = find_assets(meta, graph)
    if assets:
        meta = replace(meta, assets_part=Part.of(tuple(asset.definition() for asset in assets)), raw=None)
    is_mute = not any(key != INIT_SIGNATURE for key in meta.signatures)
    remedy = "{convert(model, add_signatures='...')} adds one"
    notes = (Note("the SavedModel has no signature", (), remedy),) if is_mute else ()
    wrapped = replace(_wrapped(model, "saved_model", meta), side_files=model.side_files)  # such as a frozen one has
    return Repacked(wrapped, tuple(assets), notes)


def _is_named(meta: MetaGraph, main_op: str) -> bool:
    """Whether the meta graph says itself that this node is to be run when it is loaded."""
    named = [found.values for key in INIT_COLLECTIONS if (found := meta.collections.get(key)) is not None]
    return INIT_SIGNATURE in meta.signatures or any(main_op in values for values in named)
