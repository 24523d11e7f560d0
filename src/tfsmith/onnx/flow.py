"""Branches, loops, and the lists of tensors that loops fill.

A list is what its tensors are when they are stacked. One that a loop writes from its first element to its last becomes
an output of ONNX' loop, which stacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir

from tfsmith.ir.graph import Function, check_nodes
from tfsmith.ir.node import Endpoint
from tfsmith.ir.types import DType
from tfsmith.onnx.builder import BOOL, INT32, INT64, Builder, Refusal, Val, onnx_type
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.lower import Driver
from tfsmith.onnx.recurrent import LoopBody, recurrent
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops import PASSES_ON
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
        size: How many elements it is to have, one integer; None if it grows.
        write: How this step of a loop fills it; None of a list that was not touched.
        is_filled_here: Whether the loop that is being lowered fills it.
    """

    dtype: DType
    stacked: Val | None
    size: Val | None = None
    write: _Write | None = None
    is_filled_here: bool = False


@record(eq=False)
class _Write:
    """An element that is put into a list: behind the others where there is no index."""

    into: TensorList
    index: Val | None
    item: Val


def _list_val(found: TensorList) -> Val:
    val = Val(found.dtype, Known(()), None, None)
    val.held = found
    return val


def _list(val: Val) -> TensorList:
    if not isinstance(val.held, TensorList):
        raise Refusal("its list of tensors comes from elsewhere")
    return val.held


def _stacked(val: Val) -> Val:
    found = _list(val).stacked
    if found is None:
        raise Refusal("it reads a list that is not filled")
    return found


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


@record(eq=False)
class _Step:
    """The body of a loop, lowered.

    Attributes:
        graph: The body.
        items: What is stacked, by the list that it fills.
        lasts: The lists of which only the last element is kept.
        loop: What it carries and stacks, to be looked at.
    """

    graph: onnx_ir.Graph
    items: dict[int, Val]
    lasts: set[int]
    loop: LoopBody


def emit_loop(
    driver: Driver,
    initial: Sequence[Val],
    condition: Callable[[Sequence[Val]], Val],
    body: Callable[[Sequence[Val]], list[Val]],
    name: str,
) -> list[Val]:
    """Emits a loop; LSTM or GRU where it is nothing else.

    Args:
        driver: The driver.
        initial: What is carried, as it is before the first step. Of lists, what each step adds is stacked.
        condition: Whether there is another step, for what is carried.
        body: A step: what is carried afterwards.
        name: Its name.

    Returns:
        What is carried after the last step.
    """
    b = driver.b
    initial = list(initial)
    first = condition(initial)
    step: _Step | None = None
    knowns: dict[int, Known] = {}
    for _ in range(_PASSES):
        outer, lacks = b.scope, driver.snapshot()
        for at, one in enumerate(initial):
            if _tensor(one) is not None:
                knowns.setdefault(at, Known(_stacked_or_own(one).dims))
        try:
            step = _lower_step(driver, initial, knowns, condition, body, name)
            break
        except _WeakerError as weaker:
            knowns = weaker.knowns
        except _OtherOrderError as other:
            b.scope = outer
            initial[other.at] = _list_val(_zeros(b, _list(initial[other.at]), other.item))
        finally:
            b.scope = outer
        driver.restore(lacks)
    if step is None:
        raise Refusal("the shapes of what it carries do not settle")
    b.prefix = name
    plain = list(knowns)
    carried = [_stacked_or_own(initial[at]) for at in plain]
    known = recurrent(step.loop)
    if known is not None:
        results, stacked = known
    else:
        items = list(step.items.values())
        kinds = [*(one.dtype for one in carried), *(one.dtype for one in items)]
        told = [*knowns.values(), *(Known(None if one.dims is None else (None, *one.dims)) for one in items)]
        found_vals = b.ops("Loop", None, first, *carried, dtypes=kinds, knowns=told, body=step.graph)
        results, stacked = found_vals[: len(carried)], found_vals[len(carried) :]
    after = list(initial)
    for at, val in zip(plain, results, strict=True):
        after[at] = _like(initial[at], val)
    for at, val in zip(step.items, stacked, strict=True):
        after[at] = _list_val(_filled(b, val, _list(initial[at]), step.loop, is_last=at in step.lasts))
    return after


class _WeakerError(Exception):
    """A step changes shapes: less is true of what is carried."""

    def __init__(self, knowns: dict[int, Known]) -> None:
        super().__init__()
        self.knowns = knowns


class _OtherOrderError(Exception):
    """A step puts an element anywhere into a list."""

    def __init__(self, at: int, item: Val) -> None:
        super().__init__()
        self.at = at
        self.item = item


def _tensor(val: Val) -> Val | None:
    """What is carried of a tensor, or of a list that has its elements; None of a list that is to be filled."""
    return val if val.held is None else _list(val).stacked


def _stacked_or_own(val: Val) -> Val:
    found = _tensor(val)
    assert found is not None
    return found


def _like(before: Val, val: Val) -> Val:
    """A tensor, or the list that has it as its elements."""
    return val if before.held is None else _list_val(TensorList(val.dtype, val, _list(before).size))


def _lower_step(
    driver: Driver,
    initial: Sequence[Val],
    knowns: Mapping[int, Known],
    condition: Callable[[Sequence[Val]], Val],
    body: Callable[[Sequence[Val]], list[Val]],
    name: str,
) -> _Step:
    """Lowers the body with these shapes."""
    b = driver.b
    scope = driver.open_scope()
    step = onnx_ir.Value(name=b.free_name(f"{name}/step"), type=onnx_ir.TensorType(onnx_type(INT64)))
    goes = onnx_ir.Value(name=b.free_name(f"{name}/goes_on"), type=onnx_ir.TensorType(onnx_type(BOOL)))
    step.shape = goes.shape = onnx_ir.Shape(())
    taken: dict[int, onnx_ir.Value] = {}
    args: list[Val] = []
    for at, one in enumerate(initial):
        if at not in knowns:
            held = _list(one)
            args.append(_list_val(TensorList(held.dtype, None, held.size, is_filled_here=True)))
            continue
        kind = onnx_ir.TensorType(onnx_type(one.dtype))
        taken[at] = onnx_ir.Value(name=b.free_name(f"{name}/carried_{len(taken)}"), type=kind)
        args.append(_like(one, b.given(Val(one.dtype, knowns[at], taken[at], scope))))
    found = body(args)
    for at, one in enumerate(found):
        if (one.held is None) != (initial[at].held is None) or (at in knowns and _tensor(one) is None):
            raise Refusal("it carries a list of tensors in the place of a tensor")
    after = {at: _stacked_or_own(found[at]) for at in taken}
    relaxed = {at: _relaxed(knowns[at], one.known) for at, one in after.items()}
    if relaxed != dict(knowns):
        raise _WeakerError(relaxed)
    goes_on = condition(found)
    writes = {at: write for at in range(len(initial)) if (write := _written(args[at], found[at])) is not None}
    loop = LoopBody(
        b,
        {at: (_stacked_or_own(initial[at]), value, b.value(after[at])) for at, value in taken.items()},
        {at: b.value(write.item) for at, write in writes.items()},
        b.value(goes_on),
        scope.nodes,
    )
    lasts = {at for at, write in writes.items() if _is_last(loop, at, _list(initial[at]), write)}
    items = {at: write.item for at, write in writes.items()}
    inputs, outputs = [step, goes, *taken.values()], [goes_on, *after.values(), *items.values()]
    return _Step(driver.close_scope(inputs, outputs, f"{name}/body"), items, lasts, loop)


def _written(before: Val, after: Val) -> _Write | None:
    """The element that a step puts into a list; None of what is carried as a tensor, or stays as it is."""
    if _tensor(before) is not None:
        return None
    own, found = _list(before), _list(after)
    if found is own:
        return None
    if found.write is None or found.write.into is not own:
        raise Refusal("it carries a list of tensors that it does not fill in order")
    return found.write


def _is_last(loop: LoopBody, at: int, held: TensorList, write: _Write) -> bool:
    """Whether a list has one element, which each step puts anew.

    Raises:
        _OtherOrderError: It is not filled from its first element to its last either.
    """
    if write.index is None and held.size is None:
        return False
    if write.index is not None and held.size is not None:
        if write.index.known.numbers == (0,) and held.size.known.numbers == (1,):
            return True
        if loop.counter_of(loop.b.value(write.index)) is not None:
            return False
    raise _OtherOrderError(at, write.item)


def _zeros(b: Builder, held: TensorList, item: Val) -> TensorList:
    """A list whose elements are zeros of the shape that this one has, and which has all of them from the beginning."""
    dims = item.dims
    if held.size is None or dims is None:
        raise Refusal("it carries a list of tensors that it does not fill in order")
    count = b.reshape(b.int64(held.size), [1])
    if all(isinstance(size, int) for size in dims):
        shape = b.concat([count, b.const(list(dims))], 0) if dims else count
    elif b.is_seen(item):
        shape = b.concat([count, b.shape(item)], 0)
    else:
        raise Refusal("it does not fill a list of tensors in order, and the shape of these is not known before it runs")
    size = (held.size.known.values or (None,))[0]
    kind = widened(item.dtype, ("float32", "float64", "int32", "int64", "bool"))
    zeros = b.cast(b.op("Expand", b.const(0, kind), shape, dims=(size, *dims)), item.dtype)
    return TensorList(held.dtype, zeros, held.size)


def _filled(b: Builder, stacked: Val, held: TensorList, loop: LoopBody, *, is_last: bool) -> TensorList:
    """The list that a loop filled, with zeros for elements that it did not reach."""
    if held.size is None:
        return TensorList(held.dtype, stacked)
    if stacked.dims is None:
        raise Refusal("the rank of its elements is not known before it runs")
    count = b.reshape(b.int64(held.size), [1])
    if is_last:
        stacked = b.last_row(stacked)
    elif loop.is_as_long_as(held.size):
        stacked.known = Known(((held.size.known.values or (None,))[0], *(stacked.dims or ())[1:]))
    size = (stacked.dims or (None,))[0]
    if size is not None and size == (held.size.known.values or (None,))[0]:
        return TensorList(held.dtype, stacked)
    more = b.op("Sub", count, b.size(stacked, 0))
    rank = stacked.rank
    pads = b.concat([b.const([0] * rank), more, *([b.const([0] * (rank - 1))] if rank > 1 else [])], 0)
    kind = widened(stacked.dtype, ("float32", "float64", "int32", "int64", "bool"))
    known = Known((count.known.values[0] if count.known.values else None, *(stacked.dims or ())[1:]))
    found = b.cast(b.op("Pad", b.cast(stacked, kind), pads, b.const(0, kind), known=known), stacked.dtype)
    return TensorList(held.dtype, found)


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
        self._results = results
        sources = [self._source(result) for result in results]
        self._carried = [at for at, source in enumerate(sources) if source != Endpoint(names[at], 0)]

    def _source(self, tensor: Endpoint) -> Endpoint:
        """Where a tensor of the body comes from, behind what only hands it on."""
        by_name = self._function.by_name
        for _ in range(50):
            node = by_name.get(tensor.node)
            if node is None or node.op not in PASSES_ON:
                return tensor
            tensor = self._function.resolve(node.inputs[0])
        return tensor

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
            wanted = [self._results[at] for at in self._carried]
            return driver.call(n.node.func("body"), whole(carried), n.node.name, wanted)

        after = emit_loop(driver, [inputs[at] for at in self._carried], condition, body, n.node.name)
        return list(whole(after))


# Lists


@lowering("TensorListFromTensor")
def _from_tensor(n: NodeContext) -> Val:
    _check_elements(n.x, n.y)
    return _list_val(TensorList(n.x.dtype, n.x))


def _check_elements(stacked: Val, shape: Val) -> None:
    """Elements must have the shape that is given, as far as it is.

    Raises:
        Refusal: They have not, or it is not known.
    """
    if shape.dims == () and shape.known.numbers == (-1,):
        return
    wanted, own = shape.known.numbers, stacked.dims
    if wanted is None or own is None:
        return
    if len(wanted) != len(own) - 1 or any(
        isinstance(size, int) and -1 != one != size for one, size in zip(wanted, own[1:], strict=True)
    ):
        raise Refusal("its elements have another shape than it says")


@lowering("TensorListReserve")
def _reserve(n: NodeContext) -> Val:
    return _list_val(TensorList(_element_type(n), None, n.y))


@lowering("EmptyTensorList")
def _empty(n: NodeContext) -> Val:
    return _list_val(TensorList(_element_type(n), None))


def _element_type(n: NodeContext, name: str = "element_dtype") -> DType:
    found = n.attr(name)
    if not isinstance(found, DType):
        raise Refusal("the type of its elements is not known")
    return found


@lowering("TensorListGetItem")
def _get_item(n: NodeContext) -> Val:
    return _taken(n, _stacked(n.x), n.y)


def _taken(n: NodeContext, stacked: Val, index: Val) -> Val:
    is_counted = n.b.scope is not n.b.root  # in a loop, by the number of the step
    return n.b.op("Gather", stacked, index if is_counted else n.b.indices(index), axis=0, known=_element(stacked))


def _element(stacked: Val) -> Known:
    return Known(None if stacked.dims is None else stacked.dims[1:])


@lowering("TensorListSetItem")
def _set_item(n: NodeContext) -> Val:
    return _put(n, _list(n.x), n.y, n.inputs[2])


def _put(n: NodeContext, held: TensorList, index: Val, item: Val) -> Val:
    """The list with another element in a place of it."""
    b = n.b
    if held.write is not None:
        raise Refusal("it writes to a list more than once in a step")
    if held.is_filled_here:
        return _list_val(TensorList(held.dtype, None, held.size, _Write(held, index, item), is_filled_here=True))
    stacked = held.stacked or _stacked(_list_val(_zeros(b, held, item)))
    place = b.reshape(b.int64(index if b.scope is not b.root else b.indices(index)), [1, 1])
    found = b.op("ScatterND", stacked, place, b.unsqueeze(item, [0]), known=stacked.known)
    return _list_val(TensorList(held.dtype, found, held.size))


@lowering("TensorListPushBack")
def _push_back(n: NodeContext) -> Val:
    held = _list(n.x)
    if held.stacked is not None or held.write is not None or held.size is not None:
        raise Refusal("it makes a list longer that has elements")
    return _list_val(TensorList(held.dtype, None, None, _Write(held, None, n.y)))


@lowering("TensorListStack")
def _stack(n: NodeContext) -> Val:
    stacked = _stacked(n.x)
    _check_elements(stacked, n.y)
    count, size = int(n.attr("num_elements") or -1), (stacked.dims or (None,))[0]
    if count >= 0 and isinstance(size, int) and count != size:
        raise Refusal("it has another number of elements than it says")
    return n.b.op("Identity", stacked, known=stacked.known)


@lowering("TensorListGather")
def _list_gather(n: NodeContext) -> Val:
    return n.b.op("Gather", _stacked(n.x), n.b.indices(n.y), axis=0)


@lowering("TensorListLength")
def _length(n: NodeContext) -> Val:
    return _size(n, _list(n.x))


def _size(n: NodeContext, held: TensorList) -> Val:
    """How many elements a list has, or is to have."""
    b = n.b
    if held.size is not None:
        return held.size
    if held.stacked is None:
        raise Refusal("how long its list is depends on a loop")
    return b.narrow(b.squeeze(b.size(held.stacked, 0), [0]), INT32)


# TensorFlow 1 has arrays of tensors: a handle, and the flow, a number that says which state of the array is meant. The
# flow is the list here.


@lowering("TensorArrayV3")
def _array(n: NodeContext) -> list[Val]:
    found = _list_val(TensorList(_element_type(n, "dtype"), None, n.x))
    return [found, found]


def _flow(n: NodeContext) -> Val:
    return n.inputs[-1]


@lowering("TensorArrayReadV3")
def _array_read(n: NodeContext) -> Val:
    return _taken(n, _stacked(_flow(n)), n.y)


@lowering("TensorArrayWriteV3")
def _array_write(n: NodeContext) -> Val:
    if _list(_flow(n)).stacked is not None and n.b.scope is n.b.root:
        raise Refusal("it writes to an array again outside of a loop, which may be the same element")
    return _put(n, _list(_flow(n)), n.y, n.inputs[2])


def _is_count(n: NodeContext, indices: Val) -> bool:
    """Whether indices go from 0 upward, one by one."""
    if indices.known.numbers is not None:
        return list(indices.known.numbers) == list(range(len(indices.known.numbers)))
    maker = n.b.value(indices).producer()
    while maker is not None and maker.op_type in ("Cast", "Identity"):
        source = maker.inputs[0]
        maker = None if source is None else source.producer()
    if maker is None or maker.op_type != "Range":
        return False
    ends = [n.b.const_of(value) for value in (maker.inputs[0], maker.inputs[2])]
    return [None if one is None else one.tolist() for one in ends] == [0, 1]


@lowering("TensorArrayScatterV3")
def _array_scatter(n: NodeContext) -> Val:
    held = _list(_flow(n))
    if held.stacked is not None or held.write is not None or not _is_count(n, n.y):
        raise Refusal("it fills an array in another order than from its first element to its last")
    return _list_val(TensorList(held.dtype, n.inputs[2], held.size))


@lowering("TensorArrayGatherV3")
def _array_gather(n: NodeContext) -> Val:
    stacked = _stacked(_flow(n))
    found = n.b.op("Gather", stacked, n.y, axis=0)
    indices = n.y.dims
    if stacked.dims is not None and indices is not None:
        found.known = Known((*indices, *stacked.dims[1:]))
    return found


@lowering("TensorArraySizeV3")
def _array_size(n: NodeContext) -> Val:
    return _size(n, _list(_flow(n)))


@lowering("TensorArrayConcatV3")
def _array_concat(n: NodeContext) -> list[Val]:
    b, stacked = n.b, _stacked(_flow(n))
    if stacked.rank < 2:
        raise Refusal("its elements are scalars")
    rest = [b.size(stacked, at) for at in range(2, stacked.rank)]
    joined = b.reshape(stacked, b.concat([b.const([-1]), *rest], 0), (None, *(stacked.dims or ())[2:]))
    return [joined, b.op("Expand", b.size(stacked, 1), b.size(stacked, 0), dims=(None,))]
