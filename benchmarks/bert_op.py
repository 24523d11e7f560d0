"""The op of native/bert_op against stock TensorFlow, with OpenVINO beside: from token ids to what the encoder gives.

Each has a process of its own with as many threads, and they take turns. Times are of runs after others, as in a server.
Nothing is asserted; the table says which goals are met.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures, environment, python
from benchmarks.report import Goal, Row, faster
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "bert_op"
_LENGTH = 128
_MOST = 1e-4
"""The largest difference that float32 may have, on what the encoder gives."""
_WAYS = ("stock", "float32", "qint8", "openvino")
_MAKE = """
import sys
from pathlib import Path
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen
write_frozen(bert_classifier(getattr(BertConfig, sys.argv[2])(), length=int(sys.argv[3])), Path(sys.argv[1]))
"""
_MEASURE = """
import json, resource, sys, time
from pathlib import Path
import numpy, tfsmith
from tfsmith.testing.models import BertConfig
path, size, folder, way, part = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5]
length, batches, turns, threads = map(json.loads, sys.argv[6:])
config = getattr(BertConfig, size)()
last = f"bert/encoder/layer_{config.num_hidden_layers - 1}/output/LayerNorm/batchnorm/add_1:0"

def make_feeds(batch):
    random = numpy.random.default_rng(batch)
    words = random.integers(length // 2, length + 1, (batch, 1))
    mask = (numpy.arange(length)[None] < words).astype("int32")
    ids = random.integers(0, config.vocab_size, (batch, length)).astype("int32")
    return {"input_ids": ids, "input_mask": mask, "segment_ids": numpy.zeros_like(ids)}

def add_op(graph, kind):
    import tensorflow as tf, tfsmith_bert_op
    dense = [f"attention/self/{name}" for name in ("query", "key", "value")] + ["attention/output/dense"]
    names = [f"{name}/{what}" for name in dense for what in ("kernel", "bias")]
    names += ["attention/output/LayerNorm/gamma", "attention/output/LayerNorm/beta"]
    names += [f"{name}/dense/{what}" for name in ("intermediate", "output") for what in ("kernel", "bias")]
    names += ["output/LayerNorm/gamma", "output/LayerNorm/beta"]
    layers = range(config.num_hidden_layers)
    weights = [f"bert/encoder/layer_{at}/{name}/read:0" for at in layers for name in names]
    return tf.load_op_library(str(tfsmith_bert_op.library())).bert(
        embedded=graph.get_tensor_by_name("bert/encoder/Reshape_1:0"),
        input_mask=graph.get_tensor_by_name("bert/encoder/Reshape:0"),
        weights=[graph.get_tensor_by_name(name) for name in weights],
        HiddenSize=config.hidden_size,
        NumAttentionHeads=config.num_attention_heads,
        IntermediateSize=config.intermediate_size,
        MaxSequenceLength=length,
        QuantizableDataType=getattr(tf, kind),
    )

def compile_tensorflow(remapper):
    import tensorflow as tf
    v1 = tf.compat.v1
    definition = v1.GraphDef()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        v1.import_graph_def(definition, name="")
        what = last if way in ("graph", "stock") else add_op(graph, way)
    options = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    if not remapper:
        options.graph_options.rewrite_options.remapping = 2
    session = v1.Session(graph=graph, config=options)
    return lambda feeds: session.run(what, {f"{key}:0": value for key, value in feeds.items()})

# What the graph says is what TensorFlow gives without its remapper, which takes another epsilon than the graph has. It
# is on where time counts, in the embeddings too, so what the op gives is compared without it: in a process of its own,
# for each session holds several copies of the weights.
seconds, differences = {}, {}
if way == "openvino":
    runner = tfsmith.compile(path, [last], engine="openvino")
    run = lambda feeds: next(iter(runner.run(feeds).values()))
else:
    run = compile_tensorflow(way == "stock" or part == "time")
for batch in batches:
    feeds, expected = make_feeds(batch), folder / f"{batch}.npy"
    answer = run(feeds)
    if way == "graph":
        numpy.save(expected, answer)
        continue
    if part == "compare":
        differences[batch] = float(numpy.abs(answer - numpy.load(expected)).max())
        continue
    run(feeds)
    seconds[batch] = []
    for _ in range(turns):
        begin = time.perf_counter()
        run(feeds)
        seconds[batch].append(time.perf_counter() - begin)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "differences": differences, "peak": peak}))
"""


def rows(setup: Setup) -> list[Row]:
    """BERT-base and BERT-large, 128 tokens, batches of 1 and 8, float32 and int8."""
    made: list[Row] = []
    for size in ("small",) if setup.quick else ("base", "large"):
        batches = (1,) if setup.quick else (1, 8)
        found = _measure(setup, size, batches)
        for batch in batches:
            made += _rows(f"BERT-{size}, batch {batch}, {_LENGTH} tokens", found, str(batch))
    return made


def _rows(what: str, found: dict[str, list[dict[str, Any]]], batch: str) -> list[Row]:
    figures: dict[str, Figures] = {}
    differs: dict[str, float] = {}
    for way, (compared, *timed) in found.items():
        seconds = [one for each in timed for one in each["seconds"][batch]]
        figures[way] = Figures(tuple(seconds), max(each["peak"] for each in timed))
        differs[way] = compared["differences"][batch]
    stock, ours, bytes_ = figures["stock"], figures["float32"], figures["qint8"]
    exact = Goal(f"differs by {_MOST:g} at most", f"{differs['float32']:.1e}", differs["float32"] <= _MOST)
    peer = f"TensorFlow (differs by {differs['stock']:.1e})"
    other = f"OpenVINO, float32 (differs by {differs['openvino']:.1e})"
    return [
        Row(_TOPIC, f"{what}: the op, float32", ours, peer, stock, (faster(1.4, ours, stock), exact)),
        Row(_TOPIC, f"{what}: the op, int8", bytes_, peer, stock, (faster(2, bytes_, stock),)),
        Row(_TOPIC, f"{what}: the op, float32", ours, other, figures["openvino"]),
    ]


def _measure(setup: Setup, size: str, batches: tuple[int, ...]) -> dict[str, list[dict[str, Any]]]:
    """What each way told: first the difference from what the graph says, then seconds, for each batch."""
    model = _find_model(setup, size)
    folder = setup.output(f"bert_op-{size}")
    folder.mkdir(exist_ok=True)
    settings = (_LENGTH, list(batches), 1 if setup.quick else 5, len(os.sched_getaffinity(0)))

    def run(way: str, part: str) -> dict[str, Any]:
        command = python(_MEASURE, model, size, folder, way, part, *map(json.dumps, settings))
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
        if done.returncode != 0:
            raise RuntimeError(f"{_TOPIC}, {way}: the child ended with {done.returncode}:\n{done.stderr[-2000:]}")
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    run("graph", "compare")
    found = {way: [run(way, "compare")] for way in _WAYS}
    for _ in range(1 if setup.quick else setup.rounds):
        for way, told in found.items():
            told.append(run(way, "time"))
    shutil.rmtree(folder)
    return found


def _find_model(setup: Setup, size: str) -> Path:
    """A frozen BERT of that size; made when it is first asked for."""
    path = setup.models.folder / f"bert-{size}-{_LENGTH}.pb"
    if path.exists():
        return path
    sys.stderr.write(f"making {path.name} ...\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    subprocess.run(python(_MAKE, part, size, str(_LENGTH)), check=True, env=environment())
    return part.rename(path)
