"""Errors are one line under 300 characters, however long the names in them are."""

from __future__ import annotations

import pytest
from tests.support.convert_models import small

from tfsmith.errors import LONGEST, TfsmithError, UsageError, shortened
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.passes.interface import choose_outputs, make_signatures

LONG = "scope/" * 100 + "name"


@pytest.mark.parametrize("path", [None, "model.pb", f"/data/{LONG}.pb"])
@pytest.mark.parametrize("where", [None, "node 'a'", f"node {LONG!r}"])
@pytest.mark.parametrize("what", ["it is wrong", f"it takes {LONG!r}, which is not there"])
@pytest.mark.parametrize("remedy", [None, "write it again", f"the nearest names are {LONG}, {LONG}"])
def test_an_error_is_one_short_line_and_keeps_its_parts(
    path: str | None, where: str | None, what: str, remedy: str | None
) -> None:
    error = TfsmithError(what, path=path, offset=12345, where=where, remedy=remedy)
    assert len(str(error)) <= LONGEST < 300
    assert (error.what, error.path, error.where, error.remedy) == (what, path, where, remedy)
    short = [part for part in (path, where, what, remedy) if part is not None and len(part) < 30]
    assert all(part in str(error) for part in short)
    assert str(error.at(f"/other/{LONG}"))[-20:] == str(error)[-20:]
    assert len(str(error)) <= LONGEST


def test_the_middle_of_the_longest_part_goes_first() -> None:
    error = TfsmithError("it is wrong", where=f"node {LONG!r}", remedy="write it again from its source")
    assert str(error).startswith("node 'scope/scope/")
    assert str(error).endswith("scope/name': it is wrong; write it again from its source")
    assert " [...] " in str(error)


def test_lists_in_errors_are_short() -> None:
    assert shortened(["a", "b"]) == "a, b"
    assert shortened([f"name_{number}" for number in range(50)], 30) == "name_0, name_1, name_2, name_3 and 46 more"
    assert shortened([LONG, "b"]) == f"{LONG} and 1 more"


def test_candidates_for_outputs_are_few() -> None:
    model = small()
    kind = {"T": model.graph["x"].get("dtype")}
    ends = [Node(f"{'layer/' * 8}end_{number}", "Relu", ("x",), kind) for number in range(9)]
    unclear = model.replace_graph(Graph((*model.graph.nodes, *ends)))
    with pytest.raises(UsageError, match=r"likely are: y:0 \(nothing .* and \d more$") as caught:
        choose_outputs(unclear, None, None)
    assert len(str(caught.value)) < 300
    with pytest.raises(UsageError, match=r"likely outputs are: y:0 \(nothing .* and \d more$") as caught:
        make_signatures(unclear, unclear.graph, {}, guess=True)
    assert len(str(caught.value)) < 300


def test_names_with_line_breaks_stay_on_one_line() -> None:
    error = TfsmithError("op 'a\nb' is unknown", path="x\ny", where="node '\x1b[31m'", remedy="leave it out")
    assert str(error) == r"x\ny, node '\x1b[31m': op 'a\nb' is unknown; leave it out"
