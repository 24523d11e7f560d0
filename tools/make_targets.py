"""Writes tables of `src/tfsmith/passes/targets/`: which ops other programs import. Run it when there are new releases.

    python tools/make_targets.py openvino                 asks the installed OpenVINO, op by op
    python tools/make_targets.py flex                     asks the installed TensorFlow which ops run as select ops
    python tools/make_targets.py tflite                   asks the installed TensorFlow Lite converter, op by op
    python tools/make_targets.py tensorflow INDEX         reads the wheels of all releases at a package index

`INDEX` is the address of a simple index. Of each wheel only its table of contents and the files with op names are
fetched. The tables of MIGraphX and tf2onnx name their sources; they were taken by hand, and have names only.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import html
import io
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

FOLDER = Path(__file__).parents[1] / "src/tfsmith/passes/targets"
CALL = re.compile(r'(?:_apply_op_helper|apply_op)\(\s*"(\w+)"')
WHEEL = re.compile(r"tensorflow(?:_cpu)?-(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?-cp\d+-.*manylinux.*x86_64\.whl")
LINK = re.compile(r'<a[^>]*href="([^"]+)"[^>]*>([^<]+)</a>')
FLEX = "_ZN6tflite4flex19IsAllowlistedFlexOpERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
FLOAT, BLOCK = 1, 1 << 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("openvino", "flex", "tflite", "tensorflow"))
    parser.add_argument("index", nargs="?", help="a package index, for `tensorflow`")
    arguments = parser.parse_args()
    if arguments.table == "openvino":
        _write_openvino()
    elif arguments.table == "flex":
        _write_flex()
    elif arguments.table == "tflite":
        _write_tflite()
    else:
        _write_releases(arguments.index)


def _today() -> str:
    return datetime.date.today().isoformat()


def _table(name: str, header: dict[str, str], lines: list[str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in header.items()) + "\n" + "\n".join(lines) + "\n"
    (FOLDER / f"{name}.txt").write_text(text)
    print(f"{name}: {len(text)} bytes")


def wrap(words: list[str], mark: str = "") -> list[str]:
    """Words on lines of at most 120 characters, each line with a mark before it."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < 120:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{mark}{word}")
    return lines


# OpenVINO: a graph of one node tells whether its op has a translator, whatever else is wrong with the node.


def _write_openvino() -> None:
    import openvino
    from openvino.frontend import FrontEndManager

    from tfsmith.ir.opdef import builtin_ops

    frontend = FrontEndManager().load_by_framework("tf")
    known = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.pb"
        for op in builtin_ops():
            path.write_bytes(_probe(op))
            if _is_translated(frontend, str(path)):
                known.append(op)
    version = openvino.__version__.partition("-")[0]
    header = {
        "title": "OpenVINO",
        "version": version,
        "source": f"OpenVINO {version}, its TensorFlow frontend asked op by op (tools/make_targets.py)",
        "date": _today(),
        "reads": "any",
        "calls": "yes",
        "known_by": "ops",
    }
    _table("openvino", header, wrap(known))


def _is_translated(frontend: Any, path: str) -> bool:
    """Ops such as Switch become others only together with what is around them: those it leaves as nodes of its own."""
    try:
        frontend.convert(frontend.load(path))
    except Exception as error:
        if "no conversion rule" not in str(error).lower():
            return True
        left = frontend.convert_partially(frontend.load(path)).get_ops()
        return all(node.get_type_name() != "TFFrameworkNode" for node in left)
    return True


def _probe(op: str) -> bytes:
    from tfsmith.ir.opdef import builtin_ops
    from tfsmith.wire import new

    definition = builtin_ops()[op]
    graph: Any = new("GraphDef")
    node = graph.node.add(name="probe", op=op)
    for attr in definition.attrs:
        if attr.default is None:
            _fill(node.attr[attr.name], attr.kind)
    for number, arg in enumerate(definition.inputs):
        fed = graph.node.add(name=f"in{number}", op="Placeholder")
        plain = arg.type is not None and arg.type.base.itemsize > 0
        fed.attr["dtype"].type = arg.type.base.number if arg.type is not None and plain else FLOAT
        fed.attr["shape"].shape.unknown_rank = True
        node.input.append(fed.name)
    return bytes(graph.SerializeToString())


def _fill(value: Any, kind: str) -> None:
    if kind == "type":
        value.type = FLOAT
    elif kind in ("int", "float", "bool", "string"):
        setattr(value, kind[0], {"int": 1, "float": 1.0, "bool": False, "string": b""}[kind])
    elif kind == "shape":
        value.shape.dim.add(size=1)
    elif kind == "tensor":
        value.tensor.dtype = FLOAT
    elif kind == "list(type)":
        value.list.type.append(FLOAT)
    elif kind == "list(int)":
        value.list.i.append(1)
    else:
        value.list.SetInParent()


# TensorFlow Lite: its library says which ops it runs with TensorFlow's own kernels.


class _String(ctypes.Structure):
    """A std::string of libstdc++."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("local", ctypes.c_char * 16))


def _write_flex() -> None:
    import tensorflow as tf

    from tfsmith.ir.opdef import builtin_ops

    library = ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    is_allowed = getattr(library, FLEX)
    is_allowed.restype = ctypes.c_bool
    known = [op for op in builtin_ops() if is_allowed(ctypes.byref(_String(op.encode(), len(op), b"")))]
    header = {
        "title": "select TensorFlow ops (Flex)",
        "version": str(tf.__version__),
        "source": f"TensorFlow {tf.__version__}, asked op by op (tools/make_targets.py)",
        "date": _today(),
    }
    _table("flex", header, wrap(known))


TFLITE_SOURCE = "its converter asked op by op (tools/make_targets.py); ops that are in no graph alone, by its patterns"
CHUNK = 60


def _write_tflite() -> None:
    """Adds what converts to what the converter's patterns name; those are in the table, and stay."""
    import tensorflow as tf

    from tfsmith.ir.opdef import builtin_ops

    head, _, body = (FOLDER / "tflite.txt").read_text().partition("\n\n")
    header = dict(line.split(": ", 1) for line in head.splitlines())
    release = ".".join(tf.__version__.split(".")[:2])
    header |= {"version": release, "source": f"TensorFlow {tf.__version__}, {TFLITE_SOURCE}", "date": _today()}
    known = set(body.split())
    ops = [op for op, definition in builtin_ops().items() if definition.outputs and op not in known]
    known |= {words[0] for words in _asked(ops) if words[1:] == ["yes"]}
    _table("tflite", header, wrap(sorted(known)))
    source = f"TensorFlow {tf.__version__}, its converter asked with the conformance cases (tools/make_targets.py)"
    _table("tflite_types", {"source": source, "date": _today()}, list(_type_lines(sorted(known))))


def _type_lines(ops: list[str]) -> Iterator[str]:
    """A line for each op that was tried with types: those that convert, a bar, those that do not."""
    found: dict[str, dict[bool, list[str]]] = {}
    for words in _asked(ops, "--types"):
        op, types = words[:2]
        found.setdefault(op, {True: [], False: []})[words[2:] == ["yes"]].append(types)
    for op, tried in found.items():
        if tried[True]:  # what converts with no types at all is only there as part of something: its name is known
            yield " ".join((op, *sorted(tried[True]), "|", *sorted(tried[False])))


def _asked(ops: list[str], *options: str) -> Iterator[list[str]]:
    """What the converter says of ops; in processes of their own, for it may die of one."""
    tool = Path(__file__).with_name("tflite_ops.py")
    while ops:
        command = [sys.executable, str(tool), *options, *ops[:CHUNK]]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        answers = [line.split() for line in done.stdout.splitlines()]
        yield from answers
        reached = answers[-1][0] if answers else ops[0]
        last = reached if done.returncode else ops[:CHUNK][-1]
        ops = ops[ops.index(last) + 1 :]


# TensorFlow: each wheel has the Python functions of its ops.


class _Remote(io.RawIOBase):
    """A file at an address, of which only the parts that are read are fetched."""

    def __init__(self, url: str) -> None:
        self._url, self._at, self._blocks = url, 0, dict[int, bytes]()
        self._size = int(self._get("bytes=-1")[1].rpartition("/")[2])

    def _get(self, wanted: str) -> tuple[bytes, str]:
        request = urllib.request.Request(self._url, headers={"Range": wanted})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read(), str(answer.headers["Content-Range"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        size = min(self._size - self._at, self._size if size < 0 else size)
        out = b""
        while len(out) < size:
            number, start = divmod(self._at, BLOCK)
            if number not in self._blocks:
                last = min(self._size, (number + 1) * BLOCK) - 1
                self._blocks[number] = self._get(f"bytes={number * BLOCK}-{last}")[0]
            piece = self._blocks[number][start : start + size - len(out)]
            out += piece
            self._at += len(piece)
        return out


def _write_releases(index: str) -> None:
    lines: list[str] = []
    before: set[str] = set()
    seen: dict[str, set[str]] = {}
    for release, url in _wheels(index):
        version, ops = _ops_of(url)
        lines.append(f"release {release} {version}")
        lines += wrap(sorted(set(ops) - before), "+ ") + wrap(sorted(before - set(ops)), "- ")
        new = {op: attrs - seen[op] for op, attrs in ops.items() if op in seen}
        lines += wrap(
            sorted(f"{op}.{attr}" for op, attrs in new.items() for attr in _optional(op, attrs, release)), "@ "
        )
        for op, attrs in ops.items():
            seen.setdefault(op, set()).update(attrs)
        before = set(ops)
        print(release, version, len(ops))
    header = {
        "title": "TensorFlow",
        "source": "the Python functions of ops, and TF_GRAPH_DEF_VERSION, in the first wheel of each release",
        "date": _today(),
        "reads": "any",
        "calls": "yes",
        "ignores_attributes_since": "2.5",  # where its library began to say "will be ignored"
        "known_by": "attributes",
    }
    _table("tensorflow", header, lines)


def _optional(op: str, attrs: set[str], release: str) -> Iterator[str]:
    """Those of them that have a default: others were there from the first day, and only now come to sight."""
    from tfsmith.ir.opdef import builtin_ops

    definition = builtin_ops().get(op)
    for attr in () if definition is None else definition.attrs:
        is_hidden = release in ("1.4", "2.1") and attr.kind == "type"  # these began to name types
        if attr.name in attrs and attr.default is not None and not is_hidden:
            yield attr.name


def _wheels(index: str) -> list[tuple[str, str]]:
    found: dict[tuple[int, int], tuple[int, str, str]] = {}
    for package in ("tensorflow", "tensorflow-cpu"):
        page = f"{index.rstrip('/')}/{package}/"
        with urllib.request.urlopen(page, timeout=60) as answer:
            links = LINK.findall(answer.read().decode())
        for href, name in links:
            match = WHEEL.fullmatch(name.strip())
            if match is not None and int(match[1]):
                entry = (int(match[3]), name.strip(), urljoin(page, html.unescape(href)).partition("#")[0])
                key = (int(match[1]), int(match[2]))
                found[key] = min(entry, found.get(key, entry))
    return [(f"{major}.{minor}", found[major, minor][2]) for major, minor in sorted(found)]


def _ops_of(url: str) -> tuple[int, dict[str, set[str]]]:
    """The graph version of a release, and its ops with what their Python functions take."""
    ops: dict[str, set[str]] = {}
    version = 0
    with zipfile.ZipFile(_Remote(url)) as wheel:  # type: ignore[arg-type, unused-ignore]
        for name in wheel.namelist():
            if name.endswith("core/public/version.h"):
                text = wheel.read(name).decode()
                version = int((re.search(r"#define TF_GRAPH_DEF_VERSION (\d+)", text) or ["", "0"])[1])
            elif re.search(r"/gen_\w+\.py$", name) and "/contrib/" not in name:
                _collect(wheel.read(name).decode(), ops)
    return version, ops


def _collect(text: str, ops: dict[str, set[str]]) -> None:
    calls = list(CALL.finditer(text))
    ends = [*(call.start() for call in calls[1:]), len(text)]
    for call, end in zip(calls, ends):  # noqa: B905 - a file without calls has an end all the same
        body = text[call.start() : min(call.start() + 6000, end)]
        words = set(re.findall(r"\b(\w+)=\1\b", body.partition("\n  _result")[0]))
        ops.setdefault(call[1], set()).update(words, re.findall(r'"(\w+)",\s*_op\._?get_attr', body))


if __name__ == "__main__":
    main()
