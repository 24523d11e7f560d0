"""How the op is built, what is said if it cannot be, and the builds that users do not have."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.native.builds import LOG, NATIVE, Kind, build, compile_op, install, require_compiler

NUMBERS = ["test_bert_op_numbers.py", "test_bert_op_errors.py", "test_bert_op_quantized.py"]


def _load(folder: Path) -> ModuleType:
    """The package of that folder, under another name."""
    spec = importlib.util.spec_from_file_location("bert_op_under_test", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = compile_op()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(module.BuildError, match=r"^a C\+\+17 compiler is needed and none was found: install g\+\+.*$"):
        module.compile_op(tmp_path, tmp_path, module.Options())
    monkeypatch.setenv("CXX", "none++ -v")
    with pytest.raises(module.BuildError, match=r"that CXX names, none\+\+ -v, is not there"):
        module.find_compiler()


def test_no_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_compiler()
    module = compile_op()
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 'No module named tensorflow' >&2\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))
    with pytest.raises(module.BuildError, match=r"^TensorFlow is needed and cannot be imported here: pip install.*$"):
        module.compile_op(tmp_path, tmp_path, module.Options())


def test_the_packages_of_onednn_are_those_of_the_build() -> None:
    text = (NATIVE / "pyproject.toml").read_text()
    for package in compile_op().ONEDNN:
        assert f'"{package}; ' in text


def test_no_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = compile_op()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(module.BuildError, match="on Linux only, and this is win32"):
        module.compile_op(tmp_path, tmp_path, module.Options())


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = compile_op()
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'x.cc:1: error: no such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    flags = {"compile": ["-Inone"], "link": [], "version": "2.21.0"}
    monkeypatch.setattr(module, "_ask_tensorflow", lambda: flags)
    with pytest.raises(module.BuildError, match=r"broken could not make amx_none\.cc: x\.cc:1: error: no such thing"):
        module.compile_op(tmp_path / "out", tmp_path / "objects", module.Options(portable=True))
    assert not list((tmp_path / "objects").iterdir())


@pytest.mark.tensorflow
def test_pip_passes_it_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "none++")
    done = install(tmp_path / "target")
    assert done.returncode == 1
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    assert "error: the C++ compiler that CXX names, none++, is not there: set CXX to one that is" in lines
    assert not any("Traceback" in line for line in lines)


@pytest.mark.tensorflow
def test_the_installed_package(request: pytest.FixtureRequest) -> None:
    library = build(request.config, "package")
    folder = library.parent
    module = _load(folder)
    assert module.library() == library
    logs = [folder.parent / LOG, Path(sys.prefix) / "op.log"]  # `make test` has compiled some of it before
    lines = [line for log in logs if log.is_file() for line in log.read_text().splitlines()]
    assert [line for line in lines if "warning:" in line and "/src/" in line] == []
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=False)
    assert symbols.stdout == ""  # nothing that could get in TensorFlow's way


def _package(folder: Path, tensorflow: str | None) -> ModuleType:
    """One that looks installed."""
    folder.mkdir()
    (folder / "__init__.py").write_text((NATIVE / "tfsmith_bert_op" / "__init__.py").read_text())
    if tensorflow is not None:
        (folder / "libtfsmith_bert_op.so").touch()
        (folder / "built.json").write_text(json.dumps({"tensorflow": tensorflow}))
    return _load(folder)


def test_a_library_that_is_missing(tmp_path: Path) -> None:
    module = _package(tmp_path / "op", None)
    with pytest.raises(module.LibraryError, match="is missing; reinstall it: pip install"):
        module.library()


def test_a_library_of_another_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = _package(tmp_path / "op", "2.16.1")
    monkeypatch.setattr(module, "_tensorflow", lambda: "2.17.0")
    with pytest.raises(module.LibraryError, match=r"built for TensorFlow 2\.16\.1, and this is 2\.17\.0; reinstall"):
        module.library()
    for fits in ("2.16.2", None):
        monkeypatch.setattr(module, "_tensorflow", lambda fits=fits: fits)
        assert module.library().name == "libtfsmith_bert_op.so"


def _run_tests(library: Path, preload: str | None = None) -> None:
    """The tests of numbers, in another process, with another library."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if preload is not None:
        # Python and TensorFlow leak by design; what must not be is wrong accesses.
        environment |= {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--bert-op", str(library)]
    command += [str(here / name) for name in NUMBERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert " passed" in done.stdout


@pytest.mark.tensorflow
@pytest.mark.slow
def test_the_portable_build(request: pytest.FixtureRequest) -> None:
    _run_tests(build(request.config, "portable"))


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", ["sanitized", "sanitized-portable"])
def test_under_sanitizers(request: pytest.FixtureRequest, kind: Kind) -> None:
    if not request.config.getoption("--sanitizers", False):
        pytest.skip("takes minutes: pytest tests/native --sanitizers runs it")
    library = build(request.config, kind)
    compiler = compile_op().find_compiler()
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    asked = [[*compiler, f"-print-file-name={name}"] for name in names]
    paths = [subprocess.run(one, capture_output=True, text=True, check=True).stdout.strip() for one in asked]
    _run_tests(library, " ".join(paths))
