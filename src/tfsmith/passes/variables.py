"""Which tensor of the checkpoint belongs to which variable of the graph, and whether the two belong together."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence

from tfsmith.errors import InvalidModelError, LimitError, NotFoundInModelError, TfsmithError, nearest
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Func, Node, is_index
from tfsmith.ir.tensor import Piece, SlicedTensor, StringTensor, Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.limits import MAX_DEPTH
from tfsmith.ops import DIRECT_CALLS, INITIAL_WRITES, VARIABLES
from tfsmith.records import record

__all__ = [
    "Place",
    "CheckpointContent",
    "store",
    "EMA_SUFFIX",
    "CheckpointSlice",
    "restore_sources",
    "initial_values",
    "find_source",
    "find_value",
    "variable_names",
    "Fit",
    "fit_checkpoint",
]

_PART = re.compile(r"^(.+)/part_(\d+)$")


@record
class Place:
    """Where a variable's value lies in the checkpoint: its key and, for a part, the whole's shape and the start."""

    key: str
    full: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    @property
    def extents(self) -> str:
        """The part as `shape_and_slices` writes it, such as "10 4 0,5:0,4"; "" for all of it."""
        if not self.full:
            return ""
        spans = ":".join(f"{at},{size}" for at, size in zip(self.start, self.shape, strict=True))
        return " ".join(map(str, self.full)) + f" {spans}"


@record
class CheckpointContent:
    """What a checkpoint of some variables holds, sorted by key, and where each variable's value lies in it."""

    tensors: Mapping[str, Tensor]
    places: Mapping[str, Place]


def store(graph: Graph, values: Mapping[str, Tensor]) -> CheckpointContent:
    """Puts the parts of partitioned variables together. No value is read.

    Args:
        graph: The graph that has them, as constants or variables.
        values: The variables' values, by node.
    """
    tensors: dict[str, Tensor] = dict(values)
    places = {name: Place(name) for name in values}
    groups: dict[str, dict[int, str]] = {}
    for name in values:
        found = _PART.match(name)
        if found and is_index(found[2]) and found[1] not in values:
            groups.setdefault(found[1], {})[int(found[2])] = name
    for key, group in groups.items():
        names = [group[number] for number in sorted(group) if number < len(group)]
        whole = _join(graph, names, [values[name] for name in names]) if len(names) == len(group) else None
        if whole is None:
            continue
        tensors[key] = whole
        for name, piece in zip(names, whole.pieces, strict=True):
            places[name] = Place(key, whole.shape.dims or (), piece.start, piece.tensor.shape.dims or ())
            del tensors[name]
    return CheckpointContent({key: tensors[key] for key in sorted(tensors)}, places)


def _join(graph: Graph, names: Sequence[str], parts: Sequence[Tensor]) -> SlicedTensor | None:
    """The whole of some parts, or None if they are none of one whole."""
    shapes = [part.shape.dims or () for part in parts]
    first = shapes[0]
    if not first or any(part.dtype != parts[0].dtype or len(part.shape.dims or ()) != len(first) for part in parts):
        return None
    split = [axis for axis in range(len(first)) if any(shape[axis] != first[axis] for shape in shapes)]
    if len(split) > 1:
        return None
    axis = split[0] if split else _concat_axis(graph, names[0], len(first))
    pieces: list[Piece] = []
    at = 0
    for part, shape in zip(parts, shapes, strict=True):
        pieces.append(Piece((*(0,) * axis, at, *(0,) * (len(first) - axis - 1)), part))
        at += shape[axis]
    full = (*first[:axis], at, *first[axis + 1 :])
    return SlicedTensor(parts[0].dtype, Shape(full), tuple(pieces))


def _concat_axis(graph: Graph, name: str, rank: int) -> int:
    """Along which axis the graph itself puts parts of one shape together; the first if it does not."""
    reads = [name, *(use.node.name for use in graph.consumers(name) if use.node.op == "Identity")]
    for user in (use.node for read in reads for use in graph.consumers(read) if use.node.op == "ConcatV2"):
        axis = graph.producer(user, len(user.data_inputs) - 1)
        value = None if axis is None else axis.constant
        if value is not None and value.dtype.name in ("int32", "int64"):
            number = int(value.numpy().reshape(-1)[:1].sum())
            return number % rank if -rank <= number < rank else 0
    return 0


EMA_SUFFIX = "/ExponentialMovingAverage"
_PASS_OPS = frozenset({"Identity", "IdentityN", "Reshape", "Cast"})
_PART_NAME = re.compile(r"^(.*)/part_([0-9]{1,3})(/[^/]+)?$")
_MAX_CHAIN = 1000


@record
class CheckpointSlice:
    """Where a variable's value lies: a key of the checkpoint, and which part of that tensor ("" for all of it).

    `extents` is written as TensorFlow writes it in `shape_and_slices`: "10 4 0,5:-", the full shape, then for each
    dimension start and length, or "-" for all of it.
    """

    key: str
    extents: str = ""


def restore_sources(meta: MetaGraph) -> dict[str, CheckpointSlice]:
    """For each variable that the saver restores, by its node's name, where its value lies.

    Empty if there is no saver. Linear in the nodes of the restore graph.
    """
    saver = meta.saver
    graph = meta.graph
    if saver is None or not saver.restore_op_name:
        return {}
    root = graph.by_name.get(graph.resolve(saver.restore_op_name).node)
    if root is None:
        return {}
    sources = dict(_Restores(graph.library).below(graph, root))
    return sources if meta.objects is None else {**_copied(graph, sources), **sources}


def _copied(graph: Graph, sources: Mapping[str, CheckpointSlice]) -> dict[str, CheckpointSlice]:
    """Variables of which a restored one is a copy: its initial value is theirs.

    Keras 3 leaves two nodes for each variable when `tf.saved_model.save` writes a model: functions take the first, and
    the saver restores the second, a copy of it. To TensorFlow 2 both are one object.
    """
    found: dict[str, CheckpointSlice] = {}
    for name, source in sources.items():
        for use in graph.consumers(name, 0) if name in graph else ():
            if use.node.op != "AssignVariableOp" or use.input != 0:
                continue
            data = use.node.data_inputs
            if len(data) < 2:
                continue
            value = graph.by_name.get(graph.resolve(data[1]).node)
            if value is not None and value.op == "ReadVariableOp" and value.inputs:
                found.setdefault(graph.resolve(value.inputs[0]).node, source)
    return found


def initial_values(graph: Graph, initializers: Sequence[str]) -> dict[str, Tensor]:
    """For each variable that these nodes initialise with a constant, by its node's name, that constant.

    Nothing is run: an initializer that computes its value gives none.

    Raises:
        NotFoundInModelError: An initializer is not in the graph.
    """
    found: dict[str, Tensor] = {}
    for name in graph.ancestors(graph.resolve(text).node for text in initializers):
        node = graph[name]
        if node.op not in INITIAL_WRITES or len(node.data_inputs) < 2:
            continue
        variable, source = _origin(graph, node.inputs[0]), _origin(graph, node.data_inputs[1], ("Const",))
        value = None if source is None or source not in graph else graph[source].constant
        if variable is not None and value is not None:
            found[variable] = value
    return found


class _Restores:
    """Finds assignments from the checkpoint, in a graph and in the functions that it calls."""

    def __init__(self, library: Mapping[str, Function]) -> None:
        self._library = library
        self._known: dict[str, Mapping[str, CheckpointSlice]] = {}

    def below(self, graph: Graph, root: Node) -> Iterator[tuple[str, CheckpointSlice]]:
        """All assignments that `root` waits for."""
        todo, seen = [root], {root.name}
        while todo:
            node = todo.pop()
            if node.op in DIRECT_CALLS or node.op in INITIAL_WRITES:
                yield from self._at(graph, node, 0)
                continue
            for text in node.inputs:
                found = graph.by_name.get(graph.resolve(text).node)
                if found is not None and found.name not in seen:
                    seen.add(found.name)
                    todo.append(found)

    def _at(self, body: Body, node: Node, depth: int) -> Iterator[tuple[str, CheckpointSlice]]:
        """What a call or an assignment restores: variables of the body, or arguments of the function that it is."""
        if node.op in INITIAL_WRITES:
            source = _assigned(body, node)
            variable = None if source is None else _origin(body, node.data_inputs[0])
            if source is not None and variable is not None:
                yield variable, source
            return
        func = node.get("f")
        function = self._library.get(func.name) if isinstance(func, Func) else None
        if function is None:
            return
        given = dict(zip(function.args, node.data_inputs, strict=False))
        for name, source in self._in(function, depth + 1).items():
            variable = _origin(body, given[name]) if name in given else None
            if variable is not None:
                yield variable, source

    def _in(self, function: Function, depth: int) -> Mapping[str, CheckpointSlice]:
        """For each argument that a function restores, from where. Each function is looked at once."""
        found = self._known.get(function.name)
        if found is not None:
            return found
        if depth > MAX_DEPTH:
            what = "functions call each other without end"
            raise LimitError(what, where=function.title, remedy="do not trust the file")
        calls = [node for node in function.nodes if node.op in DIRECT_CALLS or node.op in INITIAL_WRITES]
        self._known[function.name] = found = {
            name: source for node in calls for name, source in self._at(function, node, depth)
        }
        return found


def _origin(body: Body, text: str, ops: Container[str] = VARIABLES) -> str | None:
    """The node of one of these ops, or the function's argument, that an input comes from."""
    for _ in range(_MAX_CHAIN):
        name = body.resolve(text).node
        node = body.by_name.get(name)
        if node is None or node.op in ops:
            return name
        if node.op not in _PASS_OPS or not node.inputs:
            return None
        text = node.inputs[0]
    return None


def _assigned(body: Body, assign: Node) -> CheckpointSlice | None:
    """What an assignment takes from the checkpoint, if it does."""
    data = assign.data_inputs
    if len(data) < 2:
        return None
    text = data[1]
    for _ in range(_MAX_CHAIN):
        name, output = body.resolve(text)
        node = body.by_name.get(name)
        if node is None:
            return None
        if node.op == "RestoreV2":
            return CheckpointSlice(_string(body, node, 1, output), _string(body, node, 2, output))
        if node.op in ("Restore", "RestoreSlice"):
            extents = _string(body, node, 2, 0) if node.op == "RestoreSlice" else ""
            return CheckpointSlice(_string(body, node, 1, 0), extents)
        if node.op not in _PASS_OPS:
            return None
        place = output if node.op == "IdentityN" else 0
        if place >= len(node.inputs):
            return None
        text = node.inputs[place]
    return None


def _string(body: Body, node: Node, index: int, position: int) -> str:
    """An element of the constant that a restore op takes."""
    const = body.producer(node, index)
    value = None if const is None else const.get("value")
    if not isinstance(value, StringTensor):
        what = f"input {index} of {node.op} is no constant of strings, so the names in the checkpoint are not known"
        raise InvalidModelError(what, where=f"node {node.name!r}", remedy="export the model again")
    if position >= (value.shape.elements or 0):
        what = f"output {position} is used, but only {value.shape.elements} tensors are restored"
        raise InvalidModelError(what, where=f"node {node.name!r}", remedy="the file is damaged")
    values = value.values  # not as an array: that would be made anew for each of them
    found = values[min(position, len(values) - 1)] if values else b""
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        what = f"{found[:80]!r} is no name of a tensor"
        raise InvalidModelError(what, where=f"node {node.name!r}", remedy="the file is damaged") from error


def find_source(model: Model, node: Node, sources: Mapping[str, CheckpointSlice]) -> CheckpointSlice:
    """Where a variable's value lies: as the saver says, else by its name. It need not be there."""
    found = sources.get(node.name)
    return _by_name(model, node) if found is None else found


def find_value(
    model: Model, node: Node, sources: Mapping[str, CheckpointSlice], *, ema: bool = False, where: str = ""
) -> tuple[str, Tensor]:
    """The value of a variable: its key in the checkpoint and its tensor, which is not read.

    Args:
        model: The model with its checkpoint.
        node: The variable's node.
        sources: What `restore_sources` found.
        ema: Whether to take the moving average where there is one.
        where: What to add to the place in an error.

    Raises:
        NotFoundInModelError: The checkpoint has no such tensor; the remedy has the nearest names.
        InvalidModelError: Its dtype or shape is not the variable's.
    """
    source = find_source(model, node, sources)
    if ema and source.key + EMA_SUFFIX in model.variables:
        source = CheckpointSlice(source.key + EMA_SUFFIX, source.extents)
    if source.key not in model.variables:
        raise _missing(model, node, source.key, where)
    tensor = model.variables[source.key]
    if source.extents:
        from tfsmith.ir.tensor_views import slice_tensor  # rare

        tensor = slice_tensor(tensor, source.extents, f"variable {node.name!r}")
    _check(model, node, tensor, source.key)
    return source.key, tensor


def _by_name(model: Model, node: Node) -> CheckpointSlice:
    """Without a saver: the node's own name, or the one it shares, or the whole that it is a part of."""
    shared = node.get("shared_name", b"")
    candidates = [node.name, shared.decode("utf-8", "replace") if isinstance(shared, bytes) else ""]
    for name in candidates:
        if name and name in model.variables:
            return CheckpointSlice(name)
    for name in candidates:
        key = f"{name}/.ATTRIBUTES/VARIABLE_VALUE"
        if name and key in model.variables:
            return CheckpointSlice(key)
    part = _PART_NAME.match(node.name)
    whole = "" if part is None else part[1] + (part[3] or "")  # of "w/part_0", and of the slot "w/part_0/Adam" too
    if part is not None and whole in model.variables:
        names = [f"{part[1]}/part_{before}{part[3] or ''}" for before in range(int(part[2]))]
        return CheckpointSlice(whole, _part_extents(model, whole, names, node))
    return CheckpointSlice(node.name)


def _part_extents(model: Model, whole: str, before: Sequence[str], node: Node) -> str:
    """Which part of a partitioned variable a node is, by the sizes of the parts before it."""
    full = model.variables[whole].shape.dims or ()
    own = _sizes(node)
    axis = next((axis for axis, (size, all_of_it) in enumerate(zip(own, full, strict=False)) if size != all_of_it), 0)
    start = 0
    for name in before:
        other = model.graph.by_name.get(name)
        sizes = () if other is None else _sizes(other)
        if axis >= len(sizes):
            what = f"{name!r} is missing or has no shape, so where this part of the variable begins is not known"
            remedy = "pass a graph with all parts, or the .meta, which says what belongs where"
            raise InvalidModelError(what, where=f"node {node.name!r}", remedy=remedy)
        start += sizes[axis]
    spans = [f"{start},{size}" if at == axis else "-" for at, size in enumerate(own)]
    return " ".join(map(str, full)) + " " + ":".join(spans)


def _sizes(variable: Node) -> tuple[int, ...]:
    shape = variable.get("shape")
    return shape.dims or () if isinstance(shape, Shape) else ()


def _missing(model: Model, node: Node, key: str, where: str) -> NotFoundInModelError:
    near = nearest(key, model.variables)
    there = f"the nearest names there are {', '.join(near)}" if near else "no name there is like it"
    named = "" if key == node.name else f" (its name in the checkpoint is {key!r})"
    path = model.checkpoint.prefix if model.checkpoint else model.path
    if not model.variables:
        what = f"variable {node.name!r} has no value: there is no checkpoint"
        remedy = "pass the checkpoint that belongs to the graph ({checkpoint=PREFIX})"
        return NotFoundInModelError(what, path=model.path, where=where or None, remedy=remedy)
    lost = ", ".join(file.name for file in model.checkpoint.missing) if model.checkpoint else ""
    if lost:  # what it calls its variables may be in there
        what = f"variable {node.name!r} has no value: {lost} is missing"
        return NotFoundInModelError(what, path=path, where=where or None, remedy="copy all files of the checkpoint")
    what = f"the checkpoint has no value for variable {node.name!r}{named}"
    remedy = f"{there}; pass the checkpoint that belongs to the graph, or leave the variable out ({{excluded}})"
    return NotFoundInModelError(what, path=path, where=where or None, remedy=remedy)


def _check(model: Model, node: Node, tensor: Tensor, key: str) -> None:
    kind, shape = node.get("dtype"), node.get("shape")
    where = f"variable {node.name!r}"
    path = model.checkpoint.prefix if model.checkpoint else model.path
    remedy = "pass the checkpoint that belongs to this graph"
    if isinstance(kind, DType) and kind.base != tensor.dtype.base:
        what = f"the graph says {kind}, but {key!r} in the checkpoint is {tensor.dtype}"
        raise InvalidModelError(what, path=path, where=where, remedy=remedy)
    if not isinstance(shape, Shape) or shape.dims is None or tensor.shape.dims is None:
        return
    fits = len(shape.dims) == len(tensor.shape.dims) and all(
        want in (-1, have) for want, have in zip(shape.dims, tensor.shape.dims, strict=False)
    )
    if not fits:
        what = f"the graph says {shape}, but {key!r} in the checkpoint is {tensor.shape}"
        raise InvalidModelError(what, path=path, where=where, remedy=remedy)


_TRACKED = re.compile(r"/\.(ATTRIBUTES|OPTIMIZER_SLOT)/")
_UNNAMED = re.compile(r"(^|/)Variable(_\d+)?$")


def variable_names(model: Model) -> dict[str, tuple[str, ...]]:
    """The variables' names for keys that TensorFlow 2 made of Python attributes, such as `variables/1/.ATTRIBUTES/...`.

    The best name is first: a node's, as the saver restores it, else what the checkpoint itself says. Reads no value but
    the checkpoint's object graph, and that only where there is no graph of nodes. Damaged ones give no names.
    """
    keys = [key for key in model.variables if _TRACKED.search(key)]
    if not keys:
        return {}
    found: dict[str, list[str]] = {key: [] for key in keys}
    try:
        stored: Mapping[str, str] = getattr(model.variables, "tracked_names", {}) if not model.has_graph else {}
        for key, name in (*stored.items(), *(_restored_names(model) if model.has_graph else ())):
            if key in found and name and name not in found[key]:
                found[key].append(name)
    except TfsmithError:
        return {}
    return {key: tuple(sorted(names, key=_is_unnamed)) for key, names in found.items() if names}


def _is_unnamed(name: str) -> bool:
    """Whether a name is one that TensorFlow gives to variables that have none."""
    return _UNNAMED.search(name) is not None


def _restored_names(model: Model) -> Iterator[tuple[str, str]]:
    for name, source in restore_sources(model.meta).items():
        if not source.extents:
            yield source.key, name


@record
class Fit:
    """How a graph fits the checkpoint that was attached to it.

    Attributes:
        found: How many of the graph's variables the checkpoint has, as they must be.
        missing: The names of the others.
    """

    found: int
    missing: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every variable has its value, and there is one."""
        return self.found > 0 and not self.missing


def fit_checkpoint(model: Model) -> Fit:
    """Looks up every variable of the graph in the model's checkpoint; linear, reads no values."""
    sources = restore_sources(model.meta)
    missing: list[str] = []
    found = 0
    for node in model.graph:
        if node.op not in VARIABLES:
            continue
        try:
            find_value(model, node, sources)
            found += 1
        except TfsmithError:
            missing.append(node.name)
    return Fit(found, tuple(missing))
