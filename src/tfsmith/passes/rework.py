"""What `tfsmith convert` may change on the way: variables left out, renamed or made small, signatures, tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.cast import cast_tensor
from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import Collection, MetaGraph, ObjectGraph
from tfsmith.ir.model import Model, format_tags
from tfsmith.ir.part import Part
from tfsmith.ir.tensor import FilledTensor, Tensor
from tfsmith.ir.variable_names import OBJECT_GRAPH_KEY, training_names
from tfsmith.passes.cast_weights import cast_constants, cast_variables, is_wide
from tfsmith.passes.convert_options import Converted, ConvertOptions
from tfsmith.passes.edit_signatures import edit_signatures
from tfsmith.passes.interface import INIT_COLLECTIONS, INIT_SIGNATURE, init_nodes
from tfsmith.passes.prune import prune_library
from tfsmith.passes.rename import matching, new_names
from tfsmith.passes.resave import has_saver, new_saver, remove_saver, rename_in_saver, saved_variables
from tfsmith.passes.saver_ops import SavedVariable
from tfsmith.passes.slim import answers, slim
from tfsmith.passes.training import Note
from tfsmith.passes.variables import VARIABLE_OPS
from tfsmith.records import replace

__all__ = ["rework"]

_MARK = "/.ATTRIBUTES/"
_LEAST = 16
"""Constants with fewer elements stay as they are: an epsilon of 1e-12 is 0 as float16."""


def rework(model: Model, options: ConvertOptions) -> Converted:
    """Does all that the options ask for. Reads no value.

    Names and globs are those of the model as it is: what is left out is chosen first, then types, then new names.

    Raises:
        NotFoundInModelError: A name or glob fits nothing.
        UsageError: Something is asked for that cannot be.
        UnsupportedError: The graph uses a variable in a way that the change does not allow.
    """
    _check(model, options)
    names: dict[str, str | None] = {}
    cast: frozenset[str] = frozenset()
    notes: list[Note] = []
    if options.changes_variables:
        work = _Variables(model, options)
        model, cast, notes = work.model, work.cast, work.notes
        names |= dict.fromkeys(work.dropped)
    if options.rename:
        renamed = new_names(model.variables.keys(), options.rename)
        model = _renamed(model, renamed)
        names |= renamed
    if options.signatures:
        meta, told = edit_signatures(model, options.signatures)
        model = _with_meta(model, meta)
        notes += told
    if options.tags:
        info = replace(model.meta.info, tags=options.tags)
        model = _with_meta(model, replace(model.meta, info_part=Part.of(info), raw=None))
    return Converted(model, names, tuple(sorted(cast)), tuple(notes))


def _check(model: Model, options: ConvertOptions) -> None:
    graph_edits = bool(options.signatures) or bool(options.tags)
    if graph_edits and not model.has_graph:
        raise model.no_graph()
    if (options.drop or options.rename) and not model.variables:
        remedy = "pass its checkpoint (--checkpoint)" if model.has_graph else "pass a checkpoint"
        raise UsageError("there are no variables here to rename or drop", path=model.path, remedy=remedy)
    if (options.only or options.saturate) and options.dtype is None:
        raise UsageError("--only and --saturate go with --dtype", remedy="say which (--dtype float16)")
    if len(model.meta_graphs) > 1 and (graph_edits or options.changes_variables or options.rename):
        sets = " and ".join(format_tags(meta.tags) for meta in model.meta_graphs)
        what = f"the model has {len(model.meta_graphs)} meta graphs, so it is not clear which one to change"
        raise UsageError(what, path=model.path, remedy=f"choose one (--tag-set), and only it is written: {sets}")


def _with_meta(model: Model, meta: MetaGraph) -> Model:
    metas = (*model.meta_graphs[: model.selected], meta, *model.meta_graphs[model.selected + 1 :])
    return replace(model, meta_graphs=metas, raw=None)


def _renamed(model: Model, names: Mapping[str, str]) -> Model:
    """The model with other names in checkpoint and saver; a graph without a saver, which went by names, gets one."""
    if not names:
        return model
    _check_tracked(model, names)
    if model.has_graph:
        meta = model.meta if has_saver(model.meta) else _with_saver(model)
        model = _with_meta(model, rename_in_saver(meta, names))
    variables = {names.get(name, name): tensor for name, tensor in model.variables.items()}
    return replace(model, variables=variables, checkpoint=None)


def _check_tracked(model: Model, names: Mapping[str, str]) -> None:
    """TensorFlow 2 cuts its tensors' names at this mark, and fails where there is none."""
    for old, new in names.items() if OBJECT_GRAPH_KEY in model.variables else ():
        ending = old[old.find(_MARK) :]
        if _MARK in old and not new.endswith(ending):
            what = f"TensorFlow 2 would not find {old!r} under the name {new!r}"
            raise UsageError(what, path=model.path, remedy=f"let the new name end in {ending!r} too")


def _with_saver(model: Model) -> MetaGraph:
    variables = saved_variables(model)
    return new_saver(model.meta, remove_saver(model.graph, model.meta.saver), variables)


class _Variables:
    """Leaves out variables and changes their types; gives the graph a saver of what is there now."""

    def __init__(self, model: Model, options: ConvertOptions) -> None:
        self._options = options
        self.notes: list[Note] = []
        self.dropped: frozenset[str] = frozenset()
        self.cast: frozenset[str] = frozenset()
        self.model = self._without_graph(model) if not model.has_graph else self._with_graph(model)

    def _without_graph(self, model: Model) -> Model:
        names, options = model.variables, self._options
        dropped = training_names(names.keys()) if options.inference_only else frozenset()
        self.dropped = frozenset(dropped) | matching(names.keys(), options.drop)
        return self._stored(model)

    def _with_graph(self, model: Model) -> Model:
        options, graph = self._options, remove_saver(model.graph, model.meta.saver)
        variables, before = saved_variables(model), graph
        if options.inference_only:
            slimmed = slim(model, graph, variables)
            graph, self.dropped = slimmed.graph, slimmed.keys
        self.dropped |= matching(model.variables.keys(), options.drop)
        if options.dtype is None and not self.dropped and graph is before:
            return model  # there was nothing to leave out
        if options.dtype is not None:
            graph = self._cast_graph(model, graph, variables)
        if options.dtype is not None and model.meta.objects is not None:
            model, graph = _without_objects(model), prune_library(graph)
            what = "the Python objects of TensorFlow 2 are left out, because they say what types the variables were of"
            self.notes.append(Note(what, (), "its signatures stay, and tf.saved_model.load gives these"))
        left = [
            SavedVariable(graph[found.node.name], found.key, found.extents)
            for found in variables
            if found.key not in self.dropped and found.node.name in graph
        ]
        lost = {found.node.name for found in variables} - {found.node.name for found in left}
        self._tell_of_lost(model, graph, lost)
        return self._stored(_with_meta(model, new_saver(model.meta, graph, left, dropped=lost)))

    def _tell_of_lost(self, model: Model, graph: Graph, lost: set[str]) -> None:
        needed = graph.ancestors(name for name in answers(model) if name in graph) & lost
        if needed:
            what, remedy = "the answers need variables that were dropped", "give them values after the model is loaded"
            self.notes.append(Note(what, tuple(sorted(needed)), remedy))

    def _stored(self, model: Model) -> Model:
        """The model with the tensors that are left, some to be cast when they are written."""
        is_tracked = not model.has_graph or model.meta.objects is not None
        gone = self.dropped if is_tracked else self.dropped | {OBJECT_GRAPH_KEY}
        left = {name: tensor for name, tensor in model.variables.items() if name not in gone}
        dtype = self._options.dtype
        if dtype is not None:
            if not model.has_graph:
                self.cast = self._chosen(model, [name for name, tensor in left.items() if is_wide(tensor.dtype)])
            left = {name: self._small(name, tensor, dtype_named(dtype)) for name, tensor in left.items()}
        if left.keys() == model.variables.keys() and not self.cast:
            return model
        return replace(model, variables=left, checkpoint=None)

    def _small(self, name: str, tensor: Tensor, dtype: DType) -> Tensor:
        if name not in self.cast:
            return tensor
        return cast_tensor(tensor, dtype, f"tensor {name!r}", saturate=self._options.saturate)

    def _cast_graph(self, model: Model, graph: Graph, variables: Sequence[SavedVariable]) -> Graph:
        """The graph with casts behind what is made small: variables, or in a frozen graph constants."""
        dtype = dtype_named(str(self._options.dtype))
        wide = {name for name, tensor in model.variables.items() if is_wide(tensor.dtype) and name not in self.dropped}
        if not model.variables and any(node.op in VARIABLE_OPS for node in graph):
            raise self._nothing(model)
        constants = {} if wide and not self._options.only else _constants(graph)
        chosen = self._chosen(model, [*wide, *constants])
        nodes = [found.node.name for found in variables if found.key in chosen and found.node.name in graph]
        graph = cast_variables(graph, nodes, dtype) if nodes else graph
        small = [name for name in chosen if name in constants and (self._options.only or constants[name] >= _LEAST)]
        if small:
            graph = cast_constants(graph, small, dtype, saturate=self._options.saturate)
        self.cast = frozenset(chosen & wide) | frozenset(small)
        if not self.cast:
            raise self._nothing(model)
        return graph

    def _chosen(self, model: Model, names: Sequence[str]) -> frozenset[str]:
        if not names:
            raise self._nothing(model)
        return matching(names, self._options.only) if self._options.only else frozenset(names)

    def _nothing(self, model: Model) -> NotFoundInModelError:
        what = f"there is no weight of float32 or float64 to store as {self._options.dtype}"
        remedy = "if the graph's variables lie in a checkpoint, pass it (--checkpoint)"
        return NotFoundInModelError(what, path=model.path, remedy=remedy)


def _constants(graph: Graph) -> dict[str, int]:
    """The floating constants of graph and functions ("function/constant"), and how many values each stores."""
    bodies = [("", graph.nodes), *((f"{name}/", function.nodes) for name, function in graph.library.items())]
    found: dict[str, int] = {}
    for prefix, nodes in bodies:
        for node in nodes:
            found_attr = node.attrs.get("value") if node.op == "Const" else None
            if found_attr is None or found_attr.kind != "tensor" or not is_wide(found_attr.value.dtype):
                continue
            value = found_attr.value
            size = len(value.values) if isinstance(value, FilledTensor) else value.nbytes
            found[prefix + node.name] = size // value.dtype.itemsize
    return found


def _without_objects(model: Model) -> Model:
    """A model as TF1 would have saved it: what fills its tables is in a collection, not a signature."""
    meta = model.meta
    signatures = {key: found for key, found in meta.signatures.items() if key != INIT_SIGNATURE}
    collections = dict(meta.collections)
    init = init_nodes(meta)
    if init and not any(key in collections for key in INIT_COLLECTIONS):
        collections[INIT_COLLECTIONS[0]] = Collection("node", tuple(init))
    changed = replace(
        meta,
        objects_part=Part[ObjectGraph | None].of(None),
        signatures_part=Part.of(signatures),
        collections_part=Part.of(collections),
        raw=None,
    )
    return _with_meta(model, changed)
