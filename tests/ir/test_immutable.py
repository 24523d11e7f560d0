"""What is in memory never changes: an assignment raises and says what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Attr, Func, Node, attr
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named

FLOAT = dtype_named("float32")
NODE = Node("x", "Placeholder", (), {"dtype": FLOAT, "f": Func("g", {"T": attr(FLOAT)})})
FUNCTION = Function("f", Part.of(FunctionParts(OpDef("f"), (NODE,), {"y": "x:output:0"})))
GRAPH = Graph((NODE,), library=Library({"f": FUNCTION}, {"f": "g"}))
SIGNATURE = Signature({"x": TensorInfo("x:0", FLOAT, Shape((2,)))}, {})
META = MetaGraph(Part.of(GRAPH), signatures_part=Part.of({"serving_default": SIGNATURE}))
MODEL = Model("metagraph", (META,), {"v": ArrayTensor.of([1.0])})
EDIT = "use `with model.edit() as g:`"


@pytest.mark.parametrize(
    ("made", "name", "remedy"),
    [
        (NODE, "name", EDIT),
        (NODE, "attrs", EDIT),
        (NODE, "other", EDIT),
        (GRAPH, "nodes", EDIT),
        (GRAPH, "other", EDIT),
        (FUNCTION, "name", EDIT),
        (GRAPH.library, "gradients", EDIT),
        (MODEL, "graph", EDIT),
        (MODEL, "variables", EDIT),
        (META, "signatures", EDIT),
        (SIGNATURE, "inputs", EDIT),
        (SIGNATURE.inputs["x"], "name", EDIT),
        (attr(1), "value", EDIT),
        (Shape((1,)), "dims", "make another one"),
        (FLOAT, "name", "name another one"),
    ],
)
def test_attributes_cannot_be_set(made: Any, name: str, remedy: str) -> None:
    text = f"{type(made).__name__}.{name}: {type(made).__name__} is immutable; {remedy}"
    with pytest.raises(AttributeError) as set_error:
        setattr(made, name, None)
    with pytest.raises(AttributeError) as delete_error:
        delattr(made, name)
    assert str(set_error.value) == str(delete_error.value) == text


@pytest.mark.parametrize(
    ("made", "key", "text"),
    [
        (NODE, "name", f"Node is immutable; {EDIT}"),
        (GRAPH, "x", f"Graph is immutable; {EDIT}"),
        (GRAPH.library, "f", f"Library is immutable; {EDIT}"),
        (FUNCTION, "x", f"Function is immutable; {EDIT}"),
        (Shape((1,)), 0, "Shape is immutable; make another one"),
        (NODE.attrs, "dtype", f"this mapping is immutable; {EDIT}"),
        (NODE.get("f").attrs, "T", f"this mapping is immutable; {EDIT}"),
        (GRAPH.by_name, "x", f"this mapping is immutable; {EDIT}"),
        (GRAPH.library.gradients, "f", f"this mapping is immutable; {EDIT}"),
        (FUNCTION.ret, "y", f"this mapping is immutable; {EDIT}"),
        (MODEL.signatures, "serving_default", f"this mapping is immutable; {EDIT}"),
        (MODEL.collections, "c", f"this mapping is immutable; {EDIT}"),
        (MODEL.variables, "v", f"this mapping is immutable; {EDIT}"),
        (SIGNATURE.inputs, "x", f"this mapping is immutable; {EDIT}"),
    ],
)
def test_items_cannot_be_set(made: Any, key: Any, text: str) -> None:
    with pytest.raises(TypeError) as set_error:
        made[key] = None
    with pytest.raises(TypeError) as delete_error:
        del made[key]
    assert str(set_error.value) == str(delete_error.value) == text


@pytest.mark.parametrize(
    "change",
    [
        lambda attrs: attrs.update(a=1),
        lambda attrs: attrs.pop("dtype"),
        lambda attrs: attrs.clear(),
        lambda attrs: attrs.popitem(),
        lambda attrs: attrs.setdefault("a", 1),
        lambda attrs: attrs.__ior__({"a": 1}),
    ],
)
def test_no_method_changes_a_mapping(change: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="this mapping is immutable"):
        change(NODE.attrs)
    assert NODE.attrs["dtype"] == Attr("type", FLOAT)
    assert dict(NODE.attrs) | {"a": 1} == {**NODE.attrs, "a": 1}


@pytest.mark.parametrize("made", [NODE, GRAPH, FUNCTION, MODEL, META, SIGNATURE, FLOAT, Shape(()), NODE.attrs])
def test_a_copy_is_the_thing_itself(made: Any) -> None:
    assert copy.copy(made) is made
    assert copy.deepcopy(made) is made


def test_nodes_by_number() -> None:
    from tfsmith.errors import UsageError

    with pytest.raises(UsageError) as error:
        GRAPH[0]  # type: ignore[index]
    assert str(error.value) == (
        "the graph has nodes by name, and 0 is no name; "
        'use a name, as in graph["x"], or a number on its nodes, as in graph.nodes[0]'
    )
