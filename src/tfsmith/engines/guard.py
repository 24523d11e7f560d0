"""What conformance says of a whole program on OpenVINO, and the guard that looks at what goes in and comes out.

Some proofs hold for some tensors only: not for empty ones, not for infinities and NaN, not for integers over 24 bits,
or not for what TensorFlow refuses (ids out of range, shapes that do not fit). Whether a node may meet such a tensor
follows from what is fed: the shapes of all tensors are inferred from it, and the ranges of their elements
(`ops/ranges.py`). Where that does not say it, the node is not proven. What TensorFlow would refuse is refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfsmith.engines.compare import non_finite
from tfsmith.engines.conformance import BAD, EMPTY, NONFINITE, WIDE, WIDEST, Condition, Proof, proven
from tfsmith.engines.protocol import FlatGraph, Lack
from tfsmith.errors import EngineError, TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node, parse_input
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape
from tfsmith.ops import GIVEN, ID_INPUTS, LEAST_RANK, PASSES_ON, UNROUNDED, WHOLE_REFUSALS
from tfsmith.ops.shapes import computed_ops
from tfsmith.passes.interface import output_shape, output_type
from tfsmith.records import record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.engines.interpreter import Plan
    from tfsmith.ops.inference import Inference
    from tfsmith.ops.ranges import Range

__all__ = ["Guard", "Place", "ProgramProof", "check_program"]

_ALWAYS = PASSES_ON | GIVEN | {"IdentityN"}
"""Every case of the conformance suite has them, or they compute nothing."""
_NARROWED = frozenset({"float64"})
"""OpenVINO computes these as numbers of fewer digits."""
_WIDENED = frozenset({"float16", "bfloat16", "int8", "uint8", "int16", "uint16", "uint32", "uint64"})
"""OpenVINO computes these in other types, and does not round them or wrap them around after each op, as TensorFlow
does: what is moved is right, what is computed may not be."""
_SMALL = 1 << 16
"""Of constants of so many elements, the least and the greatest are found; of larger ones, whether all are finite."""
_SIZES = (1, 2, 32, 128, 224)
"""Sizes to try for those that a model leaves open."""
_WORDS: Mapping[Condition, str] = {
    EMPTY: "empty tensors",
    NONFINITE: "infinities and NaN",
    WIDE: "integers over 24 bits",
    BAD: "axes and sizes that are not known before it runs",
}


@record(eq=False)
class Place:
    """A node, and the graph or function that it is in."""

    body: Body
    node: Node


@record
class ProgramProof:
    """What conformance says of a program on an engine.

    Attributes:
        doubts: The ops that are not proven, with their nodes and why.
        except_for: Kinds of tensors for which nodes are not proven, with these nodes.
        deadly: Nodes of which some inputs kill the process.
    """

    doubts: tuple[Lack, ...]
    except_for: Mapping[Condition, tuple[Place, ...]]
    deadly: tuple[Place, ...] = ()

    def of_deadly(self) -> ProgramProof:
        """What it says of the nodes that may kill the process."""
        deadly = {(place.body.title, place.node.name) for place in self.deadly}
        found = {
            condition: tuple(place for place in places if (place.body.title, place.node.name) in deadly)
            for condition, places in self.except_for.items()
        }
        left = {condition: places for condition, places in found.items() if places}
        return ProgramProof(self.doubts, left, self.deadly)

    @property
    def suspects(self) -> tuple[Lack, ...]:
        """What native code may die of."""
        deadly = (Lack(place.node.op, (place.node.name,), "some inputs kill the process") for place in self.deadly)
        return (*self.doubts, *deadly)


def check_program(engine: str, version: str, graph: Graph) -> ProgramProof:
    """Holds all nodes of a graph, and of the functions that it calls, against the table of an engine."""
    from tfsmith.engines.interpreter import called_functions

    doubts: dict[tuple[str, str], list[str]] = {}
    except_for: dict[Condition, list[Place]] = {}
    deadly: list[Place] = []
    bodies: tuple[Body, ...] = (graph, *called_functions(graph, graph.nodes))
    for place in (Place(body, node) for body in bodies for node in body):
        node = place.node
        proof = _proof(engine, version, node)
        reason = proof.reason
        is_inner = place.body is not graph
        if is_inner and (proof.dies_of or (BAD in proof.except_for and _must_be_checked(node))):
            reason = f"{node.op} in a function cannot be checked before it runs"
        if proof.dies_of:
            deadly.append(place)
        if reason:
            name = f"{node.name} in {place.body.title}" if is_inner else node.name
            doubts.setdefault((node.op, reason), []).append(name)
        for condition in proof.except_for:
            except_for.setdefault(condition, []).append(place)
    return ProgramProof(
        tuple(Lack(op, tuple(names), reason) for (op, reason), names in doubts.items()),
        {condition: tuple(places) for condition, places in except_for.items()},
        tuple(deadly),
    )


def _proof(engine: str, version: str, node: Node) -> Proof:
    if node.op == "Assert":
        return Proof(except_for=frozenset({BAD}))  # OpenVINO leaves it out
    if node.op not in GIVEN and any(found.dtype == "string" for found in node.attrs.values()):
        return Proof("strings lose zeros at their end on the way to OpenVINO")
    reason = "" if node.op in GIVEN else _kept_otherwise(node)
    if reason or node.op in _ALWAYS:
        return Proof(reason)
    return proven(engine, version, node.op, node.attrs)


def _kept_otherwise(node: Node) -> str:
    """Why OpenVINO is wrong for the types of a node, whatever it computes; "" if it is not."""
    definition = builtin_op(node.op)
    if definition is None:
        return ""
    whole = definition.with_defaults(node.attrs)
    taken = {kind.base.name for arg in definition.inputs for kind in arg.types(whole) if kind is not None}
    made = {kind.base.name for arg in definition.outputs for kind in arg.types(whole) if kind is not None}
    if node.op == "Cast" and made == {"float32"}:
        return ""  # it loses the digits that OpenVINO has lost
    for kind in sorted((taken | made) & _NARROWED):
        return f"OpenVINO computes {kind} as float32"
    for kind in sorted(made & _WIDENED) if node.op not in UNROUNDED else ():
        return f"{node.op} computes {kind}, which OpenVINO keeps in another type"
    return ""


def _must_be_checked(node: Node) -> bool:
    """Whether shapes do not tell if TensorFlow refuses what it takes: ids, conditions, divisors that are whole."""
    return node.op in ID_INPUTS or node.op == "Assert" or _is_whole_math(node)


def _is_whole_math(node: Node) -> bool:
    """Whether a node computes whole numbers of whole numbers."""
    found = node.attrs.get("T") or node.attrs.get("Tidx") or node.attrs.get("dtype")
    kind = None if found is None else found.dtype
    return node.op in WHOLE_REFUSALS and kind is not None and kind.base.name.startswith(("int", "uint"))


class Guard:
    """Looks at what goes into and comes out of a program that is proven for some tensors only.

    Args:
        flat: The program for one choice of what is fed.
        number: The version of OpenVINO.
        only_deadly: Whether only what kills the process counts.

    Attributes:
        proof: What conformance says of it.
    """

    def __init__(self, flat: FlatGraph, number: str, *, only_deadly: bool = False) -> None:
        self._flat = flat
        self.proof = check_program("openvino", number, flat.graph)
        if only_deadly:
            self.proof = self.proof.of_deadly()
        self._constants: dict[str, Range] = {}
        self._known: dict[Any, str | None] = {}
        self._prepared: Any = None
        own = [place.node for place in self.proof.except_for.get(BAD, ()) if place.body is flat.graph]
        self._checks = [_check_of(flat, node) for node in own]
        self._used: list[_Check] = []
        self._plan: Plan | None = None
        self._folded = flat

    def static_doubts(self) -> Iterator[Lack]:
        """Nodes that are not proven whatever is fed: what they may meet does not follow from shapes and ranges."""
        from tfsmith.ops.inference import Inference

        for place, condition in self._static_meetings():
            yield Lack(place.node.op, (place.node.name,), f"{place.node.op} is not proven for {_WORDS[condition]}")
        for node in _empty_nodes(self._flat.graph, Inference(self._flat.graph, trust_notes=False)):
            yield Lack(node.op, (node.name,), f"{node.op} is not proven for {_WORDS[EMPTY]}")
        for node, what in self._refused_constants():
            yield Lack(node.op, (node.name,), f"{node.op} of constants fails ({what}), of which OpenVINO may die")

    def _refused_constants(self) -> Iterator[tuple[Node, str]]:
        """Nodes that divide whole constants by 0 and their like: OpenVINO computes them when it compiles."""
        from tfsmith.engines.reference import plan_tensors

        graph = self._flat.graph
        suspects = [check.node for check in self._checks if _is_whole_math(check.node)]
        fed = {parse_input(name).node for name in self._flat.inputs.values()} if suspects else set()
        for node in graph.topological_order() if suspects else ():
            if any(source.node in fed for source in graph.inputs_of(node)):
                fed.add(node.name)
        for node in suspects:
            if node.name in fed:
                continue
            try:
                plan_tensors(replace(self._flat, inputs={}), [f"{node.name}:0"]).run([])
            except TfsmithError as error:
                yield node, error.what

    def _static_meetings(self) -> list[tuple[Place, Condition]]:
        """The nodes that meet what they are not proven for with all sizes and numbers that are tried as inputs."""
        from tfsmith.ops.inference import Inference
        from tfsmith.ops.ranges import Range

        graph = self._flat.graph
        conditions = set(self.proof.except_for)
        inputs = [graph[parse_input(name).node] for name in self._flat.inputs.values()]
        if any(output_shape(node).dims is None for node in inputs):
            conditions -= {EMPTY, BAD}
        given = {node.name: Range(0.5, 1) if _is_float(graph, node) else Range(1, 2) for node in inputs}
        left: list[tuple[Place, Condition]] = []
        for size in (None, *_SIZES):
            shaped = graph if size is None else graph.map_nodes({node.name: _sized(node, size) for node in inputs})
            inference = Inference(shaped, trust_notes=False)
            met = list(self._meeting(shaped, inference, given, conditions))
            names = {(place.node.name, condition) for place, condition in met}
            left = met if size is None else [one for one in left if (one[0].node.name, one[1]) in names]
            if not left:
                break
        return left

    def doubt(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these inputs may not go to OpenVINO; None if they may.

        Raises:
            EngineError: TensorFlow would refuse them.
        """
        if self.proof.doubts:
            return f"for {self.proof.doubts[0]}"
        found = self.proof.except_for
        if not found:
            return None
        used = {key: feeds[key] for key in self._flat.inputs}
        shapes = tuple((name, array.shape) for name, array in used.items())
        needs_ranges = NONFINITE in found or WIDE in found
        ranges = {key: _range_of(array, rough=True) for key, array in used.items()} if needs_ranges else {}
        key = (shapes, tuple(ranges.items()))
        if key not in self._known:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._check_shapes(used, ranges)
        if self._known[key] is not None:
            return self._known[key]
        return self._check_values(used, shapes) if BAD in found else None

    def doubt_of(self, results: Mapping[str, NDArray[Any]]) -> str | None:
        """Why results may not be trusted; None if they may."""
        found = self.proof.except_for
        if EMPTY in found and any(array.size == 0 for array in results.values()):
            return f"for {_WORDS[EMPTY]}"
        if WIDE in found and any(map(_is_wide, results.values())):
            return f"for {_WORDS[WIDE]}"
        return f"for {_WORDS[NONFINITE]}" if NONFINITE in found and non_finite(results) else None

    def _check_shapes(self, feeds: Mapping[str, NDArray[Any]], ranges: Mapping[str, Range]) -> str | None:
        """Holds the shapes and ranges of all tensors against what is proven.

        Raises:
            EngineError: Shapes do not fit.
        """
        from tfsmith.ops.inference import Inference, find_conflicts

        shaped = self._shaped(feeds)
        for conflict in find_conflicts(shaped):
            remedy = "check the shapes of the inputs"
            raise EngineError(f"{conflict.op}: {conflict.what}", where=f"node {conflict.node!r}", remedy=remedy)
        inference = Inference(shaped, trust_notes=False)
        for node in _empty_nodes(shaped, inference):
            return f"for {_WORDS[EMPTY]}, which {node.name} ({node.op}) meets"
        for place in self.proof.except_for.get(BAD, ()):
            node = place.node
            if node.op not in LEAST_RANK or node.name not in shaped:
                continue
            dims = inference.shape(shaped, shaped.inputs_of(node)[0]).dims
            if dims is not None and len(dims) < LEAST_RANK[node.op]:
                what = f"{node.op} failed: a tensor without dimensions"
                raise EngineError(what, where=f"node {node.name!r}", remedy="check the shapes of the inputs")
        given = {parse_input(self._flat.inputs[key]).node: one for key, one in ranges.items()}
        for place, condition in self._meeting(shaped, inference, given, set(self.proof.except_for)):
            return f"for {_WORDS[condition]}, which {place.node.name} ({place.node.op}) may meet"
        return None

    def _shaped(self, feeds: Mapping[str, NDArray[Any]]) -> Graph:
        """The graph with placeholders of these shapes."""
        graph = self._flat.graph
        nodes = {parse_input(self._flat.inputs[key]).node: array.shape for key, array in feeds.items()}
        return graph.map_nodes(
            {name: graph[name].replace(attrs={"shape": Shape(shape)}) for name, shape in nodes.items()}
        )

    def _meeting(
        self, graph: Graph, inference: Inference, given: Mapping[str, Range], conditions: set[Condition]
    ) -> Iterator[tuple[Place, Condition]]:
        """The nodes that may meet tensors for which they are not proven.

        Args:
            graph: The graph with the shapes that are known.
            inference: The shapes of all tensors.
            given: The ranges of the placeholders.
            conditions: Which kinds of tensors to look for.
        """
        from tfsmith.ops.ranges import ANYTHING, find_ranges

        found = self.proof.except_for
        if EMPTY in conditions:
            for place in found[EMPTY]:
                body = graph if place.body is self._flat.graph else place.body
                if not all(_has_elements(inference, body, tensor) for tensor in _tensors_of(body, place.node)):
                    yield place, EMPTY
        if BAD in conditions:
            yield from ((place, BAD) for place in found[BAD] if not self._is_checked(place, graph, inference))
        if not conditions & {NONFINITE, WIDE}:
            return
        ranges = find_ranges(graph, given, inference, self._constant)
        for condition, is_right in _CHECKED.items():
            for place in found[condition] if condition in conditions else ():
                if place.body is not self._flat.graph:
                    yield place, condition
                    continue
                for tensor, kind in _typed(graph, place.node):
                    if not is_right(ranges.get(tensor, ANYTHING), kind):
                        yield place, condition
                        break

    def _is_checked(self, place: Place, graph: Graph, inference: Inference) -> bool:
        """Whether it is known before a run if TensorFlow refuses what a node takes: its axes and sizes are known."""
        body = graph if place.body is self._flat.graph else place.body
        if body is graph and _must_be_checked(place.node):
            return True  # that is computed before each run
        sources = [source for source in body.inputs_of(place.node) if source.output != CONTROL]
        return all(
            _type_name(inference, body, source) not in ("int32", "int64")
            or inference.integers(body, source) is not None
            for source in sources[1:]
        )

    def _constant(self, node: Node) -> Range:
        """The range of a constant; read once."""
        from tfsmith.ops.ranges import ANYTHING

        if node.name not in self._constants:
            tensor = node.constant
            is_number = tensor is not None and tensor.dtype.itemsize and tensor.dtype.base.name != "string"
            self._constants[node.name] = _range_of(tensor.numpy()) if tensor is not None and is_number else ANYTHING
        return self._constants[node.name]

    def _prepare(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        """Chooses the checks of values for these shapes."""
        from tfsmith.ops.inference import Inference

        shaped = self._shaped(feeds)
        inference = Inference(shaped, trust_notes=False)
        shaped = shaped.map_nodes(dict(_told_by_shapes(shaped, inference)))
        inference = Inference(shaped, trust_notes=False)
        self._folded = replace(self._flat, graph=shaped)
        self._plan = None
        self._used = []
        for check in self._checks:
            if check.prepare(shaped, inference):
                self._used.append(check)
            elif check.is_needed and not check.is_known(shaped, inference):
                return f"for what {check.node.name} takes, which cannot be checked before it runs"
        return None

    def _check_values(self, feeds: Mapping[str, NDArray[Any]], shapes: Any) -> str | None:
        """Computes ids and conditions, by themselves, and looks at them.

        Raises:
            EngineError: An id is out of range, or an assertion does not hold.
        """
        import numpy

        if self._prepared is None or self._prepared[0] != shapes:
            self._prepared = (shapes, self._prepare(feeds))
        if self._prepared[1] is not None or not self._used:
            return str(self._prepared[1]) if self._prepared[1] is not None else None
        if self._plan is None:
            from tfsmith.engines.reference import plan_tensors

            try:
                self._plan = plan_tensors(self._folded, [check.tensor for check in self._used])
            except TfsmithError as error:
                return f"for what cannot be checked before it runs ({error.what})"
        with numpy.errstate(all="ignore"):
            values = self._plan.run([feeds[key] for key in self._flat.inputs])
        for check, array in zip(self._used, values, strict=True):
            check.look(array)
        return None


_MOST_KNOWN = 1000
"""So many shapes and ranges of inputs are remembered."""


def _tensors_of(body: Body, node: Node) -> Iterator[Endpoint]:
    """What a node takes and gives."""
    yield from (source for source in body.inputs_of(node) if source.output != CONTROL)
    definition = body.op_def(node.op)
    for number in range(1 if definition is None else definition.output_count(node.attrs)):
        yield Endpoint(node.name, number)


def _type_name(inference: Inference, body: Body, tensor: Endpoint) -> str:
    kind = inference.dtype(body, tensor)
    return "" if kind is None else kind.base.name


def _typed(graph: Graph, node: Node) -> Iterator[tuple[Endpoint, str]]:
    """What a node takes and gives, with the names of the types."""
    for tensor in _tensors_of(graph, node):
        kind = output_type(graph, graph[tensor.node], tensor.output)
        yield tensor, "" if kind is None else kind.base.name


def _has_elements(inference: Inference, body: Body, tensor: Endpoint) -> bool:
    """Whether a tensor has elements; a size that is open, but has a name, is that of something that is fed."""
    dims = inference.known(body, tensor).dims
    return dims is not None and all(size is not None and size != 0 for size in dims)


def _empty_nodes(graph: Graph, inference: Inference) -> Iterator[Node]:
    """Nodes that give a tensor without elements; lists of no sizes or axes do not count.

    Ops were checked for such tensors one by one, and OpenVINO dies of some chains of ops that are right alone.
    """
    for node in graph:
        if node.op in GIVEN:
            continue
        definition = graph.op_def(node.op)
        for number in range(1 if definition is None else definition.output_count(node.attrs)):
            tensor = Endpoint(node.name, number)
            dims = inference.known(graph, tensor).dims
            is_list = dims is not None and len(dims) == 1 and _type_name(inference, graph, tensor).startswith("int")
            if dims is not None and 0 in dims and not is_list:
                yield node
                break


def _told_by_shapes(graph: Graph, inference: Inference) -> Iterator[tuple[str, Node]]:
    """The nodes whose whole numbers follow from the shapes, as constants."""
    import numpy

    for node in graph:
        definition = graph.op_def(node.op)
        is_single = definition is not None and definition.output_count(node.attrs) == 1
        if node.op in GIVEN or node.op not in computed_ops() or not is_single:
            continue
        tensor = Endpoint(node.name, 0)
        found, kind = inference.known(graph, tensor), inference.dtype(graph, tensor)
        if found.numbers is None or kind is None or found.shape.dims is None or not kind.base.name.startswith("int"):
            continue
        array = numpy.array(found.numbers, kind.base.numpy()).reshape(found.shape.dims)
        value = Attr("tensor", ArrayTensor(kind.base, array))
        yield node.name, Node(node.name, "Const", (), {"dtype": kind.base, "value": value})


def _sized(node: Node, size: int) -> Node:
    """A placeholder with this size for those that it leaves open."""
    dims = output_shape(node).dims
    sizes = None if dims is None else tuple(size if one < 0 else one for one in dims)
    return node.replace(attrs={"shape": Shape(sizes)})


def _is_float(graph: Graph, node: Node) -> bool:
    kind = output_type(graph, node)
    return kind is not None and "float" in kind.base.name


def _is_finite(found: Range, kind: str) -> bool:
    return found.finite or not kind.startswith(("float", "bfloat", "complex"))


def _is_narrow(found: Range, kind: str) -> bool:
    is_whole = kind.startswith(("int", "uint"))
    return not is_whole or (found.finite and found.low >= -WIDEST and found.high <= WIDEST)


_CHECKED: Mapping[Condition, Callable[[Range, str], bool]] = {NONFINITE: _is_finite, WIDE: _is_narrow}


def _range_of(array: NDArray[Any], *, rough: bool = False) -> Range:
    """The range of an array; a rough one has powers of two as its ends, so that few differ."""
    import numpy

    from tfsmith.ops.ranges import ANYTHING, ORDINARY, Range

    if array.dtype.kind in "OSUV" and array.dtype.name != "bfloat16":
        return ANYTHING
    if array.dtype.kind == "c":
        return Range(-ORDINARY, ORDINARY, bool(numpy.isfinite(array).all()))
    if not array.size:
        return Range(0, 0)
    if array.dtype.name == "bfloat16":
        array = array.astype(numpy.float32)
    if array.size > _SMALL and not rough and array.dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            is_finite = bool(numpy.isfinite(array.sum(dtype=numpy.float64)))
        return Range(-ORDINARY, ORDINARY) if is_finite else ANYTHING
    low, high = array.min().item(), array.max().item()
    if array.dtype.kind == "f" and not (math.isfinite(low) and math.isfinite(high)):
        return ANYTHING
    return Range(_outward(low, -1), _outward(high, 1)) if rough else Range(low, high)


def _outward(value: float, sign: int) -> float:
    """The nearest power of two that is not less (sign 1) or not greater (sign -1)."""
    if value == 0:
        return 0
    up = (value > 0) == (sign > 0)
    if isinstance(value, int):
        bits = abs(value).bit_length()
        most = 1 << (bits if up else bits - 1)
        return most - (value > 0 and up) if value > 0 else -most
    mantissa, exponent = math.frexp(abs(value))
    return math.copysign(math.ldexp(1.0, exponent if up and mantissa > 0.5 else exponent - 1), value)


def _is_wide(array: NDArray[Any]) -> bool:
    """Whether it has integers over 24 bits."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or not array.size:
        return False
    return int(array.min()) < -WIDEST or int(array.max()) > WIDEST


def _check_of(flat: FlatGraph, node: Node) -> _Check:
    kind = _AssertCheck if node.op == "Assert" else _IdCheck if node.op in ID_INPUTS else _ValueCheck
    return kind(flat, node, _must_be_checked(node))


class _Check(ABC):
    """A node of which TensorFlow refuses some inputs, whatever their shapes.

    Attributes:
        node: The node.
        is_needed: Whether the engine must not run without this check.
        tensor: What is computed to be looked at.
    """

    def __init__(self, flat: FlatGraph, node: Node, is_needed: bool) -> None:
        self.node = node
        self.is_needed = is_needed
        self._sources = flat.graph.inputs_of(node)
        self._at = self._looked_at()
        self.tensor = str(self._at)

    def _looked_at(self) -> Endpoint:
        return self._sources[ID_INPUTS.get(self.node.op, 0)]

    def prepare(self, graph: Graph, inference: Inference) -> bool:
        """Whether it can be computed before a run with these shapes."""
        return _is_whole(graph, self._at)

    def is_known(self, graph: Graph, inference: Inference) -> bool:
        """Whether shapes tell what it takes, and that TensorFlow takes it.

        Raises:
            EngineError: TensorFlow refuses it.
        """
        return False

    @abstractmethod
    def look(self, values: NDArray[Any]) -> None:
        """Looks at the values.

        Raises:
            EngineError: TensorFlow refuses them.
        """

    def _refusal(self, what: str, remedy: str) -> EngineError:
        return EngineError(f"{self.node.op} failed: {what}", where=f"node {self.node.name!r}", remedy=remedy)


class _ValueCheck(_Check):
    """A node that is computed by itself, with all that leads to it; if TensorFlow refuses something, that fails."""

    def _looked_at(self) -> Endpoint:
        return Endpoint(self.node.name, 0)

    def is_known(self, graph: Graph, inference: Inference) -> bool:
        import numpy

        from tfsmith.ops.values import OpError, compute

        arrays: list[NDArray[Any]] = []
        for source in self._sources:
            found, kind = inference.known(graph, source), inference.dtype(graph, source)
            shape = found.shape.dims
            if source.output == CONTROL or found.numbers is None or kind is None or shape is None:
                return False
            arrays.append(numpy.array(found.numbers, kind.base.numpy()).reshape(shape))
        try:
            compute(self.node.op, arrays, self.node.attrs)
        except (OpError, ValueError, ArithmeticError) as error:
            raise self._refusal(str(error), "check the shapes of the inputs") from error
        return True

    def look(self, values: NDArray[Any]) -> None:
        """There is no more to see."""


class _AssertCheck(_Check):
    """An assertion must hold."""

    def look(self, values: NDArray[Any]) -> None:
        if not values.all():
            raise self._refusal("the assertion does not hold", "check the shapes and values of the inputs")


class _IdCheck(_Check):
    """Ids must be in range."""

    _sizes: tuple[int, ...] = ()

    def prepare(self, graph: Graph, inference: Inference) -> bool:
        dims = inference.shape(graph, self._sources[0]).dims
        if dims is None or not super().prepare(graph, inference):
            return False
        if self.node.op == "GatherNd":
            dims = dims[: (inference.shape(graph, self._at).dims or (0,))[-1]]
        elif self.node.op == "GatherV2":
            axis = inference.integers(graph, self._sources[2])
            dims = () if axis is None else dims[axis[0] :][:1]
        else:
            dims = dims[:1]
        self._sizes = dims
        return bool(dims) and all(size >= 0 for size in dims)

    def look(self, values: NDArray[Any]) -> None:
        columns = [values]
        if self.node.op == "GatherNd":
            columns = [values[..., number] for number in range(values.shape[-1])]
        for column, size in zip(columns, self._sizes, strict=True):
            wrong = column[(column < 0) | (column >= size)]
            if wrong.size:
                what = f"index {int(wrong.reshape(-1)[0])} is not in [0, {size})"
                raise self._refusal(what, "check the ids that are fed")


def _is_whole(graph: Graph, tensor: Endpoint) -> bool:
    """Whether all that leads to a tensor are whole numbers, which are quick to compute."""
    for name in graph.ancestors([tensor.node]):
        kind = output_type(graph, graph[name])
        if kind is not None and not kind.base.name.startswith(("int", "uint", "bool", "string")):
            return False
    return True
