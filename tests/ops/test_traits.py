"""What ops are and can do: every op of the database is classified, and nobody else keeps a list of op names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tests.support.helpers import python

from tfsmith import ops as families
from tfsmith.ir.opdef import OpDef, builtin_ops
from tfsmith.ops import ARITHMETIC
from tfsmith.ops.shapes import shape_functions
from tfsmith.ops.traits import _NOT, _TABLE, _VERSION, Trait, _tables, is_random, leaves_no_trace, traits
from tfsmith.ops.values import has_value, value_ops

SOURCE = Path(__file__).parents[2] / "src/tfsmith"
REMOVED = {"AutoReloadVariable", "RefLoopCond", "SwitchN", "Gather", "PlaceholderV2"}
"""Names that old files have, or forms that are made of others."""
# module -> why it may name three ops or more in one literal
EXCEPTIONS = {
    "ir/graph.py": "ir is below ops; these are the ops whose nodes are checked when a graph is",
    "ir/opdef.py": "ir is below ops; what commutes is asked by formats, too",
    "patterns/readings.py": "a table from op to the formula that it computes",
    "patterns/parts.py": "a table from op to the input that names its axis",
    "patterns/fold.py": "a table from op to the view that moves its elements",
    "passes/variables.py": "what stands between a restored value and its variable",
    "passes/variables_to_constants.py": "a table from op to what takes its place",
    "onnx/elementwise.py": "a table from op to what it is in ONNX",
    "onnx/reductions.py": "a table from op to what it is in ONNX",
    "onnx/arrays.py": "a table from op to what it is in ONNX",
    "onnx/recurrent.py": "ops of ONNX, of which a loop is made",
}


def test_every_stateful_op_is_classified() -> None:
    ops = builtin_ops()
    unknown = [op for op in ops if ops[op].is_stateful and not (traits(op) or Trait(0)) & ~Trait.COMMUTES]
    assert unknown == []


def test_every_op_that_takes_a_handle_is_classified() -> None:
    ops = builtin_ops()

    def takes_one(op: OpDef) -> bool:
        args = (*op.inputs, *op.outputs)
        return any(arg.is_ref or (arg.type is not None and arg.type.name == "resource") for arg in args)

    assert [op for op in ops if takes_one(ops[op]) and not traits(op)] == []


def test_nothing_in_the_tables_is_made_up() -> None:
    known = {*builtin_ops(), *(_VERSION.sub("", op) for op in builtin_ops()), *REMOVED}
    whole, globs = _tables()
    assert sorted(set(whole) - known) == []
    assert [glob for glob in globs if not any(fnmatchcase(op, glob) for op in known)] == []
    assert sorted(set(_NOT) - known) == []
    assert set(_TABLE) | {Trait.COMMUTES} == set(Trait)
    assert sorted(set(shape_functions()) - known) == []
    for name in families.__all__:
        family = getattr(families, name)
        assert name == "Call" or sorted(set(family) - known - {"Ref_SwitchN"}) == []


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("ReadFile", Trait.READS_FILES),
        ("WriteFile", Trait.WRITES_FILES),
        ("MatchingFiles", Trait.LISTS_FILES),
        ("SaveV2", Trait.SAVER | Trait.WRITES_FILES),
        ("RestoreV2", Trait.SAVER | Trait.READS_FILES),
        ("PyFunc", Trait.RUNS_CODE),
        ("EagerPyFunc", Trait.RUNS_CODE),
        ("RpcCall", Trait.NETWORK),
        ("DebugIdentityV3", Trait.NETWORK | Trait.WRITES_FILES | Trait.DEBUG),
        ("DatasetFromGraph", Trait.DATASET | Trait.GRAPH_INSIDE),
        ("MapDataset", Trait.DATASET | Trait.CALL),
        ("PrintV2", Trait.PRINTS),
        ("Abort", Trait.PROCESS),
        ("VarHandleOp", Trait.VARIABLE),
        ("ResourceApplyAdam", Trait.TRAINING),
        ("HashTableV2", Trait.TABLE),
        ("InitializeTableFromTextFileV2", Trait.TABLE | Trait.READS_FILES),
        ("While", Trait.CALL),
        ("RandomUniform", Trait.RANDOM),
        ("StatelessRandomUniformV2", Trait.RANDOM),
        ("CudnnRNNV3", Trait.RANDOM | Trait.DEVICE),
        ("Identity", Trait.PASSES_ON),
        ("AddV2", Trait.COMMUTES),
        ("MatMul", Trait(0)),
        ("StatelessIf", Trait.CALL),
        ("TensorArrayReadV3", Trait.STATE),
        ("NoSuchOp", None),
    ],
)
def test_traits(op: str, wanted: Trait | None) -> None:
    assert traits(op) == wanted


def test_what_nobody_notices() -> None:
    assert all(leaves_no_trace(op) for op in ("ReadVariableOp", "RandomUniform", "VariableShape", "TruncatedNormal"))
    assert not any(leaves_no_trace(op) for op in ("AssignVariableOp", "QueueDequeueV2", "Print", "RandomDataset", "X"))
    assert is_random("Multinomial")
    assert not is_random("StatelessWhile")


def test_values_are_of_ops_that_exist() -> None:
    assert set(value_ops()) <= set(builtin_ops())
    assert all(has_value(op) for op in ARITHMETIC)


def test_looking_needs_families_and_nothing_else() -> None:
    code = "import sys, tfsmith.ops.traits; assert not {'numpy', 'dataclasses', 'inspect'} & set(sys.modules)"
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


# Lists of op names


def _lists(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The literals of a file that are names of ops, three or more, with their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
            continue
        items: list[ast.expr | None] = [] if isinstance(node, ast.Dict) else [*node.elts]
        items = node.keys if isinstance(node, ast.Dict) else items
        names = [one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if len(items) >= 3 and len(names) == len(items) and all(name in builtin_ops() for name in names):
            yield getattr(node, "lineno", 0), names


def test_nobody_else_keeps_a_list_of_op_names() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{line}: {', '.join(names[:5])}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "ops"
        for line, names in _lists(path)
        if path.relative_to(SOURCE).as_posix() not in EXCEPTIONS
    }
    assert found == set(), "declare it in tfsmith/ops, and ask for it there"


def test_exceptions_are_used() -> None:
    assert [name for name in EXCEPTIONS if not any(_lists(SOURCE / name))] == []
