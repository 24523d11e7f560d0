"""`Rule`: what to find, written as a formula in Python, and a function that builds what takes its place.

A formula is a function of what it finds. It is called once, with a `Form` for each parameter, and returns the form
of the whole. `op` has what formulas are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import pack
from types import MappingProxyType
from typing import Any, TypeAlias, overload

from tfsmith.errors import TfsmithError, UnsupportedError, UsageError, nearest
from tfsmith.ir.node import Attr, Endpoint, attr
from tfsmith.ir.recipe import Expression, NodeQuery, Query, Recipe, TargetNode, Variant
from tfsmith.ir.tensor import FilledTensor, Tensor, make_tensor
from tfsmith.ir.types import SCALAR, DType, Shape, as_dtype, dtype_named
from tfsmith.records import record, replace

__all__ = ["Bindings", "Form", "Graph", "NewTensor", "Operand", "Ops", "Rule", "Units", "Where", "op", "rule"]

Where: TypeAlias = "Callable[..., object] | str"
"""A guard: a function of what was found, or an expression of recipes such as `rank(x) == 2`."""
Formula: TypeAlias = "Callable[..., Form]"

FUNCTIONS = frozenset(
    {
        *("abs", "ceil", "cos", "elu", "erf", "exp", "expm1", "floor", "log", "log1p", "relu", "relu6", "round"),
        *("selu", "sigmoid", "sign", "sin", "softplus", "softsign", "tanh"),
    }
)
"""Functions of one tensor, element by element, as `op.NAME(x)`."""
POWERS = MappingProxyType({"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0, "reciprocal": -1.0})
"""Powers that have names, as `op.NAME(x)`."""
RAISED = frozenset({"LayerNorm", "Gelu", "Softmax", "Attention", "Dense", "Activation"})
"""Forms that are found however they are spelled."""
_FLOAT = dtype_named("float32")


class Form:
    """A part of a formula. Arithmetic makes larger ones: `+ - * / **`, with numbers too.

    Attributes:
        kind: What it is: "var", "add", "multiply", "power", the name of a function, of a raised form or of an op.
        operands: What it is made of.
        settings: What else is said of it, by keyword.
    """

    __slots__ = ("kind", "operands", "settings")

    def __init__(self, kind: str, operands: Sequence[Any] = (), settings: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.operands = tuple(operands)
        self.settings: Mapping[str, Any] = dict(settings or {})

    def __repr__(self) -> str:
        if self.kind == "var":
            return str(self.operands[0])
        parts = [*map(repr, self.operands), *(f"{key}={value!r}" for key, value in self.settings.items())]
        return f"{self.kind}({', '.join(parts)})"

    def __bool__(self) -> bool:
        raise UsageError("a formula says what to find, and is neither true nor false", remedy="use OneOf, or {where}")

    def __add__(self, other: Form | float) -> Form:
        return Form("add", (self, other))

    def __radd__(self, other: float) -> Form:
        return Form("add", (other, self))

    def __sub__(self, other: Form | float) -> Form:
        return Form("add", (self, Form("multiply", (-1.0, other))))

    def __rsub__(self, other: float) -> Form:
        return Form("add", (other, Form("multiply", (-1.0, self))))

    def __neg__(self) -> Form:
        return Form("multiply", (-1.0, self))

    def __mul__(self, other: Form | float) -> Form:
        return Form("multiply", (self, other))

    def __rmul__(self, other: float) -> Form:
        return Form("multiply", (other, self))

    def __truediv__(self, other: Form | float) -> Form:
        return Form("multiply", (self, Form("power", (other, -1.0))))

    def __rtruediv__(self, other: float) -> Form:
        return Form("multiply", (other, Form("power", (self, -1.0))))

    def __pow__(self, exponent: float) -> Form:
        return Form("power", (self, exponent))

    def walk(self) -> Iterator[Form]:
        """This form and all that it is made of."""
        yield self
        for part in (*self.operands, *self.settings.values()):
            if isinstance(part, Form):
                yield from part.walk()

    @property
    def variables(self) -> list[str]:
        """The names of its variables, each once."""
        return list(dict.fromkeys(str(part.operands[0]) for part in self.walk() if part.kind == "var"))


class _Plain(type):
    """Functions, and ops that go by their names, as attributes of a class."""

    def __getattr__(cls, name: str) -> Callable[..., Form]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in FUNCTIONS:
            return lambda x: Form(name, (x,))
        if name in POWERS:
            return lambda x: Form("power", (x, POWERS[name]))
        if not name[0].isupper():
            near = nearest(name, [*FUNCTIONS, *POWERS]) or sorted(FUNCTIONS)[:5]
            raise AttributeError(f"formulas have no function {name!r}; there are {', '.join(near)}")
        return lambda *inputs, **attrs: Form(f"op {name}", inputs, attrs)


class Ops(metaclass=_Plain):
    """What formulas are made of: `op.LayerNorm(x, gamma, beta)`, `op.erf(x)`, and any op of TensorFlow by its name.

    A raised form is found however it is spelled. A weight that is left out must not be there; `op.Optional(bias)` is
    there or not. A setting that is left out may be anything; a parameter of the formula there is bound to its value.
    """

    @staticmethod
    def LayerNorm(x: Form, gamma: Form | None = None, beta: Form | None = None, *, epsilon: Any = None) -> Form:
        """A layer norm over the last axis."""
        return Form("LayerNorm", (x, gamma, beta), _settings(epsilon=epsilon))

    @staticmethod
    def Gelu(x: Form, *, kind: Any = None) -> Form:
        """A GELU; its kind is "erf" or "tanh"."""
        return Form("Gelu", (x,), _settings(kind=kind))

    @staticmethod
    def Activation(x: Form, *, kind: Any = None) -> Form:
        """An activation: "gelu erf", "gelu tanh", "relu", "tanh", "sigmoid", "elu", "selu" or "softplus"."""
        return Form("Activation", (x,), _settings(kind=kind))

    @staticmethod
    def Softmax(x: Form) -> Form:
        """A softmax over the last axis."""
        return Form("Softmax", (x,))

    @staticmethod
    def Dense(x: Form, kernel: Form, bias: Form | None = None) -> Form:
        """A product with a weight over the last axis, and a bias; `kernel.transposed` says how the weight lies."""
        return Form("Dense", (x, kernel, bias))

    @staticmethod
    def Attention(
        query: Form,
        key: Form,
        value: Form,
        mask: Form | None = None,
        *,
        scale: Any = None,
        masking: Any = None,
        fill: Any = None,
        layout: Any = None,
    ) -> Form:
        """`softmax(query * key * scale + mask) * value`; `query.layout` and its like say what each axis is.

        A parameter for `masking` is bound to how the mask hides: "added" to the scores, or "subtracted"; "kept" or
        "hidden" if it says which scores are kept, or are replaced by `fill`; with " and cleared" behind it if hidden
        words then have no share at all. Without `masking`, masks are added. `layout` is that of what attention gives.
        """
        settings = _settings(scale=scale, masking=masking, fill=fill, layout=layout)
        return Form("Attention", (query, key, value, mask), settings)

    @staticmethod
    def OneOf(*choices: Form) -> Form:
        """The first of several that fits. What is only in others is None in a guard or builder."""
        return Form("OneOf", choices)

    @staticmethod
    def Optional(part: Form, otherwise: Form | None = None) -> Form:
        """A part that is there, or something else in its place; of a weight or mask, that there may be none."""
        return Form("OneOf", (part, otherwise)) if otherwise is not None else Form("Optional", (part,))

    @staticmethod
    def Repeat(block: Rule, x: Form, units: Form, *, least: int = 1, **shared: Form) -> Form:
        """A chain of blocks, each of which takes what the one before gives.

        Args:
            block: The rule of one block; its first parameter is what it takes from the block before.
            x: What the first block takes.
            units: Is bound to what the blocks have bound, first to last: `units[0].kernel`.
            least: How many blocks there must be.
            shared: Parameters of the block that are the same in all blocks.
        """
        return Form("Repeat", (block, x, units), {"least": least, **shared})


op = Ops
"""What formulas are made of."""


def _settings(**given: Any) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


class Operand:
    """A tensor of the model that a parameter was bound to. It can be an input of new nodes.

    Attributes:
        name: The tensor, such as "dense/BiasAdd:0".
        key: What the rule calls it.
        transposed: Of a weight of `Dense`, whether its columns come first; of a key of `Attention`, whether its words
            come last.
        layout: Of what `Attention` takes, what each axis is: "batch" (heads, too), "words" of the query, "others"
            (words of key and value), "size", or "" for one of size one.
    """

    __slots__ = ("_shape", "_tensor", "_type", "endpoint", "key", "layout", "transposed")

    def __init__(
        self,
        key: str,
        endpoint: Endpoint,
        shape: Shape | None,
        dtype: DType | None,
        tensor: Tensor | None = None,
        transposed: bool = False,
        layout: tuple[str, ...] = (),
    ) -> None:
        self.key, self.endpoint, self.transposed, self.layout = key, endpoint, transposed, layout
        self._shape, self._type, self._tensor = shape, dtype, tensor

    def __repr__(self) -> str:
        return f"<{self.key}: {self.name}>"

    @property
    def name(self) -> str:
        """The tensor, such as "dense/BiasAdd:0"."""
        return str(self.endpoint)

    @property
    def shape(self) -> Shape:
        """Its shape.

        Raises:
            UnsupportedError: Not even the number of its dimensions is known.
        """
        if self._shape is None or self._shape.dims is None:
            raise UnsupportedError(f"the shape of {self.key!r} ({self.name}) is not known", remedy="infer shapes first")
        return self._shape

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """Its type.

        Raises:
            UnsupportedError: It is not known.
        """
        if self._type is None:
            raise UnsupportedError(f"the type of {self.key!r} ({self.name}) is not known", remedy="infer types first")
        return self._type.base

    @property
    def is_constant(self) -> bool:
        """Whether its values are known."""
        return self._tensor is not None

    def numpy(self) -> Any:
        """Its values, if it is a constant.

        Raises:
            UnsupportedError: It is none.
        """
        if self._tensor is None:
            raise UnsupportedError(f"{self.key!r} ({self.name}) is no constant", remedy="freeze the model first")
        return self._tensor.numpy()


class Units(tuple["Mapping[str, Any]", ...]):
    """What the blocks of a chain have bound, first to last."""


class Setting:
    """A setting in a trial of a builder, which may only be passed on as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _refuse(self, *_: object) -> Any:
        raise UnsupportedError(f"its builder computes with {self.name!r}", remedy="keep its code")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __add__ = __radd__ = __sub__ = _refuse
    __mul__ = __rmul__ = __truediv__ = __neg__ = __float__ = __int__ = __str__ = __getitem__ = __iter__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class NewTensor:
    """An output of a node that a rule adds; `outputs` are all of the node's."""

    __slots__ = ("endpoint",)

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def __getitem__(self, output: int) -> NewTensor:
        """Another output of the same node."""
        return NewTensor(Endpoint(self.endpoint.node, output))


class Graph:
    """Collects the nodes that a rule adds for one match."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self.targets: list[TargetNode] = []

    def add(
        self,
        op: str,
        inputs: Any = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        outputs: Sequence[str] = (),
        **more: Any,
    ) -> NewTensor:
        """Adds a node.

        Args:
            op: Its op, which may be one that TensorFlow does not have.
            inputs: What it takes: what was found, other new tensors, numbers; lists in it are taken apart.
            attrs: Attributes; those that the inputs say (`T`, `N`) may be left out.
            name: Its name; `{scope}` is the scope that the matched nodes have in common, `{seed}` the old output.
            outputs: The names of its outputs, for an op that TensorFlow does not have: functions need them.
            more: Attributes, as keywords.
        """
        key = f"+{len(self.targets) + 1}"
        texts = tuple(self._texts([inputs] if isinstance(inputs, (Operand, NewTensor)) else inputs))
        given = {**(attrs or {}), **more}
        made: dict[str, Attr | Expression] = {name: self._attr(op, name, value) for name, value in given.items()}
        called = name or "{scope}/" + self._rule.replace("-", "_").replace(" ", "_")
        key = f"+{len(self.targets) + 1}"  # constants among the inputs came first
        self.targets.append(TargetNode(key, op, texts, made, rename=called, output_args=tuple(outputs)))
        return NewTensor(Endpoint(key, 0))

    def const(self, value: Any, dtype: Any = None, *, name: str | None = None) -> NewTensor:
        """Adds a Const: an array, a tensor, or plain values; numbers are int32 or float32."""
        kind = None if dtype is None else as_dtype(dtype)
        if type(value) is float and (kind is None or kind == _FLOAT):
            tensor: Tensor = FilledTensor(_FLOAT, SCALAR, pack("<f", value))  # without numpy
        else:
            tensor = value if hasattr(value, "parts") else make_tensor(value, kind)
        return self.add("Const", (), {"value": tensor, "dtype": tensor.dtype}, name=name or "{scope}/constant")

    def _texts(self, inputs: Any) -> Iterator[str]:
        for one in inputs:
            if isinstance(one, Operand):
                yield one.key
            elif isinstance(one, NewTensor):
                yield one.endpoint.node if not one.endpoint.output else str(one.endpoint)
            elif _has_tensors(one):
                yield from self._texts(one)
            elif one is None or isinstance(one, str):
                what = f"rule {self._rule!r} gives {one!r} to a new node"
                raise UsageError(what, remedy="pass what was found, new tensors, or numbers")
            else:
                yield self.const(one).endpoint.node

    def _attr(self, op: str, name: str, value: Any) -> Attr | Expression:
        from tfsmith.ir.opdef import builtin_ops

        if isinstance(value, Setting):
            return Expression(value.name)

        known = builtin_ops().get(op)
        kinds = {} if known is None else {one.name: one.kind for one in known.attrs}
        try:
            return attr(value, kinds.get(name))
        except TfsmithError as error:
            where = f"rule {self._rule!r}, op {op}, attribute {name!r}"
            raise UsageError(error.what, where=where, remedy=error.remedy) from error


def _has_tensors(one: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return any(map(_has_tensors, one))
    return isinstance(one, (Operand, NewTensor))


@record
class Added:
    """What a builder made of a match: the new nodes, and what takes the output's place."""

    targets: tuple[TargetNode, ...]
    result: Endpoint

    def put_into(self, variant: Variant) -> Variant:
        """A variant with these nodes in the place of its output."""
        return replace(variant, targets=self.targets, outputs={variant.query.outputs[0]: self.result})


class Rule(Recipe):
    """What to find, as a formula, and what to put in its place. It is made by `@tfsmith.rule`.

    It is a recipe, so `find` and `replace` take it. Without guards in Python, and with a builder that only passes on
    what was found, it can be saved to a file.

    Attributes:
        name: Its name.
        description: What it does: the first paragraph of the formula's docstring.
        form: The formula.
        parameters: The names in it.
        where: What must be true of a match besides.
        search: What finds and replaces it, in place of a search for the formula; of rules that come with tfsmith.
    """

    __slots__ = ("_build", "_formula", "form", "parameters", "search", "where")
    __setattr__ = object.__setattr__

    form: Form
    parameters: tuple[str, ...]
    where: tuple[Where, ...]

    def __init__(self, formula: Formula, *, name: str | None = None, where: Where | Sequence[Where] = ()) -> None:
        called = name or formula.__name__
        parameters = _parameters(formula)
        form = formula(*(Form("var", (parameter,)) for parameter in parameters))
        if not isinstance(form, Form):
            what = f"its formula returns {type(form).__name__}"
            raise UsageError(what, where=f"rule {called!r}", remedy="return what it computes, as one form")
        first, _, _ = (formula.__doc__ or "").strip().partition("\n\n")
        description = " ".join(first.split()).rstrip(".")
        self._formula = formula
        self._set(called, description, form, parameters, where)

    def _set(
        self, name: str, description: str, form: Form, parameters: tuple[str, ...], where: Where | Sequence[Where]
    ) -> None:
        Recipe.__init__(self, name, description, (Variant("formula", _drawn(form, parameters), (), {}),))
        self._build: Callable[..., Any] | None = None
        self.parameters = parameters
        self.form = form
        self.search: Callable[[Any, Any], Any] | None = None
        self.where = (where,) if isinstance(where, str) or callable(where) else tuple(where)
        self._check_names()

    def __repr__(self) -> str:
        return f"<Rule {self.name}({', '.join(self.parameters)})>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, *arguments: Any) -> Form:
        """This rule as a part of another one's formula; its guards count there, too."""
        if len(arguments) != len(self.parameters):
            what = f"{len(arguments)} arguments are given to it"
            raise self._wrong(what, f"it takes {', '.join(self.parameters)}")
        return Form("rule", (self, *arguments))

    @property
    def formula(self) -> Formula:
        """The function that it was made of."""
        return self._formula

    @property
    def replaces(self) -> bool:
        """Whether it says what takes the place of a match."""
        return self._build is not None

    def replace(self, build: Callable[..., Any]) -> Rule:
        """Sets what builds the new nodes: a function of a `Graph` and of parameters of the formula. A decorator.

        Raises:
            UsageError: What it builds cannot be: an op gets what it does not take, a new node leads nowhere, ...
        """
        wanted = _parameters(build)[1:]
        unknown = [name for name in wanted if name not in self.parameters]
        if unknown:
            what = f"its builder takes {unknown[0]!r}, which the formula does not find"
            raise self._wrong(what, f"the formula finds {', '.join(self.parameters)}")
        before, self._build = self._build, build
        try:
            self._prove()
        except TfsmithError:
            self._build = before
            raise
        return self

    def build(self, found: Mapping[str, Any]) -> Added:
        """The new nodes for what was found.

        Raises:
            UsageError: The rule has no builder, or it returns no tensor.
            UnsupportedError: It asks for something that is not known of this match.
        """
        if self._build is None:
            remedy = f"add one: @{self.name}.replace, a function of the graph and what was found"
            raise self._wrong("it finds, and has no builder that says what to put there", remedy)
        graph = Graph(self.name)
        result = self._build(graph, **{name: found[name] for name in _parameters(self._build)[1:]})
        if isinstance(result, Operand):
            return Added(tuple(graph.targets), Endpoint(result.key, 0))
        if not isinstance(result, NewTensor):
            raise self._wrong(f"its builder returns {type(result).__name__}", "return the tensor that g.add gives")
        return Added(tuple(graph.targets), result.endpoint)

    def _wrong(self, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"rule {self.name!r}", remedy=remedy)

    def _check_names(self) -> None:
        used = self.form.variables
        lost = [name for name in self.parameters if name not in used]
        if lost:
            raise self._wrong(f"its formula does not use the parameter {lost[0]!r}", "use it, or leave it out")
        for guard in self.where:
            for name in () if isinstance(guard, str) else _parameters(guard):
                if name not in self.parameters:
                    what = f"its guard takes {name!r}, which the formula does not find"
                    raise self._wrong(what, f"the formula finds {', '.join(self.parameters)}")

    def _prove(self) -> None:
        """Builds for a match of which nothing is known, and checks the result as an edited graph is checked.

        What depends on shapes, types or values is checked at each match.
        """
        tensors: dict[str, Operand] = {}
        found = {name: _example(name, self.form, name, tensors) for name in self.parameters}
        try:
            added = self.build(found)
        except UnsupportedError:  # it asks for what only a match can say
            return
        needed = {added.result.node}
        for target in reversed(added.targets):
            if target.name not in needed:
                raise self._wrong(
                    f"the new node {target.op} leads to no output", "return what it gives, or leave it out"
                )
            needed |= {text.partition(":")[0] for text in target.inputs}
        _check_targets(self, added, tensors)
        (drawn,) = self.variants
        object.__setattr__(self, "variants", (added.put_into(drawn),))


@overload
def rule(formula: Formula, /) -> Rule: ...
@overload
def rule(*, name: str | None = None, where: Where | Sequence[Where] = ()) -> Callable[[Formula], Rule]: ...
def rule(
    formula: Formula | None = None, /, *, name: str | None = None, where: Where | Sequence[Where] = ()
) -> Rule | Callable[[Formula], Rule]:
    """Makes a rule of a function that reads like a formula; its parameters are what is found. A decorator.

    Args:
        formula: The function.
        name: The name of the rule; that of the function by default.
        where: What must be true of a match, besides: a function of parameters of the formula that returns whether it
            is, or an expression of recipes such as `rank(x) == 2`; or several of these.

    Raises:
        UsageError: The formula makes no sense.
    """
    if formula is not None:
        return Rule(formula)
    return lambda function: Rule(function, name=name, where=where)


class Bindings(dict[str, Any]):
    """What one block of a chain has bound; `unit.kernel` is `unit["kernel"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _example(name: str, form: Form, key: str, tensors: dict[str, Operand]) -> Any:
    """What a parameter is bound to in a match of which nothing is known; notes the tensors."""
    for part in form.walk():
        if part.kind == "Repeat" and part.operands[2].operands[0] == name:
            block: Rule = part.operands[0]
            return Units(
                Bindings(
                    {one: _example(one, block.form, f"{key}[{at}].{one}", tensors) for one in block.parameters[1:]}
                )
                for at in range(2)
            )
        for setting, value in part.settings.items() if part.kind in RAISED else ():
            if isinstance(value, Form) and value.operands[0] == name:
                return "gelu erf" if setting == "kind" else 1.0
    tensors[key] = Operand(key, Endpoint(key, 0), None, None)
    return tensors[key]


_TYPES = ("float32", "int32", "bool")


def _check_targets(rule: Rule, added: Added, tensors: Mapping[str, Operand]) -> None:
    """Puts the new nodes into an empty graph, whose editor checks inputs, types and attributes.

    What a plain op or a mask is made of may be of any type, so several are tried.
    """
    loose = any(part.kind.startswith("op ") or part.kind == "Attention" for part in rule.form.walk())
    errors: list[TfsmithError] = []
    for kind in _TYPES if loose else _TYPES[:1]:
        try:
            _put_in(added, tensors, kind)
        except TfsmithError as error:
            errors.append(error)
        else:
            return
    raise UsageError(errors[0].what, where=f"rule {rule.name!r}", remedy=errors[0].remedy) from errors[0]


def _put_in(added: Added, tensors: Mapping[str, Operand], kind: str) -> None:
    from tfsmith.ir.body import Part
    from tfsmith.ir.graph import Graph as ModelGraph
    from tfsmith.ir.model import MetaGraph, Model
    from tfsmith.ir.opdef import builtin_op

    with Model("graphdef", (MetaGraph(Part.of(ModelGraph(()))),)).edit() as editor:
        names: dict[str, Any] = {
            key: editor.placeholder(kind, name=f"found_{number}") for number, key in enumerate(tensors)
        }
        for target in added.targets:
            inputs = [_output(names, text) for text in target.inputs]
            is_custom = builtin_op(target.op) is None
            names[target.name] = editor.add(target.op, inputs, dict(target.attrs), custom=is_custom)


def _output(names: Mapping[str, Any], text: str) -> str:
    name, _, output = text.partition(":")
    return f"{names[name].node}:{output or 0}"


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _drawn(form: Form, parameters: Sequence[str]) -> Query:
    """A formula as a query, for drawings: its forms are nodes."""
    nodes: list[NodeQuery] = []
    names: dict[int, Endpoint] = {}

    def visit(part: Form) -> Endpoint:
        if part.kind == "var":
            return Endpoint(str(part.operands[0]), 0)
        if id(part) not in names:
            parts = [one for one in part.operands if isinstance(one, Form)]
            inputs = tuple(visit(one) for one in parts)
            kind = str(part.operands[0].name) if part.kind in ("rule", "Repeat") else part.kind.removeprefix("op ")
            name = f"{kind}_{len(nodes) + 1}"
            nodes.append(NodeQuery(name, (kind,), inputs))
            names[id(part)] = Endpoint(name, 0)
        return names[id(part)]

    whole = visit(form)
    return Query(tuple(nodes), tuple(parameters), (whole,))
