"""`tfsmith extract` and `replace`: the document's own example on BERT, and a recipe that matches all over a graph."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, under, within
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "patterns"
_BARRIERS = ("bert/encoder/Reshape_1", "bert/encoder/Reshape", "bert/encoder/strided_slice")
_RECIPE = """
import tfsmith
import sys
from tfsmith.ir.node import Node
model, layers, target = tfsmith.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
scope = "bert/encoder"
pattern = tfsmith.extract(
    model,
    [f"{scope}/layer_{layers - 1}/output/LayerNorm/batchnorm/add_1"],
    [f"{scope}/{name}" for name in ("Reshape_1", "Reshape", "strided_slice", "strided_slice_2")],
    ["Identity", "Const"],
)
weights = [name for name in pattern.inputs if name.endswith("/read")]
tfsmith.save_recipe(tfsmith.make_recipe(pattern, Node("bert/fused", "Bert", (f"{scope}/Reshape_1", *weights))), target)
"""
_RAISE = """
import tfsmith
import sys
from tfsmith.ops.inference import Inference
from tfsmith.patterns.raised import Raised
graph = tfsmith.load(sys.argv[1]).graph
Raised(graph, Inference(graph))
"""
_LAYER = """
[recipe]
name = "layer"
description = "a layer becomes one node"
[[variant]]
name = "v"
inputs = ["x", "kernel", "bias"]
[[variant.node]]
name = "product"
op = "MatMul"
inputs = ["x", "kernel"]
[[variant.node]]
name = "sum"
op = "AddV2"
inputs = ["product", "bias"]
[[variant.node]]
name = "relu"
op = "Relu"
inputs = ["sum"]
[[variant.target]]
name = "fused"
op = "FusedLayer"
inputs = ["x", "kernel", "bias"]
[variant.replace]
"relu" = "fused:0"
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    return _bert(setup) + _large(setup)


def _bert(setup: Setup) -> list[Row]:
    """BERT-base: the encoder's nodes become one."""
    saved, frozen = setup.models.saved_model("ref"), setup.models.frozen("ref")
    layers = 4 if setup.quick else 12
    recipe, pattern = setup.output("recipe.pb"), setup.output("pattern.pb")
    graph, whole, copy = (setup.output(name) for name in ("replaced.pb", "replaced_frozen.pb", "copy.pb"))

    def fresh() -> None:
        for path in (graph, whole, copy, pattern):
            path.unlink(missing_ok=True)
        os.sync()

    setup.compare({"recipe": Command(python(_RECIPE, saved, str(layers), recipe))}, rounds=1)
    seed = f"bert/encoder/layer_{layers - 1}/output/LayerNorm/batchnorm/add_1"
    extract = ["-s", seed, "-b", *_BARRIERS, "bert/encoder/strided_slice_2", "-B", "Identity", "Const"]
    copying = ["sh", "-c", 'cp "$0" "$1"', str(frozen), str(copy)]
    found = setup.compare(
        {
            "extract": Command(script("tfsmith", "extract", saved, "-o", pattern, *extract), fresh, turns=2),
            "graph": Command(script("tfsmith", "replace", saved, "-r", recipe, "-o", graph), fresh, turns=3),
            "shipped": Command(script("tfsmith", "replace", saved, "-r", "bert-encoder", "-o", graph), fresh, turns=3),
            "frozen": Command(script("tfsmith", "replace", frozen, "-r", recipe, "-o", whole), fresh, turns=3),
            "synced": Command([*copying[:2], copying[2] + ' && sync "$1"', *copying[3:]], fresh, turns=2),
            "copied": Command(copying, fresh, turns=2),
        }
    )
    fresh()
    in_graph, in_frozen, shipped = found["graph"], found["frozen"], found["shipped"]
    near = [at_most(3, in_frozen, found["synced"], "cp and sync"), under(120, in_frozen)]
    return [
        Row(_TOPIC, "extract the encoder, SavedModel", found["extract"], goals=[within(0.6, found["extract"])]),
        Row(_TOPIC, "replace the encoder, SavedModel (graph only)", in_graph, goals=[within(0.6, in_graph)]),
        Row(_TOPIC, "replace the encoder by bert-encoder, SavedModel", shipped, goals=[within(0.6, shipped)]),
        Row(_TOPIC, "replace the encoder, frozen graph", in_frozen, "cp and sync of it", found["synced"], near),
        Row(_TOPIC, "replace the encoder, frozen graph", in_frozen, "cp of it, unsynced", found["copied"]),
    ]


def _large(setup: Setup) -> list[Row]:
    """Graphs of 10k and 100k nodes, of which every sixth begins a match."""
    sizes = (600, 6000) if setup.quick else (10_000, 100_000)
    recipe = setup.output("layer.toml")
    recipe.write_text(_LAYER)
    target, pattern = setup.output("large.pb"), setup.output("large_pattern.pb")
    graphs: dict[int, Path] = {size: setup.models.graph(size) for size in sizes}

    def fresh() -> None:
        for path in (target, pattern):
            path.unlink(missing_ok=True)

    commands: dict[str, Command] = {}
    for size, graph in graphs.items():
        commands[f"replace {size}"] = Command(script("tfsmith", "replace", graph, "-r", recipe, "-o", target), fresh)
        extract = ["-s", _last_output(size), "-B", "Identity", "Const", "Placeholder"]
        commands[f"raise {size}"] = Command(python(_RAISE, graph))
        commands[f"extract {size}"] = Command(script("tfsmith", "extract", graph, "-o", pattern, *extract), fresh)
    found = setup.compare(commands, rounds=1)
    fresh()
    small, large = (found[f"replace {size}"] for size in sizes)
    small_raised, large_raised = (found[f"raise {size}"] for size in sizes)
    small_cut, large_cut = (found[f"extract {size}"] for size in sizes)
    what = f"replace {sizes[1] // 6:,} matches, graph of {sizes[1]:,} nodes"
    cut = f"extract {sizes[1] // 2:,} nodes, graph of {sizes[1]:,}"
    linear = [at_most(15, large_cut, small_cut, "that of a tenth")]
    raising = [at_most(15, large_raised, small_raised, "that of a tenth"), within(5, large_raised)]
    return [
        Row(_TOPIC, f"extract {sizes[0] // 2:,} nodes, graph of {sizes[0]:,}", small_cut),
        Row(_TOPIC, cut, large_cut, f"{sizes[0]:,} nodes", small_cut, linear),
        Row(_TOPIC, f"replace {sizes[0] // 6:,} matches, graph of {sizes[0]:,} nodes", small),
        Row(_TOPIC, what, large, f"{sizes[0]:,} nodes", small, [at_most(15, large, small, "that of a tenth")]),
        Row(_TOPIC, f"raise a graph of {sizes[1]:,} nodes", large_raised, f"{sizes[0]:,} nodes", small_raised, raising),
    ]


def _last_output(nodes: int) -> str:
    """The output of the last layer that is whole, in a graph of so many nodes (`models._make_graph`)."""
    start = ((nodes - 1) // 6 - 1) * 6 + 1
    return f"model/block_{start // 100}/layer_{start}/Relu"
