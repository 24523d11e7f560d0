"""The list of concrete functions for objects made by hand, against what TensorFlow prints."""

from __future__ import annotations

from typing import Any

import pytest

from tfsmith.compat.functions_text import functions_text, load_order, loaded_names
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Model, ObjectGraph, ObjectNode
from tfsmith.ir.node import Func, Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.types import dtype_named

Plain = dict[str, Any]
NONE: Plain = {"none_value": {}}


def spec(name: str = "", *dims: int, dtype: str = "DT_FLOAT") -> Plain:
    content: Plain = {"shape": {"dim": tuple({"size": dim} for dim in dims)}, "dtype": dtype}
    return {"tensor_spec_value": content | ({"name": name} if name else {})}


def values(kind: str, *items: Plain) -> Plain:
    return {f"{kind}_value": {"values": items} if items else {}}


def mapping(**items: Plain) -> Plain:
    return {"dict_value": {"fields": items} if items else {}}


def text(value: str) -> Plain:
    return {"string_value": value}


def type_spec(kind: str, name: str, *state: Plain) -> Plain:
    content = {"type_spec_class": kind, "type_spec_class_name": name, "type_state": values("tuple", *state)}
    return {"type_spec_value": content}


def call(*args: Plain, **kwargs: Plain) -> Plain:
    signature = values("tuple", values("tuple", *args), mapping(**kwargs))
    return {"canonicalized_input_signature": signature, "output_signature": NONE}


def body(name: str, *nodes: Node, args: int = 1) -> Function:
    inputs = tuple(ArgDef(f"x{number}", type=dtype_named("float32")) for number in range(args))
    return Function(name, Part.of(FunctionParts(OpDef(name, inputs), nodes, {})))


def model(concrete: dict[str, Plain], root: dict[str, ObjectNode], *bodies: Function) -> Model:
    """A SavedModel whose root object has these children."""
    missing = [body(name) for name in concrete if name not in {function.name for function in bodies}]
    library = Library({function.name: function for function in (*bodies, *missing)})
    identity = {"identifier": "_generic_user_object"}
    top = ObjectNode("user_object", {name: number for number, name in enumerate(root, 1)}, identity)
    objects = ObjectGraph((top, *root.values()), concrete)
    meta = MetaGraph(Part.of(Graph((), library=library)), objects_part=Part.of(objects))
    return Model("saved_model", (meta,))


def polymorphic(*names: str) -> ObjectNode:
    return ObjectNode("function", {}, {"concrete_functions": names, "function_spec": {}})


def shown(*args: Plain, **kwargs: Plain) -> list[str]:
    """The lines about the arguments of a function that takes these."""
    lines = functions_text(model({"f": call(*args, **kwargs)}, {"f": polymorphic("f")})).split("\n")
    assert lines[:3] == ["", "Concrete Functions:", "  Function Name: 'f'"]
    return lines[3:]


def shown_value(value: Plain) -> list[str]:
    """What stands below the first argument."""
    lines = shown(value)
    assert lines[:3] == ["    Option #1", "      Callable with:", "        Argument #1"]
    return [line.removeprefix(" " * 10) for line in lines[3:-1]]


def test_a_model_without_objects_has_no_list() -> None:
    assert functions_text(Model("saved_model", (MetaGraph(Part.of(Graph(()))),))) == ""


def test_no_functions_leave_the_title_alone() -> None:
    assert functions_text(model({}, {"v": ObjectNode("variable", {}, {})})) == "\nConcrete Functions:"


def test_positional_and_named_arguments() -> None:
    assert shown(spec("x", -1, 3), {"bool_value": False}, b=NONE, a=spec()) == [
        "    Option #1",
        "      Callable with:",
        "        Argument #1",
        "          x: TensorSpec(shape=(None, 3), dtype=tf.float32, name='x')",
        "        Argument #2",
        "          DType: bool",
        "          Value: False",
        "        Named Argument #1",
        "          b",
        "        Named Argument #2",
        "          a",
        "",
    ]


def test_named_arguments_alone_have_no_option() -> None:
    assert shown(k=spec()) == ["        Named Argument #1", "          k", ""]


def test_no_arguments_have_no_option() -> None:
    assert shown() == [""]


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (NONE, ["DType: NoneType", "Value: None"]),
        ({"int64_value": -5}, ["DType: int", "Value: -5"]),
        ({"float64_value": 1e300}, ["DType: float", "Value: 1e+300"]),
        (text("it's"), ["it's"]),
        ({"tensor_dtype_value": "DT_HALF"}, ["DType: DType", "Value: <dtype: 'float16'>"]),
        (spec(), ["None: TensorSpec(shape=(), dtype=tf.float32, name=None)"]),
        (values("list"), ["DType: list", "Value: [\b\b]"]),
        (values("tuple", text("b'c"), values("list", text("d"))), ["DType: tuple", "Value: ['b'c', ['d'], \b\b]"]),
        (mapping(), ["DType: dict", "Value: {\b\b}"]),
        (mapping(k=text("v"), n=mapping(s=spec("q", 2))), [
            "DType: dict",
            "Value: {'k': 'v', 'n': {'s': TensorSpec(shape=(2,), dtype=tf.float32, name='q')}, \b\b}",
        ]),
    ],
)  # fmt: skip
def test_values(value: Plain, lines: list[str]) -> None:
    assert shown_value(value) == lines


def test_unknown_rank() -> None:
    value = {"tensor_spec_value": {"shape": {"unknown_rank": True}, "dtype": "DT_STRING", "name": "s"}}

    assert shown_value(value) == ["s: TensorSpec(shape=<unknown>, dtype=tf.string, name='s')"]


def test_named_tuples() -> None:
    pair = {"named_tuple_value": {"name": "NT", "values": ({"key": "p", "value": NONE}, {"key": "q", "value": spec()})}}

    assert shown_value(pair) == [
        "DType: NT",
        "Value: [None, TensorSpec(shape=(), dtype=tf.float32, name=None), \b\b]",
    ]
    assert shown_value(values("list", pair)) == [
        "DType: list",
        "Value: [NT(p=None, q=TensorSpec(shape=(), dtype=tf.float32, name=None)), \b\b]",
    ]


def test_type_specs() -> None:
    shape, kind, rank = {"tensor_shape_value": {"dim": ({"size": -1}, {"size": 4})}}, "DT_INT64", {"int64_value": 1}
    ragged = (shape, {"tensor_dtype_value": "DT_STRING"}, rank, {"tensor_dtype_value": kind})
    sparse = type_spec("SPARSE_TENSOR_SPEC", "SparseTensorSpec", shape, {"tensor_dtype_value": "DT_FLOAT"})

    assert shown_value(type_spec("RAGGED_TENSOR_SPEC", "RaggedTensorSpec", *ragged, NONE)) == [
        "DType: RaggedTensorSpec",
        "Value: RaggedTensorSpec(TensorShape([None, 4]), tf.string, 1, tf.int64)",
    ]
    assert shown_value(sparse) == [
        "DType: SparseTensorSpec",
        "Value: SparseTensorSpec(TensorShape([None, 4]), tf.float32)",
    ]
    assert shown_value(type_spec("OPTIONAL_SPEC", "OptionalSpec", sparse)) == [
        "DType: OptionalSpec",
        "Value: OptionalSpec(SparseTensorSpec(TensorShape([None, 4]), tf.float32),)",
    ]


def test_functions_are_sorted_and_what_the_loader_overwrites_is_gone() -> None:
    names = ("b", "graph_debug_info", "a", "tensorflow_version")

    found = functions_text(model({"f": call()}, {name: polymorphic("f") for name in names}))

    assert found == "\nConcrete Functions:\n  Function Name: 'a'\n\n  Function Name: 'b'\n"


def test_a_bare_function_without_signature_shows_its_keywords() -> None:
    bare = ObjectNode(
        "bare_concrete_function", {}, {"concrete_function_name": "f", "argument_keywords": ("x", "Placeholder")}
    )
    unsigned = {"canonicalized_input_signature": NONE, "output_signature": NONE}

    assert functions_text(model({"f": unsigned}, {"p": bare})) == (
        "\nConcrete Functions:\n"
        "  Function Name: 'p'\n"
        "    Option #1\n"
        "      Callable with:\n"
        "        Argument #1\n"
        "          x\n"
        "        Argument #2\n"
        "          Placeholder\n"
    )


@pytest.mark.parametrize(
    ("concrete", "child", "reason"),
    [
        ({"f": {}}, polymorphic("f"), "unknown reasons"),
        ({"f": {"canonicalized_input_signature": NONE, "output_signature": NONE}}, polymorphic("f"), "unknown reasons"),
        ({"f": call(type_spec("REGISTERED_TYPE_SPEC", "my.Spec"))}, polymorphic("f"), "unknown reasons"),
        ({"f": call(type_spec("UNKNOWN", "New"))}, polymorphic("f"), "unknown reasons"),
        ({"f": call()}, polymorphic("g"), "unknown reasons"),
        ({"f": call()}, ObjectNode("", {}, {}), "unknown reasons"),
        ({"f": call()}, ObjectNode("user_object", {"lost": 7}, {}), "unknown reasons"),
        ({"f": call()}, ObjectNode("user_object", {"lost": -1}, {}), "unknown reasons"),
    ],
)
def test_what_tensorflow_cannot_load(concrete: dict[str, Plain], child: ObjectNode, reason: str) -> None:
    found = functions_text(model(concrete, {"c": child}))

    assert found == f"\nConcrete Functions: N/A (could not be listed due to {reason})\n"


def test_custom_ops_in_functions() -> None:
    found = functions_text(model({"f": call()}, {"f": polymorphic("f")}, body("f", Node("n", "NoSuchOp"))))

    assert found == (
        "\nConcrete Functions: N/A (could not be listed due to the existence of custom ops in the SavedModel)\n"
    )


def test_a_function_that_calls_itself() -> None:
    found = functions_text(model({"f": call()}, {"f": polymorphic("f")}, body("f", Node("n", "f"))))

    assert found == "\nConcrete Functions: N/A (could not be listed due to unknown reasons)\n"


def test_options_are_sorted_by_the_loaded_name() -> None:
    """Two are loaded from the last to the first; the number of the second one gains a digit and so sorts first."""
    nodes = tuple(Node(f"n{number}", "Identity", ("x0",)) for number in range(4))
    bodies = [body("__inference_f_7", *nodes), body("__inference_f_8")]
    concrete = {"__inference_f_7": call(spec("seven")), "__inference_f_8": call(spec("eight"))}

    found = functions_text(model(concrete, {"f": polymorphic(*concrete)}, *bodies))

    names = loaded_names(load_order(Library({function.name: function for function in bodies})))
    assert names == {"__inference_f_8": "__inference_f_4", "__inference_f_7": "__inference_f_11"}
    assert found.index("Option #1") < found.index("seven: ") < found.index("Option #2") < found.index("eight: ")


def test_called_functions_are_loaded_first() -> None:
    caller = body("a", Node("c", "PartitionedCall", ("x0",), {"f": Func("b", {}), "Tin": (), "Tout": ()}))
    several = body("c", Node("d", "Case", ("x0",), {"branches": (Func("a", {}), Func("b", {})), "Tout": ()}))
    library = Library({function.name: function for function in (several, caller, body("b"))})

    assert [function.name for function in load_order(library)] == ["b", "a", "c"]


def test_registered_gradients_are_loaded_first_and_counted() -> None:
    user = body("__inference_f_1", Node("i", "IdentityN", (), {"_gradient_op_type": "G-1", "T": ()}))
    library = Library({function.name: function for function in (user, body("grad"))})
    gradients = {"G-1": "grad"}

    order = load_order(library, gradients)

    assert [function.name for function in order] == ["grad", "__inference_f_1"]
    assert loaded_names(order, gradients, first=10) == {
        "grad": "__inference_grad_15",
        "__inference_f_1": "__inference_f_18",
    }
