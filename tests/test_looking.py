"""Looking at a model runs nothing, fetches nothing, writes nothing, and reads no file outside of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import planted
from tests.support.helpers import python, write_files

from tfsmith.wire import new

# Runs the command with an audit hook that writes down every file opened and every deed that looking must not do.
WATCH = """
import sys, os, json
opened, deeds = [], []
WATCHED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
           "os.symlink", "os.link", "os.truncate", "os.chmod", "subprocess.Popen", "socket.connect",
           "socket.getaddrinfo", "pickle.find_class", "marshal.loads", "shutil.copyfile", "urllib.Request")
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.append((os.fsdecode(arguments[0]), arguments[2] or 0))
    elif event in WATCHED:
        deeds.append([event, str(arguments[0])[:200] if arguments else ""])
sys.dont_write_bytecode = True
from tfsmith.cli import main
import tfsmith.formats.cpb.chunked, tfsmith.verbs.show
sys.addaudithook(hook)
code = main.main(["show", *sys.argv[1:]])
sys.stdout.flush()
sys.stderr.write("\\n" + json.dumps({"code": code, "opened": opened, "deeds": deeds}))
"""
LIBRARY = """
import sys, sysconfig, tfsmith, os
print("\\n".join([*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, os.path.dirname(tfsmith.__file__)]))
"""


@pytest.fixture(scope="module")
def library() -> list[str]:
    """Where Python's own files are: importing them is no reading of a model."""
    return [line for line in python("-c", LIBRARY).stdout.splitlines() if len(line) > 1]


def _watch(library: list[str], *arguments: str) -> tuple[int, list[str], list[list[str]]]:
    done = python("-c", WATCH, *arguments)
    record = json.loads(done.stderr.rpartition("\n")[2])
    paths = []
    for path, flags in record["opened"]:
        assert not flags & 0o3, f"{path} was opened for writing"
        if not any(path == root or path.startswith(root + "/") for root in library):
            paths.append(path)
    deeds = [deed for deed in record["deeds"] if deed[0] != "marshal.loads"]  # how Python reads its own .pyc files
    return record["code"], paths, deeds


def _hostile_saved_model(folder: Path) -> Path:
    """It names files outside of its folder wherever it can, and ops that read and write files."""
    planted.write_saved_model(folder)
    model = new("SavedModel")
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    meta = model.meta_graphs[0]
    secret = str(folder.parent / "secret.txt")
    meta.asset_file_def.add(filename="../../secret.txt").tensor_info.name = "small:0"
    meta.asset_file_def.add(filename=secret).tensor_info.name = "small:0"
    for op in ("ReadFile", "WriteFile", "PyFunc", "EagerPyFunc", "PrintV2", "LoadAndRemapMatrix"):
        node = meta.graph_def.node.add(name=op, op=op)
        node.attr["token"].s = secret.encode()
        node.attr["output_stream"].s = f"file://{secret}".encode()
    meta.saver_def.filename_tensor_name = secret
    meta.collection_def["assets"].bytes_list.value.append(secret.encode())
    meta.collection_def["any"].any_list.value.add(type_url=f"file://{secret}", value=b"")
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return folder


@pytest.mark.parametrize("arguments", [["--all"], ["--all", "--json"], ["--text"], ["--verify"]])
def test_show_of_a_saved_model_reads_its_folder_only(tmp_path: Path, library: list[str], arguments: list[str]) -> None:
    write_files(tmp_path, {"secret.txt": b"secret", "model/assets/x": b""})
    folder = _hostile_saved_model(tmp_path / "model")
    code, paths, deeds = _watch(library, str(folder), *arguments)
    assert (code, deeds) == (0, [])
    assert paths, "the hook saw nothing"
    outside = [path for path in paths if not path.startswith(f"{folder}/")]
    assert outside == []
    names = {Path(path).relative_to(folder).as_posix() for path in paths}
    data = {"variables/variables.data-00000-of-00002", "variables/variables.data-00001-of-00002"}
    assert names == {"saved_model.pb", "variables/variables.index"} | (data if "--verify" in arguments else set())


def test_show_of_a_training_folder_reads_its_files_only(tmp_path: Path, library: list[str]) -> None:
    """The state file names a checkpoint outside; the folder has moved, so its own of that name is taken."""
    (tmp_path / "train").mkdir()
    (tmp_path / "outside").mkdir()
    planted.write_variables(tmp_path / "train/m-1")
    planted.write_variables(tmp_path / "outside/m-1")
    state = f'model_checkpoint_path: "{tmp_path / "outside/m-1"}"\n'
    write_files(tmp_path / "train", {"checkpoint": state.encode(), "m-1.meta": planted.meta_graph()})
    code, paths, deeds = _watch(library, str(tmp_path / "train"), "--all")
    assert (code, deeds) == (0, [])
    names = {Path(path).relative_to(tmp_path).as_posix() for path in paths}
    assert names == {"train/checkpoint", "train/m-1.index", "train/m-1.meta"}


def test_show_of_a_file_reads_that_file_only(tmp_path: Path, library: list[str]) -> None:
    write_files(tmp_path, {"g.pb": planted.graph(), "g.pb.txt": b"x", "other.pb": b"x"})
    code, paths, deeds = _watch(library, str(tmp_path / "g.pb"), "--all")
    assert (code, paths, deeds) == (0, [str(tmp_path / "g.pb")], [])
