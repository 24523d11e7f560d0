"""The floors of the house: a file imports from its own room and from lower floors, never upward, never sideways."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tools.make_floors import PICTURE, draw, rooms

SOURCE = Path(__file__).parents[1] / "src/tfsmith"

# Every file or folder directly below src/tfsmith has a floor here; a new one must be given its own.
FLOORS = {
    "__version__": 0, "errors": 0, "limits": 0, "records": 0, "storage": 0,
    "wire": 1, "ir": 1,
    "ops": 2, "formats": 2,
    "passes": 3,
    "patterns": 4,
    "weights": 5, "engines": 5, "onnx": 5, "audit": 5, "view": 5, "bert_op": 5,
    "verbs": 6,
    "cli": 7, "compat": 7, "server": 7, "model_explorer": 7,
    "__init__": 8, "__main__": 8,
    "testing": 8,
}  # fmt: skip
# From `passes` up to the verbs, all work on the model in memory alone.
ABOVE_FILES = range(3, 6)
FILES = {"wire", "formats"}
# module -> what it may import besides, and why
EXCEPTIONS = {
    "verbs.demo": ("testing", "the demo makes its model on the spot"),
    "verbs.serve": ("server", "the verb opens the doors, which run what other verbs make"),
    "compat.*": ("cli.common", "the old commands end with the same exit codes and one-line errors"),
}
# package -> the modules that may import it; "numpy" and its like only inside of functions, so that looking is quick
THIRD_PARTY = {
    "google.protobuf": ("wire.*", "wire", "server.*", "formats.graph.nodes", "formats.checkpoint"),
    "google_crc32c": ("storage",),
    "numpy": ("*",),
    "ml_dtypes": ("ir.types", "testing.*", "ops.values.*", "ops.samples.*"),
    "scipy": ("ops.values.*",),
    "rich": ("cli.render",),
    "brotli": ("formats.cpb.riegeli",),
    "zstandard": ("formats.cpb.riegeli",),
    "backports": ("formats.cpb.riegeli",),
    "cramjam": ("formats.cpb.riegeli",),
    "pytest": ("testing.bert.conftest", "testing.bert_options"),
    "typing_extensions": ("records", "verbs.*"),  # seen by type checkers alone
    "tomli": ("weights.maps", "formats.recipe.toml"),
    "tomllib": ("weights.maps", "formats.recipe.toml"),
    "h5py": ("formats.keras.hdf5",),
    "PIL": ("verbs._feed_values", "ops.values.*"),
    "openvino": ("engines.openvino",),
    "fsspec": ("storage.remote",),
    "ray": ("verbs.fleet",),
    "starlette": ("server.rest",),
    "uvicorn": ("server.run",),
    "grpc": ("server.grpc_door",),
    "prometheus_client": ("server.answers",),
    "onnx": ("onnx.lower",),
    "onnx_ir": ("onnx.*", "verbs._onnx"),
    "onnxruntime": ("engines.onnxruntime",),
    "tensorflow": ("engines.tensorflow_child",),
    "model_explorer": ("model_explorer.main",),
    "dacite": ("model_explorer.main",),
}
AT_MODULE_LEVEL = {
    "model_explorer": ("model_explorer.main",),
    "dacite": ("model_explorer.main",),
    "starlette": ("server.rest",),
    "google_crc32c": ("storage",),
    "onnx_ir": ("onnx.*",),
    "numpy": ("onnx.*", "testing.*", "engines.*", "ops.values.*", "ops.samples", "ops.samples.*"),
    "ml_dtypes": ("ops.values.*", "ops.samples.*"),
    "pytest": ("testing.bert.conftest",),
}


class Import(NamedTuple):
    """One import: where it stands, what it takes, whether it runs when the module is imported."""

    module: str
    line: int
    target: str
    at_module_level: bool


def imports_of(module: str, source: str) -> Iterator[Import]:
    """All imports of a file; those below `if TYPE_CHECKING:` do not run."""
    tree = ast.parse(source)
    running = set(map(id, _running(tree.body)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(module, node.lineno, name.name, id(node) in running)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names = [f"{base}.{name.name}" for name in node.names] if base in ("tfsmith", "google") else [base]
            for target in names:
                yield Import(module, node.lineno, target, id(node) in running)


def _running(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run at import: also those inside of `if` and `try`, but not inside of functions."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        for name in ("body", "orelse", "finalbody", "handlers"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _running(getattr(node, name, []))


def complaint(found: Import) -> str | None:
    """What is wrong with an import, if anything is."""
    if found.target.startswith("."):
        return "imports are absolute: write `from tfsmith...`"
    if found.target == "tfsmith" or found.target.startswith("tfsmith."):
        return _inside(found.module, found.target.removeprefix("tfsmith").removeprefix("."))
    top = found.target.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    return _third_party(found, top)


def _inside(module: str, target: str) -> str | None:
    room, wanted = module.partition(".")[0], target.partition(".")[0]
    if room == wanted or not wanted:
        return None if wanted else "import a module of tfsmith, not tfsmith itself"
    for pattern, (allowed, _) in EXCEPTIONS.items():
        if _fits(module, (pattern,)) and (target == allowed or target.startswith(f"{allowed}.")):
            return None
    for name in (room, wanted):
        if name not in FLOORS:
            return f"{name!r} has no floor; give it one in FLOORS"
    if wanted == "testing":
        return "nothing imports tfsmith.testing but tests (and the demo)"
    if FLOORS[wanted] > FLOORS[room]:
        return f"{wanted} (floor {FLOORS[wanted]}) is above {room} (floor {FLOORS[room]}); move what both need downward"
    if FLOORS[wanted] == FLOORS[room] and FLOORS[room] not in (0, 8):
        return f"{wanted} is beside {room} (floor {FLOORS[room]}); move what both need downward"
    if FLOORS[room] in ABOVE_FILES and wanted in FILES:
        return f"{room} works on the model in memory; let a verb bring it what {wanted} makes"
    return None


def _third_party(found: Import, top: str) -> str | None:
    package = next((name for name in THIRD_PARTY if found.target == name or found.target.startswith(f"{name}.")), None)
    if package is None:
        return f"{top} is no dependency; if it is to be one, say in THIRD_PARTY who may import it"
    if not _fits(found.module, THIRD_PARTY[package]):
        return f"only {', '.join(THIRD_PARTY[package])} may import {package}"
    if found.at_module_level and not _fits(found.module, AT_MODULE_LEVEL.get(package, ())):
        return f"import {package} inside of the function that needs it: `import tfsmith` must stay quick"
    return None


def _fits(module: str, patterns: tuple[str, ...]) -> bool:
    return any(module == pattern or (pattern.endswith("*") and module.startswith(pattern[:-1])) for pattern in patterns)


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts), path


@pytest.fixture(scope="module")
def imports() -> list[tuple[Path, Import]]:
    """All imports of the tree, with their files."""
    return [(path, found) for module, path in _modules() for found in imports_of(module, path.read_text("utf-8"))]


def test_every_import_goes_down(imports: list[tuple[Path, Import]]) -> None:
    complaints = [
        f"{path.relative_to(SOURCE.parents[1])}:{found.line}: imports {found.target}: {what}"
        for path, found in imports
        if (what := complaint(found)) is not None
    ]
    assert not complaints, "\n" + "\n".join(complaints)


def test_every_room_has_a_floor() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert sorted(rooms - set(FLOORS)) == []


def test_the_picture_shows_the_house() -> None:
    """`docs/architecture.md` has every room, on its floor, and the picture is drawn from its table."""
    listed = {name: room.floor for room in rooms() for name in room.names}
    here = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert sorted(here - set(listed)) == ["__init__", "__main__", "bert_op"]
    assert {name: FLOORS[name] for name, floor in listed.items() if floor is not None} == {
        name: floor for name, floor in listed.items() if floor is not None
    }
    assert PICTURE.read_text() == draw(rooms()), "draw it anew: python -m tools.make_floors"


def test_exceptions_are_used(imports: list[tuple[Path, Import]]) -> None:
    """An exception that nobody needs any more is a hole."""
    used = {
        pattern
        for _, found in imports
        for pattern, (allowed, _) in EXCEPTIONS.items()
        if _fits(found.module, (pattern,)) and found.target.startswith(f"tfsmith.{allowed}")
    }
    assert used == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("module", "line", "words"),
    [
        ("ir.node", "from tfsmith.wire import fields", "wire is beside ir"),
        ("wire", "from tfsmith.ir.node import Node", "ir is beside wire"),
        ("storage", "import tfsmith.ir.node", "ir (floor 1) is above storage (floor 0)"),
        ("formats.nodes", "from tfsmith.verbs._files import load", "verbs (floor 6) is above formats"),
        ("formats.nodes", "from tfsmith import verbs", "verbs (floor 6) is above formats"),
        ("passes.freeze", "from tfsmith.formats.graph.nodes import x", "passes works on the model in memory"),
        ("passes.freeze", "from tfsmith.wire import x", "passes works on the model in memory"),
        ("view.page", "from tfsmith.weights.maps import x", "weights is beside view"),
        ("passes.prune", "from tfsmith.patterns.match import x", "patterns (floor 4) is above passes"),
        ("patterns.match", "from tfsmith.weights.map import x", "weights (floor 5) is above patterns"),
        ("verbs.run", "from tfsmith.cli.main import main", "cli (floor 7) is above verbs"),
        ("cli.show", "from tfsmith.compat.old import x", "compat is beside cli"),
        ("compat.old", "from tfsmith.cli.show import x", "cli is beside compat"),
        ("cli.show", "from tfsmith.testing.models import x", "nothing imports tfsmith.testing"),
        (
            "ir.node",
            "if TYPE_CHECKING:\n    from tfsmith.formats.graph.nodes import x",
            "formats (floor 2) is above ir",
        ),
        ("ir.node", "def f():\n    from tfsmith.formats.graph.nodes import x", "formats (floor 2) is above ir"),
        ("ir.node", "from . import attr", "imports are absolute"),
        ("ir.node", "from .attr import Attr", "imports are absolute"),
        ("ir.node", "from tfsmith.attic.x import y", "'attic' has no floor"),
        ("ir.node", "import tfsmith", "not tfsmith itself"),
        ("ir.node", "import numpy", "inside of the function"),
        ("ir.node", "try:\n    import numpy\nexcept ImportError:\n    pass", "inside of the function"),
        ("ir.node", "class A:\n    import numpy as np", "inside of the function"),
        ("ir.node", "try:\n    import x\nexcept ImportError:\n    import numpy", "inside of the function"),
        ("ir.node", "from google.protobuf import message", "only wire.*"),
        ("ir.node", "def f():\n    from google.protobuf.message import Message", "only wire.*"),
        ("cli.show", "def f():\n    import rich.table", "only cli.render may import rich"),
        (
            "verbs.run",
            "def f():\n    import tensorflow as tf",
            "only engines.tensorflow_child may import tensorflow",
        ),
        ("engines.tensorflow_child", "import tensorflow as tf", "inside of the function"),
        ("verbs.run", "def f():\n    import pandas", "pandas is no dependency"),
    ],
)
def test_wrong_imports_are_found(module: str, line: str, words: str) -> None:
    """The checker itself: each of these would break a rule."""
    complaints = [what for found in imports_of(module, line) if (what := complaint(found)) is not None]
    assert words in complaints[-1]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("ir.node", "from tfsmith.storage import Span"),
        ("ir.node", "from tfsmith.errors import TfsmithError\nimport os.path"),
        ("formats.nodes", "from tfsmith.wire import fields\nfrom tfsmith.ir.node import Node"),
        ("patterns.match", "from tfsmith.passes.prune import prune"),
        ("verbs.demo", "from tfsmith.testing.models import bert"),
        ("compat.old", "from tfsmith.cli.common import run\nfrom tfsmith import verbs"),
        ("ir.tensor", "if TYPE_CHECKING:\n    import numpy\ndef f():\n    import numpy"),
        ("storage", "import google_crc32c"),
        ("testing.models", "import numpy as np"),
        ("testing.models", "from tfsmith.formats.graph.nodes import x"),
    ],
)
def test_right_imports_are_left_alone(module: str, line: str) -> None:
    assert [complaint(found) for found in imports_of(module, line) if complaint(found)] == []
