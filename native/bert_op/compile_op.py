"""Compiles and links the op for the TensorFlow that is installed. Needs nothing but the standard library."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["LIBRARY", "ONEDNN", "BuildError", "Options", "compile_op", "find_compiler"]

LIBRARY = "libtfsmith_bert_op.so"
SOURCES = Path(__file__).resolve().parent / "src"
COMPILERS = ("g++", "c++", "clang++")
ONEDNN = ("onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0")
"""The packages that pyproject.toml asks for too: the library, and its headers."""
MOST_JOBS = 4  # a file that includes TensorFlow's headers takes 650 MB to compile
FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",  # sums of integers become floats in their place
    "-fopenmp-simd",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
)
# Not those of null pointers: with them, GCC does not take constants of TensorFlow's headers for constants.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute")
# Nothing of ours, or of a template of the standard library, is for others: TensorFlow has a oneDNN of its own.
EXPORTS = "{ local: *; };\n"
ASK_TENSORFLOW = """
import json, tensorflow as tf
flags = {"compile": tf.sysconfig.get_compile_flags(), "link": tf.sysconfig.get_link_flags(), "version": tf.__version__}
print("\\n" + json.dumps(flags))
"""


class BuildError(Exception):
    """Why the op cannot be built, in one line, with the remedy."""


@dataclass(frozen=True)
class Options:
    """What kind of build it is. The defaults are what users get.

    Attributes:
        portable: Without oneDNN and without AMX, as on a CPU that has neither.
        sanitize: With AddressSanitizer and UndefinedBehaviorSanitizer.
    """

    portable: bool = False
    sanitize: bool = False


def compile_op(folder: Path, objects: Path, options: Options) -> list[Path]:
    """Puts the library, and what it needs, into a folder. Takes half a minute on two cores.

    Args:
        folder: Where to put it.
        objects: Where to keep what is compiled; what is there and still fits is not compiled again.
        options: What kind of build it is.

    Raises:
        BuildError: There is no compiler or no TensorFlow, or compiling failed.
    """
    if sys.platform != "linux":
        raise BuildError(f"the op is built on Linux only, and this is {sys.platform}")
    compiler = find_compiler()
    tensorflow = _ask_tensorflow()
    onednn = None if options.portable else _find_onednn()
    folder.mkdir(parents=True, exist_ok=True)
    objects.mkdir(parents=True, exist_ok=True)
    made = [] if onednn is None else onednn.copy(folder)
    flags = [*_flags(options), *(f"-isystem{flag[2:]}" if flag[:2] == "-I" else flag for flag in tensorflow["compile"])]
    compiling = _Compiling(compiler, flags, onednn, _hash_common(compiler, flags, tensorflow), objects)
    compiled = _compile_all(compiling, _sources(options, onednn))
    made.append(_link(compiler, compiled, tensorflow["link"], folder, options, with_onednn=onednn is not None))
    built = folder / "built.json"
    built.write_text(json.dumps({"tensorflow": tensorflow["version"], "onednn": onednn and onednn.version}) + "\n")
    return [*made, built]


def find_compiler() -> list[str]:
    """The command of a C++ compiler: what CXX says, or the first that is there.

    Raises:
        BuildError: There is none.
    """
    wanted = os.environ.get("CXX")
    if wanted:
        command = shlex.split(wanted)
        if command and shutil.which(command[0]):
            return command
        raise BuildError(f"the C++ compiler that CXX names, {wanted}, is not there: set CXX to one that is")
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise BuildError("a C++17 compiler is needed and none was found: install g++ (Debian: apt install g++), or set CXX")


def _ask_tensorflow() -> dict[str, Any]:
    """The flags of the TensorFlow of this environment. Imports it in another process.

    A build frontend hides the environment behind PYTHONPATH, which -E takes no notice of.
    """
    command = [sys.executable, "-E", "-c", ASK_TENSORFLOW]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, env=_quiet())
    if asked.returncode != 0:
        raise BuildError(
            "TensorFlow is needed and cannot be imported here: pip install tensorflow first; "
            "if it is there, pip install --no-build-isolation"
        )
    flags: dict[str, Any] = json.loads(asked.stdout.strip().splitlines()[-1])
    return flags


def _quiet() -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class _Onednn:
    """The packages of oneDNN."""

    include: Path
    library: Path
    licenses: tuple[Path, ...]
    version: str

    def copy(self, folder: Path) -> list[Path]:
        """Copies the library, and what its license asks to go with it."""
        pairs = [(self.library, self.library.name)]
        pairs += [(path, f"onednn-{path.name}") for path in self.licenses]
        for source, name in pairs:
            shutil.copyfile(source, folder / name)
        return [folder / name for _, name in pairs]


def _find_onednn() -> _Onednn | None:
    """None on CPUs that there is no package for."""
    if platform.machine() != "x86_64":
        return None
    files = [Path(str(file.locate())).resolve() for package in ONEDNN for file in _files_of(package.partition("==")[0])]
    files = [path for path in files if path.is_file()]  # some ways to install them lose what is not Python
    headers = [path for path in files if path.name == "dnnl.hpp" and path.parent.name == "dnnl"]
    libraries = [path for path in files if path.name == "libdnnl.so.3"]
    if not headers or not libraries:
        raise BuildError(f"oneDNN is needed: pip install {' '.join(ONEDNN)}")
    licenses = [path for path in files if path.parent.name == "onednn" and path.name != "README"]
    unique = {path.name: path for path in licenses}
    include = headers[0].parents[2]
    return _Onednn(include, libraries[0], tuple(unique.values()), metadata.version("onednn-cpu-gomp"))


def _files_of(name: str) -> list[metadata.PackagePath]:
    try:
        return metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return []


def _sources(options: Options, onednn: _Onednn | None) -> list[Path]:
    with_amx = platform.machine() == "x86_64" and not options.portable
    others = {
        "amx_none.cc" if with_amx else "amx.cc",
        "products_onednn.cc" if onednn is None else "products_portable.cc",
    }
    return [path for path in sorted(SOURCES.glob("*.cc")) if path.name not in others]


def _flags(options: Options) -> list[str]:
    if not options.sanitize:
        return [*FLAGS, "-O3"]
    return [*FLAGS, "-O1", "-g", "-fno-omit-frame-pointer", *SANITIZERS, "-DTFSMITH_NO_CLONES"]


@dataclass(frozen=True)
class _Compiling:
    """How sources are compiled.

    Attributes:
        compiler: Its command.
        flags: Those of all sources.
        onednn: For the source that includes its header.
        common: A hash of all that any object depends on.
        objects: Where objects go.
    """

    compiler: list[str]
    flags: list[str]
    onednn: _Onednn | None
    common: bytes
    objects: Path

    def compile(self, source: Path) -> Path:
        """The object of a source; compiled, unless it is there."""
        digest = hashlib.sha256(self.common + source.read_bytes()).hexdigest()
        target = self.objects / f"{source.stem}-{digest[:16]}.o"
        if target.is_file():
            return target
        flags = list(self.flags)
        if self.onednn is not None and source.name == "products_onednn.cc":
            flags.append(f"-isystem{self.onednn.include}")
        made = target.with_suffix(f".{os.getpid()}.part")
        _run([*self.compiler, *flags, "-c", str(source), "-o", str(made)])
        return made.rename(target)


def _hash_common(compiler: list[str], flags: list[str], tensorflow: dict[str, Any]) -> bytes:
    digest = hashlib.sha256(f"{flags} {tensorflow['version']} {ONEDNN}".encode())
    digest.update(subprocess.run([*compiler, "--version"], capture_output=True, check=False).stdout)
    for header in sorted(SOURCES.glob("*.h")):
        digest.update(header.read_bytes())
    return digest.digest()


def _compile_all(compiling: _Compiling, sources: list[Path]) -> list[Path]:
    """The objects, in the order of the sources. The largest source goes first: no core shall wait for it at the end."""
    jobs = min(MOST_JOBS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(jobs) as pool:
        ordered = sorted(sources, key=lambda source: -source.stat().st_size)
        made = {source: pool.submit(compiling.compile, source) for source in ordered}
        try:
            return [made[source].result() for source in sources]
        except BuildError:
            pool.shutdown(cancel_futures=True)
            raise


def _link(
    compiler: list[str], objects: list[Path], flags: list[str], folder: Path, options: Options, *, with_onednn: bool
) -> Path:
    target = folder / LIBRARY
    exports = objects[0].with_name("exports.map")
    exports.write_text(EXPORTS)
    command = [*compiler, "-shared", "-o", str(target), *map(str, objects), *flags, "-Wl,-z,defs"]
    if options.sanitize:
        command = [*command, *SANITIZERS, "-Wl,-z,undefs"]
    else:
        command.append(f"-Wl,--version-script={exports}")
    if with_onednn:
        # An RPATH, not a RUNPATH: somebody's LD_LIBRARY_PATH must not bring another oneDNN.
        rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN"
        command += [f"-L{folder}", "-l:libdnnl.so.3", "-lgomp", rpath]
    _run(command)
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        sys.stderr.write(done.stderr)  # warnings
        return
    errors = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()[-1:]
    what = Path(command[-3]).name if command[-4] == "-c" else "the library"
    raise BuildError(f"{command[0]} could not make {what}: {errors[0] if errors else 'it said nothing'}")
