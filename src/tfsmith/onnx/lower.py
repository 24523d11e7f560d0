"""The driver: a graph without variables, node by node, to a model of ONNX. Nothing is run; weights are not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import onnx_ir

from tfsmith.errors import InvalidModelError, TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph, check_nodes
from tfsmith.ir.node import Attr, Endpoint, Func, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.onnx.builder import FLOAT32, SMALL, Builder, Refusal, Scope, Val, onnx_type
from tfsmith.onnx.raised import Gelu, Norm, find_raised
from tfsmith.onnx.registry import NodeContext, lowering_of
from tfsmith.onnx.tf1_flow import Tf1Flow, has_tf1_flow
from tfsmith.ops import ORDERING, PASSES_ON, WITHOUT_OUTPUTS
from tfsmith.ops.shapes import infer
from tfsmith.ops.sizes import Conflict, Dims, Known
from tfsmith.ops.traits import is_random
from tfsmith.ops.values import OpError, bind, has_value
from tfsmith.records import field, record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT_OPSET", "OPSETS", "Driver", "Given", "Lacking", "LowerOptions", "Lowered", "lower"]

DEFAULT_OPSET = 18
"""It has LayerNormalization, and runtimes of 2023 and later take it."""
OPSETS = range(18, 24)
_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
"""The version of the file format that came with each version of the ops, so that readers of that time take it."""
_HANDED_ON = PASSES_ON | {"IdentityN"}
_GELU = 20
"""The first version of the ops that has Gelu."""
_DEPTH = 40
"""Functions that call functions; real models have a few."""


@record
class Given:
    """An input or output of the graph.

    Attributes:
        key: What it is called in ONNX.
        tensor: The tensor in the graph.
        dtype: Its type; None where the graph does not say it.
        shape: Its shape, as far as it is known.
    """

    key: str
    tensor: str
    dtype: DType | None
    shape: Shape


@record
class LowerOptions:
    """How to lower.

    Attributes:
        opset: The version of ONNX' ops.
        custom: Ops that become nodes of another domain: for each the domain and the name that it gets.
        tables: The keys and values of lookup tables, by their nodes.
    """

    opset: int = DEFAULT_OPSET
    custom: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    tables: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)


@record
class Lacking:
    """What has no form in ONNX: an op, its nodes, why, and the version of ONNX' ops that has one (0: none)."""

    op: str
    nodes: tuple[str, ...]
    reason: str
    since: int = 0


@record(eq=False)
class Lowered:
    """A graph as ONNX.

    Attributes:
        model: The model, without the elements of its weights.
        weights: The weights by name, in the order in which they are used; not read.
        lacks: What has no form in ONNX; the model is of no use if there is any.
        notes: What to beware of.
    """

    model: onnx_ir.Model
    weights: Mapping[str, Tensor]
    lacks: tuple[Lacking, ...] = ()
    notes: tuple[str, ...] = ()


def lower(
    graph: Graph, inputs: Sequence[Given], outputs: Sequence[Given], options: LowerOptions | None = None
) -> Lowered:
    """Lowers the part of a graph between inputs and outputs.

    Args:
        graph: A graph without variables, calls inlined.
        inputs: What is fed.
        outputs: What is computed.
        options: How.
    """
    return Driver(graph, options or LowerOptions()).run(inputs, outputs)


class Driver:
    """Lowers one graph with its functions.

    Attributes:
        b: The builder.
        graph: The graph.
        tables: The keys and values of its lookup tables, by their nodes.
    """

    def __init__(self, graph: Graph, options: LowerOptions) -> None:
        self.graph = graph
        self.b = Builder(options.opset)
        self._options = options
        self._lacks: dict[tuple[str, str], list[str]] = {}
        self._since: dict[tuple[str, str], int] = {}
        self._depth = 0
        self._where = ""
        self._raised = find_raised(graph)
        self.tables = options.tables
        self.notes: dict[str, None] = {}

    def run(self, inputs: Sequence[Given], outputs: Sequence[Given]) -> Lowered:
        """Lowers what lies between these inputs and outputs."""
        b = self.b
        env: dict[Endpoint, Val] = {}
        fed: list[onnx_ir.Value] = []
        for given in (*inputs, *outputs):
            b.reserve(given.key)
        names = _size_names(inputs)
        for given in inputs:
            tensor = parse_input(given.tensor)
            kind = given.dtype if given.dtype is not None else self.graph[tensor.node].dtype("dtype")
            try:
                value = onnx_ir.Value(name=given.key, type=onnx_ir.TensorType(onnx_type(kind)))
            except Refusal as refused:
                self._lack(tensor.node, self.graph[tensor.node].op, str(refused))
                value = onnx_ir.Value(name=given.key)
            value.shape = _shape(names[given.key])
            fed.append(value)
            env[tensor] = b.given(Val(kind, Known(names[given.key]), value, b.root))
        self.lower_body(self.graph, env, [parse_input(given.tensor) for given in outputs])
        taken: set[int] = {id(value) for value in fed}
        ends = [env.get(parse_input(given.tensor)) for given in outputs]
        for given, val in zip(outputs, self._guarded([one for one in ends if one is not None]), strict=False):
            if None not in ends:
                env[parse_input(given.tensor)] = val
        made = [self._output(given, env, taken) for given in outputs]
        since = self._since
        lacks = tuple(Lacking(key[0], tuple(nodes), key[1], since.get(key, 0)) for key, nodes in self._lacks.items())
        nodes = _used(b.root.nodes, made)
        used = {id(value) for node in _all_nodes(nodes) for value in node.inputs if value is not None}
        used |= {id(value) for value in _returned(nodes)} | {id(value) for value in made}
        domains = {node.domain for node in _all_nodes(nodes)} | {""}
        model = onnx_ir.Model(
            onnx_ir.Graph(
                fed,
                made,
                nodes=nodes,
                opset_imports={name: version for name, version in b.domains.items() if name in domains},
                name="tfsmith",
            ),
            ir_version=_IR_VERSIONS[self._options.opset],
        )
        weights = {name: tensor for name, (value, tensor) in b.initializers.items() if id(value) in used}
        if not lacks:
            self._complete(model, weights)
        return Lowered(model, weights, lacks, tuple(self.notes))

    def _complete(self, model: onnx_ir.Model, weights: Mapping[str, Tensor]) -> None:
        """Gives each size of an output that nobody knows a name, and asks ONNX' own inference for ranks."""
        unknown = [value for value in model.graph.outputs if value.shape is None]
        found = _inferred_outputs(model, weights) if unknown else {}
        for value in model.graph.outputs:
            if value.shape is None and found.get(str(value.name)) is None:
                told = f"the rank of output {value.name!r} is not known before it runs"
                self.notes[f"{told}: runtimes take it, onnx.checker does not"] = None
                continue
            sizes = list(found[str(value.name)] or ()) if value.shape is None else [*value.shape]
            named = [
                size if isinstance(size, int) else getattr(size, "value", size) or f"{value.name}_size_{at}"
                for at, size in enumerate(sizes)
            ]
            value.shape = onnx_ir.Shape(named)

    def _output(self, given: Given, env: Mapping[Endpoint, Val], taken: set[int]) -> onnx_ir.Value:
        """An output under its key."""
        b = self.b
        b.prefix = ""
        found = env.get(parse_input(given.tensor))
        if found is None:
            node = parse_input(given.tensor).node
            self._lack(node, self.graph[node].op, "it does not give this output in ONNX")
            return onnx_ir.Value(name=given.key)
        try:
            value = b.value(found)
            if id(value) in taken or value.producer() is None:
                value = b.value(b.op("Identity", found, known=found.known))
        except Refusal as refused:
            if not self._lacks:
                self._lack(parse_input(given.tensor).node, "output", str(refused))
            return onnx_ir.Value(name=given.key)
        taken.add(id(value))
        value.name = given.key
        dims = found.dims if found.dims is not None else Known.of(given.shape).dims
        value.shape = _shape(dims)
        return value

    def _guarded(self, outputs: Sequence[Val]) -> list[Val]:
        """The outputs of the scope that is open; one of them is there only if its conditions hold."""
        found, conditions = list(outputs), self.b.scope.conditions
        at = next((at for at, one in enumerate(found) if one.held is None and one.dtype.name != "string"), None)
        if conditions and at is None:
            self.notes["Assert only stops a run, and no output is there to do so: it is left out"] = None
        elif conditions and at is not None and not self._lacks:
            found[at] = self.b.guarded(found[at], conditions)
        return found

    def _lack(self, node: str, op: str, reason: str) -> None:
        nodes = self._lacks.setdefault((op, reason), [])
        name = f"{node}{self._where}"
        if name not in nodes:
            nodes.append(name)

    # bodies

    def lower_body(self, body: Body, env: dict[Endpoint, Val], wanted: Sequence[Endpoint]) -> None:
        """Lowers what these tensors of a body need, in the scope that is open. `env` has what is given."""
        known = {tensor.node for tensor in env}
        starts = [tensor.node for tensor in wanted if tensor not in env]
        needed = body.ancestors([name for name in dict.fromkeys(starts) if name not in known], known)
        is_tf1_flow = has_tf1_flow(body)
        check_nodes(body, None if is_tf1_flow else needed - known)
        if is_tf1_flow:
            Tf1Flow(self, body).lower(env, wanted)
            return
        for node in body.topological_order():
            if node.name in needed and node.name not in known:
                self.lower_node(body, node, env)

    def snapshot(self) -> dict[tuple[str, str], list[str]]:
        """What was found to have no form so far."""
        return {key: list(nodes) for key, nodes in self._lacks.items()}

    def restore(self, lacks: Mapping[tuple[str, str], list[str]]) -> None:
        """Forgets what was found since then, for the body of a loop is lowered again."""
        self._lacks = {key: list(nodes) for key, nodes in lacks.items()}

    def call(self, func: Func, args: Sequence[Val], where: str, wanted: Sequence[Endpoint] | None = None) -> list[Val]:
        """Lowers a function with these arguments, in the scope that is open; gives its results.

        Args:
            func: The function.
            args: What it is given.
            where: The node that calls it.
            wanted: Tensors of its body, in place of its results.

        Raises:
            Refusal: It is not in the library, or functions call each other too deep.
        """
        function = self.graph.library.get(func.name)
        if function is None:
            raise Refusal(f"function {func.name!r} is not in the library")
        if self._depth >= _DEPTH:
            raise Refusal("functions call each other too deep")
        signature = function.signature
        if any(arg.number_attr or arg.type_list_attr for arg in (*signature.inputs, *signature.outputs)):
            raise Refusal("it calls a function whose arguments are lists")
        names = [arg.name for arg in signature.inputs]
        if len(names) != len(args):
            raise Refusal(f"function {func.name!r} takes {len(names)} arguments, and is given {len(args)}")
        env = {Endpoint(name, 0): arg for name, arg in zip(names, args, strict=True)}
        results = [function.resolve(function.ret[found.name]) for found in signature.outputs]
        results = results if wanted is None else list(wanted)
        outer, self._where = self._where, f" in function {func.name!r}"
        prefix = self.b.prefix
        self._depth += 1
        try:
            self.lower_body(function, env, results)
        finally:
            self._depth -= 1
            self._where = outer
            self.b.prefix = prefix
        missing = [str(tensor) for tensor in results if tensor not in env]
        if missing:
            raise Refusal(f"{missing[0]} of function {func.name!r} is not there")
        return [env[tensor] for tensor in results]

    def lower_node(self, body: Body, node: Node, env: dict[Endpoint, Val]) -> None:
        """Lowers a node; what has no form is noted down, so that all of it is found in one go."""
        if node.op in WITHOUT_OUTPUTS or node.op in ORDERING:
            if node.op == "Assert":
                self._assert(body, node, env)
            return
        if node.op == "Const":
            env[Endpoint(node.name, 0)] = self._constant(node)
            return
        if body is self.graph and self._is_raised(node, env):
            return
        sources = [body.resolve(text) for text in node.inputs if not text.startswith("^")]
        inputs = [env.get(tensor) for tensor in sources]
        definition = body.op_def(node.op)
        try:
            attrs = node.attrs if definition is None else definition.with_defaults(node.attrs)
            dtypes: list[DType | None] = [] if definition is None else list(definition.output_types(attrs))
        except InvalidModelError as error:
            raise error.at(where=f"node {node.name!r}") from None
        given = [one for one in inputs if one is not None]
        try:
            if len(given) < len(inputs):
                raise Refusal("an input is not there")
            found = self._lowered(node, attrs, given, dtypes, definition is None)
        except Refusal as refused:
            self._since[(node.op, str(refused))] = refused.since
            self.refuse(node, str(refused), env, dtypes)
            return
        for number, one in enumerate(found):
            if one is not None:
                env[Endpoint(node.name, number)] = one

    def _assert(self, body: Body, node: Node, env: dict[Endpoint, Val]) -> None:
        """Takes note of a condition, unless shapes or constants decide that it holds."""
        found = env.get(body.resolve(node.data_inputs[0])) if node.data_inputs else None
        if found is None or found.held is not None:
            self.refuse(node, "its condition is not there", env)
        elif found.array is None or not bool(found.array.all()):
            self.b.scope.conditions.append(found)

    def _is_raised(self, node: Node, env: dict[Endpoint, Val]) -> bool:
        """Emits what ONNX has one op for; false if the node is not such."""
        tensor = Endpoint(node.name, 0)
        made = self._raised.get(tensor)
        if made is None or made.x not in env or env[made.x].dims is None or env[made.x].array is not None:
            return False
        self.b.prefix = node.name
        found = self._norm(made, env) if isinstance(made, Norm) else self._gelu(made, env[made.x])
        if found is None:
            return False
        env[tensor] = found
        self._named(node, [found], self.b.scope.nodes[-1:])
        return True

    def _norm(self, made: Norm, env: Mapping[Endpoint, Val]) -> Val | None:
        b, x = self.b, env[made.x]
        width = (x.dims or (None,))[-1]
        weights = [None if one is None else env.get(one) for one in (made.gamma, made.beta)]
        gamma, beta = weights
        if made.gamma is None and isinstance(width, int):
            gamma = b.const(numpy.ones(width), FLOAT32)
        if gamma is None or (made.beta is not None and beta is None):
            return None
        if any(one is not None and (one.dims is None or len(one.dims) != 1) for one in (gamma, beta)):
            return None
        return b.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=made.epsilon, known=Known(x.dims))

    def _gelu(self, made: Gelu, x: Val) -> Val | None:
        b = self.b
        if b.opset >= _GELU:
            return b.op("Gelu", x, approximate="tanh" if made.by_tanh else "none", known=Known(x.dims))
        if made.by_tanh:
            return None
        gate = b.op("Erf", b.op("Mul", x, b.const(0.5**0.5, FLOAT32)))
        gate = b.op("Add", gate, b.const(1, FLOAT32))
        return b.op("Mul", b.op("Mul", x, b.const(0.5, FLOAT32)), gate, known=Known(x.dims))

    def refuse(self, node: Node, reason: str, env: dict[Endpoint, Val], dtypes: Sequence[DType | None] = ()) -> None:
        """Notes down that a node has no form; something stands for its outputs."""
        self._lack(node.name, node.op, reason)
        for number, kind in enumerate(dtypes or [None]):
            env[Endpoint(node.name, number)] = self._stand_in(kind)

    def _stand_in(self, kind: DType | None) -> Val:
        """What stands for a tensor that could not be made, so that the rest is still looked at."""
        return Val(kind or FLOAT32, Known(), onnx_ir.Value(name="missing"), self.b.root)

    def _constant(self, node: Node) -> Val:
        tensor = node.constant
        if tensor is None:
            remedy = "the file is damaged"
            raise InvalidModelError("the constant has no value", where=f"node {node.name!r}", remedy=remedy)
        known = infer("Const", (), node.attrs, 1)[0]
        return self.b.weight(tensor, node.name, Known(Known.of(tensor.shape).dims, known.values))

    def _lowered(
        self,
        node: Node,
        attrs: Mapping[str, Attr],
        inputs: list[Val],
        dtypes: list[DType | None],
        is_unknown: bool,
    ) -> Sequence[Val | None]:
        b = self.b
        if node.op in self._options.custom:
            return self._custom(node, attrs, inputs, dtypes)
        if node.op in _HANDED_ON:
            return inputs[: len(dtypes)]
        lowering = lowering_of(node.op, inputs)
        if lowering is None:
            raise Refusal("it has no lowering" if not is_unknown else "TensorFlow has no such op")
        known = _inferred(node, attrs, inputs, max(len(dtypes), 1))
        folded = self._folded(node, attrs, inputs, dtypes, known)
        if folded is not None:
            return folded
        b.prefix = node.name
        start = len(b.scope.nodes)
        context = NodeContext(self, node, attrs, inputs, known, dtypes)
        as_first = _channels_first(b, inputs, known) if lowering.elementwise else None
        if as_first is not None:
            context = NodeContext(self, node, attrs, as_first, [_moved(one) for one in known], dtypes)
        try:
            result = lowering.function(context)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # a file may claim anything
            text = " ".join(str(error).split())[:80]
            raise Refusal(f"its attributes or inputs do not fit ({text})") from error
        found: list[Val | None] = [result] if isinstance(result, Val) else list(result)
        if as_first is not None:
            found = [
                None if one is None else b.last(_with_known(one, _moved(known[at])), known[at])
                for at, one in enumerate(found)
            ]
        self._named(node, found, b.scope.nodes[start:])
        return [None if one is None else _with_known(one, known[at]) for at, one in enumerate(found)]

    def _named(self, node: Node, found: Sequence[Val | None], nodes: Sequence[onnx_ir.Node]) -> None:
        """Gives what a node made its name, as far as it is free."""
        made = {id(value) for one in nodes for value in one.outputs}
        for number, val in enumerate(found):
            value = None if val is None else val.main_value()
            if value is not None and id(value) in made:
                value.name = self.b.free_name(node.name if number == 0 else f"{node.name}:{number}")

    def _folded(
        self,
        node: Node,
        attrs: Mapping[str, Attr],
        inputs: Sequence[Val],
        dtypes: Sequence[DType | None],
        known: Sequence[Known],
    ) -> list[Val | None] | None:
        """The outputs as constants, where shapes or constants decide them; None if they do not."""
        kind = dtypes[0] if len(dtypes) == 1 else None
        if node.op == "BroadcastArgs" and any(one.array is None for one in inputs):
            return None  # it refuses what does not fit, though what it gives be known
        if kind is not None and kind.name in ("int32", "int64") and known[0].numbers is not None:
            sizes = known[0].shape.dims
            if known[0].shape.is_static and sizes is not None:
                return [self.b.const(numpy.array(known[0].numbers, kind.numpy()).reshape(sizes), kind, node.name)]
        definition = self.graph.op_def(node.op)
        if definition is None or definition.is_stateful or is_random(node.op):
            return None
        if not inputs or not has_value(node.op) or any(one.held is not None for one in inputs):
            return None
        arrays = [one.array for one in inputs]
        if any(array is None for array in arrays):
            return None
        counts = [one.shape.elements for one in known]
        if (
            any(count is None or count > SMALL for count in counts)
            and sum(a.size for a in arrays if a is not None) > 64
        ):
            return None
        try:
            with numpy.errstate(all="ignore"):
                values = bind(node.op, attrs)(arrays)
        except (OpError, TfsmithError, ValueError, TypeError, IndexError):
            return None
        if any(not isinstance(value, numpy.ndarray) or value.size > SMALL for value in values):
            return None
        found: list[Val | None] = []
        for number, value in enumerate(values):
            own = dtypes[number]
            if own is None or own.base.name in ("resource", "variant"):
                return None
            found.append(self.b.const(value, own.base, node.name if number == 0 else f"{node.name}:{number}"))
        return found

    def _custom(
        self, node: Node, attrs: Mapping[str, Attr], inputs: Sequence[Val], dtypes: Sequence[DType | None]
    ) -> list[Val]:
        """A node of another domain, with the attributes that ONNX can hold."""
        domain, name = self._options.custom[node.op]
        if any(kind is None for kind in dtypes) or not dtypes:
            raise Refusal("the types of its outputs are not known, for its definition is not in the file")
        known = _inferred(node, attrs, inputs, len(dtypes))
        self.b.prefix = node.name
        plain = {key: _plain_attr(found) for key, found in attrs.items() if not key.startswith("_")}
        return self.b.ops(
            name,
            *inputs,
            dtypes=dtypes,
            knowns=known,
            domain=domain,
            **{key: value for key, value in plain.items() if value is not None},
        )

    # scopes

    def open_scope(self) -> Scope:
        """Begins the body of a branch or loop; emits into it until it is closed."""
        self.b.scope = Scope(self.b.scope)
        return self.b.scope

    def close_scope(self, inputs: Sequence[onnx_ir.Value], outputs: Sequence[Val], name: str) -> onnx_ir.Graph:
        """Ends the body; gives it as a graph whose outputs are these tensors, each by a node of its own."""
        b, scope = self.b, self.b.scope
        assert scope.outer is not None
        made: list[onnx_ir.Value] = []
        guarded = self._guarded(outputs)
        for val in guarded:
            value = b.value(val)
            if value.producer() not in scope.nodes or any(value is one for one in made):
                value = b.value(b.op("Identity", val, known=val.known))
            value.shape = None
            made.append(value)
        b.scope = scope.outer
        return onnx_ir.Graph(list(inputs), made, nodes=_used(scope.nodes, made), name=name)


def _plain_attr(found: Attr) -> Any:
    value = found.value
    if isinstance(value, bytes):
        return value
    if isinstance(value, DType):
        try:
            return onnx_type(value)
        except Refusal:
            return value.name
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, tuple) and value and all(isinstance(one, (int, float)) for one in value):
        return list(value)
    return None


def _inferred(node: Node, attrs: Mapping[str, Attr], inputs: Sequence[Val], count: int) -> list[Known]:
    try:
        found = list(infer(node.op, [one.known for one in inputs], attrs, count))
    except Conflict as conflict:
        raise Refusal(f"its shapes do not fit: {conflict}") from conflict
    return found + [Known()] * (count - len(found))


def _with_known(val: Val, known: Known) -> Val:
    """The tensor, with what is known of it besides."""
    if val.known.dims is None:
        val.known = known._replace(values=known.values or val.known.values)
    elif known.dims is not None and len(known.dims) == len(val.known.dims):
        dims = tuple(
            own if isinstance(own, int) or other is None else other
            for own, other in zip(val.known.dims, known.dims, strict=True)
        )
        val.known = Known(dims, known.values or val.known.values)
    return val


def _moved(known: Known) -> Known:
    """Of a tensor with its channels last, what is known of it with its channels first."""
    if known.dims is None or len(known.dims) < 3:
        return known
    return Known((known.dims[0], known.dims[-1], *known.dims[1:-1]))


def _channels_first(b: Builder, inputs: Sequence[Val], known: Sequence[Known]) -> list[Val] | None:
    """The inputs of an element by element op with their channels first; None if they are better taken as they are."""
    if not any(one.is_first for one in inputs):
        return None
    rank = next(one.rank for one in inputs if one.is_first)
    if any(one.dims is None or len(one.dims) != rank for one in known):
        return None
    found: list[Val] = []
    for one in inputs:
        if one.dims is None:
            return None
        if len(one.dims) == rank:
            if not one.is_first and one.tensor is None and all(size == 1 for size in one.dims):
                return None
            found.append(b.first(one))
        elif not one.dims:
            found.append(one)
        else:
            array = one.array
            if array is not None:
                wide = array.reshape((1,) * (rank - array.ndim) + array.shape)
                found.append(b.const(numpy.moveaxis(wide, -1, 1), one.dtype, one.name))
            else:
                return None
    return found


def _size_names(inputs: Sequence[Given]) -> dict[str, Dims]:
    """Sizes of the inputs, the open ones with names: those of inputs of one rank are the same, for they meet."""
    found: dict[str, Dims] = {}
    ranks = [given.shape.rank for given in inputs if given.shape.rank]
    common = max(set(ranks), key=lambda rank: (ranks.count(rank), -rank)) if ranks else None
    for given in inputs:
        dims = given.shape.dims
        if dims is None:
            found[given.key] = None
            continue
        own = "" if len(dims) == common else f"{given.key}_"
        names = (f"{own}batch", f"{own}length" if len(dims) == 2 else "")
        found[given.key] = tuple(
            size if size >= 0 else (names[at] if at < 2 and names[at] else f"{own}size_{at}")
            for at, size in enumerate(dims)
        )
    return found


def _inferred_outputs(model: onnx_ir.Model, weights: Mapping[str, Tensor]) -> dict[str, Sequence[int | None] | None]:
    """The sizes of the outputs, as ONNX' own inference finds them; it is handed the elements of small weights only."""
    import onnx

    proto = onnx_ir.serde.serialize_model(model)
    for name, tensor in weights.items():
        kind, sizes = onnx_type(tensor.dtype), tensor.shape.dims or ()
        if tensor.dtype.name != "string" and (tensor.shape.elements or 0) <= SMALL:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(tensor.numpy(), name))
        else:
            proto.graph.value_info.append(onnx.helper.make_tensor_value_info(name, int(kind), sizes))
    found: dict[str, Sequence[int | None] | None] = {}
    for value in onnx.shape_inference.infer_shapes(proto, data_prop=True).graph.output:
        told = value.type.tensor_type
        dims = [one.dim_value if one.HasField("dim_value") else None for one in told.shape.dim]
        found[value.name] = dims if told.HasField("shape") else None
    return found


def _shape(dims: Dims) -> onnx_ir.Shape | None:
    return None if dims is None else onnx_ir.Shape(dims)


def _all_nodes(nodes: Sequence[onnx_ir.Node]) -> Iterator[onnx_ir.Node]:
    """Nodes and those of the bodies inside of them."""
    for node in nodes:
        yield node
        for graph in _graphs(node):
            yield from _all_nodes(list(graph))


def _graphs(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    for found in node.attributes.values():
        if found.type == onnx_ir.AttributeType.GRAPH:
            yield found.as_graph()


def _returned(nodes: Sequence[onnx_ir.Node]) -> Iterator[onnx_ir.Value]:
    """The outputs of bodies."""
    for node in _all_nodes(nodes):
        for graph in _graphs(node):
            yield from graph.outputs


def _used(nodes: Sequence[onnx_ir.Node], outputs: Sequence[onnx_ir.Value]) -> list[onnx_ir.Node]:
    """The nodes that the outputs need."""
    wanted = {id(value) for value in outputs}
    kept: list[onnx_ir.Node] = []
    for node in reversed(nodes):
        if not any(id(value) in wanted for value in node.outputs):
            continue
        kept.append(node)
        wanted |= {id(value) for value in node.inputs if value is not None}
        for graph in _graphs(node):
            wanted |= {id(value) for inner in _all_nodes(list(graph)) for value in inner.inputs if value is not None}
            wanted |= {id(value) for value in graph.outputs}
    return kept[::-1]
