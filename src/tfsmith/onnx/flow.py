"""Branches, loops, and the lists of tensors that loops fill.

A list is what its tensors are when they are stacked. One that a loop writes from its first element to its last becomes
an output of ONNX' loop, which stacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir

from tfsmith.ir.dtype import DType
from tfsmith.ir.function import Function
from tfsmith.ir.graph import check_nodes
from tfsmith.ir.node import Endpoint, Node
from tfsmith.onnx.builder import BOOL, INT32, INT64, Refusal, Val, onnx_type
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.lower import Driver
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.families import PASSES_ON
from tfsmith.ops.sizes import Known
from tfsmith.records import record

__all__ = ["TensorList", "emit_if", "emit_loop"]

_PASSES = 4
"""How often a loop's body is lowered until the shapes of what it carries are those that it gives."""


@record(eq=False)
class TensorList:
    """A list of tensors.

    Attributes:
        dtype: The type of its elements.
        stacked: Its elements, stacked; None of a list that is not filled yet.
        count: How many elements it is to have, a vector of one int64; None if it grows.
    """

    dtype: DType
    stacked: Val | None
    count: Val | None = None


def _list_val(found: TensorList) -> Val:
    val = Val(found.dtype, Known(()), None, None)
    val.held = found
    return val


def _list(val: Val) -> TensorList:
    if not isinstance(val.held, TensorList):
        raise Refusal("its list of tensors comes from elsewhere")
    return val.held


# Branches


def _truth(n: NodeContext, x: Val) -> Val:
    """A condition: a truth, or a number that is not zero."""
    if x.dims is None or len(x.dims) != 0:
        raise Refusal("its condition is not known to be a scalar")
    if x.dtype.name == "string":
        raise Refusal("its condition is a string")
    return x if x.dtype.name == "bool" else n.b.cast(x, BOOL)


def emit_if(driver: Driver, condition: Val, branches: Sequence[Callable[[], list[Val]]], name: str) -> list[Val]:
    """Emits a condition: the first branch where it is true, else the second."""
    b = driver.b
    array = condition.array
    if array is not None:
        return branches[0 if bool(array) else 1]()
    graphs: list[onnx_ir.Graph] = []
    results: list[list[Val]] = []
    for number, branch in enumerate(branches):
        outer = b.scope
        driver.open_scope()
        try:
            found = branch()
            if any(one.held is not None for one in found):
                raise Refusal("a branch gives a list of tensors")
            graphs.append(driver.close_scope([], found, f"{name}/{('then', 'else')[number]}"))
        finally:
            b.scope = outer
        results.append(found)
    b.prefix = name
    known = [_agreed(pair[0].known, pair[1].known) for pair in zip(*results, strict=True)]
    kinds = [one.dtype for one in results[0]]
    if kinds != [one.dtype for one in results[1]]:
        raise Refusal("its branches give different types")
    return b.ops("If", condition, dtypes=kinds, knowns=known, then_branch=graphs[0], else_branch=graphs[1])


def _agreed(one: Known, other: Known) -> Known:
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return Known()
    return Known(tuple(a if a == c else None for a, c in zip(one.dims, other.dims, strict=True)))


@lowering("If StatelessIf")
def _if(n: NodeContext) -> list[Val]:
    args = n.inputs[1:]
    then, other = n.node.func("then_branch"), n.node.func("else_branch")
    branches = [lambda func=func: n.driver.call(func, args, n.node.name) for func in (then, other)]
    return emit_if(n.driver, _truth(n, n.x), branches, n.node.name)


@lowering("Case StatelessCase")
def _case(n: NodeContext) -> list[Val]:
    """One condition after the other; what is out of range is the last."""
    b, args = n.b, n.inputs[1:]
    funcs = n.attrs["branches"].funcs
    if n.x.dims is None or len(n.x.dims) != 0:
        raise Refusal("its index is not known to be a scalar")

    def branch(at: int) -> list[Val]:
        if at == len(funcs) - 1:
            return n.driver.call(funcs[at], args, n.node.name)
        is_it = b.op("Equal", n.x, b.const(at, n.x.dtype), dtype=BOOL, dims=())
        choices = [lambda: n.driver.call(funcs[at], args, n.node.name), lambda: branch(at + 1)]
        return emit_if(n.driver, is_it, choices, f"{n.node.name}_{at}")

    return branch(0)


# Loops


def emit_loop(
    driver: Driver,
    initial: Sequence[Val],
    condition: Callable[[Sequence[Val]], Val],
    body: Callable[[Sequence[Val]], list[Val]],
    name: str,
) -> tuple[list[Val], list[Val]]:
    """Emits a loop.

    Args:
        driver: The driver.
        initial: What is carried, as it is before the first step.
        condition: Whether there is another step, for what is carried.
        body: A step: what is carried afterwards, and behind it what is stacked.
        name: Its name.

    Returns:
        What is carried after the last step, and what was stacked.
    """
    b = driver.b
    first = condition(initial)
    knowns = [Known(one.known.dims) for one in initial]
    for _ in range(_PASSES):
        outer, lacks = b.scope, driver.snapshot()
        driver.open_scope()
        try:
            step = onnx_ir.Value(name=b.free_name(f"{name}/step"), type=onnx_ir.TensorType(onnx_type(INT64)))
            goes = onnx_ir.Value(name=b.free_name(f"{name}/goes_on"), type=onnx_ir.TensorType(onnx_type(BOOL)))
            step.shape = goes.shape = onnx_ir.Shape(())
            taken: list[onnx_ir.Value] = []
            args: list[Val] = []
            for number, (one, known) in enumerate(zip(initial, knowns, strict=True)):
                kind = onnx_ir.TensorType(onnx_type(one.dtype))
                value = onnx_ir.Value(name=b.free_name(f"{name}/carried_{number}"), type=kind)
                taken.append(value)
                args.append(Val(one.dtype, known, value, b.scope))
            found = body(args)
            after, stacked = found[: len(initial)], found[len(initial) :]
            if any(one.held is not None for one in found):
                raise Refusal("it carries a list of tensors that it does not fill in order")
            relaxed = [_relaxed(own, one.known) for own, one in zip(knowns, after, strict=True)]
            if relaxed != knowns:
                knowns = relaxed
                driver.restore(lacks)
                continue
            goes_on = condition(after)
            graph = driver.close_scope([step, goes, *taken], [goes_on, *after, *stacked], f"{name}/body")
        finally:
            b.scope = outer
        b.prefix = name
        kinds = [*(one.dtype for one in initial), *(one.dtype for one in stacked)]
        told = [*knowns, *(Known(None if one.dims is None else (None, *one.dims)) for one in stacked)]
        results = b.ops("Loop", None, first, *initial, dtypes=kinds, knowns=told, body=graph)
        return results[: len(initial)], results[len(initial) :]
    raise Refusal("the shapes of what it carries do not settle")


def _relaxed(own: Known, given: Known) -> Known:
    """What is true of a tensor before and after a step."""
    if own.dims is None:
        return own
    if given.dims is None:
        return Known(tuple(None for _ in own.dims)) if any(size is not None for size in own.dims) else own
    if len(own.dims) != len(given.dims):
        return Known()
    return Known(tuple(a if a == c else None for a, c in zip(own.dims, given.dims, strict=True)))


@lowering("While StatelessWhile")
def _while(n: NodeContext) -> list[Val | None]:
    function = n.driver.graph.library.get(n.node.func("body").name)
    if function is None:
        raise Refusal("its body is not in the library")
    loop = _Loop(n, function)
    return loop.lowered()


class _Loop:
    """A loop whose body and condition are functions."""

    def __init__(self, n: NodeContext, function: Function) -> None:
        check_nodes(function)
        self._n = n
        self._function = function
        names = [arg.name for arg in function.signature.inputs]
        results = [function.resolve(function.ret[out.name]) for out in function.signature.outputs]
        if not len(names) == len(results) == len(n.inputs):
            raise Refusal("its body gives another number of values than it takes")
        self._names = names
        self._results = results
        sources = [self._source(result) for result in results]
        self._fixed = [at for at, source in enumerate(sources) if source == Endpoint(names[at], 0)]
        self._writes = {at: write for at in range(len(names)) if (write := self._write(at, sources[at])) is not None}
        self._carried = [at for at in range(len(names)) if at not in self._fixed and at not in self._writes]

    def _source(self, tensor: Endpoint) -> Endpoint:
        """Where a tensor of the body comes from, behind what only hands it on."""
        by_name = self._function.by_name
        for _ in range(50):
            node = by_name.get(tensor.node)
            if node is None or node.op not in PASSES_ON:
                return tensor
            tensor = self._function.resolve(node.inputs[0])
        return tensor

    def _write(self, at: int, source: Endpoint) -> Node | None:
        """The node that fills a list in order: element after element, with the number of the step; else None."""
        held = self._n.inputs[at].held
        node = self._function.by_name.get(source.node)
        if not isinstance(held, TensorList) or held.stacked is not None or node is None:
            return None
        own = Endpoint(self._names[at], 0)
        uses = [use for use in self._function.nodes if any(self._resolves(use, own))]
        if [use.name for use in uses if use.op not in PASSES_ON] != [node.name]:
            return None
        if node.op == "TensorListPushBack":
            return node if held.count is None else None
        if node.op != "TensorListSetItem" or held.count is None:
            return None
        index = self._source(self._function.resolve(node.inputs[1]))
        return node if self._counts_steps(index) else None

    def _resolves(self, node: Node, tensor: Endpoint) -> list[bool]:
        texts = [text for text in node.inputs if not text.startswith("^")]
        return [self._source(self._function.resolve(text)) == tensor for text in texts]

    def _counts_steps(self, index: Endpoint) -> bool:
        """Whether a tensor of the body is the number of the step: it begins at 0, and each step adds 1."""
        if index.node not in self._names:
            return False
        at = self._names.index(index.node)
        if self._n.inputs[at].known.numbers != (0,):
            return False
        node = self._function.by_name.get(self._source(self._results[at]).node)
        if node is None or node.op not in ("Add", "AddV2"):
            return False
        ends = [self._source(self._function.resolve(text)) for text in node.inputs if not text.startswith("^")]
        others = [end for end in ends if end != index]
        if len(ends) != 2 or len(others) != 1:
            return False
        other = self._function.by_name.get(others[0].node)
        if other is None and others[0].node in self._names:
            given = self._names.index(others[0].node)
            return given in self._fixed and self._n.inputs[given].known.numbers == (1,)
        constant = None if other is None else other.constant
        return constant is not None and constant.shape.elements == 1 and int(constant.numpy().reshape(-1)[0]) == 1

    def lowered(self) -> list[Val | None]:
        """The values after the last step."""
        n = self._n
        driver, inputs = n.driver, n.inputs

        def whole(carried: Sequence[Val]) -> list[Val]:
            found = list(inputs)
            for at, val in zip(self._carried, carried, strict=True):
                found[at] = val
            return found

        def condition(carried: Sequence[Val]) -> Val:
            return _truth(n, driver.call(n.node.func("cond"), whole(carried), n.node.name)[0])

        def body(carried: Sequence[Val]) -> list[Val]:
            items = [self._function.resolve(node.data_inputs[-1]) for node in self._writes.values()]
            wanted = [self._results[at] for at in self._carried]
            return driver.call(n.node.func("body"), whole(carried), n.node.name, [*wanted, *items])

        carried, stacked = emit_loop(driver, [inputs[at] for at in self._carried], condition, body, n.node.name)
        result: list[Val | None] = list(inputs)
        for at, val in zip(self._carried, carried, strict=True):
            result[at] = val
        for at, val in zip(self._writes, stacked, strict=True):
            held = _list(inputs[at])
            result[at] = _list_val(TensorList(held.dtype, _filled(n, val, held.count), None))
        return result


def _filled(n: NodeContext, stacked: Val, count: Val | None) -> Val:
    """The elements that a loop wrote, with zeros for those that it did not reach."""
    b = n.b
    if count is None:
        return stacked
    if stacked.dims is None:
        raise Refusal("the rank of its elements is not known before it runs")
    more = b.op("Sub", count, b.size(stacked, 0))
    rank = len(stacked.dims)
    pads = b.concat([b.const([0] * rank), more, *([b.const([0] * (rank - 1))] if rank > 1 else [])], 0)
    kind = widened(stacked.dtype, ("float32", "float64", "int32", "int64", "bool"))
    known = Known((count.known.values[0] if count.known.values else None, *stacked.dims[1:]))
    return b.cast(b.op("Pad", b.cast(stacked, kind), pads, b.const(0, kind), known=known), stacked.dtype)


# Lists


@lowering("TensorListFromTensor")
def _from_tensor(n: NodeContext) -> Val:
    return _list_val(TensorList(n.x.dtype, n.x))


@lowering("TensorListReserve")
def _reserve(n: NodeContext) -> Val:
    count = n.b.reshape(n.b.int64(n.y), [1])
    return _list_val(TensorList(_element_type(n), None, count))


@lowering("EmptyTensorList")
def _empty(n: NodeContext) -> Val:
    return _list_val(TensorList(_element_type(n), None, None))


def _element_type(n: NodeContext) -> DType:
    found = n.attr("element_dtype")
    if not isinstance(found, DType):
        raise Refusal("the type of its elements is not known")
    return found


@lowering("TensorListGetItem")
def _get_item(n: NodeContext) -> Val:
    held = _list(n.x)
    if held.stacked is None:
        raise Refusal("it reads a list that is not filled")
    return n.b.op("Gather", held.stacked, n.y, axis=0, known=_element(held.stacked))


def _element(stacked: Val) -> Known:
    return Known(None if stacked.dims is None else stacked.dims[1:])


@lowering("TensorListSetItem")
def _set_item(n: NodeContext) -> Val:
    held = _list(n.x)
    if held.stacked is None:
        raise Refusal("it writes to a list that no loop fills in order")
    b = n.b
    place = b.reshape(b.int64(n.y), [1, 1])
    item = b.unsqueeze(n.inputs[2], [0])
    found = b.op("ScatterND", held.stacked, place, item, known=held.stacked.known)
    return _list_val(TensorList(held.dtype, found))


@lowering("TensorListStack")
def _stack(n: NodeContext) -> Val:
    held = _list(n.x)
    if held.stacked is None:
        raise Refusal("it stacks a list that is not filled")
    return n.b.op("Identity", held.stacked, known=held.stacked.known)


@lowering("TensorListLength")
def _length(n: NodeContext) -> Val:
    held, b = _list(n.x), n.b
    if held.stacked is not None:
        return b.narrow(b.squeeze(b.size(held.stacked, 0), [0]), INT32)
    if held.count is None:
        raise Refusal("how long its list is depends on a loop")
    return b.narrow(b.squeeze(held.count, [0]), INT32)
