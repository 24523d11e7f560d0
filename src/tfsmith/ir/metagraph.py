"""`Signature`: the inputs and outputs that a model offers by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from tfsmith.ir.body import Part
from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.records import FrozenDict, Immutable, field, record, replace
from tfsmith.storage.span import Span

__all__ = [
    "Signature",
    "TensorInfo",
    "PREDICT",
    "SERVING_DEFAULT",
    "MetaGraph",
    "MetaInfo",
    "Saver",
    "Collection",
    "Asset",
    "ObjectNode",
    "ObjectGraph",
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
