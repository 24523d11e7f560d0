"""No TensorFlow, ever; and what a command does not need, it does not load."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import planted
from tests.support.helpers import python

CHECK = """
import sys
heavy = [name for name in HEAVY.split(",") if name in sys.modules]
assert not heavy, heavy
"""
_UNLOADED = """
for name in ("text_format", "message_factory", "internal.python_message"):
    assert f"google.protobuf.{name}" not in sys.modules, name
"""
DEFAULT_POOL = """
from google.protobuf import descriptor_pool
for name in ("GraphDef", "NodeDef", "SavedModel", "TensorProto", "BundleHeaderProto"):
    try:
        descriptor_pool.Default().FindMessageTypeByName(f"tensorflow.{name}")
    except KeyError:
        continue
    raise AssertionError(f"{name} is in the default pool")
"""


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.write_saved_model(tmp_path_factory.mktemp("models") / "model")


def _run(code: str, heavy: str, *arguments: str) -> None:
    done = python("-c", code + CHECK.replace("HEAVY", repr(heavy)), *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_import_takes_nothing_else() -> None:
    _run("import tfsmith", "tensorflow,numpy,rich,google.protobuf,ml_dtypes,argparse,tfsmith.verbs")


def test_every_public_name_is_there() -> None:
    code = """
import tfsmith
for name in tfsmith.__all__:
    getattr(tfsmith, name)
assert set(dir(tfsmith)) >= set(tfsmith.__all__)
"""
    _run(code, "tensorflow")
    done = python("-c", "import tfsmith; tfsmith.nothing")
    assert "module 'tfsmith' has no attribute 'nothing'" in done.stderr


def test_show_needs_no_numpy(saved_model: Path) -> None:
    code = """
import sys
from tfsmith.cli.main import main
for extra in ([], ["--all"], ["--json"], ["--nodes", "--json"]):
    assert main(["show", sys.argv[1], *extra]) == 0
"""
    _run(code, "tensorflow,numpy,ml_dtypes,rich", str(saved_model))


def test_show_needs_no_protobuf_in_python(saved_model: Path) -> None:
    """Where protobuf has its library in C, its implementation in Python stays away; without one, it does the same."""
    code = "import sys; from tfsmith.cli.main import main; assert main(['show', sys.argv[1], '--all']) == 0"
    native = python("-c", f"{code}\n{_UNLOADED}", str(saved_model))
    assert (native.returncode, native.stderr) == (0, "")
    plain = python("-c", code, str(saved_model), PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert plain.stdout == native.stdout


def test_nothing_enters_the_default_pool(saved_model: Path) -> None:
    code = """
import sys
import tfsmith
model = tfsmith.load(sys.argv[1])
model.variables["dense/kernel"].numpy()
assert [node.attrs for node in model.graph]
assert model.signatures, model.collections
tfsmith.graph_text(model)
tfsmith.save(model, sys.argv[1] + "-copy")
tfsmith.save(model, sys.argv[1] + "-text", format="pbtxt")
tfsmith.load(sys.argv[1] + "-text").graph
"""
    _run(code + DEFAULT_POOL, "tensorflow", str(saved_model))


@pytest.mark.slow
def test_every_module_can_be_imported_without_tensorflow() -> None:
    """Only `engines/tensorflow.py` may need it, and only when it runs."""
    code = """
import importlib, pkgutil, sys
sys.modules["tensorflow"] = None
import tfsmith
for module in pkgutil.walk_packages(tfsmith.__path__, "tfsmith."):
    if module.name not in ("tfsmith.__main__", "tfsmith.model_explorer.main"):  # Model Explorer imports the latter
        importlib.import_module(module.name)
del sys.modules["tensorflow"]
"""
    _run(code + DEFAULT_POOL, "tensorflow")
