"""`extract`: cuts a pattern out of a graph, from seed nodes back to barriers; and patterns as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern
from tfsmith.records import field, record, replace
from tfsmith.storage.place import Output
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import _path, body_of
from tfsmith.verbs._shared import Result, open_model, output_name, sized
from tfsmith.view import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import FilePath, Loads, ModelOrPath, Out, Words
    from tfsmith.verbs.recipe import DraftedFormula

__all__ = ["Extracted", "extract", "load_pattern", "files_of", "save_pattern"]

FLAGS = MappingProxyType({"seeds": (), "function": ("-f",), "log": ("-l",), "out": ("--output",)})


@record
class Extracted(Pattern, Result):
    """A pattern, and the model that it was cut out of.

    Attributes:
        model: The model.
        notes: What the user should know.
        out: Where it was written, if it was.
        log: How much to say.
    """

    model: Model = field(compare=False, repr=False)
    notes: tuple[str, ...] = ()
    out: Path | None = None
    log: str = "WARN"

    @property
    def remarks(self) -> list[str]:
        """Every node and input, where that is asked for."""
        if self.log != "DEBUG":
            return []
        nodes = [f"debug: node {node.name} ({node.op})" for node in self.nodes]
        return nodes + [f"debug: input {name}" for name in self.inputs]

    @checked
    def save(self, path: FilePath, *, force: bool = False) -> Extracted:
        """Writes the pattern in the format of the original tools; as text if the path ends in `.pbtxt`.

        Raises:
            OutputError: It cannot be written there, or the pattern still lies in that file.
        """
        save_pattern(self, path, model=self.model, force=force)
        return replace(self, out=Path(path))

    def report(self) -> Iterator[str]:
        """How much was found, and where it was written."""
        seeds, others = plural(len(self.seed_nodes), "seed"), plural(len(self.internal_nodes), "other node")
        counts = f"{seeds}, {others}, {plural(len(self.inputs), 'input')}"
        yield counts if self.out is None else f"Wrote {sized(self.out, counts)}"

    def to_json(self) -> dict[str, Any]:
        """The names of all nodes and inputs."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "seed_nodes": [node.name for node in self.seed_nodes],
            "internal_nodes": [node.name for node in self.internal_nodes],
            "inputs": list(self.inputs),
        }


@overload
def extract(
    model: ModelOrPath,
    seeds: Words,
    barriers: Words = (),
    *,
    function: str | None = None,
    raised: Literal[True],
    out: Out = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> DraftedFormula: ...
@overload
def extract(
    model: ModelOrPath,
    seeds: Words,
    barriers: Words = (),
    barrier_ops: Words = (),
    *,
    function: str | None = None,
    constants: bool = False,
    raised: Literal[False] = False,
    log: Literal["DEBUG", "INFO", "WARN", "ERROR", "FATAL"] = "WARN",
    out: Out = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> Extracted: ...
@checked
def extract(
    model: ModelOrPath,
    seeds: Words,
    barriers: Words = (),
    barrier_ops: Words = (),
    *,
    function: str | None = None,
    constants: bool = False,
    raised: bool = False,
    log: Literal["DEBUG", "INFO", "WARN", "ERROR", "FATAL"] = "WARN",
    out: Out = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> Extracted | DraftedFormula:
    """Cuts a pattern out of a graph: the nodes that the seeds need, up to the barriers. Reads no weights.

    Args:
        model: A SavedModel, a `.meta`, a GraphDef, or a checkpoint with its graph.
        seeds: The nodes to begin at.
        barriers: The nodes at which to stop. One that the model does not have is noted, and stops nothing.
        barrier_ops: Stop at nodes of these ops.
        function: Look in this function, not in the graph itself.
        constants: Constants that are no barriers belong to the pattern; else they are open ends.
        raised: Say what the seed computes, as a formula that finds it however it is spelled, and not its nodes.
        log: How much to say on the way; DEBUG names every node.
        out: The pattern to write: a `.pb`, or text as `.pbtxt`; of a formula, a `.toml`.
        force: Replace what is there.

    Raises:
        UsageError: An end is open: a node without inputs that is no barrier.
        NotFoundInModelError: There is no such seed or function.

    Example:
        tfsmith extract model -o pattern.pb -s bert/encoder/add_1 -b bert/encoder/Reshape -B Identity Const
    """
    from tfsmith.patterns.extract import extract as extract_nodes

    opened = open_model(model, options)
    body = body_of(opened, function)
    known = [name for name in dict.fromkeys(barriers) if name in body or name in body.args]
    if raised:
        if len(seeds) != 1 or barrier_ops or constants:
            what = "a formula is of one seed, back to barriers that are named"
            raise UsageError(what, remedy="give one seed, no {barrier_ops} and no {constants}, or leave {raised} out")
        from tfsmith.patterns.raised_draft import extract_raised
        from tfsmith.verbs.recipe import DraftedFormula

        formula = DraftedFormula(opened, extract_raised(opened, body, seeds[0], known))
        return formula if out is None else formula.save(out, force=force)
    pattern = extract_nodes(body, seeds, known, barrier_ops, constants=constants)
    lacking = dict.fromkeys(name for name in barriers if name not in known)
    notes = tuple(f"barrier {name} is not in the graph, so nothing stops there" for name in lacking)
    found = Extracted(pattern.seed_nodes, pattern.internal_nodes, pattern.inputs, opened, notes, log=log)
    return found if out is None else found.save(out, force=force)


@checked
def save_pattern(pattern: Pattern, path: FilePath, *, model: Model | None = None, force: bool = False) -> None:
    """Writes a pattern in the format of the original tools; as text if the path ends in `.pbtxt`.

    Args:
        pattern: The pattern.
        path: Where.
        model: The model that it was extracted from, none of whose files is replaced.
        force: Whether to replace a file that is there, if the pattern does not lie in it still.

    Raises:
        OutputError: It cannot be written there.
    """
    from tfsmith.formats.recipe.protobuf import write_pattern
    from tfsmith.formats.write import inputs_of

    inputs: tuple[FilePath, ...] = (*files_of(pattern.nodes), *(() if model is None else inputs_of(model)))
    with Output(path, inputs=inputs, force=force) as output:
        write_pattern(output.aside, pattern)


def files_of(nodes: Iterable[Node]) -> list[str]:
    """The files that nodes may still lie in."""
    return list(dict.fromkeys(node.base.name for node in nodes if node.base is not None))


@checked
def load_pattern(path: FilePath) -> Pattern:
    """Reads a pattern file, binary or text."""
    from tfsmith.formats.recipe.protobuf import read_pattern

    return read_pattern(_path(path))
