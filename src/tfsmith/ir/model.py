"""`Model`: what was opened, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import Collection, MetaGraph, Signature
from tfsmith.ir.tensor import Tensor
from tfsmith.records import FrozenDict, Immutable, field, record, replace
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from tfsmith.ir.editor import Editor
    from tfsmith.ir.keras import KerasFile

__all__ = ["Checkpoint", "KERAS_REMEDY", "KERAS_WHAT", "Kind", "Model", "SideFile", "html_table"]

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
