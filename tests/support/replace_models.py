"""Small graphs, functions and recipes for the tests of replacement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfsmith.ir.body import Body, Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Attr, Endpoint, Func, Node, parse_input
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.recipe import ConstantQuery, Expression, Match, NodeQuery, Query, Recipe, TargetNode, Unit, Variant
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named

FLOAT = dtype_named("float32")
INT32 = dtype_named("int32")
RESOURCE = dtype_named("resource")
T = {"T": FLOAT}


def const(name: str, values: Any, *inputs: str, kind: Any = FLOAT, **attrs: Any) -> Node:
    """A constant."""
    return Node(name, "Const", inputs, {"dtype": kind, "value": ArrayTensor.of(values, kind), **attrs})


def axes(name: str, values: Any) -> Node:
    """A constant of integers."""
    return const(name, values, kind=INT32)


def placeholder(name: str, dims: Sequence[int | None] | None = (None, 4)) -> Node:
    """An input."""
    return Node(name, "Placeholder", (), {"dtype": FLOAT, "shape": Shape.of(dims)})


def node(name: str, op: str, *inputs: str, device: str = "", **attrs: Any) -> Node:
    """A node of floats; another `T=None` leaves the type out."""
    found = {**T, **attrs}
    return Node(name, op, inputs, {key: value for key, value in found.items() if value is not None}, device)


def model_of(
    nodes: Sequence[Node],
    functions: Sequence[Function] = (),
    outputs: Mapping[str, str] | None = None,
    **parts: Any,
) -> Model:
    """A GraphDef; with outputs, a SavedModel with one signature."""
    graph = Graph(tuple(nodes), library=Library({function.name: function for function in functions}))
    if outputs is None:
        return Model("graphdef", (MetaGraph(Part.of(graph)),))
    infos = {key: TensorInfo(name, FLOAT, Shape(None)) for key, name in outputs.items()}
    signatures = {"serving_default": Signature(parts.pop("inputs", {}), infos)}
    given: dict[str, Any] = {f"{key}_part": Part.of(value) for key, value in parts.items()}
    return Model("saved_model", (MetaGraph(Part.of(graph), signatures_part=Part.of(signatures), **given),))


def function(
    name: str,
    args: Mapping[str, Any],
    nodes: Sequence[Node],
    ret: Mapping[str, str],
    control_ret: Mapping[str, str] | None = None,
) -> Function:
    """A function of floats, whose arguments have these types."""
    signature = OpDef(
        name,
        tuple(ArgDef(arg, kind) for arg, kind in args.items()),
        tuple(ArgDef(key, FLOAT) for key in ret),
        control_outputs=tuple(control_ret or {}),
    )
    parts = FunctionParts(signature, tuple(nodes), dict(ret), dict(control_ret or {}))
    return Function(name, Part.of(parts))


def call(name: str, called: str, *inputs: str, types: Sequence[Any] = (FLOAT,), count: int = 1) -> Node:
    """A call of a function."""
    attrs = {"f": Func(called, {}), "Tin": tuple(types), "Tout": (FLOAT,) * count}
    return Node(name, "StatefulPartitionedCall", inputs, attrs)


def ends(*texts: str) -> tuple[Endpoint, ...]:
    """Edges of a query."""
    return tuple(parse_input(text) for text in texts)


def query(name: str, ops: str | Sequence[str], *inputs: str, **more: Any) -> NodeQuery:
    """A wanted node."""
    return NodeQuery(name, (ops,) if isinstance(ops, str) else tuple(ops), ends(*inputs), **more)


def recipe_of(
    nodes: Sequence[NodeQuery],
    inputs: Sequence[str],
    outputs: Mapping[str, str],
    *targets: TargetNode,
    through: Sequence[str] = (),
    **more: Any,
) -> Recipe:
    """A recipe of one variant; for each output of the query, what takes its place."""
    mapped = {parse_input(old): parse_input(new) for old, new in outputs.items()}
    wanted = Query(tuple(nodes), tuple(inputs), tuple(mapped), tuple(through))
    return Recipe("test", "A recipe of a test.", (Variant("only", wanted, tuple(targets), mapped, **more),))


def match_of(recipe: Recipe, nodes: Mapping[str, str], inputs: Mapping[str, str], body: str | None = None) -> Match:
    """A match of one unit, made by hand."""
    found = {key: parse_input(text) for key, text in inputs.items()}
    return Match(body, recipe.variants[0], (Unit(dict(nodes), found),))


def square_recipe(**more: Any) -> Recipe:
    """Mul(Mul(x, x), y) is Mul(Square(x), y)."""
    wanted = [query("inner", "Mul", "x", "x"), query("outer", "Mul", "inner", "y")]
    targets = (TargetNode("square", "Square", ("x",), **more), TargetNode("product", "Mul", ("square", "y"), **more))
    return recipe_of(wanted, ["x", "y"], {"outer": "product"}, *targets)


def relu_recipe(**more: Any) -> Recipe:
    """Maximum(x, 0) is Relu(x)."""
    zero = query("zero", "Const", constant=ConstantQuery((0.0,)))
    wanted = [zero, query("max", "Maximum", "x", "zero", is_commutative=True)]
    return recipe_of(wanted, ["x"], {"max": "relu"}, TargetNode("relu", "Relu", ("x",), **more))


def no_identity() -> Recipe:
    """Identity(x) is x."""
    return recipe_of([query("same", "Identity", "x")], ["x"], {"same": "x"})


def layer_norm_recipe() -> Recipe:
    """The layer norm of TensorFlow 1, in 10 nodes and two constants, as 6 nodes of the same ops."""
    wanted = [
        query("axes1", "Const"),
        query("axes2", "Const"),
        query("epsilon", "Const"),
        query("mean", "Mean", "x", "axes1", attrs={"keep_dims": Attr("bool", True)}),
        query("still", "StopGradient", "mean"),
        query("squares", "SquaredDifference", "x", "still"),
        query("variance", "Mean", "squares", "axes2", attrs={"keep_dims": Attr("bool", True)}),
        query("padded", ["AddV2", "Add"], "variance", "epsilon"),
        query("inverse", "Rsqrt", "padded"),
        query("scale", "Mul", "inverse", "gamma"),
        query("scaled", "Mul", "x", "scale"),
        query("moved", "Mul", "mean", "scale"),
        query("shift", "Sub", "beta", "moved"),
        query("sum", ["AddV2", "Add"], "scaled", "shift"),
    ]
    keep = Attr("bool", True)
    epsilon = {"dtype": Expression("dtype(x)"), "value": Expression("value(epsilon)")}
    targets = (
        TargetNode("mean", "Mean", ("x", "axes1"), {"keep_dims": keep}),
        TargetNode("centred", "Sub", ("x", "mean")),
        TargetNode("squares", "Square", ("centred",)),
        TargetNode("variance", "Mean", ("squares", "axes1"), {"keep_dims": keep, "T": Expression("attr(mean, T)")}),
        TargetNode("epsilon", "Const", (), epsilon),
        TargetNode("padded", "AddV2", ("variance", "epsilon")),
        TargetNode("inverse", "Rsqrt", ("padded",)),
        TargetNode("scale", "Mul", ("inverse", "gamma")),
        TargetNode("scaled", "Mul", ("centred", "scale")),
        TargetNode("sum", "AddV2", ("scaled", "beta"), rename="{scope}/layer_norm"),
    )
    return recipe_of(wanted, ["x", "gamma", "beta"], {"sum": "sum"}, *targets, through=["Identity"])


def names(body: Body) -> list[str]:
    """The names of all nodes, in order."""
    return [found.name for found in body]
