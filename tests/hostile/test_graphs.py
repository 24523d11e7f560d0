"""Graphs that no honest writer makes: `show` and `freeze` say what is wrong with them, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.attack import (
    BOOL,
    FLOAT,
    RESOURCE,
    X,
    Y,
    attack,
    call,
    const,
    function,
    if_node,
    refused,
    shape,
    sound,
    tensor,
    tf2_model,
    write_graph,
)
from tests.support.helpers import attr_value, field, graph_def, node_def

import tfsmith
from tfsmith.errors import InvalidModelError, LimitError, nearest
from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.formats.graph import nodes as node_reader
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import dtype_named
from tfsmith.passes import inline
from tfsmith.wire import encode_varint, new, tag

IDENTITY = {"T": FLOAT}
SOURCE = "write it again from its source"
DAMAGED = "the file is damaged"


# Shapes


@pytest.mark.parametrize(
    ("dims", "flaw"),
    [
        ([1] * 300, "it has 300 dimensions, and no tensor has more than 254"),
        ([1] * 20_000, "it has 20000 dimensions"),
        ([-5], "it has a dimension of -5"),
        ([2**40, 2**40], "it has more elements than can be counted"),
        ([2**62] * 254, "it has more elements than can be counted"),
    ],
)
@pytest.mark.parametrize("where", ["const", "variable", "placeholder", "output shapes", "large node"])
def test_impossible_shapes(tmp_path: Path, where: str, dims: list[int], flaw: str) -> None:
    proto = shape(dims)
    node = {
        "const": lambda: const("bad", tensor(dims, floats=[1.0])),
        "variable": lambda: node_def("bad", "VariableV2", attrs={"dtype": FLOAT, "shape": field(7, proto)}),
        "placeholder": lambda: node_def("bad", "Placeholder", attrs={"dtype": FLOAT, "shape": field(7, proto)}),
        "output shapes": lambda: node_def("bad", "Foo", attrs={"_output_shapes": field(1, field(7, proto))}),
        "large node": lambda: const("bad", tensor(dims, content=bytes(8192))),
    }[where]()
    path = write_graph(tmp_path, [node, node_def("y", "Identity", ["bad"], IDENTITY)])
    for how in ("--nodes", "--json"):
        message = refused("show", path, "--nodes", how, says=[str(path), "node 'bad'", "impossible shape", DAMAGED])
        assert flaw in message
    attack(path, tmp_path / "out")


def test_a_constant_with_unknown_dimensions(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [const("c", tensor([-1], floats=[1.0]))])
    refused("show", path, says=["node 'c'", "impossible shape [?]", "a constant must have a full shape"])


@pytest.mark.parametrize("number", [1, 3, 7, 8, 20, 99])
def test_a_few_bytes_that_claim_a_large_constant(tmp_path: Path, number: int) -> None:
    path = write_graph(
        tmp_path, [const("c", tensor([2**60], number), number), node_def("y", "Identity", ["c"], IDENTITY)]
    )
    for answer in attack(path, tmp_path / "out"):
        assert answer.code == 0 or "there is no checkpoint to check" in answer.err or "impossible" in answer.err
    assert (tmp_path / "m.pb").stat().st_size < 200


@pytest.mark.parametrize(("size", "number", "floats"), [(2**31, 1, [1.0, 2.0]), (2**30, 7, []), (2**33, 1, [1.0])])
def test_a_large_constant_is_not_made_in_memory(tmp_path: Path, size: int, number: int, floats: list[float]) -> None:
    value = tensor([size], number, floats=floats)
    model = tfsmith.load(write_graph(tmp_path, [X, const("c", value, number)]))
    with pytest.raises(LimitError, match=r"claims .*do not trust the file"):
        model.graph["c"].get("value").numpy()


def test_a_constant_whose_bytes_do_not_fit(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [const("c", tensor([3], content=bytes(8)))])
    refused("show", path, says=["node 'c'", "attribute 'value' has 8 bytes, but float32 [3] takes 12", DAMAGED])


def test_numbers_in_lists_take_no_more_memory_than_an_array(tmp_path: Path) -> None:
    message = new("TensorProto")
    message.dtype = 6
    message.tensor_shape.dim.add(size=5000)
    message.int_val.extend(range(5000))
    path = write_graph(tmp_path, [const("c", message.SerializeToString(), 6)])
    value = tfsmith.load(path).graph["c"].get("value").numpy()
    assert value.tolist() == [(number + 128) % 256 - 128 for number in range(5000)]


# Depth, lengths, numbers of fields


def nested(depth: int, inner: bytes) -> bytes:
    """An attribute in a function in an attribute ..."""
    for _ in range(depth):
        inner = field(10, field(1, b"f") + field(2, field(1, b"a") + field(2, inner)))
    return inner


@pytest.mark.parametrize("depth", [*range(30, 36), 100, 3000])
@pytest.mark.parametrize("inner", [attr_value(i=1), field(8, tensor([1])), field(7, shape([1]))])
@pytest.mark.parametrize("padding", [0, 5000])
def test_attributes_in_attributes(tmp_path: Path, depth: int, inner: bytes, padding: int) -> None:
    attrs = {"T": FLOAT, "f": nested(depth, inner), "pad": attr_value(s=b"x" * padding)}
    path = write_graph(tmp_path, [X, node_def("deep", "Identity", ["x"], attrs)])
    answers = [sound("show", path, "--nodes"), sound("show", path, "--text"), sound("show", path, "--json", "--nodes")]
    if depth > 33:
        assert {answer.code for answer in answers} == {2}
        assert all(str(path) in answer.err and "byte" in answer.err for answer in answers)


@pytest.mark.parametrize("length", [2**31, 2**32 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("number", [1, 2, 4, 5, 77])
def test_lengths_past_the_end(tmp_path: Path, number: int, length: int) -> None:
    path = tmp_path / "m.pb"
    path.write_bytes(graph_def([X, Y]) + tag(number) + encode_varint(length) + b"abc")
    refused("show", path, says=[str(path), "byte ", "past the end" if number == 1 else "claims", "fetch it again"])
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=[str(path), "byte "])


@pytest.mark.parametrize("wire_type", [0, 1, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_fields_of_the_wrong_wire_type(tmp_path: Path, number: int, wire_type: int) -> None:
    wrong = tag(number, wire_type) + bytes(8)
    path = tmp_path / "m.pb"
    for data in (
        graph_def([X, Y, node_def("n", "NoOp", extra=wrong)]),
        graph_def([X, Y]) + wrong,
        graph_def([X, Y], library=wrong),
        graph_def([X, Y], library=field(1, wrong)),
        graph_def([X, Y, node_def("n", "NoOp", attrs={"a": wrong})]),
        graph_def([X, Y, node_def("n", "Const", attrs={"value": field(8, wrong)})]),
        graph_def([X, Y, node_def("n", "Const", attrs={"value": field(8, wrong + bytes(5000))})]),
    ):
        path.write_bytes(data)
        for how in ("--all", "--text"):
            sound("show", path, how)
        sound("freeze", path, "-o", tmp_path / "out", "--outputs", "y")


def test_fields_that_nobody_knows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_reader, "MAX_FIELDS", 1000)
    path = write_graph(tmp_path, [X, Y], extra=(tag(5, 0) + b"\0") * 1000)
    refused("show", path, says=[str(path), "byte ", "too many fields", "do not trust the file"])


def test_nodes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_reader, "MAX_NODES", 100)
    path = write_graph(tmp_path, [X, *(node_def(f"n{number}", "NoOp") for number in range(100))])
    refused("show", path, says=[str(path), "byte ", "over 100 nodes", "do not trust the file"])


def test_millions_of_fields_in_a_tensor_are_not_looked_at_one_by_one(tmp_path: Path) -> None:
    value = field(8, b"\x08\1" + tag(15, 0) * 2 * 500_000)
    path = write_graph(tmp_path, [X, Y, node_def("c", "Const", attrs={"dtype": FLOAT, "value": value})])
    assert sound("show", path, "--all").code == 0


# Names and edges


def test_two_nodes_of_one_name(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [X, X, Y])
    refused("show", path, says=["node 'x'", "two nodes have one name", SOURCE])
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=["node 'x'", "two nodes have one name"])


def test_two_functions_of_one_name(tmp_path: Path) -> None:
    twice = [function("f", [], "x")] * 2
    path = write_graph(tmp_path, [X, Y], twice)
    refused("show", path, says=[str(path), "function 'f'", "two functions have one name", SOURCE])


@pytest.mark.parametrize(
    "text", ["a:99999999999", "^", "", ":0", ":", "x:-1", "^x:0", "^^x", "x:output:0", "n" * 10**5]
)
def test_inputs_that_are_not_there(tmp_path: Path, text: str) -> None:
    path = write_graph(tmp_path, [X, node_def("y", "Identity", [text], IDENTITY)])
    says = ["node 'y'", "it takes", "which is not in the graph", SOURCE]
    refused("show", path, "--outputs", says=says)
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)
    attack(path, tmp_path / "out")


def test_an_output_that_a_node_does_not_have(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [X, node_def("y", "Identity", ["x:999999999"], IDENTITY)])
    says = ["node 'y'", "it takes output 999999999 of node 'x', whose op Placeholder has 1", SOURCE]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("y:7", "node 'y' gives 1 tensor, so there is no output 7; `tfsmith show --outputs`"),
        ("^y", "'^y' is a control edge, which gives no tensor; name the node itself: y"),
        ("z", "there is no node 'z' in the graph"),
        ("z" * 10**5, "there is no node"),
        (",,^,", "there is no node ''"),
    ],
)
def test_outputs_that_are_not_there(tmp_path: Path, name: str, says: str) -> None:
    path = write_graph(tmp_path, [X, Y])
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", name, says=[str(path), says])


def test_a_circle(tmp_path: Path) -> None:
    circle = [node_def("a", "Identity", ["b"], IDENTITY), node_def("b", "Identity", ["a"], IDENTITY)]
    path = write_graph(tmp_path, [X, *circle, node_def("y", "Identity", ["b"], IDENTITY)])
    says = ["the graph, node ", "its inputs lead back to itself", SOURCE]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)
    attack(path, tmp_path / "out")


def test_a_loop_is_no_circle(tmp_path: Path) -> None:
    nodes = [
        X,
        node_def("merge", "Merge", ["x", "next"], {"T": FLOAT, "N": attr_value(i=2)}),
        node_def("next", "NextIteration", ["merge"], IDENTITY),
        node_def("y", "Identity", ["merge"], IDENTITY),
    ]
    assert sound("freeze", write_graph(tmp_path, nodes), "-o", tmp_path / "out", "--outputs", "y").code == 0


def test_names_that_are_nearly_right_are_looked_for_within_reason() -> None:
    names = [("ab" * 75) + str(number) for number in range(3000)]
    assert nearest("ab" * 75, names)
    assert nearest("ba" * 10**6, ["ab" * 10**6]) == []


def test_colocation_without_end(tmp_path: Path) -> None:
    """Each wish for a place leads to a node that needs the whole graph; nodes are still looked at once."""
    count = 3000
    nodes = [X, *(node_def(f"a{n}", "Identity", [f"a{n - 1}" if n else "x"], IDENTITY) for n in range(count))]
    for number in range(count):
        wish = new("AttrValue")
        wish.list.s.extend([f"loc:@c{number + 1}".encode(), b"loc:@\xff", b"\xff"])
        attrs = {"T": FLOAT, "_class": wish.SerializeToString()}
        nodes.append(node_def(f"c{number}", "Identity", [f"a{count - 1}"], attrs))
    path = write_graph(tmp_path, nodes)
    assert sound("freeze", path, "-o", tmp_path / "out", "--outputs", "c0").code == 0
    assert len(tfsmith.load(tmp_path / "out").graph) == 2 * count + 1


# Attributes of the wrong kind


VARIABLE = {"dtype": FLOAT, "shape": field(7, shape([2]))}
KINDS = {
    "none": b"",
    "int": attr_value(i=2**62),
    "string": attr_value(s=b"\xff"),
    "type": attr_value(type=99),
    "list": field(1, b""),
    "list(string)": field(1, field(2, b"loc:@\xff")),
    "func": field(10, field(1, b"f")),
    "tensor": field(8, tensor([2**30])),
    "placeholder": field(9, b"T"),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "broken"),
    [
        ("VariableV2", [], VARIABLE, "dtype"),
        ("VariableV2", [], VARIABLE, "shape"),
        ("VarHandleOp", [], VARIABLE | {"shared_name": attr_value(s=b"v")}, "shared_name"),
        ("ReadVariableOp", ["v"], {"dtype": FLOAT}, "dtype"),
        ("PartitionedCall", ["x"], {}, "f"),
        ("PartitionedCall", ["x"], {}, "Tin"),
        ("If", ["x", "v"], {}, "then_branch"),
        ("While", ["v"], {}, "T"),
        ("Case", ["x", "v"], {}, "branches"),
        ("Placeholder", [], {"dtype": FLOAT}, "shape"),
        ("ResourceGather", ["v", "x"], {"dtype": FLOAT, "Tindices": attr_value(type=3)}, "batch_dims"),
    ],
)
def test_attributes_of_the_wrong_kind(
    tmp_path: Path, op: str, inputs: list[str], attrs: dict[str, bytes], broken: str, kind: str
) -> None:
    variable = node_def("v", "VarHandleOp", attrs=VARIABLE)
    node = node_def("y", op, inputs, {**attrs, broken: KINDS[kind]})
    path = write_graph(tmp_path, [X, variable, node, node_def("z", "Identity", ["y"], IDENTITY)])
    assert sound("show", path, "--json", "--all").code == 0  # looking at it is harmless
    sound("freeze", path, "-o", tmp_path / "out", "--outputs", "z")
    sound("freeze", path, "-o", tmp_path / "out", "--outputs", "z", "--batch-size", "3", "--except", "v")


def test_what_is_wrong_with_an_attribute_is_told(tmp_path: Path) -> None:
    wrong = node_def("y", "ReadVariableOp", ["v"], {"dtype": attr_value(i=1)})
    path = write_graph(tmp_path, [node_def("v", "VarHandleOp", attrs=VARIABLE), wrong])
    says = ["the graph, node 'y'", "attribute 'dtype' of op ReadVariableOp is of kind int, not type", SOURCE]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)
    for inputs, what in (([], "takes 1 tensors, but it has 0"), (["v", "v"], "takes 1 tensors, but it has 2")):
        read = node_def("y", "ReadVariableOp", inputs, {"dtype": FLOAT})
        path = write_graph(tmp_path, [node_def("v", "VarHandleOp", attrs=VARIABLE), read])
        refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=["node 'y'", what, SOURCE])
    missing = node_def("y", "ReadVariableOp", ["v"])
    path = write_graph(tmp_path, [node_def("v", "VarHandleOp", attrs=VARIABLE), missing])
    says = ["node 'y'", "attribute 'dtype' of op ReadVariableOp is missing", SOURCE]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)


def test_an_assignment_without_a_value(tmp_path: Path) -> None:
    nodes = [node_def("v", "VariableV2", attrs=VARIABLE), node_def("y", "Assign", ["v"], IDENTITY)]
    write_checkpoint(tmp_path / "c", {"v": ArrayTensor.of([1.0, 2.0], None)})
    path = write_graph(tmp_path, nodes)
    says = ["node 'y'", "op Assign takes 2 tensors, but it has 1", SOURCE]
    refused("freeze", path, "-o", tmp_path / "o", "--checkpoint", tmp_path / "c", "--outputs", "y", says=says)


def test_a_part_of_a_variable_whose_number_has_no_end(tmp_path: Path) -> None:
    """The parts before it are not looked for one by one."""
    write_checkpoint(tmp_path / "c", {"w": ArrayTensor.of([1.0, 2.0])})
    for number in ("9" * 5000, "999999999999", "7"):
        variable = node_def(f"w/part_{number}", "VariableV2", attrs=VARIABLE | {"dtype": attr_value(type=2)})
        nodes = [variable, node_def("y", "Identity", [f"w/part_{number}"], {"T": attr_value(type=2)})]
        path = write_graph(tmp_path, nodes)
        says = ["w/part_", "'w/part_0' is missing" if number == "7" else "the checkpoint has no value for variable"]
        refused("freeze", path, "-o", tmp_path / "o", "--checkpoint", tmp_path / "c", "--outputs", "y", says=says)


# Functions


def test_a_call_of_itself(tmp_path: Path) -> None:
    path = tf2_model(tmp_path / "m", [X, call("y", "f")], [function("f", [call("c", "f")], "c:output:0")])
    says = ["node 'y/c", "functions call each other without end", "do not trust the file"]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)
    attack(path, tmp_path / "out")


def laughs(depth: int, *, name: str = "c") -> list[bytes]:
    """Functions of which each calls the next twice: two to the power of `depth` nodes in a few bytes."""
    found = []
    for level in range(depth):
        second = call(f"{name}2", f"f{level + 1}", [f"{name}1:output:0"])
        found.append(function(f"f{level}", [call(f"{name}1", f"f{level + 1}"), second], f"{name}2:output:0"))
    return [*found, function(f"f{depth}", [node_def("i", "Identity", ["x"], IDENTITY)], "i:output:0")]


def test_a_billion_laughs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MAX_INLINED_CALLS", 500)
    path = tf2_model(tmp_path / "m", [X, call("y", "f0")], laughs(60))
    says = ["node 'y/", "the graph grows without end when its functions are put in place", "do not trust the file"]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=says)
    assert sound("show", path, "--all").code == 0


def test_laughs_with_long_names(tmp_path: Path) -> None:
    """The names of inlined nodes are those of the calls around them, put together."""
    path = tf2_model(tmp_path / "m", [X, call("y", "f0")], laughs(20, name="n" * 20_000))
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=["the graph grows without end"])


def test_control_outputs_that_multiply(tmp_path: Path) -> None:
    """Ten control outputs of one node each, sixty levels deep, are still one edge."""
    depth = 60
    found = [
        function(
            f"f{level}", [call("c", f"f{level + 1}")], "c:output:0", control={f"k{number}": "c" for number in range(10)}
        )
        for level in range(depth)
    ]
    last = node_def("i", "Identity", ["x"], IDENTITY)
    found.append(function(f"f{depth}", [last], "i:output:0", control={"k": "i"}))
    nodes = [X, call("call", "f0"), node_def("y", "Identity", ["x", "^call"], IDENTITY)]
    out = tmp_path / "out"
    assert sound("freeze", tf2_model(tmp_path / "m", nodes, found), "-o", out, "--outputs", "y").code == 0
    assert len(tfsmith.load(out).graph["y"].inputs) == 2


def test_control_edges_from_all_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MAX_INLINED_SIZE", 2**20)
    count = 500
    body = [node_def(f"n{number}", "Identity", ["x"], IDENTITY) for number in range(count)]
    wide = function("f", body, "n0:output:0", control={f"k{number}": f"n{number}" for number in range(count)})
    waiting = [node_def(f"w{number}", "Identity", ["x", "^c"], IDENTITY) for number in range(count)]
    last = node_def("y", "NoOp", [f"^w{number}" for number in range(count)])
    path = tf2_model(tmp_path / "m", [X, call("c", "f"), *waiting, last], [wide])
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=["the graph grows without end"])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ([], "it calls 'f', which is not in the library"),
        ([function("f", [], "x", inputs=("x", "z"))], "it gives 1 arguments to 'f', which takes 2"),
        ([function("f", [], "nothing")], "function 'f': it takes 'nothing', which is not there"),
        ([function("f", [], "nothing:output:0")], "function 'f': it takes 'nothing:output:0', which is not there"),
        ([function("f", [node_def("i", "Identity", ["gone"], IDENTITY)], "x")], "it takes 'gone', which is not in"),
        ([function("f", [node_def("i", "Identity", ["i:output:0"], IDENTITY)], "x")], "lead back to itself"),
        ([function("f", [node_def("i", "Identity", ["x"], IDENTITY)], "i:wrong:0")], "has no output wrong:0"),
        ([function("f", [node_def("i", "Identity", ["x"], IDENTITY)], "i:output:9")], "has no output output:9"),
        ([function("f", [node_def("i", "Unheard", ["x"])], "i:y:0")], "op 'Unheard' is not known"),
        ([function("f", [node_def("i", "NoOp")] * 2, "x")], "two nodes have one name"),
        ([function("f", [call("c", "g")], "c:output:0")], "it calls 'g', which is not in the library"),
    ],
)
def test_functions_that_do_not_fit(tmp_path: Path, made: list[bytes], says: str) -> None:
    path = tf2_model(tmp_path / "m", [X, call("y", "f")], made)
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", says=[says])
    attack(path, tmp_path / "out")


def test_a_result_that_a_call_does_not_give(tmp_path: Path) -> None:
    wrong = node_def(
        "c",
        "PartitionedCall",
        ["x"],
        {"f": field(10, field(1, b"f")), "Tin": field(1, b"\x32\1\1"), "Tout": field(1, b"\x32\2\1\1")},
    )
    path = tf2_model(tmp_path / "m", [X, wrong], [function("f", [], "x")])
    says = ["node 'c'", "gives no output 1", "`tfsmith show --outputs`"]
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "c:1", says=says)


def with_variable(folder: Path) -> Path:
    """A checkpoint with the value of the variable v."""
    write_checkpoint(folder / "c", {"v": ArrayTensor.of([1.0, 2.0], dtype_named("float32"))})
    return folder / "c"


@pytest.mark.parametrize("depth", [0, 150])
def test_functions_that_hand_a_variable_on_without_end(tmp_path: Path, depth: int) -> None:
    """Each is copied for a constant in the variable's place; one may call itself, but not thousands each other."""
    predicate = node_def("p", "Placeholder", attrs={"dtype": BOOL})
    found = [
        function(
            f"f{level}",
            [predicate, if_node("i", f"f{min(level + 1, depth)}", ["p:output:0", "x"], [20])],
            "i:output:0",
            inputs={"x": 20},
        )
        for level in range(depth + 1)
    ]
    nodes = [predicate, node_def("v", "VarHandleOp", attrs=VARIABLE), if_node("y", "f0", ["p", "v"], [20])]
    path = write_graph(tmp_path, nodes, found)
    arguments = ("freeze", path, "-o", tmp_path / "o", "--checkpoint", with_variable(tmp_path), "--outputs", "y")
    if depth:
        refused(*arguments, says=["node 'i'", "functions hand a variable on to each other without end", "do not trust"])
    else:
        assert sound(*arguments).code == 0


@pytest.mark.parametrize(
    ("branch", "says"),
    [
        (function("f", [], "x", inputs={}), "function 'f': it is called with 1 arguments or more, but takes 0"),
        (function("f", [node_def("r", "Tanh", ["x"], {"T": RESOURCE})], "r:y:0", inputs={"x": 20}), "op Tanh takes a"),
        (function("g", [], "x"), "it calls 'f', which is not in the library"),
    ],
)
def test_branches_that_do_not_fit_their_variable(tmp_path: Path, branch: bytes, says: str) -> None:
    predicate = node_def("p", "Placeholder", attrs={"dtype": BOOL})
    nodes = [predicate, node_def("v", "VarHandleOp", attrs=VARIABLE), if_node("y", "f", ["p", "v"], [20])]
    path = write_graph(tmp_path, nodes, [branch])
    checkpoint = with_variable(tmp_path)
    refused("freeze", path, "-o", tmp_path / "o", "--checkpoint", checkpoint, "--outputs", "y", says=[says])


def test_an_op_with_thousands_of_outputs(tmp_path: Path) -> None:
    """An output's number is looked up, not counted anew for each of its users."""
    info = new("MetaGraphDef.MetaInfoDef")
    info.tags.append("serve")
    wide = info.stripped_op_list.op.add(name="Wide")
    for number in range(3000):
        wide.output_arg.add(name=f"o{number}", type=1)
    users = [node_def(f"n{number}", "Identity", [f"w:o{number}:0"], IDENTITY) for number in range(3000)]
    made = function("f", [node_def("w", "Wide"), *users], "n0:output:0")
    graph = graph_def([X, call("y", "f")], library=field(1, made))
    path = tmp_path / "m.meta"
    path.write_bytes(field(1, info.SerializeToString()) + field(2, graph))
    model = tfsmith.load(path)
    assert len(model.graph.library["f"].uses["w"]) == 3000
    lists = info.stripped_op_list.op.add(name="Lists")
    for number in range(1001):
        lists.output_arg.add(name=f"o{number}", type=1, number_attr="N")
    made = function("f", [node_def("w", "Lists"), node_def("n", "Identity", ["w:o1000:0"], IDENTITY)], "n:output:0")
    graph = graph_def([X, call("y", "f")], library=field(1, made))
    path.write_bytes(field(1, info.SerializeToString()) + field(2, graph))
    with pytest.raises(InvalidModelError, match="op 'Lists' has 1001 outputs"):
        assert tfsmith.load(path).graph.library["f"].uses


def test_limits_are_errors_of_the_library_too(tmp_path: Path) -> None:
    path = tf2_model(tmp_path / "m", [X, call("y", "f")], [function("f", [call("c", "f")], "c:output:0")])
    with pytest.raises(LimitError, match="functions call each other without end"):
        tfsmith.freeze(tfsmith.load(path), outputs=["y"])
