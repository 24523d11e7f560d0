"""F4: Which inputs and outputs of two models belong together, and values that both can stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.api.feeding import make_input
from tfsmith.api.program import ModelProgram
from tfsmith.engines.protocol import Port
from tfsmith.errors import UsageError
from tfsmith.ir.dtype import DType
from tfsmith.ir.node import parse_input
from tfsmith.ir.shape import Shape
from tfsmith.passes.input_ranges import integer_limits
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pair", "Sampler", "pair_inputs", "pair_outputs"]

_MASK = "mask"


@record
class Pair:
    """An input or output of A, and the one of B that it is compared with; one of them may be missing."""

    a: str | None
    b: str | None

    @property
    def key(self) -> str:
        """What to call it."""
        return self.a or self.b or ""


def pair_inputs(a: ModelProgram, b: ModelProgram) -> tuple[Pair, ...]:
    """Pairs inputs by key, else by the name of the tensor, else by the end of that name."""
    return _pair(a.inputs, b.inputs)


def pair_outputs(a: ModelProgram, b: ModelProgram) -> tuple[Pair, ...]:
    """Pairs outputs as inputs are; where each model has one output, these two are compared whatever their names.

    Raises:
        UsageError: No output of one is an output of the other.
    """
    pairs = _pair(a.outputs, b.outputs)
    if any(pair.a and pair.b for pair in pairs):
        return pairs
    if len(a.outputs) == len(b.outputs) == 1:
        return (Pair(next(iter(a.outputs)), next(iter(b.outputs))),)
    what = f"the models have no output in common: {', '.join(a.outputs)} against {', '.join(b.outputs)}"
    raise UsageError(what, remedy="name them: --output KEY_OF_A=KEY_OF_B")


def _pair(a: Mapping[str, Port], b: Mapping[str, Port]) -> tuple[Pair, ...]:
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
    pairs = [Pair(key, found.get(key)) for key in a]
    return (*pairs, *(Pair(None, key) for key in left))


def _kind(dtype: DType) -> str:
    return next((kind for kind in ("float", "int") if kind in dtype.name), dtype.name)


def _short(port: Port) -> str:
    name = parse_input(port.tensor).node.rpartition("/")[2]
    return name.removeprefix("serving_default_")


@record
class Sampler:
    """Makes inputs that both models can stand: ids below the vocabulary, masks of 0 and 1, the dimensions of both.

    Attributes:
        a: One model.
        b: The other.
        pairs: Which of their inputs belong together.
    """

    a: ModelProgram
    b: ModelProgram
    pairs: tuple[Pair, ...]

    def batches(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """The batch sizes that can be asked for: those wanted, or none where the models fix it."""
        shapes = [self._shape(pair).dims for pair in self.pairs if self._is_needed(pair)]
        is_free = any(dims and dims[0] == -1 for dims in shapes)
        return tuple(wanted) if is_free else ()

    def make(self, batch: int, generator: Any) -> dict[str, NDArray[Any]]:
        """An array for every pair of inputs, by the pair's key."""
        limits = self._limits()
        made: dict[str, NDArray[Any]] = {}
        for pair in self.pairs:
            if not self._is_needed(pair):
                continue
            port = Port("", self._dtype(pair), self._shape(pair))
            made[pair.key] = self._values(pair, port, limits.get(pair.key), batch, generator)
        return made

    def _values(self, pair: Pair, port: Port, limit: int | None, batch: int, generator: Any) -> NDArray[Any]:
        import numpy

        plain = make_input(
            Port(self._port(pair).tensor, port.dtype, port.shape), "random", generator=generator, batch=batch
        )
        if plain.dtype.kind not in "iu":
            return plain
        if _MASK in pair.key.lower():  # of a sentence, padded at its end: the first is always there
            lengths = generator.integers(1, (plain.shape[-1] if plain.ndim else 1) + 1, plain.shape[:-1])
            return numpy.asarray(numpy.arange(plain.shape[-1] if plain.ndim else 1) < lengths[..., None], plain.dtype)
        if limit is None:
            return plain
        most = min(limit, int(numpy.iinfo(plain.dtype).max))
        return numpy.asarray(generator.integers(0, most, plain.shape), plain.dtype)

    def _is_needed(self, pair: Pair) -> bool:
        ports = [self.a.inputs[pair.a]] if pair.a else []
        ports += [self.b.inputs[pair.b]] if pair.b else []
        return any(port.required for port in ports)

    def _port(self, pair: Pair) -> Port:
        return self.a.inputs[pair.a] if pair.a else self.b.inputs[pair.b or ""]

    def _dtype(self, pair: Pair) -> DType | None:
        """What both models can take: of two types of one kind, the one whose values the other holds too.

        Raises:
            UsageError: The types are of different kinds.
        """
        ports = [self.a.inputs[pair.a]] if pair.a else []
        ports += [self.b.inputs[pair.b]] if pair.b else []
        known = [port.dtype.base for port in ports if port.dtype is not None]
        if len(set(map(_kind, known))) > 1:
            what = f"input {pair.key!r} is {known[0]} in A and {known[1]} in B"
            raise UsageError(what, remedy="no made-up input fits both; pass your own as --inputs FILE.npz, if one does")
        return min(known, key=lambda one: one.itemsize, default=None)

    def _shape(self, pair: Pair) -> Shape:
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
