"""Which inputs and outputs of two models belong together, and inputs made up that both can stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.engines.feeds import Fill, check_names, make_input
from tfsmith.engines.program import ModelProgram
from tfsmith.engines.protocol import Port
from tfsmith.errors import UsageError
from tfsmith.ir.node import parse_input
from tfsmith.ir.types import DType, Shape
from tfsmith.passes.input_ranges import integer_limits
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Arrays",
    "InputMaker",
    "PortPair",
    "batch_and_length",
    "check_sizes",
    "has_open_length",
    "make_feeds",
    "pair_inputs",
    "pair_outputs",
    "split_rows",
    "with_hidden_row",
]

Arrays = dict[str, "NDArray[Any]"]
"""Arrays by the key of an input or output."""
_ROWS = 32
"""So many rows of data are run at a time, where the model leaves that open."""

_MASK = "mask"


@record
class PortPair:
    """An input or output of A, and the one of B that it is compared with; one of them may be missing."""

    a: str | None
    b: str | None

    @property
    def key(self) -> str:
        """What to call it."""
        return self.a or self.b or ""


def pair_inputs(a: ModelProgram, b: ModelProgram) -> tuple[PortPair, ...]:
    """Pairs inputs by key, else by the name of the tensor, else by the end of that name."""
    return _pair(a.inputs, b.inputs)


def pair_outputs(a: ModelProgram, b: ModelProgram) -> tuple[PortPair, ...]:
    """Pairs outputs as inputs are; where each model has one output, these two are compared whatever their names.

    Raises:
        UsageError: No output of one is an output of the other.
    """
    pairs = _pair(a.outputs, b.outputs)
    if any(pair.a and pair.b for pair in pairs):
        return pairs
    if len(a.outputs) == len(b.outputs) == 1:
        return (PortPair(next(iter(a.outputs)), next(iter(b.outputs))),)
    what = f"the models have no output in common: {', '.join(a.outputs)} against {', '.join(b.outputs)}"
    raise UsageError(what, remedy="name them: {outputs=KEY_OF_A=KEY_OF_B}")


def _pair(a: Mapping[str, Port], b: Mapping[str, Port]) -> tuple[PortPair, ...]:
    left = dict(b)
    found: dict[str, str] = {}
    ways = (lambda key, _: key, lambda _, port: port.tensor, lambda _, port: _short(port))
    for way in ways:
        there: dict[str, list[str]] = {}
        for key, port in left.items():
            there.setdefault(way(key, port), []).append(key)
        here: dict[str, list[str]] = {}
        for key, port in a.items():
            if key not in found:
                here.setdefault(way(key, port), []).append(key)
        for name, keys in here.items():
            if len(keys) == len(there.get(name, ())) == 1:
                found[keys[0]] = there[name][0]
                del left[there[name][0]]
    pairs = [PortPair(key, found.get(key)) for key in a]
    return (*pairs, *(PortPair(None, key) for key in left))


def _kind(dtype: DType) -> str:
    return next((kind for kind in ("float", "int") if kind in dtype.name), dtype.name)


def _short(port: Port) -> str:
    name = parse_input(port.tensor).node.rpartition("/")[2]
    return name.removeprefix("serving_default_")


@record
class InputMaker:
    """Makes inputs that both models can stand: ids below the vocabulary, masks of 0 and 1, the dimensions of both.

    Attributes:
        a: One model.
        b: The other.
        pairs: Which of their inputs belong together.
    """

    a: ModelProgram
    b: ModelProgram
    pairs: tuple[PortPair, ...]

    def batches(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """The batch sizes that can be asked for: those wanted, or none where the models fix it."""
        shapes = [self._shape(pair).dims for pair in self.pairs if self._is_needed(pair)]
        is_free = any(dims and dims[0] == -1 for dims in shapes)
        return tuple(wanted) if is_free else ()

    def make(self, batch: int, generator: Any, fill: Fill = "random") -> Arrays:
        """An array for every pair of inputs, by the pair's key."""
        limits = self._limits()
        made: Arrays = {}
        for pair in self.pairs:
            if not self._is_needed(pair):
                continue
            port = Port("", self._dtype(pair), self._shape(pair))
            made[pair.key] = self._values(pair, port, limits.get(pair.key), batch, generator, fill)
        return made

    def _values(
        self, pair: PortPair, port: Port, limit: int | None, batch: int, generator: Any, fill: Fill
    ) -> NDArray[Any]:
        import numpy

        port = Port(self._port(pair).tensor, port.dtype, port.shape)
        plain = make_input(port, fill, generator=generator, batch=batch)
        if plain.dtype.kind not in "iu":
            return plain
        if _MASK in pair.key.lower():  # of a sentence, padded at its end: the first is always there
            lengths = generator.integers(1, (plain.shape[-1] if plain.ndim else 1) + 1, plain.shape[:-1])
            return numpy.asarray(numpy.arange(plain.shape[-1] if plain.ndim else 1) < lengths[..., None], plain.dtype)
        if limit is None:
            return plain
        most = min(limit, int(numpy.iinfo(plain.dtype).max))
        return numpy.asarray(generator.integers(0, most, plain.shape), plain.dtype)

    def _is_needed(self, pair: PortPair) -> bool:
        ports = [self.a.inputs[pair.a]] if pair.a else []
        ports += [self.b.inputs[pair.b]] if pair.b else []
        return any(port.required for port in ports)

    def _port(self, pair: PortPair) -> Port:
        return self.a.inputs[pair.a] if pair.a else self.b.inputs[pair.b or ""]

    def _dtype(self, pair: PortPair) -> DType | None:
        """What both models can take: of two types of one kind, the one whose values the other holds too.

        Raises:
            UsageError: The types are of different kinds.
        """
        ports = [self.a.inputs[pair.a]] if pair.a else []
        ports += [self.b.inputs[pair.b]] if pair.b else []
        known = [port.dtype.base for port in ports if port.dtype is not None]
        if len(set(map(_kind, known))) > 1:
            what = f"input {pair.key!r} is {known[0]} in A and {known[1]} in B"
            raise UsageError(what, remedy="no made-up input fits both; pass your own ({inputs}), if one does")
        return min(known, key=lambda one: one.itemsize, default=None)

    def _shape(self, pair: PortPair) -> Shape:
        """What both models want: a dimension that one fixes is fixed.

        Raises:
            UsageError: No shape fits both.
        """
        shapes = [self.a.inputs[pair.a].shape] if pair.a else []
        shapes += [self.b.inputs[pair.b].shape] if pair.b else []
        known = [shape.dims for shape in shapes if shape.dims is not None]
        if len(known) < 2:
            return Shape(known[0]) if known else Shape(None)
        one, other = known
        merged = [max(a, b) if min(a, b) < 0 else a if a == b else -2 for a, b in zip(one, other, strict=False)]
        if len(one) != len(other) or -2 in merged:
            what = f"input {pair.key!r} is {Shape(one)} in A and {Shape(other)} in B"
            raise UsageError(what, remedy="no input fits both; export them with the same shapes")
        return Shape(tuple(merged))

    def _limits(self) -> dict[str, int]:
        """How many ids each pair may hold: as many as both models know."""
        limits: dict[str, int] = {}
        for program, side in ((self.a, "a"), (self.b, "b")):
            keys = {pair.key: getattr(pair, side) for pair in self.pairs if getattr(pair, side)}
            graph = program.frozen.model.graph
            tensors = {key: program.inputs[own].tensor for key, own in keys.items()}
            there = [tensor for tensor in tensors.values() if parse_input(tensor).node in graph]
            found = integer_limits(graph, there)
            for key, tensor in tensors.items():
                if tensor in found:
                    limits[key] = min(found[tensor], limits.get(key, found[tensor]))
        return limits


def has_open_length(program: ModelProgram) -> bool:
    """Whether sequences of any length can be fed."""
    return any(-1 in (port.shape.dims or ())[1:2] for port in program.inputs.values())


def check_sizes(program: ModelProgram, batch: int | None, length: int | None) -> None:
    """Sees that a model takes batches of this size and sequences of this length, where these are asked for.

    Raises:
        UsageError: The model fixes another size.
    """
    for port in program.inputs.values():
        dims = port.shape.dims or ()
        if not port.required or len(dims) < 2:
            continue
        if batch is not None and dims[0] not in (-1, batch):
            raise UsageError(f"the model takes batches of {dims[0]}, and no others", remedy="leave {batch_size} out")
        if length is not None and dims[1] not in (-1, length):
            remedy = "leave {sequence_length} out"
            raise UsageError(f"the model takes sequences of {dims[1]}, and no others", remedy=remedy)


def make_feeds(program: ModelProgram, batch: int, length: int, *, seed: int) -> Arrays:
    """Inputs made up for a model: ids of its vocabulary, sentences that are padded.

    Args:
        program: The model.
        batch: The size of first dimensions that the model leaves open.
        length: The size of other dimensions that it leaves open.
        seed: Of random numbers.
    """
    import numpy

    sized = {key: _sized(port, batch, length) for key, port in program.inputs.items()}
    same = dataclasses.replace(program, inputs=sized)
    return InputMaker(same, same, pair_inputs(same, same)).make(batch, numpy.random.default_rng(seed))


def with_hidden_row(feeds: Arrays) -> Arrays | None:
    """The same inputs, in whose last row no word counts: masks are 0 there, or without a mask the ids of the words.

    None if there is nothing to hide.
    """
    masks = {key for key, value in feeds.items() if _MASK in key.lower() and value.ndim and value.dtype.kind in "iubf"}
    masks = masks or {key for key, value in feeds.items() if value.ndim and value.dtype.kind in "iu"}
    if not masks:
        return None
    found = {key: value.copy() if key in masks else value for key, value in feeds.items()}
    for key in masks:
        found[key][-1] = 0
    return found


def _sized(port: Port, batch: int, length: int) -> Port:
    if port.shape.dims is None:
        return port
    dims = (size if size >= 0 else length if number else batch for number, size in enumerate(port.shape.dims))
    return Port(port.tensor, port.dtype, Shape(tuple(dims)), port.required)


def batch_and_length(feeds: Mapping[str, NDArray[Any]]) -> tuple[int | None, int | None]:
    """The batch size and the length of sequences in what is fed; None where no input has them."""
    shapes = [value.shape for value in feeds.values() if value.ndim > 1]
    return (int(shapes[0][0]), int(shapes[0][1])) if shapes else (None, None)


def split_rows(program: ModelProgram, data: Mapping[str, Any]) -> tuple[list[Arrays], int]:
    """Data in batches that the model takes, by the keys of its inputs; and how many rows they are together.

    Rows at the end that do not fill a batch of the size that the model fixes are left out.

    Raises:
        TfsmithError: An input is missing or unknown, or they have different numbers of rows.
    """
    import numpy

    keys = check_names(program.inputs, data)
    values = {keys[name]: numpy.asarray(value) for name, value in data.items()}
    counts = {key: len(value) if value.ndim else 0 for key, value in values.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{key} has {count}" for key, count in counts.items())
        raise UsageError(f"the data has different numbers of rows: {told}", remedy="give all the same rows")
    rows = next(iter(counts.values()))
    first = [dims[0] for key in values if (dims := program.inputs[key].shape.dims)]
    size = next((one for one in first if one > 0), None)
    used = rows if size is None else rows - rows % size
    if not used:
        remedy = "give as many, or export the model with another {batch_size}"
        raise UsageError(f"{rows} rows of data do not fill a batch of {size or 1}", remedy=remedy)
    step = size or _ROWS
    starts = range(0, used, step)
    return [{key: value[start : min(start + step, used)] for key, value in values.items()} for start in starts], used
