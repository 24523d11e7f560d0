"""`tfsmith scan`: one file per attack with its exact text, what must not be found, allowances, SARIF, wrong inputs."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import shutil
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import planted
from tests.support.helpers import attr_value, field, graph_def, node_def

import tfsmith
from tfsmith.audit.files import program_in
from tfsmith.audit.findings import KINDS
from tfsmith.cli.main import main
from tfsmith.testing import models, write

ATTACKS = Path(__file__).parents[1] / "hostile" / "scan"
FOLDERS = ("asset_escape", "hidden_meta_graph")
"""Attacks that need a SavedModel."""
HARMLESS = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n'


def model_of(name: str, folder: Path) -> Path:
    """The attack as a user would be handed it."""
    source = ATTACKS / f"{name}.pbtxt"
    if name not in FOLDERS:
        return Path(shutil.copy(source, folder))
    shutil.copy(source, folder / "saved_model.pbtxt")
    return folder


def saved_model(folder: Path, **files: bytes) -> Path:
    """A harmless SavedModel with these files beside it."""
    text = (
        f'saved_model_schema_version: 1 meta_graphs {{ meta_info_def {{ tags: "serve" }} graph_def {{ {HARMLESS} }} }}'
    )
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pbtxt").write_text(text)
    for name, data in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return folder


def kinds(found: Any) -> list[tuple[str, str]]:
    return [(one.level, one.kind) for one in found.findings]


@pytest.mark.parametrize("name", sorted(path.stem for path in ATTACKS.glob("*.pbtxt")))
def test_an_attack(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(model_of(name, tmp_path))]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ((ATTACKS / f"{name}.txt").read_text(), "")


def test_the_models_of_the_demo_are_clean(tmp_path: Path) -> None:
    for number, model in enumerate((models.linear_regression(), models.conv_net(), models.bert_classifier())):
        folder = tmp_path / str(number)
        folder.mkdir()
        prefix = write.write_checkpoint_files(model, folder)
        saved = write.write_saved_model(model, folder / "saved")
        frozen = write.write_frozen(model, folder / "frozen.pb")
        for path in (prefix, folder / "graph.pbtxt", saved, frozen):
            found = tfsmith.scan(path)
            assert {one.level for one in found.findings} <= {"note"}, (path, kinds(found))
            assert found


def test_levels_decide_the_answer() -> None:
    path = ATTACKS / "read_file_of_caller.pbtxt"
    assert not tfsmith.scan(path)
    assert tfsmith.scan(path, fail_on="dangerous")
    assert kinds(tfsmith.scan(path)) == [("suspicious", "reads-files")]


def test_what_was_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allowed = tmp_path / "allow.txt"
    allowed.write_text("# the service checks the path\nreads-files ReadFile im*\nnetwork\n")
    found = tfsmith.scan(ATTACKS / "read_file_of_caller.pbtxt", allow_file=allowed)
    assert found
    assert [one.kind for one in found.allowed] == ["reads-files"]
    assert found.notes == (f"line 3 of {allowed} allows what was not found: network * *",)
    assert not tfsmith.scan(ATTACKS / "write_file.pbtxt", allow_file=allowed)
    assert main(["scan", str(ATTACKS / "read_file_of_caller.pbtxt"), "--allow", str(allowed)]) == 0
    assert "nothing found; 1 allowed (2 nodes looked at, nothing run)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("everything\n", "line 1 is not understood: 'everything'; write KIND [OP [NODE]]"),
        ("\nnetwork a b c d\n", "line 2 is not understood: 'network a b c d'; write KIND [OP [NODE]]"),
    ],
)
def test_allowances_that_make_no_sense(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "allow.txt").write_text(text)
    assert main(["scan", str(ATTACKS / "abort.pbtxt"), "--allow", str(tmp_path / "allow.txt")]) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["scan", "nothing-here"], "nothing-here: "),
        (["scan", "MODEL", "--allow", "missing.txt"], "missing.txt: cannot be read (No such file or directory)"),
        (["scan", "MODEL", "--fail-on", "terrible"], "invalid choice: 'terrible'"),
        (["scan", "MODEL", "--allow", "."], "cannot be read (Is a directory)"),
        (["scan"], "MODEL"),
    ],
)
def test_wrong_inputs(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(ATTACKS / "abort.pbtxt")
    assert main([path if word == "MODEL" else word for word in words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert what in shown.err


def test_json_and_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(ATTACKS / "exfiltrate_by_rpc.pbtxt")
    assert main(["scan", path, "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["clean"], facts["fail_on"], facts["nodes"]) == (False, "suspicious", 7)
    assert facts["findings"][0] == {
        "kind": "reads-files", "level": "dangerous", "what": "ReadFile reads '/etc/shadow'",
        "meaning": KINDS["reads-files"].meaning, "op": "ReadFile", "node": "read", "function": None,
        "constant": "/etc/shadow", "when": "at call", "count": 1, "offset": None,
    }  # fmt: skip
    assert main(["scan", path, "--sarif"]) == 1
    sarif = json.loads(capsys.readouterr().out)
    run = sarif["runs"][0]
    assert sarif["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["file-flow", "network", "reads-files"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert {result["level"] for result in run["results"]} == {"error"}
    place = run["results"][0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/exfiltrate_by_rpc.pbtxt")
    assert place["logicalLocations"] == [{"name": "read", "fullyQualifiedName": "read", "kind": "member"}]


def zipped(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_up_", "../").replace("_dot_", "."), content)
    return data.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
PE = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"


@pytest.mark.parametrize(
    ("name", "data", "level", "what"),
    [
        ("assets__plain_dot_txt", b"word\n", None, ""),
        ("assets__run", ELF, "dangerous", "assets/run is an ELF program"),
        ("assets__run_dot_exe", PE, "dangerous", "assets/run.exe is a Windows program"),
        ("assets__start", b"#!/bin/sh\nid\n", "dangerous", "assets/start is a script"),
        ("assets__data_dot_pkl", b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "dangerous", "assets/data.pkl is a pickle"),
        ("assets__setup_dot_py", b"import os\n", "suspicious", "assets/setup.py is named like a program"),
        ("assets__a_dot_zip", zipped(word=b"a"), "note", "assets/a.zip is a zip archive"),
        ("assets__a_dot_zip", zipped(_up_word=b"a"), "dangerous",
         "assets/a.zip!../word leads out of the folder it is unpacked in"),
        ("assets__a_dot_zip", zipped(run=ELF), "dangerous", "assets/a.zip!run is an ELF program"),
        ("assets__a_dot_zip", zipped(b_dot_zip=zipped(a=b"a")), "suspicious",
         "assets/a.zip!b.zip is a zip archive in an archive"),
        ("assets__a_dot_zip", zipped(word=b"a")[:-30], "suspicious",
         "assets/a.zip cannot be listed (File is not a zip file)"),
        ("assets__a_dot_tgz", tarred("../word", b"a"), "dangerous",
         "assets/a.tgz!../word leads out of the folder it is unpacked in"),
        ("assets__a_dot_tgz", tarred("run", ELF), "dangerous", "assets/a.tgz!run is an ELF program"),
    ],
    ids=lambda value: "bytes" if isinstance(value, bytes) else None,  # an archive has the time in it
)  # fmt: skip
def test_files_beside_a_model(name: str, data: bytes, level: str | None, what: str, tmp_path: Path) -> None:
    found = tfsmith.scan(saved_model(tmp_path / "m", **{name: data})).findings
    assert (found[0].level, found[0].what) == (level, what) if level else not found


def test_a_link_out_of_the_folder(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m")
    (folder / "assets").mkdir()
    (folder / "assets" / "passwd").symlink_to("/etc/passwd")
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.what) == ("dangerous", "assets/passwd is a link out of the model's folder")


def test_code_in_keras_metadata(tmp_path: Path) -> None:
    code = base64.b64encode(b"\xe3code").decode()

    def layer(config: dict[str, Any]) -> bytes:
        whole = {"class_name": "Functional", "config": {"layers": [{"class_name": "Lambda", "config": config}]}}
        return field(1, field(3, b"root.layer") + field(5, json.dumps(whole).encode()))

    folder = saved_model(tmp_path / "m", keras_metadata_dot_pb=layer(
        {"name": "evil", "function": [code, None, None], "function_type": "lambda"}))  # fmt: skip
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.what) == ("dangerous", "Lambda layer 'evil' holds compiled Python code")
    (folder / "keras_metadata.pb").write_bytes(layer({"name": "l", "function": "helper", "function_type": "function"}))
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.what, found.constant) == ("suspicious", "Lambda layer 'l' calls 'helper'", "helper")
    (folder / "keras_metadata.pb").write_bytes(b"\xff\xff\xff")
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.kind) == ("suspicious", "disguised")


def keras_metadata(config: Any) -> bytes:
    return field(1, field(3, b"root") + field(5, json.dumps(config).encode()))


@pytest.mark.parametrize(
    ("config", "level", "what"),
    [
        ({"module": "os", "class_name": "function", "config": "system"}, "dangerous",
         "Keras imports os and takes 'system' from it"),
        ({"module": "my.layers", "class_name": "Mine", "registered_name": "my>Mine", "config": {}}, "suspicious",
         "Keras imports my.layers and takes 'Mine' from it"),
        ({"module": "builtins", "class_name": "eval", "config": {}}, "dangerous", "Keras takes 'eval' from builtins"),
        ({"module": "keras.layers", "class_name": "Dense", "config": {"activation": {
            "class_name": "__lambda__", "config": {"code": "4wEA"}}}}, "dangerous",
         "a config holds compiled Python code"),
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, "dangerous",
         "a layer calls tf.io.write_file by its name"),
        ({"class_name": "TFOpLambda", "config": {"function": "math.add"}}, None, ""),
        ({"class_name": "Custom>Lambda", "config": {"name": "l", "function": "f", "function_type": "function",
          "output_shape_type": "lambda"}}, "dangerous", "Lambda layer 'l' holds compiled Python code"),
        ({"module": "builtins", "class_name": "function", "config": "my_loss", "registered_name": "function"},
         "suspicious", "Keras takes 'my_loss' from builtins"),
        ({"module": "keras.layers", "class_name": "InputLayer", "config": {}, "registered_name": None}, None, ""),
    ],
)  # fmt: skip
def test_what_keras_would_run(config: Any, level: str | None, what: str, tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m", keras_metadata_dot_pb=keras_metadata(config))
    found = tfsmith.scan(folder).findings
    assert [(one.level, one.what) for one in found] == ([(level, what)] if level else [])
    zipped_config = zipped(config_dot_json=json.dumps(config).encode())
    (folder / "keras_metadata.pb").unlink()
    (folder / "assets").mkdir()
    (folder / "assets" / "model.keras").write_bytes(zipped_config)
    inside = tfsmith.scan(folder).findings
    assert [(one.level, one.what) for one in inside if one.kind == "keras-code"] == ([(level, what)] if level else [])


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"class_name": ', b"nothing"])
def test_configs_that_no_reader_reads(text: bytes, tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m", keras_metadata_dot_pb=field(1, field(5, text)))
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.kind) == ("suspicious", "disguised")


def test_two_main_files(tmp_path: Path) -> None:
    """TensorFlow reads one of them, and another tool the other."""
    folder = saved_model(tmp_path / "m")
    (folder / "saved_model.pb").write_bytes(field(2, field(1, field(4, b"serve")) + field(2, b"")))
    found = [one for one in tfsmith.scan(folder).findings if one.kind == "hidden-graph"]
    assert [(one.level, one.node) for one in found] == [("suspicious", "saved_model.pbtxt")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m")
    (folder / "assets").mkdir()
    os.mkfifo(folder / "assets" / "pipe")
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.what) == ("suspicious", "assets/pipe cannot be read (this is not a regular file)")


def test_links_and_plain_tar_in_archives(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0xA1FF << 16
        archive.writestr(link, "../../etc/passwd")
    folder = saved_model(tmp_path / "m", assets__a_dot_zip=data.getvalue())
    what = "assets/a.zip!../../etc/passwd leads out of the folder it is unpacked in"
    assert ("dangerous", what) in [(one.level, one.what) for one in tfsmith.scan(folder).findings]
    plain = gzip.decompress(tarred("../word", b"a"))
    folder = saved_model(tmp_path / "n", assets__a_dot_tar=plain)
    what = "assets/a.tar!../word leads out of the folder it is unpacked in"
    assert ("dangerous", what) in [(one.level, one.what) for one in tfsmith.scan(folder).findings]
    folder = saved_model(tmp_path / "o", assets__a_dot_7z=b"7z\xbc\xaf\x27\x1c" + bytes(50))
    (found,) = tfsmith.scan(folder).findings
    assert (found.level, found.what) == ("suspicious", "assets/a.7z is a 7z archive, which is not looked into")


def test_a_function_with_two_names_is_refused(tmp_path: Path) -> None:
    """Readers that merge messages see the last name, others the first."""
    function = field(1, field(1, b"f")) + field(1, field(1, b"g"))
    node = field(1, field(1, b"n") + field(2, b"NoOp"))
    (tmp_path / "m.pb").write_bytes(node + field(2, field(1, function)))
    with pytest.raises(tfsmith.TfsmithError, match="a function has two names"):
        tfsmith.scan(tmp_path / "m.pb")


def test_many_readers_and_writers_take_no_longer(tmp_path: Path) -> None:
    """A file that makes a scanner take hours hides what is in it."""
    count = 2_000
    text = 'node { name: "p" op: "Const" }\n'
    for n in range(count):
        text += f'node {{ name: "r{n}" op: "ReadFile" input: "p" }}\n'
        text += f'node {{ name: "w{n}" op: "WriteFile" input: "p" input: "r{n}" }}\n'
    start = time.process_time()
    found = tfsmith.scan(tfsmith.load(text.encode()))
    assert {"file-flow", "reads-files", "writes-files"} == {one.kind for one in found.findings}
    assert time.process_time() - start < 60  # each pair on its own would take minutes


def test_samplers_and_caches_without_a_file() -> None:
    texts = [
        'node { name: "n" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { '
        'tensor { dtype: DT_STRING tensor_shape { } string_val: "" } } } } '
        'node { name: "c" op: "CacheDataset" input: "x" input: "n" } node { name: "x" op: "Placeholder" }',
        'node { name: "s" op: "FixedUnigramCandidateSampler" input: "x" } node { name: "x" op: "Placeholder" }',
    ]
    for text in texts:
        assert {one.level for one in tfsmith.scan(tfsmith.load(text.encode())).findings} <= {"note"}, text


def test_unknown_fields_and_text_in_disguise(tmp_path: Path) -> None:
    tfsmith.save(tfsmith.load(HARMLESS.encode()), tmp_path / "plain.pb")
    data = (tmp_path / "plain.pb").read_bytes()
    (tmp_path / "more.pb").write_bytes(data + field(99, bytes(10)))
    (found,) = tfsmith.scan(tmp_path / "more.pb").findings
    assert (found.level, found.what) == ("note", "GraphDef has no field 99, which holds 10 bytes")
    assert found.offset == len(data)
    (tmp_path / "much.pb").write_bytes(data + field(99, bytes(5000)))
    assert kinds(tfsmith.scan(tmp_path / "much.pb")) == [("suspicious", "unknown-field")]
    (tmp_path / "text.pb").write_text(HARMLESS)
    (found,) = tfsmith.scan(tmp_path / "text.pb").findings
    assert (found.level, found.what) == ("note", "text.pb is text, though its name says binary")


def test_unknown_fields_in_every_message() -> None:
    """In nodes, attributes, functions, signatures and all else that a model holds: other readers may see them."""
    found = [one for one in tfsmith.scan(tfsmith.load(planted.graph())).findings if one.kind == "unknown-field"]
    assert {one.level for one in found} == {"note"}
    assert {one.node for one in found} == {"", "x", "small", "large", "add", "double"}  # the first of those alike
    assert {one.what.split()[0] for one in found if "has no field 1234" in one.what} == {
        "GraphDef", "NodeDef", "AttrValue", "FunctionDefLibrary", "FunctionDef", "OpDef", "GradientDef", "VersionDef"
    }  # fmt: skip
    everywhere = tfsmith.scan(tfsmith.load(planted.saved_model())).findings
    seen = {one.what.split()[0] for one in everywhere if one.kind == "unknown-field"}
    assert seen >= {"SavedModel", "MetaGraphDef", "SaverDef", "CollectionDef", "SignatureDef", "AssetFileDef"}


def test_many_small_unknown_fields_are_much() -> None:
    nodes = [node_def(f"n{number}", "NoOp", extra=field(99, bytes(500))) for number in range(90)]
    (found,) = tfsmith.scan(tfsmith.load(graph_def(nodes))).findings
    assert (found.level, found.count, found.node) == ("suspicious", 90, "n0")


def test_a_known_field_of_another_type_is_an_unknown_one() -> None:
    node = node_def("n", "NoOp", extra=b"\x08\x05")  # the name, as a number
    (found,) = tfsmith.scan(tfsmith.load(field(1, node))).findings
    assert (found.what, found.node) == ("NodeDef has no field 1, which holds 1 bytes", "n")


def test_weights_that_are_not_finite_or_programs(tmp_path: Path) -> None:
    weights: dict[str, Any] = {"bad": np.array([1, np.nan, np.inf, 2], np.float32), "good": np.ones(4, np.float32),
               "elf": np.frombuffer(ELF, np.uint8)}  # fmt: skip
    np.savez(tmp_path / "w.npz", **weights)
    found = tfsmith.scan(tmp_path / "w.npz", weights=True)
    assert sorted((one.kind, one.node, one.what) for one in found.findings) == [
        ("looks-like-program", "elf", "tensor of 64 bytes begins like an ELF program"),
        ("not-finite", "bad", "2 of 4 values are NaN or infinite"),
    ]
    assert [one.kind for one in tfsmith.scan(tmp_path / "w.npz").findings] == ["looks-like-program"]


@pytest.mark.parametrize("data", [b"", b"MZ", b"MZ" + bytes(70), b"\x80\x04.", b"PK\x03\x04", b"\x7fEL"])
def test_what_is_no_program(data: bytes) -> None:
    assert program_in(data) == ""


def test_a_graph_that_is_cut_off(tmp_path: Path) -> None:
    text = 'node { name: "read" op: "ReadFile" input: "gone" }'
    found = tfsmith.scan(tfsmith.load(text.encode()))
    assert kinds(found) == [("suspicious", "reads-files")]


def _reads() -> bytes:
    """A graph that reads a file."""
    path = node_def("p", "Const", (), {"dtype": attr_value(type=7), "value": field(8, b"\x08\x07\x12\x00\x42\x04/etc")})
    return graph_def([path, node_def("r", "ReadFile", ["p"])])


@pytest.mark.parametrize("pack", [lambda data: base64.urlsafe_b64encode(gzip.compress(data)),
                                  lambda data: gzip.compress(gzip.compress(data))])  # fmt: skip
def test_a_graph_that_is_packed_twice(pack: Callable[[bytes], bytes]) -> None:
    text = pack(_reads())
    held = field(8, b"\x08\x07\x12\x00" + field(8, text))
    node = node_def("c", "Const", (), {"dtype": attr_value(type=7), "value": held})
    found = {one.what: one.level for one in tfsmith.scan(tfsmith.load(graph_def([node]))).findings}
    assert found[f"a text of {len(text)} bytes is a compressed graph of 2 nodes"] == "suspicious"
    assert "ReadFile reads '/etc'" in found


def test_a_gradient_is_called_by_its_function() -> None:
    text = """
    node { name: "p" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
      attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { } string_val: "/etc/passwd" } } } }
    node { name: "g" op: "SymbolicGradient" input: "p" attr { key: "f" value { func { name: "Plain" } } }
      attr { key: "Tin" value { list { type: DT_STRING } } } attr { key: "Tout" value { list { type: DT_STRING } } } }
    library {
      function { signature { name: "Plain" } }
      function {
        signature { name: "Reads" input_arg { name: "x" type: DT_STRING } output_arg { name: "y" type: DT_STRING } }
        node_def { name: "r" op: "ReadFile" input: "x" } ret { key: "y" value: "r:contents:0" }
      }
      gradient { function_name: "Plain" gradient_func: "Reads" }
    }
    """
    (found,) = tfsmith.scan(tfsmith.load(text.encode())).findings
    assert (found.level, found.what, found.when) == ("dangerous", "ReadFile reads '/etc/passwd'", "at call")
