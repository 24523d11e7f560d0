"""What lowerings are made of: tensors as ONNX has them, and the builder that emits nodes.

A `Val` is a tensor of the graph that is made: its type, what is known of its shape and elements, and its value in
ONNX, which comes into being when somebody takes it. So constants that nobody uses are not written, and a tensor that
is there channels first is transposed only for who needs it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
import onnx_ir

from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.tensor_views import TransposedTensor
from tfsmith.ir.types import DType, dtype_named
from tfsmith.ops.sizes import Dims, Known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.onnx.lower import Driver

__all__ = ["BOOL", "FLOAT32", "INT32", "INT64", "Builder", "Refusal", "Scope", "Val", "onnx_type"]

BOOL, FLOAT32, INT32, INT64 = (dtype_named(name) for name in ("bool", "float32", "int32", "int64"))
SMALL = 4096
"""A constant of so many elements or fewer is kept in memory and computed with."""
_TYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32",
    "uint64": "UINT64", "bool": "BOOL", "string": "STRING", "qint8": "INT8", "quint8": "UINT8", "qint32": "INT32",
}  # fmt: skip
_WIDER = {
    "int8": ("int16", "int32", "int64"), "uint8": ("int16", "int32", "int64", "uint16", "uint32", "uint64"),
    "int16": ("int32", "int64"), "uint16": ("int32", "int64", "uint32", "uint64"), "int32": ("int64",),
    "uint32": ("int64", "uint64"), "float16": ("float32", "float64"), "bfloat16": ("float32", "float64"),
    "float32": ("float64",), "bool": ("int32", "int64", "float32"),
}  # fmt: skip
"""Types that hold all numbers of another, so that a cast back gives them again."""
_SAME_SIGN = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Expand", "Tile")
_NOT_NEGATIVE = ("ArgMax", "ArgMin", "NonZero", "Shape", "Size", "TopK", "NonMaxSuppression")
_VERSIONS = {"ai.onnx.ml": 3}
"""The versions of other domains of ONNX; their ops have them since opset 18 or earlier."""
_VAL = "tfsmith"
"""Under which a value of ONNX keeps the tensor that it is."""
_Attr: TypeAlias = "int | float | str | bytes | bool | Sequence[int] | Sequence[float] | Sequence[str] | DType | Any"


class Refusal(Exception):  # the driver turns it into one line per op
    """A node that has no form in ONNX; the text says why.

    Attributes:
        since: The version of ONNX' ops from which on it has one; 0 if it has none.
    """

    def __init__(self, text: str, since: int = 0) -> None:
        super().__init__(text)
        self.since = since


def onnx_type(kind: DType) -> onnx_ir.DataType:
    """The type that ONNX calls so.

    Raises:
        Refusal: It has none.
    """
    name = _TYPES.get(kind.base.name)
    if name is None:
        raise Refusal(f"ONNX has no tensors of {kind.base.name}")
    found: onnx_ir.DataType = onnx_ir.DataType[name]
    return found


class Scope:
    """A list of nodes that is being made: the graph itself, or the body of a branch or loop.

    Attributes:
        outer: The list that has the node whose body it is.
        nodes: The nodes.
        conditions: Truths that must hold, or the run fails.
    """

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.nodes: list[onnx_ir.Node] = []
        self.conditions: list[Val] = []

    def sees(self, other: Scope) -> bool:
        """Whether values of another scope can be used here."""
        found: Scope | None = self
        while found is not None:
            if found is other:
                return True
            found = found.outer
        return False


class Val:
    """A tensor of the graph that is made.

    Attributes:
        dtype: Its type.
        known: What is known of its sizes and elements.
        tensor: The constant that it is; not read.
        name: What it is to be called, if it is a constant.
        source: The tensor of another type that a cast back gives, whatever its elements are.
        held: What stands for a tensor that ONNX has not: the sequence of a list, a table.
        is_first: Whether it came into being with its channels first.
    """

    __slots__ = (
        "_array",
        "_forms",
        "_value",
        "dtype",
        "held",
        "is_first",
        "known",
        "name",
        "scope",
        "source",
        "tensor",
    )

    def __init__(
        self, dtype: DType, known: Known, value: onnx_ir.Value | None = None, scope: Scope | None = None
    ) -> None:
        self.dtype = dtype.base
        self.known = known
        self.tensor: Tensor | None = None
        self.name = ""
        self.scope = scope
        self.source: Val | None = None
        self.held: Any = None
        self.is_first = False
        self._value = value
        self._array: NDArray[Any] | None = None
        self._forms: dict[object, Val] = {}

    @property
    def dims(self) -> Dims:
        """Its sizes, as far as they are known."""
        return self.known.dims

    @property
    def rank(self) -> int:
        """How many dimensions it has.

        Raises:
            Refusal: Nobody knows.
        """
        if self.known.dims is None:
            raise Refusal("the rank of an input is not known before it runs")
        return len(self.known.dims)

    @property
    def is_constant(self) -> bool:
        """Whether its elements are known."""
        return self.tensor is not None or self.known.numbers is not None

    @property
    def array(self) -> NDArray[Any] | None:
        """The elements of a small constant; None of any other tensor."""
        if self._array is None:
            if self.tensor is not None and (self.tensor.shape.elements or 0) <= SMALL:
                self._array = self.tensor.numpy()
            elif self.tensor is None and self.known.numbers is not None and self.known.shape.is_static:
                self._array = numpy.array(self.known.numbers, self.dtype.numpy()).reshape(self.known.shape.dims or ())
        return self._array

    def main_value(self) -> onnx_ir.Value | None:
        """The value in ONNX that it was made as, if there is one yet."""
        if self._value is None and self.is_first:
            return next((form._value for key, form in self._forms.items() if isinstance(key, tuple)), None)
        return self._value

    def integers(self, what: str) -> list[int]:
        """The elements, which must be known integers.

        Raises:
            Refusal: They are not.
        """
        if self.known.numbers is not None:
            return list(self.known.numbers)
        found = self.array
        if found is None or found.dtype.kind not in "iub":
            raise Refusal(f"{what} must be a constant")
        return [int(one) for one in found.reshape(-1).tolist()]

    def integer(self, what: str) -> int:
        """The element of a tensor of one."""
        found = self.integers(what)
        if len(found) != 1:
            raise Refusal(f"{what} must be one number")
        return found[0]


class Builder:
    """Emits nodes.

    Attributes:
        opset: The version of ONNX' ops that nodes are of.
        initializers: The constants that are used, by name.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.root = Scope()
        self.scope = self.root
        self.initializers: dict[str, tuple[onnx_ir.Value, Tensor]] = {}
        self.domains: dict[str, int] = {"": opset}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._small: dict[tuple[str, tuple[int, ...], bytes], Val] = {}
        self.prefix = ""

    # names

    def reserve(self, name: str) -> None:
        """Keeps a name for an input or output."""
        self._names.add(name)

    def free_name(self, name: str) -> str:
        """The name, with a number behind it if it is taken."""
        found = name
        while found in self._names:
            number = self._counts.get(name, 0) + 1
            self._counts[name] = number
            found = f"{name}__{number}"
        self._names.add(found)
        return found

    # constants

    def const(self, values: Any, dtype: DType = INT64, name: str = "") -> Val:
        """A constant. Equal small ones are one."""
        array = numpy.asarray(values, dtype.numpy())
        known = Known(tuple(array.shape), tuple(array.reshape(-1).tolist()) if _counts(array, dtype) else None)
        if array.dtype.kind == "O":
            return self.weight(ArrayTensor(dtype, array), name or "const", known)
        key = (dtype.name, array.shape, array.tobytes())
        found = self._small.get(key)
        if found is None:
            found = self.weight(ArrayTensor(dtype, array), name or "const", known)
            self._small[key] = found
        return found

    def weight(self, tensor: Tensor, name: str, known: Known | None = None) -> Val:
        """A constant that may lie in a file; it is not read."""
        found = Val(tensor.dtype, known or Known.of(tensor.shape), None, self.root)
        found.tensor, found.name = tensor, name
        return found

    def const_of(self, value: onnx_ir.Value | None) -> NDArray[Any] | None:
        """The elements of a value that is a small constant; None of any other."""
        tensor = self.tensor_of(value)
        return tensor.numpy() if tensor is not None and (tensor.shape.elements or 0) <= SMALL else None

    def tensor_of(self, value: onnx_ir.Value | None) -> Tensor | None:
        """The constant that a value is; None of any other."""
        found = None if value is None else self.initializers.get(str(value.name))
        return found[1] if found is not None and found[0] is value else None

    def val_of(self, value: onnx_ir.Value) -> Val:
        """The tensor that a value is."""
        found: Val = value.meta[_VAL]
        return found

    def given(self, val: Val) -> Val:
        """Takes note of a tensor whose value comes from outside."""
        assert val._value is not None
        val._value.meta[_VAL] = val
        return val

    def value(self, val: Val) -> onnx_ir.Value:
        """The value of a tensor in ONNX; a constant is written from now on."""
        if val._value is not None:
            return val._value
        if val.tensor is None and val.array is not None:
            val.tensor, val.name, val.scope = ArrayTensor(val.dtype, val.array), val.name or "const", self.root
        if val.tensor is not None:
            name = self.free_name(val.name or "const")
            kind = onnx_type(val.dtype)
            shape = onnx_ir.Shape(val.tensor.shape.dims or ())
            val._value = onnx_ir.Value(name=name, shape=shape, type=onnx_ir.TensorType(kind))
            self.given(val)
            self.initializers[name] = (val._value, val.tensor)
            return val._value
        for key, form in val._forms.items():
            if isinstance(key, tuple) and form.scope is not None and self.scope.sees(form.scope):
                back = tuple(int(at) for at in numpy.argsort(key))
                made = self.transpose(form, back)
                made.known = val.known
                if form.scope is self.scope or self.scope is self.root:
                    val._value, val.scope = made._value, made.scope
                assert made._value is not None
                return made._value
        raise Refusal("an input has no value in ONNX")

    # nodes

    def op(
        self,
        op: str,
        *inputs: Val | None,
        dtype: DType | None = None,
        known: Known | None = None,
        dims: Dims = None,
        domain: str = "",
        **attrs: _Attr,
    ) -> Val:
        """Emits a node of one output, whose type is that of the first input unless another is given."""
        return self.ops(op, *inputs, dtypes=(dtype,), knowns=(known or Known(dims),), domain=domain, **attrs)[0]

    def ops(
        self,
        op: str,
        *inputs: Val | None,
        dtypes: Sequence[DType | None],
        knowns: Sequence[Known] = (),
        domain: str = "",
        **attrs: _Attr,
    ) -> list[Val]:
        """Emits a node of several outputs."""
        if domain and domain not in self.domains:
            self.domains[domain] = _VERSIONS.get(domain, 1)
        values = [None if one is None else self.value(one) for one in inputs]
        while values and values[-1] is None:
            values.pop()
        kinds = [inputs[0].dtype if kind is None and inputs and inputs[0] is not None else kind for kind in dtypes]
        name = self.free_name(f"{self.prefix}/{op}" if self.prefix else op)
        outputs: list[onnx_ir.Value] = []
        for number, kind in enumerate(kinds):
            assert kind is not None
            own = name if number == 0 else self.free_name(f"{name}:{number}")
            outputs.append(onnx_ir.Value(name=own, type=onnx_ir.TensorType(onnx_type(kind))))
        node = onnx_ir.Node(domain, op, values, _attributes(attrs), outputs=outputs, name=name)
        self.scope.nodes.append(node)
        found = list(knowns) + [Known()] * (len(kinds) - len(knowns))
        return [
            self.given(Val(kind, known, value, self.scope))
            for kind, known, value in zip(kinds, found, outputs, strict=True)
            if kind is not None
        ]

    # what many lowerings need

    def cast(self, x: Val, dtype: DType) -> Val:
        """The tensor in another type; itself if it has it. A cast that undoes one of ours is left out."""
        if x.dtype == dtype:
            return x
        if x.source is not None and x.source.dtype == dtype and self.is_seen(x.source):
            return x.source
        array = x.array
        if array is not None and array.dtype.kind in "iub" and dtype.numpy().kind in "iu":
            return self.const(array.astype(dtype.numpy()), dtype)
        key = f"cast {dtype.name}"
        form = x._forms.get(key)
        if form is None or not self.is_seen(form):
            form = self.op("Cast", x, dtype=dtype, known=x.known, to=onnx_type(dtype))
            if dtype.name in _WIDER.get(x.dtype.name, ()):
                form.source = x
            x._forms[key] = form
        return form

    def narrow(self, x: Val, dtype: DType) -> Val:
        """Integers in a type that holds them all, as sizes are: a cast back gives them again."""
        found = self.cast(x, dtype)
        if found is not x and found.source is None and not found.is_constant:
            found.source = x
        return found

    def is_seen(self, val: Val) -> bool:
        """Whether a tensor can be used in the scope that is open."""
        return val.scope is not None and self.scope.sees(val.scope)

    def int64(self, x: Val) -> Val:
        """The tensor of integers as int64."""
        return self.cast(x, INT64)

    def transpose(self, x: Val, perm: Sequence[int]) -> Val:
        """The tensor with its axes in another order; a weight is transposed when it is written."""
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return x
        dims = None if x.dims is None else tuple(x.dims[at] for at in order)
        form = x._forms.get(order)
        if form is not None and self.is_seen(form):
            return form
        only_ones = x.tensor is None and _moves_only_ones(x.dims, order)
        if only_ones and dims is not None and sum(not isinstance(size, int) for size in dims) <= 1:
            form = self.reshape(x, [size if isinstance(size, int) else -1 for size in dims], dims)
        elif x.tensor is not None and x.tensor.dtype.numpy().kind != "O":
            form = self.weight(TransposedTensor(x.tensor, order), f"{x.name}/transposed", Known(dims))
        else:
            form = self.op("Transpose", x, perm=order, dims=dims)
        x._forms[order] = form
        return form

    def reshape(self, x: Val, shape: Val | Sequence[int], dims: Dims = None) -> Val:
        """The tensor in another shape."""
        if isinstance(shape, Val):
            return self.op("Reshape", x, self.int64(shape), dims=dims)
        found = dims or tuple(None if size < 0 else size for size in shape)
        if x.dims is not None and x.dims == found and None not in found:
            return x
        attrs: dict[str, Any] = {"allowzero": 1} if 0 in shape else {}
        return self.op("Reshape", x, self.const(list(shape)), dims=found, **attrs)

    def asserted(self, x: Val, is_right: Val) -> Val:
        """Integers, if a truth holds; else the run fails, by an index that is out of range."""
        place = self.op("Cast", self.op("Not", is_right), dtype=INT64, to=onnx_type(INT64))
        zero = self.op("Gather", self.const([0], x.dtype), place, axis=0)
        return self.op("Add", x, zero, known=x.known)

    def guarded(self, x: Val, conditions: Sequence[Val]) -> Val:
        """A tensor, if all of these truths hold; else the run fails, by an index that is out of range."""
        if not conditions:
            return x
        holds = conditions[0]
        for one in conditions[1:]:
            holds = self.op("And", holds, one)
        place = self.op("Cast", self.op("Not", self.reshape(holds, [])), dtype=INT64, to=onnx_type(INT64))
        wide = self.op("Unsqueeze", x, self.const([0]))
        return self.op("Gather", wide, place, axis=0, known=x.known)

    def indices(self, x: Val) -> Val:
        """Indices that are not below zero: ONNX counts those from behind, TensorFlow refuses them, and so does the run.

        Raises:
            Refusal: One is below zero already.
        """
        found = self.int64(x) if x.dtype.name not in ("int32", "int64") else x
        numbers = found.known.numbers if found.array is None else found.array.reshape(-1).tolist()
        if numbers is not None:
            if any(number < 0 for number in numbers):
                raise Refusal("an index is below zero")
            return found
        maker = None if found._value is None else found._value.producer()
        while maker is not None and maker.op_type in _SAME_SIGN and maker.inputs[0] is not None:
            maker = maker.inputs[0].producer()
        if maker is not None and maker.op_type in _NOT_NEGATIVE:
            return found
        form = found._forms.get("indices")
        if form is None or not self.is_seen(form):
            far = self.const(2**31 - 1, found.dtype)
            is_below = self.op("Less", found, self.const(0, found.dtype), dtype=BOOL)
            form = self.op("Where", is_below, far, found, dtype=found.dtype, known=found.known)
            found._forms["indices"] = form
        return form

    def unsqueeze(self, x: Val, axes: Sequence[int]) -> Val:
        """The tensor with axes of size 1; the axes are those of the result, none of them negative."""
        if not axes:
            return x
        rank = x.rank + len(axes)
        rest = iter(x.dims or ())
        dims = tuple(1 if at in axes else next(rest) for at in range(rank))
        array = x.array
        if array is not None and x._value is None:
            return self.const(array.reshape(tuple(size for size in dims if isinstance(size, int))), x.dtype, x.name)
        return self.op("Unsqueeze", x, self.const(sorted(axes)), known=Known(dims, x.known.values))

    def squeeze(self, x: Val, axes: Sequence[int]) -> Val:
        """The tensor without these axes of size 1; none of them negative."""
        if not axes:
            return x
        dims = None if x.dims is None else tuple(size for at, size in enumerate(x.dims) if at not in axes)
        return self.op("Squeeze", x, self.const(sorted(axes)), known=Known(dims, x.known.values))

    def shape(self, x: Val) -> Val:
        """The sizes of the tensor, int64."""
        dims = x.dims
        values = None if dims is None else dims
        if dims is not None and all(isinstance(size, int) for size in dims):
            return self.const(list(dims))
        form = x._forms.get("shape")
        if form is None or not self.is_seen(form):
            form = self.op("Shape", x, dtype=INT64, known=Known((None if dims is None else len(dims),), values))
            x._forms["shape"] = form
        return form

    def size(self, x: Val, axis: int) -> Val:
        """One size of the tensor as a vector of one int64."""
        known = None if x.dims is None else x.dims[axis]
        if isinstance(known, int):
            return self.const([known])
        return self.slice(self.shape(x), [axis], [axis + 1], [0])

    def slice(
        self, x: Val, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int] = ()
    ) -> Val:
        """A part of the tensor, by constants."""
        more = (self.const(list(steps)),) if steps else ()
        return self.op("Slice", x, self.const(list(starts)), self.const(list(ends)), self.const(list(axes)), *more)

    def last_row(self, x: Val) -> Val:
        """The last of the rows of a tensor, as a tensor of one row, or of none where it has none."""
        form = x._forms.get("last row")
        if form is None:
            form = self.slice(x, [-1], [2**63 - 1], [0])
            first = None if x.dims is None else x.dims[0]
            is_there = isinstance(first, int) and first > 0
            form.known = Known(None if x.dims is None else (1 if is_there else None, *x.dims[1:]))
        return form

    def keep_last_row(self, x: Val, row: Val) -> None:
        """Says what the last row of a tensor is, where that is known without the tensor."""
        x._forms["last row"] = row

    def concat(self, parts: Sequence[Val], axis: int, known: Known | None = None) -> Val:
        """Tensors one after the other; of one part, itself."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis, known=known)

    def reduce(self, op: str, x: Val, axes: Sequence[int], *, keep: bool = False, known: Known | None = None) -> Val:
        """A reduction over these axes, of which there is at least one."""
        assert axes
        return self.op(op, x, self.const(sorted(axes)), keepdims=int(keep), known=known)

    def running(
        self,
        driver: Driver,
        start: Val,
        rows: Val,
        step: Callable[[Val, Val], Val],
        name: str,
        *,
        is_before: bool = False,
    ) -> tuple[Val, Val]:
        """What comes of a start, row after row, and what it was after each row, stacked, or before it.

        Args:
            driver: Opens and closes the body of the loop.
            start: The start.
            rows: The rows.
            step: What the next is, of what was before and a row.
            name: What the loop is called.
            is_before: Whether what was before each row is stacked.
        """
        dims = start.dims
        count = self.squeeze(self.size(rows, 0), [0])
        scope = driver.open_scope()
        number = onnx_ir.Value(name=self.free_name(f"{name}/step"), type=onnx_ir.TensorType(onnx_type(INT64)))
        goes_on = onnx_ir.Value(name=self.free_name(f"{name}/goes_on"), type=onnx_ir.TensorType(onnx_type(BOOL)))
        total = onnx_ir.Value(name=self.free_name(f"{name}/total"), type=onnx_ir.TensorType(onnx_type(start.dtype)))
        number.shape = goes_on.shape = onnx_ir.Shape(())
        at, goes, before = (
            self.given(Val(kind, Known(sizes), value, scope))
            for kind, sizes, value in ((INT64, (), number), (BOOL, (), goes_on), (start.dtype, dims, total))
        )
        after = step(before, self.op("Gather", rows, at, axis=0, dims=dims))
        stacked = before if is_before else after
        graph = driver.close_scope([number, goes_on, total], [goes, after, stacked], f"{name}/body")
        self.prefix = name
        knowns = (Known(dims), Known(rows.dims))
        last, made = self.ops("Loop", count, None, start, dtypes=(start.dtype,) * 2, knowns=knowns, body=graph)
        size = None if rows.dims is None else rows.dims[0]
        if not isinstance(size, int) or size == 0:  # without rows, onnxruntime forgets their shape
            made = self.op("Reshape", made, self.shape(rows), known=Known(rows.dims), allowzero=1)
        return last, made

    # channels first

    def first(self, x: Val) -> Val:
        """The tensor with its last axis, the channels, behind the first."""
        rank = x.rank
        return self.transpose(x, (0, rank - 1, *range(1, rank - 1)))

    def last(self, x: Val, known: Known) -> Val:
        """The tensor whose channels come last, of one whose channels come second; transposed when somebody takes it."""
        rank = x.rank if x.dims is not None else len(known.dims or ())
        order = (0, rank - 1, *range(1, rank - 1))
        found = Val(x.dtype, known, None, x.scope)
        found._forms[order] = x
        found.is_first = True
        return found


def _moves_only_ones(dims: Dims, order: Sequence[int]) -> bool:
    """Whether an order of axes leaves those that have more than one place as they are; elements do not move then."""
    kept = [at for at in order if dims is not None and dims[at] != 1]
    return dims is not None and 0 not in dims and kept == sorted(kept)


def _counts(array: NDArray[Any], dtype: DType) -> bool:
    return dtype.name in ("int32", "int64") and array.size <= 1024


def _attributes(attrs: dict[str, Any]) -> list[onnx_ir.Attr]:
    found: list[onnx_ir.Attr] = []
    for name, value in attrs.items():
        if value is None:
            continue
        if isinstance(value, onnx_ir.DataType):
            found.append(onnx_ir.AttrInt64(name, int(value)))
        elif isinstance(value, onnx_ir.Graph):
            found.append(onnx_ir.AttrGraph(name, value))
        elif isinstance(value, numpy.ndarray):
            found.append(onnx_ir.AttrTensor(name, onnx_ir.Tensor(value)))
        elif isinstance(value, bool):
            found.append(onnx_ir.AttrInt64(name, int(value)))
        else:
            found.append(
                onnx_ir.convenience.convert_attribute(name, list(value) if isinstance(value, tuple) else value)
            )
    return found
