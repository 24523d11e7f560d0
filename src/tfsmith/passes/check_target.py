"""What of a model another program cannot import: ops, attributes, dtypes, open shapes, formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfsmith.errors import Hint, TfsmithError, UsageError, call, nearest
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Func, Node, parse_input
from tfsmith.ir.opdef import builtin_ops
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape
from tfsmith.limits import MAX_RANK
from tfsmith.ops import CONTROL_FLOW, GIVEN, PLACEHOLDERS, VARIABLES
from tfsmith.ops.traits import is_random, node_types
from tfsmith.passes.freeze import FreezeOptions, freeze
from tfsmith.passes.interface import choose_outputs, tensor_names
from tfsmith.records import record, replace

__all__ = ["Target", "find_target", "target_names", "TargetCheck", "Obstacle", "check_target"]

_FOLDER = Path(__file__).with_name("targets")
_KNOWN = MappingProxyType(
    {
        "names": "of {title} only the ops' names are known: types, attributes and shapes were not tried",
        "ops": "{title} {version} was asked op by op: types, attributes and shapes were not tried",
        "types": "{title} {version} was asked op by op, and with types: attributes and shapes were not tried",
        "attributes": "of {title} the ops and their attributes are known: types and shapes were not tried",
        "trial": "the model was lowered to {title} as convert does it: what is not named here has a form in it",
    }
)
_RELEASE = re.compile(r"(?:tensorflow|tf)-(\d{1,4}\.\d{1,4})(?:\.\d+)*")


@record
class Target:
    """A program that imports graphs.

    Attributes:
        name: As `check` takes it.
        title: What people call it.
        version: The version that the table speaks of.
        source: Where the table comes from.
        date: When it was taken.
        ops: The ops that it imports.
        ignores: Ops that it passes over, with all that only they need.
        by_name: Whether it also passes over nodes whose names contain such an op's.
        refuses: Dtypes of constants and inputs that it cannot hold.
        only_graphdef: Whether it reads nothing but one binary GraphDef.
        calls: Whether it follows calls of functions.
        freezes: Whether it freezes variables by itself.
        static_shapes: Whether every input needs a full shape.
        graph_version: TensorFlow's number for the graphs that it writes; 0 for others.
        later_attrs: Attributes, as "op.attr", that came after it.
        ignores_attrs: Whether it passes over attributes that it does not know, where others refuse the graph.
        in_gelu: Ops that it takes as part of a GELU, and nowhere else.
        static_lists: Ops that make lists of tensors, whose elements must have a shape without open dimensions.
        known_by: How it is known what it imports: "names", read about; "ops", asked op by op; "types", asked op by op
            and with types; "attributes", the ops and attributes of a release; "trial", the model itself was tried.
        types: For ops that it was asked about with types: each combination of them, and whether it takes it.
    """

    name: str
    title: str
    version: str
    source: str
    date: str
    ops: frozenset[str]
    ignores: frozenset[str] = frozenset()
    by_name: bool = False
    refuses: frozenset[str] = frozenset()
    only_graphdef: bool = False
    calls: bool = False
    freezes: bool = False
    static_shapes: bool = False
    graph_version: int = 0
    later_attrs: frozenset[str] = frozenset()
    ignores_attrs: bool = False
    in_gelu: frozenset[str] = frozenset()
    static_lists: frozenset[str] = frozenset()
    known_by: str = "names"
    types: Mapping[str, Mapping[str, bool]] = MappingProxyType({})

    @property
    def known(self) -> str:
        """How it is known what it imports, as a sentence."""
        return _KNOWN[self.known_by].format(title=self.title, version=self.version)


def target_names() -> list[str]:
    """The names of all targets, sorted; TensorFlow's releases last."""
    releases = [f"tensorflow-{release}" for release in _releases()]
    return ["migraphx", "openvino", "tf2onnx", "tflite", "tflite-flex", *releases]


def find_target(name: str) -> Target:
    """The target of this name.

    Raises:
        UsageError: There is none; the remedy has the nearest, and how to list them.
    """
    wanted = name.strip().lower()
    release = _RELEASE.fullmatch(wanted)
    if release is not None and release[1] in _releases():
        return _tensorflow(release[1])
    if wanted in ("migraphx", "openvino", "tflite", "tf2onnx"):
        return _simple(wanted, wanted)
    if wanted == "tflite-flex":
        return _simple(wanted, "tflite", "flex")
    names = ["onnx", *target_names()]  # that one has no table: a verb tries it
    near = nearest(wanted, names) or ["onnx", "migraphx", "openvino", "tflite", names[-1]]
    remedy = f"near are {', '.join(near)}; {{list_targets()}} shows all"
    raise UsageError(f"there is no target {name!r}", remedy=remedy)


def _simple(name: str, table: str, more: str = "") -> Target:
    head, lines = _read(table)
    ops, extra = {word for line in lines for word in line.split()}, frozenset[str]()
    title, source = head["title"], head["source"]
    if more:
        more_head, lines = _read(more)
        extra = frozenset(word for line in lines for word in line.split())
        ops |= extra
        title, source = f"{title} with {more_head['title']}", f"{source}; {more_head['source']}"
    return Target(
        name,
        title,
        head["version"],
        source,
        head["date"],
        frozenset(ops),
        frozenset(head.get("ignores", "").split()),
        head.get("by_name") == "yes",
        frozenset(head.get("refuses", "").split()),
        only_graphdef=head.get("reads") == "graphdef",
        calls=head.get("calls") == "yes",
        freezes=head.get("freezes") == "yes",
        static_shapes=head.get("shapes") == "static",
        in_gelu=frozenset(head.get("in_gelu", "").split()) - ops,
        static_lists=frozenset() if more else frozenset(head.get("static_lists", "").split()),
        known_by=head["known_by"],
        types=_types(head["types"], extra) if "types" in head else MappingProxyType({}),
    )


def _types(table: str, without: frozenset[str]) -> Mapping[str, Mapping[str, bool]]:
    """The types that ops were tried with: on each line an op, what it takes, a bar, what it does not take."""
    found: dict[str, Mapping[str, bool]] = {}
    for line in _read(table)[1]:
        op, *words = line.split(" ")
        bar = words.index("|")
        if op not in without:
            found[op] = {word.replace(";", " "): number < bar for number, word in enumerate(words) if number != bar}
    return found


def _tensorflow(release: str) -> Target:
    head, _ = _read("tensorflow")
    ops: set[str] = set()
    named: set[str] = set()
    later: set[str] = set()
    version, is_past = 0, False
    known = builtin_ops().keys()  # what is there today never went: only its Python function did
    for number, graph_version, marks in _parts():
        for mark, words in marks:
            named |= words if mark != "@" else set()
            if is_past:
                later |= words if mark == "@" else set()
            elif mark == "+":
                ops.update(words)
            elif mark == "-":
                ops.difference_update(words - known)
        if number == release:
            version, is_past = graph_version, True
    ops |= known - named  # ops without Python functions: nothing says when they came
    return Target(
        f"tensorflow-{release}",
        f"TensorFlow {release}",
        release,
        head["source"],
        head["date"],
        frozenset(ops),
        calls=True,
        known_by=head["known_by"],
        graph_version=version,
        later_attrs=frozenset(later),
        ignores_attrs=_number(release) >= _number(head["ignores_attributes_since"]),
    )


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@cache
def _releases() -> tuple[str, ...]:
    return tuple(release for release, _, _ in _parts())


def _parts() -> Iterator[tuple[str, int, list[tuple[str, set[str]]]]]:
    """Each release with its graph version and its lines: a mark, and words."""
    _, lines = _read("tensorflow")
    release, version, marks = "", 0, list[tuple[str, set[str]]]()
    for line in lines:
        mark, *words = line.split()
        if mark != "release":
            marks.append((mark, set(words)))
            continue
        if release:
            yield release, version, marks
        release, version, marks = words[0], int(words[1]), []
    yield release, version, marks


def _read(name: str) -> tuple[dict[str, str], list[str]]:
    """The header of a table, and its other lines."""
    head, _, body = (_FOLDER / f"{name}.txt").read_text("utf-8").partition("\n\n")
    return dict(line.split(": ", 1) for line in head.splitlines()), [line for line in body.splitlines() if line]


_PLACEHOLDERS = PLACEHOLDERS - {"PlaceholderWithDefault"}
_GIVEN = GIVEN | PLACEHOLDERS


@record
class Obstacle:
    """Something that the target has no answer for.

    Attributes:
        kind: "format", "version", "op", "attribute", "dtype" or "shape".
        subject: The op, the attribute as "op.name", the dtype; "" where there is no better word than `what`.
        what: What is wrong.
        nodes: The nodes concerned, in the file's order; those of a function as "function/node".
        remedy: What to do; a command where one of ours removes it, "" where nobody knows.
    """

    kind: str
    subject: str
    what: str
    nodes: tuple[str, ...] = ()
    remedy: str = ""


@record
class TargetCheck:
    """What a check found.

    Attributes:
        target: The program.
        obstacles: What stands in the way, worst first.
        notes: What is good to know and stands in nobody's way.
        node_count: How many nodes were looked at.
        frozen: Whether they were looked at as freezing leaves them, because the target freezes by itself.
    """

    target: Target
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...] = ()
    node_count: int = 0
    frozen: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.obstacles


def check_target(
    model: Model, target: Target, *, outputs: Sequence[str] = (), signature: str | None = None
) -> TargetCheck:
    """What of a model the target cannot import. Linear in nodes and edges; reads no weights.

    Args:
        model: The model.
        target: The program that is to import it.
        outputs: The outputs that are wanted; by default those of the signature, else everything in the graph counts.
        signature: Which signature's outputs.

    Raises:
        NotFoundInModelError: There is no graph, or no such output or signature.
    """
    graph = model.graph
    is_frozen = model.kind == "graphdef" and not graph.library and not _has_variables(graph)
    thawed = None if is_frozen else _frozen(model, outputs, signature)
    if target.freezes and thawed is not None:
        return replace(_check(thawed, target, (), None), frozen=True)
    found = _check(model, target, outputs, signature)
    if thawed is None or found.is_clean:
        return found
    return _with_freezing(model, found, _check(thawed, target, (), None), outputs)


def _has_variables(graph: Graph) -> bool:
    return any(node.op in VARIABLES for node in graph)


def _frozen(model: Model, outputs: Sequence[str], signature: str | None) -> Model | None:
    """The model as `tfsmith freeze` leaves it; None if it cannot be frozen."""
    try:
        return freeze(model, FreezeOptions(outputs=tuple(outputs), signature=signature)).model
    except TfsmithError:
        return None


def _with_freezing(model: Model, found: TargetCheck, after: TargetCheck, outputs: Sequence[str]) -> TargetCheck:
    """The obstacles, with `tfsmith freeze` as the remedy of those that it removes; and those that it uncovers."""
    named = {"outputs": list(outputs)} if outputs else {}
    command = Hint(call("freeze", model.path or "MODEL", out="frozen.pb", **named))
    left = {(one.kind, one.subject) for one in after.obstacles}
    known = {(one.kind, one.subject) for one in found.obstacles}
    kept = [one if (one.kind, one.subject) in left else replace(one, remedy=command) for one in found.obstacles]
    inner = [
        replace(one, what=f"{one.what} (seen once it is frozen)")
        for one in after.obstacles
        if (one.kind, one.subject) not in known and not found.target.calls
    ]
    return replace(found, obstacles=_sorted([*kept, *inner]), notes=found.notes or after.notes)


def _check(model: Model, target: Target, outputs: Sequence[str], signature: str | None) -> TargetCheck:
    graph = model.graph
    notes: list[str] = []
    nodes = _needed(model, outputs, signature, notes)
    obstacles = [*_formats(model, target), *_versions(graph, target, notes)]
    looked_at = _Nodes(graph, target)
    looked_at.look(nodes)
    obstacles += looked_at.obstacles(model)
    if target.static_shapes:
        obstacles += _shapes(model, nodes)
    notes += looked_at.notes()
    notes.append(target.known)
    return TargetCheck(target, _sorted(obstacles), tuple(notes), looked_at.count)


_FLEX = "convert with SELECT_TF_OPS among supported_ops ({check(model, target='tflite-flex')} checks for that)"
_ORDER = ("format", "version", "op", "attribute", "dtype", "shape")


def _sorted(obstacles: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    return tuple(sorted(obstacles, key=lambda one: (_ORDER.index(one.kind), -len(one.nodes), one.subject)))


def _needed(model: Model, outputs: Sequence[str], signature: str | None, notes: list[str]) -> list[Node]:
    """The nodes that the outputs need, in the file's order; all, where nothing says what the outputs are."""
    graph = model.graph
    if outputs or signature is not None:
        wanted = {endpoint.node for endpoint in choose_outputs(model, outputs, signature).values()}
    else:
        entries = [info for one in model.signatures.values() for info in one.outputs.values()]
        tensors = [name for info in entries for name in tensor_names(info)]
        wanted = {node for tensor in tensors if (node := parse_input(tensor).node) in graph}
        if not wanted and model.kind != "graphdef":
            wanted = _likely(model, notes)
    if not wanted:
        return list(graph.nodes)
    needed = graph.ancestors(wanted)
    return [node for node in graph.nodes if node.name in needed]


def _likely(model: Model, notes: list[str]) -> set[str]:
    """The output of a training graph, where only one thing can be it."""
    try:
        found = choose_outputs(model, (), None)
    except TfsmithError:
        return set()
    notes.append(f"only what {', '.join(found)} needs was looked at; name others as outputs to look at them")
    return {endpoint.node for endpoint in found.values()}


def _formats(model: Model, target: Target) -> Iterator[Obstacle]:
    if not target.only_graphdef:
        return
    path = model.path or "MODEL"
    if model.kind != "graphdef":
        kind = {"saved_model": "a SavedModel", "metagraph": "a meta graph"}.get(model.kind, model.kind)
        what = f"it reads one frozen GraphDef (.pb) only, and this is {kind}"
        yield Obstacle("format", "", what, remedy=Hint(call("freeze", path, out="frozen.pb")))
    elif str(path).endswith((".pbtxt", ".txt")):
        what = "it reads binary GraphDefs only, and this is text"
        yield Obstacle("format", "", what, remedy=Hint(call("convert", path, out="graph.pb")))


def _versions(graph: Graph, target: Target, notes: list[str]) -> Iterator[Obstacle]:
    """TensorFlow's own rule: its version must reach min_consumer and not be one of the bad ones."""
    if not target.graph_version:
        return
    versions, own = graph.versions, target.graph_version
    if versions.min_consumer > own or own in versions.bad_consumers:
        what = f"the graph asks for readers of version {versions.min_consumer} and later; {target.title} has {own}"
        what = what if versions.min_consumer > own else f"the graph names version {own}, which it has, as a bad reader"
        yield Obstacle("version", "", what, remedy="read it with a later TensorFlow")
    elif versions.producer > own:
        notes.append(
            f"a later TensorFlow wrote the graph (version {versions.producer}; {target.title} has {own}): "
            "it is read if all ops and attributes are known"
        )


class _Nodes:
    """Looks at nodes, of the graph and of the functions that they call, and keeps what the target lacks."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.count = 0
        self._graph, self._target = graph, target
        self._ops: dict[str, list[str]] = {}
        self._dead: dict[str, list[str]] = {}
        self._attrs: dict[str, list[tuple[str, bool]]] = {}
        self._dtypes: dict[str, list[str]] = {}
        self._types: dict[tuple[str, str], list[str]] = {}
        self._untried: dict[str, str] = {}
        self._lists: dict[str, list[str]] = {}
        self._unknown_lists: dict[str, list[str]] = {}
        self._seen: set[str] = set()

    def look(self, nodes: Sequence[Node]) -> None:
        """Looks at these nodes of the graph; functions that are called follow."""
        todo: list[tuple[Body, Sequence[Node], str]] = [(self._graph, nodes, "")]
        for body, its_nodes, mark in todo:  # grows while it is walked
            live = _live(its_nodes, self._target) if self._target.ignores else None
            self.count += len(its_nodes)
            for node in its_nodes:
                if _is_ignored(node, self._target):
                    continue
                self._look_at(body, node, mark, live is None or node.name in live)
                called = [(name, self._graph.library[name]) for name in self._calls(node)]
                todo += [(function, function.nodes, f"{name}/") for name, function in called]

    def _look_at(self, body: Body, node: Node, prefix: str, is_live: bool) -> None:
        name = f"{prefix}{node.name}"
        if node.op in self._target.in_gelu and _is_in_gelu(body, node):
            return
        if node.op in self._target.static_lists:
            elements = _elements(body, node)
            lists = self._lists if elements.dims is not None else self._unknown_lists
            if not elements.is_static:
                lists.setdefault(node.op, []).append(name)
        if node.op not in self._target.ops and not (self._target.calls and node.op in self._graph.library):
            (self._ops if is_live else self._dead).setdefault(node.op, []).append(name)
            return
        if self._target.types and node.op not in _GIVEN:
            self._look_at_types(node, name)
        if self._target.later_attrs:
            self._look_at_attrs(node, name)
        if self._target.refuses and (node.op in _PLACEHOLDERS or node.op == "Const"):
            found = node.peek("dtype")
            kind = found.value.base.name if found is not None and isinstance(found.value, DType) else ""
            if kind in self._target.refuses:
                self._dtypes.setdefault(kind, []).append(name)

    def _look_at_types(self, node: Node, name: str) -> None:
        types = node_types(node.op, node.attrs) or ""
        taken = self._target.types.get(node.op, {}).get(types)
        if taken is None:
            self._untried.setdefault(node.op, types)
        elif not taken:
            self._types.setdefault((node.op, types), []).append(name)

    def _look_at_attrs(self, node: Node, name: str) -> None:
        op = builtin_ops().get(node.op)
        for attr in () if op is None else op.attrs:
            key = f"{node.op}.{attr.name}"
            if key in self._target.later_attrs and attr.name in node.attrs:
                self._attrs.setdefault(key, []).append((name, _is_default(node.attrs[attr.name], attr.default)))

    def _calls(self, node: Node) -> list[str]:
        """The functions that a node calls and that were not looked at yet."""
        if not self._target.calls or not self._graph.library:
            return []
        values = [node.op] if node.op in self._graph.library else []
        for attr in node.attrs.values():
            items = attr.value if isinstance(attr.value, tuple) else (attr.value,)
            values += [item.name for item in items if isinstance(item, Func) and item.name in self._graph.library]
        new = [name for name in dict.fromkeys(values) if name not in self._seen]
        self._seen.update(new)
        return new

    def obstacles(self, model: Model) -> Iterator[Obstacle]:
        """What was found."""
        title = self._target.title
        for op, names in self._ops.items():
            yield Obstacle("op", op, f"{title} has no {op}", tuple(names), _op_remedy(op, self._graph, self._target))
        for key, found in self._attrs.items():
            default = all(is_default for _, is_default in found)
            if default and (model.kind != "graphdef" or self._target.ignores_attrs):
                continue  # TensorFlow drops them, since 2.5 or where the file has the definitions of its ops
            op, _, attr = key.partition(".")
            what = f"{title} does not know the attribute {attr} of {op}"
            what += " and would work without it" if self._target.ignores_attrs else ""
            remedy = f"it has its default, so it can go; in Python: node.replace(attrs={{'{attr}': None}})"
            remedy = remedy if default else "read it with a later TensorFlow"
            yield Obstacle("attribute", key, what, tuple(name for name, _ in found), remedy)
        for op, names in self._lists.items():
            what = f"{title} takes no {op} whose elements have open dimensions"
            remedy = "export the model with a fixed batch size"
            if self._target.name == "tflite":
                remedy = Hint(f"{remedy}; or {_FLEX}")
            yield Obstacle("shape", op, what, tuple(names), remedy)
        for (op, types), found_names in self._types.items():
            names = [name for name in found_names if not self._is_computed_before(name)]
            if not names:
                continue
            remedy = Hint(_FLEX) if self._target.name == "tflite" and op in _flex_ops() else "cast its inputs"
            yield Obstacle("dtype", op, f"{title} takes no {op} with {types}", tuple(names), remedy)
        for kind, names in self._dtypes.items():
            what = f"{title} has no {kind}"
            yield Obstacle(
                "dtype",
                kind,
                what,
                tuple(names),
                Hint("cut the model behind it ({freeze(model, outputs=['NAME'])})"),
            )

    def _is_computed_before(self, name: str) -> bool:
        """Whether a node of the graph depends on constants only: converters compute it, and import what it gives."""
        graph = self._graph
        return name in graph and all(
            graph[one].op == "Const" or graph[one].data_inputs for one in graph.ancestors({name})
        )

    def notes(self) -> Iterator[str]:
        """What was found and stands in nobody's way."""
        for op, names in self._dead.items():
            words = " and ".join(sorted(self._target.ignores))
            why = f"only {words} need it, which {self._target.title} passes over"
            yield f"{op} is not known, but {why}: {names[0]}"
        if self._untried:
            ops = ", ".join(sorted(self._untried)[:_FEW]) + (", ..." if len(self._untried) > _FEW else "")
            yield f"{self._target.title} was asked about other ops with their types; of {ops} only the names are known"
        for op, names in self._unknown_lists.items():
            why = f"which {self._target.title} takes only if it can infer one without open dimensions"
            yield f"the graph does not say the shape of the elements of {op}, {why}: {names[0]}"


_FEW = 6
_HALF, _ONE = 0.5, 1.0
_ELEMENT_SHAPE = 0
"""The input of TensorListReserve and EmptyTensorList that has the shape of their elements."""


def _is_in_gelu(body: Body, node: Node) -> bool:
    """Whether an Erf or Erfc is in `0.5 * x * (1 + erf(...))` or `0.5 * x * erfc(-x / ...)`, in this order."""
    taken, product = node, _only_user(body, node)
    if node.op == "Erf":
        if product is None or product.op not in ("Add", "AddV2") or not _takes_constant(body, product, _ONE):
            return False
        taken, product = product, _only_user(body, product)
    if product is None or product.op != "Mul" or body.source(product.inputs[0]) == taken.name:
        return False
    half = body.producer(product, 0)
    source = body.producer(node, 0) if node.op == "Erfc" else None
    if source is not None and (source.op not in ("Mul", "RealDiv") or not _takes_negative(body, source)):
        return False
    return half is not None and half.op == "Mul" and _takes_constant(body, half, _HALF)


def _takes_negative(body: Body, node: Node) -> bool:
    found = body.producer(node, 0) if node.data_inputs else None
    return found is not None and found.op == "Neg"


def _only_user(body: Body, node: Node) -> Node | None:
    users = body.consumers(node.name)
    return users[0].node if len(users) == 1 and len(users[0].node.data_inputs) == 2 else None


def _takes_constant(body: Body, node: Node, wanted: float) -> bool:
    """Whether one of a node's inputs is a constant of this one number."""
    if len(node.data_inputs) != 2:
        return False
    for position in range(2):
        value = _constant(body, node, position)
        if value is not None and value.shape.elements == 1 and float(value.numpy().reshape(-1)[0]) == wanted:
            return True
    return False


def _constant(body: Body, node: Node, position: int) -> Tensor | None:
    """The constant that is this input; numbers only."""
    found = body.producer(node, position) if position < len(node.data_inputs) else None
    value = None if found is None else found.constant
    return value if value is not None and value.dtype.itemsize else None


def _elements(body: Body, node: Node) -> Shape:
    """The shape of the elements of a list of tensors, as far as the graph says it."""
    found = _constant(body, node, _ELEMENT_SHAPE)
    if found is None or len(found.shape.dims or ()) != 1 or not 0 <= (found.shape.elements or 0) <= MAX_RANK:
        return UNKNOWN
    return Shape(tuple(max(-1, int(size)) for size in found.numpy().tolist()))


def _is_default(attr: Attr, default: Attr | None) -> bool:
    return default is not None and (attr.value == default.value or (attr.value == () and default.value == ()))


def _is_ignored(node: Node, target: Target) -> bool:
    return node.op in target.ignores or (target.by_name and any(word in node.name for word in target.ignores))


def _live(nodes: Sequence[Node], target: Target) -> set[str]:
    """The nodes whose tensors lead to the end of the graph, but not only into nodes that the target passes over."""
    own = {node.name: node for node in nodes}
    sources = {node.name: [text.partition(":")[0] for text in node.data_inputs] for node in nodes}
    taken = {name for names in sources.values() for name in names}
    todo = [node.name for node in nodes if node.name not in taken and not _is_ignored(node, target)]
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name in live or name not in own:
            continue
        live.add(name)
        todo += sources[name]
    return live


def _op_remedy(op: str, graph: Graph, target: Target) -> str:
    if op in graph.library:
        return Hint("{freeze(model)} puts the function in the place of its call")
    if op not in builtin_ops():
        if target.graph_version:
            return "it is no op of TensorFlow's own: load the library that has it (tf.load_op_library)"
        return Hint("it is no op of TensorFlow's own: replace it by ops that are ({replace(model)})")
    if op in CONTROL_FLOW:
        return "control flow of TensorFlow 1: write the graph for inference only, without tf.cond and tf.while_loop"
    if is_random(op):
        return "random numbers are for training: write the graph for inference only"
    if target.graph_version:
        return "read it with a later TensorFlow"
    if target.name == "tflite" and op in _flex_ops():
        return Hint(_FLEX)
    return ""


def _flex_ops() -> frozenset[str]:

    return find_target("tflite-flex").ops


def _shapes(model: Model, nodes: Sequence[Node]) -> Iterator[Obstacle]:
    """Inputs with open dimensions."""
    found: Mapping[str, Shape] = {
        node.name: shape if isinstance(shape := node.get("shape"), Shape) else UNKNOWN
        for node in nodes
        if node.op in _PLACEHOLDERS
    }
    open_ones = {name: shape for name, shape in found.items() if not shape.is_static}
    if not open_ones:
        return
    only_batch = all(shape.dims and min(shape.dims[1:], default=0) >= 0 for shape in open_ones.values())
    shown = ", ".join(f"{name} {shape}" for name, shape in list(open_ones.items())[:3])
    what = f"inputs have open dimensions: {shown}{', ...' if len(open_ones) > 3 else ''}"
    option: dict[str, Any] = {"batch_size": 1} if only_batch else {"input_shapes": {next(iter(open_ones)): [1, "..."]}}
    remedy = Hint(call("freeze", model.path or "MODEL", out="fixed.pb", **option))
    yield Obstacle("shape", "", what, tuple(open_ones), remedy)
