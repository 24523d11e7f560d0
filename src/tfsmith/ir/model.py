"""`Model`: what was opened, whatever its format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.records import FrozenDict, Immutable, field, record, replace
from tfsmith.storage import Span

if TYPE_CHECKING:
    from tfsmith.ir.editor import Editor
    from tfsmith.ir.keras import KerasFile

__all__ = [
    "Asset",
    "Checkpoint",
    "Collection",
    "KERAS_REMEDY",
    "KERAS_WHAT",
    "Kind",
    "MetaGraph",
    "MetaInfo",
    "Model",
    "ObjectGraph",
    "ObjectNode",
    "PREDICT",
    "SERVING_DEFAULT",
    "Saver",
    "SideFile",
    "Signature",
    "TensorInfo",
    "html_table",
    "OBJECT_GRAPH_KEY",
    "is_optimizer_slot",
    "training_names",
]


PREDICT = "tensorflow/serving/predict"
SERVING_DEFAULT = "serving_default"


@record
class TensorInfo(Immutable):
    """A tensor of the graph as a signature names it.

    Attributes:
        name: The tensor, such as "x:0"; "" for sparse and composite ones, whose `components` have names.
        dtype: Its type.
        shape: Its shape.
        encoding: "dense", "sparse" (values, indices, dense shape) or "composite" (any other).
        components: The tensors that make up a sparse or composite one, by role.
        type_spec: What kind of composite it is, as TensorFlow wrote it.
    """

    name: str
    dtype: DType
    shape: Shape
    encoding: Literal["dense", "sparse", "composite"] = "dense"
    components: Mapping[str, TensorInfo] = field(default_factory=dict)
    type_spec: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", FrozenDict(self.components))

    def __repr__(self) -> str:
        return f"<TensorInfo {self.name or self.encoding!r} {self.dtype} {self.shape}>"


@record
class Signature(Immutable):
    """What one entry point takes and gives, by key, in the order of the file."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    method_name: str = PREDICT
    defaults: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs", "defaults"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))

    def __repr__(self) -> str:
        sides = (
            [f"{key}: {one.dtype} {one.shape}" for key, one in infos.items()] for infos in (self.inputs, self.outputs)
        )
        return f"<Signature {' -> '.join(', '.join(side) or 'nothing' for side in sides)}>"


@record
class MetaInfo:
    """Who wrote a meta graph, for what, and the definitions of the ops that it uses.

    `base` has the bytes that it was edited from: what is in them and not here stays.
    """

    tags: tuple[str, ...] = ()
    tensorflow_version: str = ""
    tensorflow_git_version: str = ""
    meta_graph_version: str = ""
    stripped_default_attrs: bool = False
    ops: Mapping[str, OpDef] = field(default_factory=dict)
    function_aliases: Mapping[str, str] = field(default_factory=dict)
    base: Span | None = field(default=None, compare=False, repr=False)


@record
class Saver:
    """The nodes of the graph that save and restore its variables."""

    filename_tensor_name: str = ""
    save_tensor_name: str = ""
    restore_op_name: str = ""
    max_to_keep: int = 0
    sharded: bool = False
    keep_checkpoint_every_n_hours: float = 0.0
    version: int = 2
    """The checkpoint format: 0 or 1 is V1, 2 is V2."""


@record
class Collection:
    """A named list that the graph's maker left in it.

    Attributes:
        kind: "node" (names), "bytes" (serialized messages), "int64", "float", "any" or "none".
        values: `str`, `bytes`, `int`, `float`; for "any" the pairs (type_url, bytes). Messages made in memory are plain
            data in place of `bytes`, and encoded when they are written.
        decode: Gives `messages` on demand.
    """

    kind: Literal["node", "bytes", "int64", "float", "any", "none"]
    values: tuple[Any, ...]
    decode: Callable[[], tuple[Mapping[str, Any], ...]] | None = None

    @staticmethod
    def of_messages(messages: Sequence[Mapping[str, Any]]) -> Collection:
        """A collection of messages made in memory, as plain data; the collection's key says of which type they are."""
        found = tuple(messages)
        return Collection("bytes", found, partial(_same, found))

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The serialized messages as plain data (VariableDef, WhileContextDef, ...), where their type is known."""
        return () if self.decode is None else self.decode()


def _same(messages: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    return messages


@record
class Asset:
    """A file of `assets/` and the tensor that gives its path."""

    tensor_name: str
    filename: str


@record
class ObjectNode:
    """One object that TensorFlow 2 saved.

    Attributes:
        kind: "user_object", "variable", "function", "bare_concrete_function", "asset", "constant", "resource",
            "captured_tensor", or "" if the file does not say.
        children: Its attributes, by name: the numbers of other objects.
        details: What its kind says of it, as plain data.
    """

    kind: str
    children: Mapping[str, int]
    details: Mapping[str, Any]


@record
class ObjectGraph:
    """The objects that TensorFlow 2 saved (number 0 is the root), and its concrete functions, as plain data.

    Attributes:
        base: The bytes that it was read from.
        edits: What children are called since then, by the number of their parent; None for those that are gone.
    """

    nodes: tuple[ObjectNode, ...]
    concrete_functions: Mapping[str, Mapping[str, Any]]
    base: Span | None = None
    edits: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)

    def rename_children(self, number: int, names: Mapping[str, str | None]) -> ObjectGraph:
        """Another one in which children of an object have other names, or (None) are no longer its children."""
        old = self.nodes[number]
        kept = {name: names.get(name, name) for name in old.children}
        children = {new: old.children[name] for name, new in kept.items() if new is not None}
        nodes = (*self.nodes[:number], replace(old, children=children), *self.nodes[number + 1 :])
        before = self.edits.get(number, {})
        edits = {name: None if new is None else names.get(new, new) for name, new in before.items()}
        edits |= {name: new for name, new in names.items() if name not in before.values()}
        return replace(self, nodes=nodes, edits={**self.edits, number: edits})


@record(eq=False)
class MetaGraph(Immutable):
    """A graph with all that belongs to it. Every part is decoded on first use and written back verbatim otherwise."""

    graph_part: Part[Graph]
    info_part: Part[MetaInfo] = field(default_factory=lambda: Part.of(MetaInfo()))
    saver_part: Part[Saver | None] = field(default_factory=lambda: Part.of(None))
    collections_part: Part[Mapping[str, Collection]] = field(default_factory=lambda: Part.of({}))
    signatures_part: Part[Mapping[str, Signature]] = field(default_factory=lambda: Part.of({}))
    assets_part: Part[tuple[Asset, ...]] = field(default_factory=lambda: Part.of(()))
    objects_part: Part[ObjectGraph | None] = field(default_factory=lambda: Part.of(None))
    raw: Span | None = None
    extras: tuple[Span, ...] = ()

    def __repr__(self) -> str:
        return f"<MetaGraph {', '.join(self.tags) or 'without tags'}: {self.graph!r}>"

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.graph_part.value

    @property
    def info(self) -> MetaInfo:
        """Who wrote it, for what."""
        return self.info_part.value

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag set, in the file's order."""
        return self.info.tags

    @property
    def saver(self) -> Saver | None:
        """The nodes that save and restore, if there are any."""
        return self.saver_part.value

    @property
    def collections(self) -> Mapping[str, Collection]:
        """The collections by key, sorted."""
        return FrozenDict(self.collections_part.value)

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by key, sorted."""
        return FrozenDict(self.signatures_part.value)

    @property
    def assets(self) -> tuple[Asset, ...]:
        """The asset files that the graph reads."""
        return self.assets_part.value

    @property
    def objects(self) -> ObjectGraph | None:
        """What TensorFlow 2 saved of the Python objects, if it did."""
        return self.objects_part.value

    def replace_graph(self, graph: Graph) -> MetaGraph:
        """Another meta graph around another graph; all other parts stay as they are, byte for byte."""
        return replace(self, graph_part=Part.of(graph), raw=None)


Kind = Literal["graphdef", "metagraph", "saved_model", "checkpoint"]
KERAS_WHAT = "a Keras file holds layers and weights, but no graph"
KERAS_REMEDY = "export a SavedModel with Keras (model.export), and pass that; or take the weights, {weights(model)}"
_NO_VARIABLES: FrozenDict[str, Tensor] = FrozenDict()


@record
class Checkpoint:
    """Where a model's variables lie.

    Attributes:
        prefix: What to pass to TensorFlow.
        version: 1 or 2.
        files: All files of the set that are there, for copying them whole.
        step: The number at the end of the prefix, if it has one.
        missing: Files that belong to the set and are not there. It can be looked at without them, but not copied.
    """

    prefix: Path
    version: int
    files: tuple[Path, ...]
    step: int | None = None
    missing: tuple[Path, ...] = ()


@record
class SideFile:
    """A file of a SavedModel folder beside graph and variables: an asset, a fingerprint, Keras metadata."""

    name: str
    """Its path inside the folder, with forward slashes."""
    path: Path
    """Where it lies now; it is opened only to be copied."""
    leads_out: bool = False
    """Whether it is a link out of the model's folder, or to a folder: it is named, but neither followed nor copied."""


@record(eq=False, repr=False)
class Model(Immutable):
    """A model: one or several meta graphs, and variables. It never changes; passes make new ones.

    Attributes:
        kind: What kind of file it was, or is to be.
        meta_graphs: Usually one; several in a SavedModel with several tag sets; none for a checkpoint alone.
        variables: A read-only mapping from the names in the checkpoint to tensors that are read when asked for.
        selected: The number of the meta graph that `graph`, `signatures` and the others speak of.
        path: Where it was opened.
        checkpoint: Where the variables lie, if they lie in a checkpoint.
        side_files: Other files of a SavedModel folder.
        raw: The bytes of the main file (`saved_model.pb`, `.meta`, `.pb`), while nobody has edited it.
        extras: Other fields of the main file, tags included.
        origins: The files of checkpoints that it was made from. Saving replaces none of them, whatever became of it.
        keras: What a Keras file says besides its weights; None for all others.
    """

    kind: Kind
    meta_graphs: tuple[MetaGraph, ...] = ()
    variables: Mapping[str, Tensor] = field(default_factory=lambda: _NO_VARIABLES)
    selected: int = 0
    path: Path | None = None
    checkpoint: Checkpoint | None = None
    side_files: tuple[SideFile, ...] = ()
    raw: Span | None = None
    extras: tuple[Span, ...] = ()
    origins: tuple[Path, ...] = ()
    keras: KerasFile | None = None

    def __post_init__(self) -> None:
        if type(self.variables) is dict:
            object.__setattr__(self, "variables", FrozenDict(self.variables))

    def __repr__(self) -> str:
        place = "" if self.path is None else f" {str(self.path)!r}"
        return f"<Model {self.kind}{place}, {len(self.meta_graphs)} meta graphs, {len(self.variables)} variables>"

    def _repr_html_(self) -> str:
        """For notebooks: what it is, how much there is of it, and what goes in and out."""
        rows = [("kind", self.kind), ("variables", str(len(self.variables)))]
        if self.has_graph:
            rows += [("nodes", str(len(self.graph))), ("functions", str(len(self.graph.library)))]
        for key, signature in self.signatures.items():
            for word, infos in (("input", signature.inputs), ("output", signature.outputs)):
                rows += [(f"{key}, {word} {name}", f"{info.dtype} {info.shape}") for name, info in infos.items()]
        return html_table("Model" if self.path is None else str(self.path), rows)

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph at all: a checkpoint alone has none."""
        return bool(self.meta_graphs)

    @property
    def meta(self) -> MetaGraph:
        """The selected meta graph.

        Raises:
            NotFoundInModelError: There is no graph.
        """
        if not self.meta_graphs:
            raise self.no_graph()
        return self.meta_graphs[self.selected]

    def no_graph(self) -> NotFoundInModelError:
        """What to raise where a graph is wanted and there is none."""
        if self.keras is not None:
            return NotFoundInModelError(KERAS_WHAT, path=self.path, remedy=KERAS_REMEDY)
        remedy = "pass the .meta file, the graph, or the SavedModel that belongs to it"
        return NotFoundInModelError("a checkpoint holds variables but no graph", path=self.path, remedy=remedy)

    @property
    def graph(self) -> Graph:
        """The graph of the selected meta graph."""
        return self.meta.graph

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures of the selected meta graph; none for a checkpoint alone."""
        return self.meta.signatures if self.has_graph else FrozenDict()

    @property
    def collections(self) -> Mapping[str, Collection]:
        """The collections of the selected meta graph; none for a checkpoint alone."""
        return self.meta.collections if self.has_graph else FrozenDict()

    def get_collection(self, key: str) -> tuple[object, ...]:
        """The values of a collection: names of tensors and nodes, or decoded messages, numbers, bytes.

        A collection that is not there is empty, as in TensorFlow.
        """
        found = self.collections.get(key)
        if found is None:
            return ()
        return tuple(found.messages) if found.kind == "bytes" and found.messages else found.values

    @property
    def tag_sets(self) -> tuple[tuple[str, ...], ...]:
        """The tag sets of all meta graphs, in the file's order."""
        return tuple(meta.tags for meta in self.meta_graphs)

    def select(self, tags: Iterable[str]) -> Model:
        """The same model, seen through the meta graph with exactly these tags.

        Raises:
            NotFoundInModelError: No meta graph has this tag set; the remedy lists those that are there.
            InvalidModelError: Two have it.
        """
        if not isinstance(tags, Iterable):
            raise UsageError(f"{tags!r} is no tag set", path=self.path, remedy='pass tags, such as ["serve"]')
        wanted = {tags} if isinstance(tags, str) else set(tags)
        found = [number for number, meta in enumerate(self.meta_graphs) if set(meta.tags) == wanted]
        if len(found) > 1:
            what = f"{len(found)} meta graphs have the tag set {format_tags(wanted)}"
            raise InvalidModelError(what, path=self.path, remedy="TensorFlow takes the first; remove the others")
        if not found:
            there = " and ".join(format_tags(meta.tags) for meta in self.meta_graphs) or "none"
            what = f"there is no meta graph with the tag set {format_tags(wanted)}"
            raise NotFoundInModelError(what, path=self.path, remedy=f"the tag sets are: {there}")
        return replace(self, selected=found[0])

    def edit(self) -> Editor:
        """Opens an edit of the selected meta graph: `with model.edit() as g:`; afterwards `g.model` is the new model.

        Raises:
            NotFoundInModelError: There is no graph.
            InvalidModelError: Two of its nodes have one name.
        """
        from tfsmith.ir.editor import Editor

        return Editor(self)

    def alone(self) -> Model:
        """The model with the selected meta graph and no others."""
        return self if len(self.meta_graphs) < 2 else replace(self, meta_graphs=(self.meta,), selected=0, raw=None)

    def replace_graph(self, graph: Graph) -> Model:
        """Another model whose selected meta graph has another graph; all else stays as it is, byte for byte."""
        metas = list(self.meta_graphs)
        metas[self.selected] = self.meta.replace_graph(graph)
        return replace(self, meta_graphs=tuple(metas), raw=None)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A small table for notebooks, everything escaped."""
    from html import escape

    lines = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def format_tags(tags: Iterable[str]) -> str:
    """A tag set as one text, joined by commas."""
    return repr(",".join(sorted(tags)))


OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Under this key TensorFlow 2 stores which Python object each tensor belongs to."""

_SLOT = (
    r"/(Adam|Adam_1|adam_m|adam_v|Momentum|RMSProp|RMSProp_1|Adagrad|Adadelta|Adadelta_1|Ftrl|Ftrl_1|AdamWeightDecay\w*|"
    r"LAMB\w*|m|v)$|\.OPTIMIZER_SLOT/|/_optimizer/|^optimizer_weights/|^optimizer/vars/"
)
_SHORT = r"/[mv]$"
_IN_OPTIMIZER = r"(^|/)(Adam\w*|Nadam\w*|LAMB\w*|Lamb\w*|RMSprop|SGD|Adagrad|Adamax)/"
_OTHERS = (
    r"(^|/)(global_step|beta[12]_power(_\d+)?)$|(^|/)_?optimizer/|^optimizer_weights/|^keras_api/metrics/"
    r"|(^|/)seed_generator(_state$|/vars/\d+$)|^metrics/.+/vars/\d+$|^save_counter/\.ATTRIBUTES/VARIABLE_VALUE$"
)


def is_optimizer_slot(name: str) -> bool:
    """Whether a variable, by its name, belongs to an optimizer and not to the model."""
    return re.search(_SLOT, name) is not None


def training_names(names: Iterable[str]) -> set[str]:
    """Those of a checkpoint's names that only training needs: slots of optimizers, the global step, powers of betas.

    Moving averages are not among them, for they are what a model is best used with. A variable `x/m` or `x/v` counts
    only if there is an `x`, or an optimizer in its path: a layer may well have a weight called `v`.
    """
    known = frozenset(names)
    return {name for name in known if re.search(_OTHERS, name) or (is_optimizer_slot(name) and _is_sure(name, known))}


def _is_sure(name: str, known: frozenset[str]) -> bool:
    return re.search(_SHORT, name) is None or name[:-2] in known or re.search(_IN_OPTIMIZER, name) is not None
