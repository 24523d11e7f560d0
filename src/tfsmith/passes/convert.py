"""What `tfsmith convert` may change on the way: variables left out, renamed or made small, signatures, tags."""

from __future__ import annotations

import re
from collections.abc import Collection as AnyCollection
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import Note, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import (
    OBJECT_GRAPH_KEY,
    PREDICT,
    Collection,
    MetaGraph,
    Model,
    ObjectGraph,
    Signature,
    format_tags,
    training_names,
)
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.tensor import FilledTensor, Tensor
from tfsmith.ir.tensor_views import cast_tensor
from tfsmith.ir.types import DType, dtype_named
from tfsmith.ops import VARIABLES
from tfsmith.passes.cast_weights import cast_constants, cast_variables, is_wide
from tfsmith.passes.interface import (
    INIT_COLLECTIONS,
    INIT_SIGNATURE,
    Interface,
    collected,
    guess_outputs,
    init_nodes,
    make_signatures,
    tensor_names,
)
from tfsmith.passes.prune import clean_colocation, prune_library
from tfsmith.passes.saver import SavedVariable, has_saver, new_saver, remove_saver, rename_in_saver, saved_variables
from tfsmith.passes.variables import EMA_SUFFIX
from tfsmith.records import field, record, replace

__all__ = [
    "ConvertOptions",
    "ReworkedModel",
    "SignatureEdits",
    "PATTERN",
    "matching",
    "new_names",
    "Slimmed",
    "answers",
    "slim",
    "edit_signatures",
    "rework",
]


@record
class SignatureEdits:
    """What to do to the signatures: first remove, then rename, then add."""

    add: Interface = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    method_name: str = PREDICT

    def __bool__(self) -> bool:
        return bool(self.add or self.rename or self.remove)


@record
class ConvertOptions:
    """What converting may change.

    Attributes:
        inference_only: Whether to leave out what only training needs.
        drop: Globs of tensors of the checkpoint to leave out.
        rename: Old and new names of tensors of the checkpoint; `re:PATTERN` and a replacement.
        dtype: The type to store weights as: "float16" or "bfloat16".
        only: Globs of the weights to change the type of; all by default.
        saturate: Whether values that are too large for the type are clipped; else they are an error.
        signatures: What to do to the signatures.
        tags: The new tag set.
    """

    inference_only: bool = False
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    dtype: str | None = None
    only: tuple[str, ...] = ()
    saturate: bool = False
    signatures: SignatureEdits = field(default_factory=SignatureEdits)
    tags: tuple[str, ...] = ()

    @property
    def changes_variables(self) -> bool:
        """Whether the saver must be made anew."""
        return self.inference_only or bool(self.drop) or self.dtype is not None


@record
class ReworkedModel:
    """What came out.

    Attributes:
        model: The model.
        names: For each tensor of the checkpoint that has another name now, that name; None for those left out.
        cast: The weights that have another type now.
        notes: What the user should know.
    """

    model: Model
    names: Mapping[str, str | None]
    cast: tuple[str, ...]
    notes: tuple[Note, ...]


PATTERN = "re:"
"""A rule whose old name begins with this is a regular expression."""


def new_names(names: AnyCollection[str], rules: Sequence[tuple[str, str]]) -> dict[str, str]:
    """What the tensors are called by these rules; those that keep their names are left out.

    Args:
        names: The names that there are.
        rules: Old and new name; or `re:` and a regular expression, and what takes the place of all that it finds. For
            each name the first rule that fits counts.

    Raises:
        NotFoundInModelError: A rule fits no name; the remedy has the nearest.
        UsageError: Two tensors would have one name, or a regular expression is none.
    """
    exact = {old: new for old, new in reversed(rules) if not old.startswith(PATTERN)}
    patterns = [(_compiled(old), new, old) for old, new in rules if old.startswith(PATTERN)]
    used: set[str] = set()
    found: dict[str, str] = {}
    for name in names:
        if name == OBJECT_GRAPH_KEY:
            continue
        if name in exact:
            used.add(name)
            found[name] = exact[name]
            continue
        for pattern, new, rule in patterns:
            if pattern.search(name):
                used.add(rule)
                found[name] = _replaced(pattern, new, name)
                break
    for old, _ in rules:
        if old not in used:
            raise _nothing(old, names, f"the rule {old!r} fits no tensor" if old.startswith(PATTERN) else None)
    _check_distinct(names, found)
    return {old: new for old, new in found.items() if old != new}


def _compiled(rule: str) -> re.Pattern[str]:
    text = rule[len(PATTERN) :]
    try:
        return re.compile(text)
    except re.error as error:
        what = f"{text!r} is no regular expression ({error})"
        raise UsageError(what, remedy="write re:PATTERN=REPLACEMENT in Python's syntax") from error


def _replaced(pattern: re.Pattern[str], new: str, name: str) -> str:
    try:
        return pattern.sub(new, name)
    except (re.error, IndexError) as error:
        what = f"{new!r} cannot take the place of what {pattern.pattern!r} finds ({error})"
        raise UsageError(what, remedy="use groups that the pattern has, as \\1 or \\g<name>") from error


def _check_distinct(names: Iterable[str], found: dict[str, str]) -> None:
    taken: dict[str, str] = {}
    for old in names:
        new = found.get(old, old)
        if not new:
            raise UsageError(f"tensor {old!r} would have no name", remedy="give it one")
        if new in taken:
            what = f"two tensors would be called {new!r}: {taken[new]!r} and {old!r}"
            raise UsageError(what, remedy="rename or drop one of them, or write a narrower pattern")
        taken[new] = old


def matching(names: AnyCollection[str], globs: Sequence[str]) -> frozenset[str]:
    """The names that fit any of these globs.

    Raises:
        NotFoundInModelError: A glob fits none; the remedy has the nearest.
    """
    found: set[str] = set()
    for glob in globs:
        fitting = {name for name in names if fnmatchcase(name, glob)} - {OBJECT_GRAPH_KEY}
        if not fitting:
            raise _nothing(glob, names)
        found |= fitting
    return frozenset(found)


def _nothing(wanted: str, names: Iterable[str], what: str | None = None) -> NotFoundInModelError:
    near = nearest(wanted.strip("*?").removeprefix(PATTERN), names)
    remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, variables=True)} lists them"
    return NotFoundInModelError(what or f"there is no tensor {wanted!r}", remedy=remedy)


_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")


@record
class Slimmed:
    """The graph without training, and the tensors of the checkpoint that it does not need any more."""

    graph: Graph
    keys: frozenset[str]


def slim(model: Model, graph: Graph, variables: Sequence[SavedVariable]) -> Slimmed:
    """Drops the variables that nothing but training uses, what takes them, and the nodes that update variables.

    Where signatures (or the collection `outputs`) say what the model answers, these are all variables that the answers
    do not need. Else they are told by their names, and spared if a likely output needs them.

    Args:
        model: The model.
        graph: Its graph, without the saver, which uses all variables.
        variables: The variables that have values.
    """
    outputs = answers(model)
    names = training_names(model.variables.keys())
    likely = outputs or [parse_input(candidate.tensor).node for candidate in guess_outputs(graph)]
    needed = graph.ancestors(name for name in (*likely, *init_nodes(model.meta)) if name in graph)
    unneeded = [variable for variable in variables if variable.node.name not in needed]
    gone = unneeded if outputs else [variable for variable in unneeded if variable.key in names]
    updates = [node.name for node in graph if _UPDATE.match(node.op) and node.name not in needed]
    slimmed = _without(graph, [*(variable.node.name for variable in gone), *updates])
    left = {variable.key for variable in variables if variable not in gone}
    averages = {key + EMA_SUFFIX for key in left}  # these are what a model is best used with
    dropped = ({variable.key for variable in gone} | names) - left - averages
    return Slimmed(slimmed, frozenset(dropped))


def answers(model: Model) -> list[str]:
    """The nodes that give the model's answers, as its signatures or its collection `outputs` say; else none."""
    named = [signature for key, signature in model.signatures.items() if key != INIT_SIGNATURE]
    infos = [info for signature in named for info in signature.outputs.values()]
    names = [name for info in infos for name in tensor_names(info)]
    names = names or [candidate.tensor for candidate in collected(model, "outputs")]
    return [parse_input(name).node for name in names]


def _without(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph without these nodes and all that takes a tensor from them, and without gradients that led there."""
    gone = {name for name in names if name in graph}
    if not gone:
        return graph
    gone = graph.descendants(gone, control=False)
    gradients = {node.name for node in graph if _GRADIENTS.search(node.name)} - gone
    others = [node for node in graph if node.name not in gone and node.name not in gradients]
    sources = {graph.resolve(text).node for node in others for text in node.inputs} - gone
    gone |= gradients - graph.ancestors(sources)
    nodes = tuple(_without_controls(node, gone) for node in graph if node.name not in gone)
    return clean_colocation(graph.replace(nodes=nodes))


def _without_controls(node: Node, gone: AnyCollection[str]) -> Node:
    kept = tuple(text for text in node.inputs if not (text.startswith("^") and text[1:] in gone))
    return node if len(kept) == len(node.inputs) else node.replace(inputs=kept)


def edit_signatures(model: Model, edits: SignatureEdits) -> tuple[MetaGraph, list[Note]]:
    """The selected meta graph with other signatures.

    Raises:
        NotFoundInModelError: A signature or a tensor is not there; the remedy has the nearest names.
        UsageError: Two signatures would have one name.
    """
    there = {key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE}
    for key in (*edits.remove, *edits.rename):
        if key not in there:
            near = nearest(key, there) or sorted(there)
            remedy = f"the signatures are: {', '.join(near)}" if near else "it has none; add one ({add_signatures})"
            raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
    names: dict[str, str | None] = {**edits.rename, **dict.fromkeys(edits.remove)}
    signatures = _renamed(model, names)
    added = make_signatures(model, model.graph, edits.add, edits.method_name) if edits.add else {}
    taken = next((key for key in added if key in signatures), None)
    if taken is not None:
        remedy = f"remove or rename it first ({{remove_signatures='{taken}'}})"
        raise UsageError(f"there is a signature {taken!r} already", path=model.path, remedy=remedy)
    meta = replace(model.meta, signatures_part=Part.of({**signatures, **added}), raw=None)
    objects = meta.objects
    if objects is None:
        return meta, []
    changed = _rename_objects(objects, names)
    if changed is not None:
        meta = replace(meta, objects_part=Part[ObjectGraph | None].of(changed))
    return meta, [_unseen(added)] if added else []


def _unseen(added: AnyCollection[str]) -> Note:
    what = (
        "tf.saved_model.load does not see a new signature of a TensorFlow 2 model, though Serving and TF1's loader do"
    )
    return Note(what, tuple(added), "it takes them from the Python objects")


def _renamed(model: Model, names: Mapping[str, str | None]) -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for key, signature in model.signatures.items():
        new = names.get(key, key)
        if new is None:
            continue
        if new in found or not new:
            what = f"two signatures would be called {new!r}" if new else "a signature must have a name"
            raise UsageError(what, path=model.path, remedy="choose another name ({rename_signatures})")
        found[new] = signature
    return found


def _rename_objects(objects: ObjectGraph, names: Mapping[str, str | None]) -> ObjectGraph | None:
    """The object graph with the same done to its signatures; None if it has none of them."""
    number = objects.nodes[0].children.get("signatures") if objects.nodes else None
    if number is None or not 0 <= number < len(objects.nodes):
        return None
    known = {key: new for key, new in names.items() if key in objects.nodes[number].children}
    return objects.rename_children(number, known) if known else None


_MARK = "/.ATTRIBUTES/"
_LEAST = 16
"""Constants with fewer elements stay as they are: an epsilon of 1e-12 is 0 as float16."""


def rework(model: Model, options: ConvertOptions) -> ReworkedModel:
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
        model = _with_new_names(model, renamed)
        names |= renamed
    if options.signatures:
        meta, told = edit_signatures(model, options.signatures)
        model = _with_meta(model, meta)
        notes += told
    if options.tags:
        info = replace(model.meta.info, tags=options.tags)
        model = _with_meta(model, replace(model.meta, info_part=Part.of(info), raw=None))
    return ReworkedModel(model, names, tuple(sorted(cast)), tuple(notes))


def _check(model: Model, options: ConvertOptions) -> None:
    graph_edits = bool(options.signatures) or bool(options.tags)
    if graph_edits and not model.has_graph:
        raise model.no_graph()
    if (options.drop or options.rename) and not model.variables:
        remedy = "pass its checkpoint ({checkpoint})" if model.has_graph else "pass a checkpoint"
        raise UsageError("there are no variables here to rename or drop", path=model.path, remedy=remedy)
    if (options.only or options.saturate) and options.dtype is None:
        raise UsageError("{only} and {saturate=True} go with {dtype}", remedy="say which ({dtype='float16'})")
    if len(model.meta_graphs) > 1 and (graph_edits or options.changes_variables or options.rename):
        sets = " and ".join(format_tags(meta.tags) for meta in model.meta_graphs)
        what = f"the model has {len(model.meta_graphs)} meta graphs, so it is not clear which one to change"
        raise UsageError(what, path=model.path, remedy=f"choose one ({{tags}}), and only it is written: {sets}")


def _with_meta(model: Model, meta: MetaGraph) -> Model:
    metas = (*model.meta_graphs[: model.selected], meta, *model.meta_graphs[model.selected + 1 :])
    return replace(model, meta_graphs=metas, raw=None)


def _with_new_names(model: Model, names: Mapping[str, str]) -> Model:
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
        if not model.variables and any(node.op in VARIABLES for node in graph):
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
        remedy = "if the graph's variables lie in a checkpoint, pass it ({checkpoint})"
        return NotFoundInModelError(what, path=model.path, remedy=remedy)


def _constants(graph: Graph) -> dict[str, int]:
    """The floating constants of graph and functions ("function/constant"), and how many values each stores."""
    bodies = [("", graph.nodes), *((f"{name}/", function.nodes) for name, function in graph.library.items())]
    found: dict[str, int] = {}
    for prefix, nodes in bodies:
        for node in nodes:
            value = node.constant
            if value is None or not is_wide(value.dtype):
                continue
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
