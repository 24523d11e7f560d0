"""`tfsmith show`: text and JSON for every kind of model, exit codes, errors, pipes and terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import planted
from tests.support.helpers import attr_value, graph_def, node_def, python, write_files

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.types import dtype_named
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.wire import new


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model of every kind."""
    folder = tmp_path_factory.mktemp("models")
    planted.write_saved_model(folder / "saved_model")
    planted.write_variables(folder / "ckpt-7")
    planted.write_variables(folder / "meta-8")
    write_files(
        folder,
        {"meta-8.meta": _meta_graph(), "frozen.pb": planted.graph(), "text.pbtxt": b"node { name: 'a' op: 'NoOp' }"},
    )
    return folder


def _meta_graph() -> bytes:
    """A meta graph with collections of every kind, and no signature."""
    meta = new("MetaGraphDef")
    meta.meta_info_def.tensorflow_version = "1.15.0"
    graph = meta.graph_def
    graph.versions.producer = 134
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    variable = graph.node.add(name="w", op="VariableV2")
    variable.attr["dtype"].type = 1
    variable.attr["shape"].shape.dim.add(size=3)
    graph.node.add(name="loss/output", op="Softmax", input=["x", "w"])
    graph.node.add(name="strange\x1b[31m\nname", op="Mine").attr["limit"].f = float("inf")
    meta.collection_def["floats"].float_list.value.extend([0.5, float("nan"), float("-inf")])
    meta.collection_def["ints"].int64_list.value.extend([1, 2**60])
    meta.collection_def["bytes"].bytes_list.value.append(b"\xff\x00")
    item = new("VariableDef")
    item.variable_name, item.trainable = "w:0", True
    meta.collection_def["variables"].bytes_list.value.append(item.SerializeToString())
    meta.collection_def["fetches"].node_list.value.extend(["loss/output:0", "gone:0"])
    meta.collection_def["any"].any_list.value.add(
        type_url="type.googleapis.com/tensorflow.VariableDef", value=item.SerializeToString()
    )
    meta.collection_def["empty"].SetInParent()
    return bytes(meta.SerializeToString(deterministic=True))


def _show(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    code = main(["show", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def _json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    facts = json.loads(_show(capsys, *arguments, "--json"), parse_constant=refuse)
    assert isinstance(facts, dict)
    return facts


def test_saved_model_as_text(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / "saved_model"
    assert (
        _show(capsys, path)
        == f"""\
{path}
  kind         SavedModel
  written by   TensorFlow 2.99.0
  tag sets     serve | serve,gpu  (shown: serve)
  variables    3  (7 parameters, 52 B; float64 x1, int64 x1, string x1)
  checkpoint   V2, 3 files, 242 B
  nodes        5  and 4 in 2 functions
  ops          5: AddV2 x3, Const x2, NoOp x2, Placeholder x1, double x1
  constants    2  (3,003 parameters, 12.0 kB; float32)
  assets       vocab.txt
  other files  fingerprint.pb, keras_metadata.pb, assets.extra/notes.txt, variables/variables.notes

signature serving_default  (tensorflow/serving/predict)
  input   x  float32  []  x:0
  output  y  -        -   sum:0
"""
    )


def test_saved_model_parts_as_text(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / "saved_model"
    assert (
        _show(capsys, path, "--functions", "--variables", "--tag-set", "gpu,serve")
        == """\
variables
  name          dtype    shape   size
  dense/kernel  float64  [2, 2]  32 B
  global_step   int64    []       8 B
  words         string   [2]     12 B

functions
  name    nodes  takes       gives
  double      2  x: float32  y: float32
  twice       2  x: float32  y: float32
"""
    )
    assert (
        _show(capsys, path, "--ops")
        == """\
ops
  AddV2        3
  Const        2
  NoOp         2
  Placeholder  1
  double       1
"""
    )
    assert (
        _show(capsys, path, "--signature", "serving_default")
        == """\
signature serving_default  (tensorflow/serving/predict)
  input   x  float32  []  x:0
  output  y  -        -   sum:0
"""
    )


def test_a_function(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / "saved_model"
    function = """\
functions
  name   nodes  takes       gives
  twice      2  x: float32  y: float32
"""
    assert _show(capsys, path, "--function", "twice") == function
    nodes = """
nodes
  name  op     inputs
  add   AddV2  x, x
  end   NoOp   ^add
"""
    assert _show(capsys, path, "--function", "twice", "--nodes") == function + nodes
    assert _show(capsys, path, "--function", "twice", "--ops") == f"ops\n  AddV2  1\n  NoOp   1\n\n{function}"
    facts = _json(capsys, path, "--function", "twice", "--nodes")
    assert list(facts) == ["function_list", "node_list"]
    assert [node["name"] for node in facts["node_list"]] == [
        node.name for node in tfsmith.load(path).graph.library["twice"]
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("saved_model", ["twic"], "{path}: there is no function 'twic'; the nearest are twice"),
        ("frozen.pb", ["a"], "{path}: there is no function 'a'; `tfsmith show --functions` lists them"),
        (
            "ckpt-7",
            ["a", "--all"],
            "{path}: a checkpoint holds variables but no graph; pass the .meta file, the graph, or the SavedModel that "
            "belongs to it",
        ),
        ("saved_model", ["twice", "--text"], "--text is the whole graph's; pass --nodes for the nodes of a function"),
    ],
)
def test_no_such_function(
    models: Path, name: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = models / name
    assert main(["show", str(path), "--function", *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message.format(path=path)}\n"


def test_saved_model_as_json(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = _json(capsys, models / "saved_model", "--all")
    assert (facts["kind"], facts["tag_sets"], facts["tag_set"]) == (
        "saved_model",
        [["serve"], ["serve", "gpu"]],
        ["serve"],
    )
    assert facts["variables"] == {
        "from": "checkpoint",
        "count": 3,
        "parameters": 7,
        "bytes": 52,
        "dtypes": {"float64": 1, "int64": 1, "string": 1},
    }
    assert facts["graph"]["ops"] == {"AddV2": 3, "Const": 2, "NoOp": 2, "Placeholder": 1, "double": 1}
    assert facts["graph"]["producer"] == 1286
    assert facts["signatures"]["serving_default"]["inputs"]["x"] == {"dtype": "float32", "shape": [], "name": "x:0"}
    assert facts["assets"] == ["vocab.txt"]
    assert [row["name"] for row in facts["node_list"]] == ["x", "small", "large", "call", "sum"]
    assert facts["node_list"][2]["attrs"]["value"] == {"dtype": "float32", "shape": [3000]}
    assert facts["function_list"][0]["outputs"] == [{"name": "y", "dtype": "float32"}]
    assert facts["collections"]["things"]["values"] == [
        {"name": "x:0", "op": "Placeholder"},
        {"name": "sum:0", "op": "AddV2"},
    ]
    assert facts["likely"]["outputs"][0]["tensor"] == "sum:0"
    only = _json(capsys, models / "saved_model", "--signature", "serving_default")
    assert list(only) == ["signature"]


def test_graph(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _show(capsys, models / "frozen.pb")
    assert "  kind       frozen graph (GraphDef)\n" in text
    assert "likely outputs\n  sum:0  AddV2  float32  ?  nothing takes its output, an input reaches it\n" in text
    facts = _json(capsys, models / "frozen.pb")
    assert (facts["kind"], facts["graph"]["frozen"], facts["variables"]["from"]) == ("graphdef", True, "")
    assert _json(capsys, models / "text.pbtxt")["graph"]["nodes"] == 1


def test_graph_with_a_checkpoint(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = _json(capsys, models / "frozen.pb", "--checkpoint", models / "ckpt-7", "--variables")
    assert [row["name"] for row in facts["variable_list"]] == ["dense/kernel", "global_step", "words"]


def test_checkpoint(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / "ckpt-7"
    assert (
        _show(capsys, path, "--verify")
        == f"""\
{path}
  kind        checkpoint (V2) without a graph
  variables   3  (7 parameters, 52 B; float64 x1, int64 x1, string x1)
  checkpoint  V2, step 7, 2 files, {_size(path)} B

  checksums  3 tensors read, all as they were written
"""
    )
    facts = _json(capsys, path, "--all")
    assert (facts["kind"], facts["checkpoint"]["step"], len(facts["variable_list"])) == ("checkpoint", 7, 3)
    assert "graph" not in facts


def _size(prefix: Path) -> int:
    return sum(path.stat().st_size for path in prefix.parent.glob(prefix.name + ".*"))


def test_meta_graph_and_its_collections(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = _json(capsys, models / "meta-8", "--all")
    assert (facts["kind"], facts["tensorflow_version"], facts["checkpoint"]["step"]) == ("metagraph", "1.15.0", 8)
    collections = facts["collections"]
    assert collections["floats"] == {"kind": "float", "values": [0.5, "nan", "-inf"]}
    assert collections["ints"] == {"kind": "int64", "values": [1, 2**60]}
    assert collections["bytes"] == {"kind": "bytes", "values": ["\\xff\x00"]}
    assert collections["variables"] == {"kind": "bytes", "values": [{"variable_name": "w:0", "trainable": True}]}
    assert collections["any"]["values"] == [{"variable_name": "w:0", "trainable": True}]
    assert collections["fetches"]["values"][1] == {"name": "gone:0", "op": None}
    assert collections["empty"] == {"kind": "none", "values": []}
    assert facts["node_list"][3]["attrs"] == {"limit": "inf"}
    assert facts["graph"]["custom_ops"] == ["Mine"]
    text = _show(capsys, models / "meta-8", "--collections")
    assert "collection fetches  (node, 2)\n  loss/output:0  Softmax\n  gone:0  (not in the graph)\n" in text
    assert "collection variables  (bytes, 1)\n  variable_name=w:0, trainable=True\n" in text


def test_variables_of_a_graph_without_its_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path, {"m.meta": _meta_graph()})
    text = _show(capsys, tmp_path / "m.meta")
    assert "variables   1  (3 parameters, 12 B; float32)  values not here" in text
    assert "likely outputs\n  loss/output:0  Softmax" in text
    assert _show(capsys, tmp_path / "m.meta", "--variables").splitlines()[-1].split() == [
        "w",
        "float32",
        "[3]",
        "12",
        "B",
    ]


def test_names_cannot_command_the_terminal(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _show(capsys, models / "meta-8", "--nodes")
    assert "\x1b" not in text
    assert "  strange\\x1b[31m\\nname  Mine\n" in text
    assert main(["show", "bad\x1b[31m\nname"]) == 2
    assert capsys.readouterr().err.startswith("error: bad\\x1b[31m\\nname: there is no such file")


def test_text_of_the_graph(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _show(capsys, models / "text.pbtxt", "--text") == 'node {\n  name: "a"\n  op: "NoOp"\n}\n'
    assert _show(capsys, models / "saved_model", "--text") == tfsmith.graph_text(tfsmith.load(models / "saved_model"))


def test_steps(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, models, "--step", "7")["checkpoint"]["step"] == 7


NO_GRAPH = (
    "a checkpoint holds variables but no graph; pass the .meta file, the graph, or the SavedModel that belongs to it"
)
SHOW_HELP = "`tfsmith show --help` lists what it takes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/none"], "{}/none: there is no such file, folder or checkpoint prefix; check the path"),
        (
            ["{}/saved_model", "--tag-set", "x"],
            "{}/saved_model: there is no meta graph with the tag set 'x'; the tag sets are: 'serve' and 'gpu,serve'",
        ),
        (
            ["{}/saved_model", "--signature", "serving"],
            "{}/saved_model: there is no signature 'serving'; the signatures are: serving_default",
        ),
        (
            ["{}/frozen.pb", "--signature", "x"],
            "{}/frozen.pb: there is no signature 'x'; it has none; --outputs shows likely ones",
        ),
        (["{}/ckpt-7", "--nodes"], f"{{}}/ckpt-7: {NO_GRAPH}"),
        (["{}/ckpt-7", "--text"], f"{{}}/ckpt-7: {NO_GRAPH}"),
        ([], f"the following arguments are required: MODEL; {SHOW_HELP}"),
        (["{}", "--frozen"], "there is no option --frozen; `tfsmith show --help` lists what it takes"),
        (["{}", "--step", "x"], f"argument --step: invalid int value: 'x'; {SHOW_HELP}"),
    ],
)
def test_errors_are_one_line(
    models: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code = main(["show", *(argument.replace("{}", str(models)) for argument in arguments)])
    assert (code, *capsys.readouterr()) == (2, "", f"error: {message.replace('{}', str(models))}\n")


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("error: the following arguments are required: VERB; ")
    assert main(["dance"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no verb 'dance'; `tfsmith --help`")
    assert main(["frezee"]) == 2
    assert "did you mean freeze?" in capsys.readouterr().err
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tfsmith {tfsmith.__version__}\n"
    assert main(["show", "--help"]) == 0
    assert "--signature" in capsys.readouterr().out


def test_debug_adds_the_traceback(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(models / "none"), "--debug"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.splitlines()[-1].startswith(f"error: {models / 'none'}: there is no such file")


def test_damaged_checksum_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted.write_variables(tmp_path / "m")
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    assert main(["show", str(tmp_path / "m")]) == 0
    capsys.readouterr()
    assert main(["show", str(tmp_path / "m"), "--verify"]) == 2
    assert "do not fit their checksum" in capsys.readouterr().err


def test_memory_and_depth_have_their_own_words(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, message in (
        (RecursionError(), "the model is nested too deeply; do not trust the file"),
        (MemoryError(), "the model takes more memory than there is; do not trust the file"),
        (OSError(5, "Input/output error", "f.pb"), "f.pb: Input/output error; check the path and its permissions"),
    ):

        def fail(*arguments: object, error: Exception = error, **options: object) -> None:
            raise error

        monkeypatch.setattr("tfsmith.verbs.show.show_facts", fail)
        assert main(["show", str(models / "frozen.pb")]) == 2
        assert capsys.readouterr().err == f"error: {message}\n"
    monkeypatch.setattr(
        "tfsmith.verbs.show.show_facts", lambda *arguments, **options: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert main(["show", str(models / "frozen.pb")]) == 130


def test_wrong_kinds_of_attributes_do_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hostile graph: the attributes that the summary looks at are of other kinds than TensorFlow's."""
    number = attr_value(i=5)
    nodes = [
        node_def("c", "Const", attrs={"value": number, "dtype": number}),
        node_def("v", "VariableV2", attrs={"dtype": number, "shape": number}),
        node_def("p", "Placeholder", attrs={"dtype": number, "shape": number, "_output_shapes": number}),
        node_def("split", "Split", ["p", "p"], {"num_split": attr_value(i=2**62), "T": number}),
        node_def("unpack", "IteratorGetNext", ["p"], {"output_types": number, "output_shapes": number}),
        node_def("_detections" * 20_000, "Identity", ["split:1"]),
    ]
    write_files(tmp_path, {"g.pb": graph_def(nodes)})
    facts = _json(capsys, tmp_path / "g.pb", "--all")
    assert facts["graph"]["nodes"] == 6
    assert facts["constants"]["count"] == 0
    assert facts["variables"] == {"from": "graph", "count": 1, "parameters": 0, "bytes": 0, "dtypes": {"?": 1}}


def test_text_that_the_encoding_lacks(tmp_path: Path) -> None:
    write_files(tmp_path, {"g.pb": graph_def([node_def("größe", "NoOp")])})
    done = python("-m", "tfsmith", "show", str(tmp_path / "g.pb"), "--nodes", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout


def test_closed_pipe_is_no_error(tmp_path: Path) -> None:
    nodes = [node_def(f"a_long_name_for_a_small_node_{number}", "NoOp") for number in range(20_000)]
    write_files(tmp_path, {"g.pb": graph_def(nodes)})
    source = str(Path(tfsmith.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "tfsmith", "show", str(tmp_path / "g.pb"), "--nodes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source, "PYTHONUNBUFFERED": ""},  # without a buffer, Python sees no error
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"nodes\n"
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), error) == (0, b"")


def _in_terminal(*arguments: str) -> tuple[int, str]:
    """Runs the command with a terminal as its stdout, and none as its stderr, where a slow one shows its progress."""
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    env = os.environ | {"PYTHONPATH": str(Path(tfsmith.__file__).parents[1]), "TERM": "xterm-256color", "COLUMNS": "60"}
    command = [sys.executable, "-m", "tfsmith", *arguments]
    process = subprocess.Popen(command, stdout=child, stderr=subprocess.DEVNULL, stdin=child, env=env)
    os.close(child)
    out = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        out += piece
    os.close(parent)
    return process.wait(60), out.decode()


@pytest.mark.parametrize("name", ["saved_model", "ckpt-7", "meta-8", "frozen.pb"])
def test_terminal(models: Path, name: str) -> None:
    code, out = _in_terminal("show", str(models / name), "--all")
    assert code == 0, out
    assert "\x1b[" in out  # colours
    assert "\x1b[31m\n" not in out  # but none that a model chose
    assert "Traceback" not in out
    assert "kind" in out


def test_json_is_plain_in_a_terminal(models: Path) -> None:
    code, out = _in_terminal("show", str(models / "meta-8"), "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "metagraph"


def test_composite_and_sparse_signatures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meta = new("MetaGraphDef")
    meta.graph_def.node.add(name="x", op="Placeholder")
    signature = meta.signature_def["s"]
    sparse = signature.inputs["sparse"]
    sparse.dtype = 9
    sparse.coo_sparse.values_tensor_name, sparse.coo_sparse.indices_tensor_name = "v:0", "i:0"
    sparse.coo_sparse.dense_shape_tensor_name = "d:0"
    ragged = signature.inputs["ragged"]
    ragged.composite_tensor.type_spec.type_spec_class = 3
    ragged.composite_tensor.components.add(name="values:0", dtype=1).tensor_shape.unknown_rank = True
    signature.defaults["x"].dtype = 1
    signature.defaults["x"].float_val.append(2.0)
    write_files(tmp_path, {"m.meta": meta.SerializeToString()})
    assert (
        _show(capsys, tmp_path / "m.meta", "--signature", "s")
        == """\
signature s
  input  ragged         -        -       (composite)
           0            float32  ?       values:0
  input  sparse         int64    []      (sparse)
           values       int64    [?]     v:0
           indices      int64    [?, ?]  i:0
           dense_shape  int64    [?]     d:0
"""
    )


def test_a_graph_that_is_cut_off_is_shown_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = dtype_named("float32")
    paths = [tmp_path / "relu.pb", tmp_path / "tanh.pb"]
    for path, op in zip(paths, ("Relu", "Tanh"), strict=True):
        x = Node("x", "Placeholder", (), {"dtype": kind})
        y = Node("y", "AddN", ("x", "gone", "lost:1"), {"T": kind, "N": 3})
        graph = Graph((x, y, Node("z", op, ("y",), {"T": kind})))
        path.write_bytes(plan_graph(graph).tobytes())  # for no verb would write such a graph
    warning = "the graph is cut off: y takes 'gone', which is not there, and 1 more inputs are missing"
    assert main(["show", str(paths[0])]) == 0
    assert warning in " ".join(capsys.readouterr().out.split())
    facts = tfsmith.show(tfsmith.load(paths[0])).facts
    assert facts["graph"]["missing"] == [{"node": "y", "takes": "gone"}, {"node": "y", "takes": "lost"}]
    found = tfsmith.diff(*paths)
    assert found.counts()["nodes"] == 1
    assert found.notes == (
        f"of the first: {warning}",
        f"of the second: {warning}",
    )
    for needs_the_edge in (lambda model: tfsmith.freeze(model, ["z"]), tfsmith.likely_outputs):
        with pytest.raises(InvalidModelError, match="node 'y': it takes 'gone', which is not in the graph"):
            needs_the_edge(tfsmith.load(paths[0]))


def test_parameters_by_scope_are_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_saved_model(conv_net(), tmp_path / "model")
    assert main(["show", str(tmp_path / "model"), "--parameters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "parameters by scope"
    largest = next(line for line in lines if "conv2d_1/kernel" in line)
    assert largest.split()[1:3] == ["216", "52.8%"]
    assert largest.count("\N{FULL BLOCK}") == 40
    facts = tfsmith.show(tmp_path / "model", parameters=True).facts["scopes"]
    sizes = [tensor.shape.elements or 0 for tensor in tfsmith.load(tmp_path / "model").variables.values()]
    assert sum(row["parameters"] for row in facts) == sum(sizes)
    assert sum(row["variables"] for row in facts) == len(sizes)
    write_frozen(conv_net(), tmp_path / "frozen.pb")
    assert main(["show", str(tmp_path / "frozen.pb"), "--parameters"]) == 0
    assert "there are no variables" in capsys.readouterr().out


def test_scopes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    config = BertConfig(30, 8, 12, 2, 16, max_position_embeddings=20)
    write_saved_model(bert_classifier(config), tmp_path / "bert")
    scopes = [row["scope"] for row in tfsmith.show(tmp_path / "bert", parameters=True).facts["scopes"]]
    layers = [scope for scope in scopes if "layer_" in scope]
    assert layers == [f"bert/encoder/layer_{number}" for number in range(12)]
