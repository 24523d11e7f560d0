"""Short cuts that save time: each gives what the long way gives."""

from __future__ import annotations

import gc
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tfsmith import storage as span_module
from tfsmith.cli.common import DONE, run
from tfsmith.errors import InvalidModelError
from tfsmith.formats.graph import nodes as nodes_module
from tfsmith.formats.graph.graphdef import OpFinder, plan_graph, read_graph
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Saver
from tfsmith.ir.node import Func, Node
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.tensor import ArrayTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.prune import clean_colocation, prune_library
from tfsmith.passes.variables import CheckpointSlice, restore_sources
from tfsmith.storage import FileSink, FileSource, Span, from_bytes, open_file, release_pages
from tfsmith.wire import WritePlan

FLOAT, STRING = dtype_named("float32"), dtype_named("string")
DATA = bytes(range(256)) * 4096


def from_file(graph: Graph) -> Graph:
    """The graph as it is after a trip through a file."""
    plan = plan_graph(graph)
    return read_graph(plan if isinstance(plan, Span) else from_bytes(plan.tobytes()))


# --- passes ---


@pytest.mark.parametrize("padding", [0, 5000])
def test_wishes_for_a_place_are_found(padding: int) -> None:
    """In nodes of any size, edited or not; a node without such a wish has none."""
    weights = {"value": ArrayTensor.of([1.0] * padding)} if padding else {}
    graph = from_file(
        Graph(
            (
                Node("a", "Const", (), {"dtype": FLOAT, **weights}),
                Node("b", "Const", (), {"dtype": FLOAT, "_class": ["loc:@a", "other", "loc:@gone"], **weights}),
                Node("loc:@a", "Const", (), {"dtype": FLOAT, "note": "loc:@a"}),
            )
        )
    )
    assert [node.colocated for node in graph] == [(), ("a", "gone"), ()]
    edited = graph["a"].replace(attrs={"_class": ["loc:@b"]})
    assert edited.colocated == ("b",)
    assert edited.replace(name="c").colocated == ("b",)
    assert graph["b"].replace(attrs={"_class": None}).colocated == ()
    assert graph["b"].replace(name="c", attrs={"note": "loc:@x"}).colocated == ("a", "gone")
    assert graph["a"].replace(name="c", attrs={"note": "loc:@x"}).colocated == ()
    assert clean_colocation(graph)["b"].get("_class") == (b"loc:@a",)


def _function(name: str, nodes: tuple[Node, ...] = ()) -> Function:
    return Function(name, Part.of(FunctionParts(OpDef(name), nodes, {})))


@pytest.mark.parametrize(
    ("node", "kept"),
    [
        (Node("call", "used"), {"used", "inner"}),
        (Node("call", "PartitionedCall", (), {"f": Func("used", {})}), {"used", "inner"}),
        (Node("call", "Case", ("x",), {"branches": [Func("unused", {}), Func("inner", {})]}), {"unused", "inner"}),
        (Node("call", "OpThatNobodyKnows", (), {"what": Func("inner", {})}), {"inner"}),
        (Node("call", "Identity", ("x",), {"T": FLOAT}), set()),
    ],
)
def test_functions_that_are_called_stay(node: Node, kept: set[str]) -> None:
    inner = Node("inner_call", "StatefulPartitionedCall", (), {"f": Func("inner", {})})
    functions = {"used": _function("used", (inner,)), "unused": _function("unused"), "inner": _function("inner")}
    ops = OpFinder(dict, functions)
    graph = Graph((Node("x", "Placeholder", (), {"dtype": FLOAT}), node), library=Library(functions), ops=ops)
    assert set(prune_library(graph).library) == kept


def _restoring(names: Tensor, output: int) -> MetaGraph:
    nodes = (
        Node("v", "VariableV2", (), {"dtype": FLOAT, "shape": Shape((2,))}),
        Node("file", "Const", (), {"dtype": STRING, "value": StringTensor(Shape(()), [b"model"])}),
        Node("names", "Const", (), {"dtype": names.dtype, "value": names}),
        Node("slices", "Const", (), {"dtype": STRING, "value": StringTensor(Shape((9,)), [])}),
        Node("restore", "RestoreV2", ("file", "names", "slices"), {"dtypes": [FLOAT] * 9}),
        Node("assign", "Assign", ("v", f"restore:{output}"), {"T": FLOAT}),
        Node("all", "NoOp", ("^assign",)),
    )
    return MetaGraph(Part.of(Graph(nodes)), saver_part=Part.of(Saver(restore_op_name="all")))


@pytest.mark.parametrize(("output", "key"), [(0, "first"), (1, "last"), (8, "last")])
def test_the_last_name_repeats(output: int, key: str) -> None:
    """As everywhere in a TensorProto; and no strings at all mean empty ones, as here in the slices."""
    names = StringTensor(Shape((9,)), [b"first", b"last"])
    assert restore_sources(_restoring(names, output)) == {"v": CheckpointSlice(key, "")}


@pytest.mark.parametrize(
    ("names", "output"),
    [
        (StringTensor(Shape((2,)), [b"first", b"last"]), 2),
        (StringTensor(Shape((1,)), [b"\xff"]), 0),
        (StringTensor(Shape((0,)), []), 0),
        (ArrayTensor.of([1.0, 2.0], FLOAT), 0),
    ],
)
def test_names_that_cannot_be(names: Tensor, output: int) -> None:
    with pytest.raises(InvalidModelError, match="restore"):
        restore_sources(_restoring(names, output))


# --- reading large files ---


def test_pieces_of_a_large_file_are_what_its_mapping_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_module, "_SMALL_FILE", 0)
    (tmp_path / "data").write_bytes(DATA)
    whole = open_file(tmp_path / "data")
    for start, stop in (
        (0, 0),
        (5, 10),
        (100_000, 362_144),
        (100_000, 362_145),
        (0, len(DATA)),
        (len(DATA), len(DATA)),
    ):
        assert Span(whole.source, start, stop).tobytes() == DATA[start:stop]
        assert Span(from_bytes(DATA).source, start, stop).tobytes() == DATA[start:stop]


def test_pages_that_were_looked_at_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And reading goes on as if nothing had been: names, attributes, values, views that somebody holds."""
    values = [float(number) for number in range(3000)]
    nodes = tuple(Node(f"n{number}", "Const", (), {"value": ArrayTensor.of(values)}) for number in range(20))
    plan = plan_graph(Graph(nodes))
    (tmp_path / "graph.pb").write_bytes(plan.tobytes())
    released: list[FileSource] = []
    real = FileSource.release_pages

    def release(source: FileSource) -> None:
        released.append(source)
        real(source)

    monkeypatch.setattr(FileSource, "release_pages", release)
    monkeypatch.setattr(nodes_module, "_TOUCHED", 1 << 16)
    graph = read_graph(open_file(tmp_path / "graph.pb"))
    found = len(released)
    assert found > 4
    arrays = [node.get("value").numpy() for node in graph]
    assert len(released) > found
    assert [node.name for node in graph] == [node.name for node in nodes]
    assert all(array.tolist() == values for array in arrays)


def test_nothing_to_let_go_of(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    release_pages(open_file(tmp_path / "empty"))
    release_pages(from_bytes(DATA))


# --- writing ---


def test_a_plan_takes_in_another_as_it_takes_in_its_parts() -> None:
    source = from_bytes(DATA)
    parts: list[bytes | Span] = [
        Span(source.source, 10, 20),
        Span(source.source, 20, 30),
        b"x",
        Span(source.source, 5, 9),
    ]
    for count in range(len(parts) + 1):
        one_by_one, at_once, other = WritePlan(), WritePlan(), WritePlan()
        for plan in (one_by_one, at_once):
            plan.add(Span(source.source, 0, 10))
        for part in parts[:count]:
            one_by_one.add(part)
            other.add(part)
        at_once.extend(other)
        assert at_once.tobytes() == one_by_one.tobytes()
        assert at_once.size == one_by_one.size == len(at_once.tobytes())
        assert len(list(at_once.parts())) == len(list(one_by_one.parts()))


@pytest.mark.parametrize("refused", [False, True])
def test_the_disk_is_told_to_begin_early(tmp_path: Path, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was written is told of once, in order; what the system thinks of it changes nothing."""
    told: list[tuple[int, int]] = []

    def advise(descriptor: int, start: int, length: int, advice: int) -> None:
        told.append((start, start + length))
        if refused:
            raise OSError("no advice wanted")

    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    monkeypatch.setattr(FileSink, "_PUSH", 300_000)
    monkeypatch.setattr(span_module, "_SMALL_FILE", 0)
    (tmp_path / "data").write_bytes(DATA)
    with FileSink(tmp_path / "out") as sink:
        for _ in range(400):
            sink.write(b"x" * 1000)
        sink.write_span(open_file(tmp_path / "data"))
    assert (tmp_path / "out").read_bytes() == b"x" * 400_000 + DATA
    assert len(told) > 3
    assert told[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(told))
    assert told[-1][1] > 400_000 + len(DATA) - 300_000


def test_no_advice_where_there_is_none_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    monkeypatch.setattr(FileSink, "_PUSH", 1000)
    with FileSink(tmp_path / "out") as sink:
        sink.write(DATA)
    assert (tmp_path / "out").read_bytes() == DATA


# --- the command line ---


def test_a_verb_leaves_python_as_it_was() -> None:
    usual = gc.get_threshold()
    seen: list[tuple[int, int, int]] = []

    def work() -> int:
        seen.append(gc.get_threshold())
        return DONE

    assert run(work) == DONE
    assert seen != [usual]
    assert gc.get_threshold() == usual

    def fail() -> int:
        raise InvalidModelError("it is broken")

    assert run(fail) != DONE
    assert gc.get_threshold() == usual
