"""Attacks by the command line, in this process: whatever the model, the answer is exit code 0, or 2 and one line."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tests.support.helpers import attr_value, field, graph_def, node_def, write_files

from tfsmith.cli.main import main
from tfsmith.wire import VARINT, new, tag

FLOAT, BOOL, RESOURCE = (attr_value(type=number) for number in (1, 10, 20))
X = node_def("x", "Placeholder", attrs={"dtype": FLOAT})
Y = node_def("y", "Identity", ["x"], {"T": FLOAT})
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SHOWS = (("--all",), ("--json", "--all"), ("--text",), ("--all", "--verify"))
LONGEST = 2100


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str


def cli(*arguments: str | Path) -> Answer:
    """Runs a command; nothing but an exit code may come out of it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


def sound(*arguments: str | Path) -> Answer:
    """Runs a command whose answer must be one that a person and a terminal can take."""
    answer = cli(*arguments)
    assert answer.code in (0, 2), answer
    errors = [line for line in answer.err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == (answer.code == 2), answer.err
    assert all(line.startswith("error: ") and "; " in line for line in errors), answer.err  # the remedy
    assert all(len(line) < LONGEST for line in answer.err.splitlines())
    assert not CONTROL.search(answer.err)
    return answer


def refused(*arguments: str | Path, says: Sequence[str]) -> str:
    """Runs a command that must fail with one line that says all this."""
    answer = sound(*arguments)
    assert answer.code == 2, answer
    for part in says:
        assert part in answer.err, answer.err
    return answer.err


def attack(path: Path, out: Path, outputs: str = "y") -> list[Answer]:
    """Runs `show` and `freeze` on a model in every way; whatever is left of an output is whole."""
    answers = [sound("show", path, *how) for how in SHOWS]
    named = ("--outputs", outputs)
    for how in ((), named, (*named, "--as", "saved_model"), (*named, "--as", "pbtxt", "--batch-size", "2")):
        remove(out)
        answer = sound("freeze", path, "-o", out, *how)
        assert out.exists() == (answer.code == 0)
        answers.append(answer)
    assert not list(out.parent.glob(".*tfsmith*"))
    return answers


def remove(path: Path) -> None:
    """Removes a file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_graph(folder: Path, nodes: Iterable[bytes], functions: Iterable[bytes] = (), extra: bytes = b"") -> Path:
    """Writes a GraphDef of serialized nodes and functions."""
    library = b"".join(field(1, function) for function in functions)
    path = folder / "m.pb"
    path.write_bytes(graph_def(list(nodes), library=library or None, extra=extra))
    return path


def meta_graph(graph: bytes, tags: Sequence[bytes] = (b"serve",), parts: Iterable[tuple[int, bytes]] = ()) -> bytes:
    """A MetaGraphDef; `parts` are further fields by number."""
    info = b"".join(field(4, found) for found in tags)
    return field(1, info) + field(2, graph) + b"".join(field(number, part) for number, part in parts)


def write_saved_model(folder: Path, *metas: bytes, files: Mapping[str, bytes] | None = None) -> Path:
    """Writes a SavedModel folder of serialized meta graphs."""
    main_file = tag(1, VARINT) + b"\1" + b"".join(field(2, meta) for meta in metas)
    return write_files(folder, {"saved_model.pb": main_file, **(files or {})})


def tf2_model(folder: Path, nodes: Iterable[bytes], functions: Iterable[bytes], *parts: tuple[int, bytes]) -> Path:
    """Writes a SavedModel with an object graph, as TensorFlow 2 does: freezing it inlines its functions."""
    library = b"".join(field(1, function) for function in functions)
    graph = graph_def(list(nodes), library=library)
    objects = new("SavedObjectGraph")
    objects.nodes.add().user_object.identifier = "_generic_user_object"
    return write_saved_model(folder, meta_graph(graph, parts=[*parts, (7, objects.SerializeToString())]))


def function(
    name: str,
    nodes: Iterable[bytes],
    ret: str,
    inputs: Mapping[str, int] | Sequence[str] = ("x",),
    control: Mapping[str, str] | None = None,
) -> bytes:
    """A FunctionDef with one result."""
    signature, message = new("OpDef"), new("FunctionDef")
    signature.name = name
    types = inputs if isinstance(inputs, Mapping) else dict.fromkeys(inputs, 1)
    for arg, number in types.items():
        signature.input_arg.add(name=arg, type=number)
    signature.output_arg.add(name="y", type=1)
    message.ret["y"] = ret
    for key, node in (control or {}).items():
        message.control_ret[key] = node
        signature.control_output.append(key)
    body = b"".join(field(3, node) for node in nodes)
    return field(1, signature.SerializeToString()) + body + bytes(message.SerializeToString(deterministic=True))


def call(name: str, called: str, inputs: Sequence[str] = ("x",), types: Sequence[int] | None = None) -> bytes:
    """A PartitionedCall with one result."""
    attrs = {"f": function_attr(called), "Tin": type_list(types or [1] * len(inputs)), "Tout": type_list([1])}
    return node_def(name, "PartitionedCall", inputs, attrs)


def if_node(name: str, branch: str, inputs: Sequence[str], types: Sequence[int]) -> bytes:
    """An If that has one function for both its branches."""
    attrs = {"Tcond": BOOL, "Tin": type_list(types), "Tout": type_list([1])}
    branches = {"then_branch": function_attr(branch), "else_branch": function_attr(branch)}
    return node_def(name, "If", inputs, attrs | branches)


def function_attr(name: str) -> bytes:
    """An AttrValue that names a function."""
    value = new("AttrValue")
    value.func.name = name
    return bytes(value.SerializeToString())


def type_list(numbers: Sequence[int]) -> bytes:
    """An AttrValue of types."""
    value = new("AttrValue")
    value.list.SetInParent()
    value.list.type.extend(numbers)
    return bytes(value.SerializeToString())


def shape(dims: Sequence[int]) -> bytes:
    """A TensorShapeProto."""
    message = new("TensorShapeProto")
    for dim in dims:
        message.dim.add(size=dim)
    return bytes(message.SerializeToString())


def tensor(dims: Sequence[int], number: int = 1, *, content: bytes = b"", floats: Sequence[float] = ()) -> bytes:
    """A TensorProto."""
    message = new("TensorProto")
    message.dtype = number
    message.tensor_shape.ParseFromString(shape(dims))
    message.tensor_content = content
    message.float_val.extend(floats)
    return bytes(message.SerializeToString())


def const(name: str, value: bytes, number: int = 1) -> bytes:
    """A Const with a TensorProto."""
    return node_def(name, "Const", attrs={"dtype": attr_value(type=number), "value": field(8, value)})
