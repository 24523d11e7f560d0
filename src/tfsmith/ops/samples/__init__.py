"""Samples for conformance: small graphs with inputs, whose answers TensorFlow gave once. One module per family of ops.

A module has functions marked `@samples("Op Op ...")` that yield cases for these ops. Inputs come from `numbers` and
literals only: whole numbers and exact fractions, the same bits on every machine. Nothing here may use BLAS, LAPACK or a
function of the C library's mathematics, and no tensor has more than 64 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.graph import Function, Graph, Library, Versions
from tfsmith.ir.node import Attr, Node, attr
from tfsmith.ir.opdef import builtin_ops
from tfsmith.ir.types import DType, Shape, as_dtype
from tfsmith.ops.values import load_modules
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Case",
    "Samples",
    "Tolerance",
    "case",
    "chain",
    "numbers",
    "string",
    "samples",
    "samples_of",
    "texts",
    "types_of",
    "small",
]

_PRODUCER = 2474
"""The version of graphs that TensorFlow 2.21 writes, the release that the op database comes from."""
_FOUND: dict[tuple[str, str], Samples] = {}
_Maker = Callable[[str], "Iterable[Case]"]


@record
class Tolerance:
    """How near floating numbers must be to TensorFlow's. Integers, strings and truth values are always exact.

    Attributes:
        exact: Whether they must be the same numbers, the sign of zero included: for ops that move or choose values.
        ulps: How many units in the last place of TensorFlow's own number.
        n_eps: How many times the type's epsilon, relative to the largest finite number of the tensor: for sums and
            products, whose error is that of their largest terms. An answer that is near by either is near.
        scale: The least size that `n_eps` is relative to: for functions that are computed to the precision of the
            largest number that they give, such as exp(x) - 1.
    """

    exact: bool = False
    ulps: float = 4
    n_eps: float = 0
    scale: float = 0


@record
class Samples:
    """The cases of an op in one family.

    Attributes:
        family: The module that declares them.
        op: The op.
        tolerance: How near answers must be.
        make: Makes them.
    """

    family: str
    op: str
    tolerance: Tolerance
    make: _Maker

    def cases(self) -> Iterator[Case]:
        """The cases, made anew."""
        yield from self.make(self.op)


@record(eq=False)
class Case:
    """A small graph with inputs.

    Attributes:
        op: The op that it is about.
        name: What is special about it: "int32, negative axis".
        nodes: The graph, without the placeholders of what is fed.
        feeds: What is fed, by the name of the placeholder; strings are objects.
        fetches: The tensors to compare, such as "y:0".
        types: The types of what is fed.
        shapes: The shapes of the placeholders, where they are not those of the arrays.
        functions: The functions that the nodes call.
    """

    op: str
    name: str
    nodes: tuple[Node, ...]
    feeds: Mapping[str, NDArray[Any]]
    fetches: tuple[str, ...]
    types: Mapping[str, DType]
    shapes: Mapping[str, Shape]
    functions: tuple[Function, ...] = ()

    def __str__(self) -> str:
        return f"{self.op}: {self.name}"

    def graph(self) -> Graph:
        """The graph with its placeholders."""
        placeholders = (
            Node(key, "Placeholder", (), {"dtype": self.types[key], "shape": self.shapes.get(key, Shape(array.shape))})
            for key, array in self.feeds.items()
        )
        library = Library({function.name: function for function in self.functions})
        return Graph((*placeholders, *self.nodes), Versions(_PRODUCER), library)


def samples(
    ops: str, *, ulps: float = 4, n_eps: float = 0, exact: bool = False, scale: float = 0
) -> Callable[[_Maker], _Maker]:
    """Declares the function that yields the cases of these ops; it is called with each op's name.

    Args:
        ops: The ops. Another family may have cases of the same ones.
        ulps: How many units in the last place a floating number may differ from TensorFlow's.
        n_eps: How many times the type's epsilon it may differ, relative to the largest number of its tensor.
        exact: Whether floating numbers must be the same, the sign of zero included.
        scale: The least size that `n_eps` is relative to.
    """

    def declare(function: _Maker) -> _Maker:
        family = function.__module__.rpartition(".")[2]
        for op in ops.split():
            assert (family, op) not in _FOUND, f"{op} has two makers of samples in {family}"
            _FOUND[family, op] = Samples(family, op, Tolerance(exact, ulps, n_eps, scale), function)
        return function

    return declare


def samples_of(*names: str) -> tuple[Samples, ...]:
    """The samples of these ops and families, in order; of all by default. Loads every family the first time."""
    load_modules(__name__, __path__)
    found = (_FOUND[key] for key in sorted(_FOUND))
    return tuple(one for one in found if not names or one.family in names or one.op in names)


def case(
    op: str,
    *inputs: Any,
    name: str,
    constants: Sequence[int] = (),
    unknown: bool = False,
    kinds: Sequence[Any] = (),
    **attrs: Any,
) -> Case:
    """A case of one node.

    Args:
        op: The op.
        inputs: Its inputs: arrays, or a list of arrays for an input that is a list.
        name: What is special about it.
        constants: The numbers of inputs (flat) that are constants in the graph; the others are fed.
        unknown: Whether the placeholders hide their shapes.
        kinds: The types of the inputs (flat), where the arrays do not say them: quantized types.
        attrs: Attributes; types and counts that the inputs show are filled in.
    """
    definition = builtin_ops()[op]
    flat: list[Any] = []
    whole: dict[str, Attr] = {}
    declared = {one.name: one for one in definition.attrs}
    for arg, given in zip(definition.inputs, inputs, strict=True):
        parts = list(given) if arg.number_attr or arg.type_list_attr else [given]
        here = [as_dtype(kind) for kind in kinds[len(flat) : len(flat) + len(parts)]] or [_kind(one) for one in parts]
        if arg.number_attr:
            whole.setdefault(arg.number_attr, Attr("int", len(parts)))
        if arg.type_list_attr:
            whole[arg.type_list_attr] = Attr("list(type)", tuple(here)) if here else Attr("list", ())
        elif arg.type_attr and here:
            whole.setdefault(arg.type_attr, Attr("type", here[0]))
        flat += parts
    for key, given in attrs.items():
        whole[key] = attr(given, declared[key].kind)
    names: list[str] = []
    nodes: list[Node] = []
    feeds: dict[str, NDArray[Any]] = {}
    types: dict[str, DType] = {}
    for number, one in enumerate(flat):
        kind = as_dtype(kinds[number]) if kinds else _kind(one)
        names.append(f"x{number}")
        array = numpy.asarray(one, kind.numpy())
        if number in constants:
            nodes.append(Node(names[-1], "Const", (), {"dtype": kind, "value": Attr("tensor", _tensor(kind, array))}))
        else:
            feeds[names[-1]], types[names[-1]] = array, kind
    nodes.append(Node("y", op, tuple(names), whole))
    count = definition.output_count(definition.with_defaults(whole))
    fetches = tuple(f"y:{number}" for number in range(count))
    shapes = dict.fromkeys(feeds, Shape(None)) if unknown else {}
    return Case(op, name, tuple(nodes), feeds, fetches, types, shapes)


def chain(
    op: str,
    name: str,
    nodes: Iterable[Node],
    feeds: Mapping[str, NDArray[Any]],
    fetches: Iterable[str],
    functions: Iterable[Function] = (),
) -> Case:
    """A case of several nodes: what engines fuse or move, or an op whose outputs cannot be fetched themselves.

    Args:
        op: The op that it is about.
        name: What is special about it.
        nodes: The graph, each node after those that it needs, without the placeholders of what is fed.
        feeds: What is fed, by the name of the placeholder.
        fetches: The tensors to compare.
        functions: The functions that the nodes call.
    """
    types = {key: _kind(array) for key, array in feeds.items()}
    return Case(op, name, tuple(nodes), dict(feeds), tuple(fetches), types, {}, tuple(functions))


def numbers(kind: Any, *shape: int, start: int = 0, low: int = -8, high: int = 8) -> NDArray[Any]:
    """Numbers that are the same bits everywhere: eighths for floats, whole numbers for integers, scattered in a range.

    Args:
        kind: Their type.
        shape: Their shape.
        start: Another start gives other numbers.
        low: The least.
        high: One more than the greatest.
    """
    found = as_dtype(kind)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    mixed = (numpy.arange(start + 1, start + 1 + count, dtype=numpy.uint64) * numpy.uint64(2654435761)) >> numpy.uint64(
        7
    )
    if found.name.startswith(("u", "qu")):
        low = max(low, 0)
    eighths = (mixed % numpy.uint64((high - low) * 8)).astype(numpy.float64) / 8 + low
    whole = (mixed % numpy.uint64(high - low)).astype(numpy.int64) + low
    values: NDArray[Any] = whole
    if found.name == "bool":
        values = (mixed & numpy.uint64(1)) == 1
    elif "complex" in found.name:
        values = eighths + 1j * eighths[::-1]
    elif "float" in found.name:
        values = eighths
    elif found.name == "string":
        values = numpy.array([b"s%d" % one for one in whole], dtype=object)
    return values.astype(found.numpy()).reshape(shape)


def small(kind: str, *shape: int, start: int = 0) -> NDArray[Any]:
    """Small whole numbers, whose sums of products are exact in every type."""
    return numbers("int32", *shape, start=start, low=-3, high=4).astype(as_dtype(kind).numpy())


def texts(found: Sequence[bytes], *shape: int) -> NDArray[Any]:
    """A tensor of strings; a vector by default."""
    array = numpy.empty(len(found), object)
    array[:] = list(found)
    return array.reshape(shape or (len(found),))


def string(text: bytes) -> NDArray[Any]:
    """A scalar string."""
    return texts([text]).reshape(())


def types_of(op: str, name: str = "T") -> Iterator[str]:
    """The types that an attribute of an op may be, by the op's definition; all common ones where it does not say."""
    for found in builtin_ops()[op].attrs:
        if found.name == name:
            allowed = [one.name for one in found.allowed if isinstance(one, DType)]
            yield from allowed or _COMMON
            return
    raise KeyError(f"{op} has no attribute {name}")


_COMMON = (
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128", "string",
)  # fmt: skip


def _kind(given: Any) -> DType:
    array = numpy.asarray(given)
    return as_dtype("string") if array.dtype.kind in "OSU" else as_dtype(array.dtype)


def _tensor(kind: DType, array: NDArray[Any]) -> Any:
    from tfsmith.ir.tensor import ArrayTensor

    return ArrayTensor(kind, array)
