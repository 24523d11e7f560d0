"""What all verbs share: the words of their signatures, the options that mean the same everywhere, and their results."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tfsmith.errors import UsageError
from tfsmith.ir.model import Model, Signature
from tfsmith.storage import spelled
from tfsmith.verbs._declare import checked
from tfsmith.view import Section, human_bytes, plain_text

if TYPE_CHECKING:
    from typing import TypeAlias, TypedDict

    from numpy.typing import NDArray

    from tfsmith.formats import Destination, FileKind
    from tfsmith.ir.tensor import Tensor
    from tfsmith.verbs._prove import Checks, Verified

__all__ = [
    "Config",
    "Entries",
    "Feeds",
    "FilePath",
    "Files",
    "Globs",
    "Loads",
    "LoadsAndWrites",
    "MATCHING",
    "Many",
    "Matching",
    "MatchingLoads",
    "MatchingProves",
    "ModelOrPath",
    "ModelOrResult",
    "ModelResult",
    "NamePairs",
    "Names",
    "Out",
    "Pairs",
    "Progress",
    "Proves",
    "ProvesFolder",
    "Renames",
    "Result",
    "Serves",
    "Shapes",
    "SignatureName",
    "Signatures",
    "Sizes",
    "Tensors",
    "TensorsOrPath",
    "Texts",
    "Words",
    "asked_signatures",
    "check_room",
    "names_of",
    "open_model",
    "signature_lines",
    "output_name",
    "size_of",
    "sized",
]

FilePath: TypeAlias = "str | os.PathLike[str]"
Out: TypeAlias = "FilePath | None"
Names: TypeAlias = "Sequence[str]"
NamePairs: TypeAlias = "Sequence[str] | Mapping[str, str]"
Sizes: TypeAlias = "Sequence[int]"
Feeds: TypeAlias = "Mapping[str, Any] | Sequence[str]"
Progress: TypeAlias = "Callable[[str], None]"
Serves: TypeAlias = bool
Many: TypeAlias = "Sequence[str]"
Files: TypeAlias = "Sequence[FilePath]"
Words: TypeAlias = "Sequence[str]"
Globs: TypeAlias = "Sequence[str]"
Pairs: TypeAlias = "Mapping[str, Any]"
Renames: TypeAlias = "Mapping[str, str] | Sequence[str | tuple[str, str]]"
Shapes: TypeAlias = "Mapping[str, Sequence[int | None]]"
Entries: TypeAlias = "Mapping[str, str]"
SignatureName: TypeAlias = str
Texts: TypeAlias = "Mapping[str, str]"
Tensors: TypeAlias = "Mapping[str, Tensor | NDArray[Any]]"
TensorsOrPath: TypeAlias = "Model | ModelResult | FilePath | Tensors"
Config: TypeAlias = "FilePath | Mapping[str, Any]"
Signatures: TypeAlias = "Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]"


if not TYPE_CHECKING:

    class TypedDict:
        """In place of typing's, which compiles each annotation; here they are only read, as texts."""

        def __init_subclass__(cls, total=True):
            own = cls.__annotations__
            cls.__annotations__ = {}
            for kind in cls.__bases__:
                cls.__annotations__ |= kind.__annotations__
            cls.__annotations__ |= own


class Loads(TypedDict, total=False):
    """How a path is opened."""

    tags: Names | None
    meta_graph: int | None
    checkpoint: FilePath | None
    step: int | None


class LoadsAndWrites(Loads, total=False):
    """And how a model is written."""

    as_: Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"] | None
    force: bool


class ProvesFolder(Loads, total=False):
    """And how a SavedModel is written, proven before it is put in place."""

    force: bool
    verify: bool
    verify_engine: Literal["auto", "openvino", "reference", "tensorflow"]
    op_libraries: Files


class Proves(ProvesFolder, total=False):
    """And as what kind of file."""

    as_: Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"] | None


class Matching(TypedDict, total=False):
    """What must be equal to a recipe that was made of a pattern, and does not say it itself."""

    attrs: Literal["declared", "types", "none"]
    ignore_attrs: Many
    match_attrs: Many
    values: bool


class MatchingLoads(Loads, Matching, total=False):
    """For verbs that take a recipe and a model."""


class MatchingProves(Proves, Matching, total=False):
    """For verbs that take a recipe and a model, and write one."""


MATCHING = ("attrs", "ignore_attrs", "match_attrs", "values")


class Shared:
    """What these options mean, in every verb.

    Attributes:
        tags: Which meta graph of a SavedModel, by its tags; the first by default.
        meta_graph: Which meta graph of a SavedModel, by its number from 0.
        checkpoint: The checkpoint (prefix or folder) of a graph that has none beside it.
        step: Which checkpoint of a folder; the latest by default.
        out: Where to write it. The ending decides what is written.
        as_: What to write, whatever the ending says; keep is what it was.
        force: Replace what is there; never an input.
        verify: Run the original and the result, and write nothing if they differ.
        verify_engine: What to verify with: openvino, reference, tensorflow, or the first that can.
        op_libraries: Libraries of custom ops that TensorFlow loads, to run the model with.
        attrs: Which attributes must be equal: all that the ops' definitions declare, the types among them, or none.
        ignore_attrs: This attribute need not be equal.
        match_attrs: This one must be equal besides, such as `_output_shapes`.
        values: Constants of up to 16 values inside the pattern must have the same values.
    """


DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "force": False,
        "verify": False,
        "verify_engine": "auto",
        "op_libraries": (),
        "attrs": "declared",
        "ignore_attrs": (),
        "match_attrs": (),
        "values": True,
    }
)
GROUP_OF: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("tags", "meta_graph", "checkpoint", "step"), "loading"),
        **dict.fromkeys(("out", "as_", "force"), "writing"),
        **dict.fromkeys(("verify", "verify_engine", "op_libraries"), "verifying"),
        **dict.fromkeys(MATCHING, "matching, for recipes made of a pattern"),
    }
)
"""The title under which `--help` lists a shared option."""


class Result(ABC):
    """What a verb gives: a record that can be printed, turned into JSON, and asked for the verb's answer.

    Attributes:
        notes: What the user should know; the command writes them to stderr, as warnings.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def notes(self) -> Sequence[object]:
            """What the user should know."""

    @property
    def warnings(self) -> Sequence[object]:
        """What the command writes to stderr as warnings: the notes, unless the report has them."""
        return self.notes

    @property
    def remarks(self) -> Sequence[str]:
        """Lines for people that are no warnings; the command writes them to stderr, first."""
        return ()

    @property
    def text(self) -> str | None:
        """What is printed as it is, in place of a report: the text of a graph."""
        return None

    @abstractmethod
    def report(self) -> Iterable[Section | str]:
        """What the verb found or did, as lines and tables."""

    @abstractmethod
    def to_json(self) -> dict[str, Any] | list[Any]:
        """The same as plain data, ready for JSON."""

    def stay(self) -> None:  # noqa: B027
        """What the command does last, once it has printed the result: serves a page, until it is interrupted."""

    def __str__(self) -> str:
        return spelled(plain_text(self.report()) if self.text is None else self.text)

    def __bool__(self) -> bool:
        return True


_Made = TypeVar("_Made", bound="ModelResult")


class ModelResult(Result):
    """A result with a model, which can be saved.

    Attributes:
        model: The model that was made.
        source: The model that it was made of.
        out: Where it was written, if it was.
        verified: How its outputs compare with the original's, if that was asked for.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def model(self) -> Model:
            """The model that was made."""

        @property
        def source(self) -> Model:
            """The model that it was made of."""

        @property
        def out(self) -> Path | None:
            """Where it was written, if it was."""

        @property
        def verified(self) -> Verified | None:
            """How its outputs compare with the original's, if that was asked for."""

    def __bool__(self) -> bool:
        """Whether the result computes what the original does, as far as that was asked."""
        return self.verified is None or self.verified.is_same

    @checked
    def save(
        self: _Made,
        path: FilePath,
        *,
        as_: Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"]
        | None = None,
        force: bool = False,
    ) -> _Made:
        """Writes the model, whole or not at all.

        Args:
            path: Where to. The ending decides what is written.
            as_: What to write, whatever the ending says.
            force: Whether what is there may be replaced. An input is never replaced.

        Returns:
            The result as it was written.

        Raises:
            OutputError: It cannot be written there; what was there before is untouched.
        """
        return self.placed(path, {"as_": as_, "force": force})

    def placed(self: _Made, out: Out, shared: Mapping[str, Any]) -> _Made:
        """As `save`, with the options of a verb; without an output, the result as it is.

        Args:
            out: Where to write it.
            shared: The verb's shared options. With `verify`, only what computes the same as the original is placed;
                without an output, the result says whether it does.
        """
        if out is None and shared.get("as_") is not None:
            raise UsageError("{as_} goes with {out}", remedy="add {out}, or leave it out")
        if out is None and not shared.get("verify"):
            return self
        from tfsmith.verbs._files import place_result, prove_result  # looking should not load what writes

        return prove_result(self, shared) if out is None else place_result(self, out, shared)

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The kinds of files that it can be written as."""
        from tfsmith.formats import ALL_KINDS

        return ALL_KINDS

    @property
    def read(self) -> Sequence[FilePath]:
        """What else was read to make it, such as a recipe; none of it is ever replaced."""
        return ()

    @property
    def shards(self) -> int | None:
        """How many data files its checkpoint gets; None: as many as there were."""
        return None

    @property
    def link(self) -> bool:
        """Whether weight files that did not change are hard-linked."""
        return False

    def made_for(self: _Made, destination: Destination) -> _Made:
        """The result as it must be for this kind of file."""
        return self

    def prove(self, written: Model, checks: Checks) -> Verified:
        """Compares what was written with the original: by default every signature, else the outputs."""
        return checks.signatures(self.source, written)


def open_model(source: ModelOrPath, options: Mapping[str, Any], *, needs_graph: str = "") -> Model:
    """The model that a verb was given: opened if it is a path, with the options that choose what of it.

    Args:
        source: A model, a result with one, or what `load` takes.
        options: The verb's shared options, of which those of `Loads` count.
        needs_graph: What a graph is wanted for, such as "freeze", if a checkpoint alone will not do.

    Raises:
        UsageError: The meta graph is chosen twice, a graph is wanted and there is none, or an option has no effect.
    """
    from tfsmith.verbs._files import load, select_meta_graph, with_checkpoint

    tags, number = options.get("tags"), options.get("meta_graph")
    checkpoint, step = options.get("checkpoint"), options.get("step")
    if tags is not None and number is not None:
        raise UsageError("{tags} and {meta_graph} both choose a meta graph", remedy="give one of them")
    idle = [name for name in ("verify_engine", "op_libraries") if options.get(name, DEFAULTS[name]) != DEFAULTS[name]]
    if idle and not options.get("verify"):
        raise UsageError(f"{{{idle[0]}}} goes with {{verify}}", remedy="add {verify=True}, or leave it out")
    if isinstance(source, (str, os.PathLike)):
        model = load(source, tags=tags, checkpoint=checkpoint, step=step)
    else:
        plain = source.model if isinstance(source, ModelResult) else source
        model = plain if isinstance(plain, Model) else load(plain)
        model = model if checkpoint is None else with_checkpoint(model, checkpoint, step)
        model = model if tags is None else model.select(tags)
    if needs_graph and not model.has_graph:
        from tfsmith.verbs._files import require_graph

        require_graph(model, needs_graph)
    return model if number is None else select_meta_graph(model, number)


def names_of(names: Names | None) -> tuple[str, ...]:
    """Names that were given; one alone may be given as it is."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def check_room(**rooms: float | None) -> None:
    """Refuses tolerances that would make a comparison mean nothing.

    Raises:
        UsageError: One of them is negative, infinite, or no number.
    """
    for name, room in rooms.items():
        if room is not None and not 0 <= room < float("inf"):
            raise UsageError(f"{{{name}={room}}} makes no sense", remedy="pass a finite number, 0 or more")


def asked_signatures(
    signatures: Signatures | None, inputs: Entries | None, outputs: Entries | None, name: SignatureName
) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """The signatures that a verb was asked for: several in full, or one by its inputs and outputs."""
    found = {key: (dict(taken), dict(given)) for key, (taken, given) in (signatures or {}).items()}
    if inputs or outputs:
        found[name] = (dict(inputs or {}), dict(outputs or {}))
    return found


def size_of(out: Path | None) -> int | None:
    """How many bytes an output has on the disk: a file, all of a folder, or all files of a set; None if it is gone."""
    if out is None:
        return None
    prefix = re.escape(out.name.removesuffix(".meta"))
    of_set = re.compile(rf"{prefix}(\.meta|\.index|\.data-\d{{5}}-of-\d{{5}})")
    try:
        if out.is_dir():
            return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        if out.is_file() and out.suffix != ".meta":
            return out.stat().st_size
        sizes = [path.stat().st_size for path in out.parent.iterdir() if of_set.fullmatch(path.name)]
    except OSError:
        return None
    return sum(sizes) if sizes else None


def output_name(out: Path) -> str:
    """An output by its name; of a URL with both slashes, of which `Path` leaves one."""
    return re.sub(r"^([a-z][a-z0-9+.-]+):/(?!/)", r"\1://", str(out))


def sized(out: Path | None, *facts: str) -> str:
    """An output with what it is and how large: `frozen.pb (graph, 1.2 MB)`."""
    size = size_of(out)
    words = [*facts, *([] if size is None else [human_bytes(size)])]
    name = "" if out is None else output_name(out)
    return f"{name} ({', '.join(words)})" if words else name


def signature_lines(signatures: Mapping[str, Signature]) -> Iterator[str]:
    """A line for each signature: its keys."""
    for key, found in signatures.items():
        yield f"signature {key}: {', '.join(found.inputs)} -> {', '.join(found.outputs)}"


ModelOrResult: TypeAlias = "Model | ModelResult"
ModelOrPath: TypeAlias = "Model | ModelResult | str | os.PathLike[str] | bytes | Any"
