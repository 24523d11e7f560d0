"""Builds of the op, made once and kept in pytest's cache until a source changes."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

__all__ = ["LOG", "NATIVE", "Kind", "build", "compile_op", "install", "require_compiler"]

NATIVE = Path(__file__).resolve().parents[2] / "native" / "bert_op"
LOG = "pip.log"
"""What pip said, beside the package."""
Kind = Literal["package", "portable", "sanitized", "sanitized-portable"]


def compile_op() -> ModuleType:
    """The module of that name beside setup.py."""
    if "compile_op" in sys.modules:
        return sys.modules["compile_op"]
    spec = importlib.util.spec_from_file_location("compile_op", NATIVE / "compile_op.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_op"] = module  # its dataclasses look it up there
    spec.loader.exec_module(module)
    return module


def require_compiler() -> None:
    """Skips where there is no C++ compiler."""
    module = compile_op()
    try:
        module.find_compiler()
    except module.BuildError as error:
        pytest.skip(str(error))


def build(config: pytest.Config, kind: Kind) -> Path:
    """The library of such a build. The first takes half a minute; others share with it what they can."""
    require_compiler()
    assert config.cache is not None
    root = config.cache.mkdir("bert_op")
    with _locked(root / "lock"):
        objects = root / "objects"
        current = root / _fingerprint()
        for old in root.iterdir():
            if old.is_dir() and old not in (current, objects):
                shutil.rmtree(old)
        current.mkdir(exist_ok=True)
        objects.mkdir(exist_ok=True)
        done = current / kind
        if not done.is_dir():
            made = current / "making"
            shutil.rmtree(made, ignore_errors=True)  # what is left of a build that failed
            made.mkdir()
            _make(kind, made, objects)
            made.rename(done)
    (library,) = done.rglob(compile_op().LIBRARY)
    return library


def _make(kind: Kind, folder: Path, objects: Path) -> None:
    if kind == "package":
        done = install(folder, objects)
        _check(done)
        (folder / LOG).write_text(done.stdout + done.stderr)
        return
    module = compile_op()
    options = module.Options(portable="portable" in kind, sanitize="sanitized" in kind)
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        if not options.portable:
            _check(_pip("--ignore-installed", "--prefix", scratch, *module.ONEDNN))
            patch.syspath_prepend(next(Path(scratch).rglob("onednn_cpu_gomp-*.dist-info")).parent)
        module.compile_op(folder, objects, options)


def install(folder: Path, objects: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs pip install as a user does.

    Args:
        folder: Where to install.
        objects: Where to keep what is compiled, if not beside the sources.
    """
    # From a copy, since setuptools leaves files behind.
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "bert_op"
        shutil.copytree(NATIVE, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so*", "built.json"))
        if objects is not None:
            (copy / "setup.cfg").write_text(f"[build]\nbuild_temp = {objects}\n")
        return _pip("--verbose", "--target", str(folder), str(copy))


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _check(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        pytest.fail(f"pip install failed:\n{done.stdout}\n{done.stderr}")


def _fingerprint() -> str:
    """Of all that goes into a build."""
    digest = hashlib.sha256()
    for path in sorted(NATIVE.rglob("*")):
        if path.suffix in (".cc", ".h", ".py", ".toml", ".in") and "build" not in path.parts:
            digest.update(path.name.encode() + path.read_bytes())
    digest.update(f"{os.environ.get('CXX')} {sys.version}".encode())
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            digest.update(metadata.version(name).encode())
        except metadata.PackageNotFoundError:
            continue
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two workers must not both build."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
