"""The engines: reference beside TensorFlow, `auto` beside OpenVINO, two engines for one model, isolation, start-up.

Figures are CPU seconds of the process for one run, the least of several, so that others on the machine count little.
The reference engine and TensorFlow have one thread each: threads that wait for each other take CPU, too.
"""

from __future__ import annotations

from benchmarks.measure import Command, Figures, python
from benchmarks.report import Row, at_most, within
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "engines"
_TURNS = 2
_CLOCK = """
import os, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads that wait for others count as CPU
import numpy
model, engine, repeat = sys.argv[1], sys.argv[2], int(sys.argv[3])
random = numpy.random.default_rng(0)
def feeds_of(shapes):
    made = {}
    for key, (kind, dims) in shapes.items():
        size = [1 if number == 0 else 128 if dim is None else dim for number, dim in enumerate(dims)]
        made[key] = random.integers(0, 2, size).astype(kind) if kind.startswith("int") else random.random(size, kind)
    return made
def least(call):
    call()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
"""
_OURS = (
    _CLOCK
    + """
import tfsmith
with tfsmith.compile(model, engine=engine) as runner:
    ports = {key: port for key, port in runner.inputs.items() if port.required}
    feeds = feeds_of({key: (port.dtype.name, tuple(port.shape)) for key, port in ports.items()})
    print(runner.engine, least(lambda: runner.run(feeds, warn=False)))
"""
)
_PEER = (
    _CLOCK
    + """
import tensorflow as tf
v1 = tf.compat.v1
one = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
with tf.Graph().as_default(), v1.Session(config=one) as session:
    loaded = v1.saved_model.load(session, ["serve"], model)
    signature = loaded.signature_def["serving_default"]
    shapes = {info.name: (tf.as_dtype(info.dtype).name, tuple(None if dim.size < 0 else dim.size
              for dim in info.tensor_shape.dim)) for info in signature.inputs.values()}
    names = [info.name for info in signature.outputs.values()]
    feeds = feeds_of(shapes)
    print(least(lambda: session.run(names, feeds)))
"""
)
_IMPORT = """
import time
import numpy, tfsmith
start = time.process_time()
from tfsmith.engines.reference import Reference
from tfsmith.ops.values import value_ops
value_ops()
print(time.process_time() - start)
"""
_TINY = """
import time
import numpy, tfsmith
from tfsmith.ir.body import Part
from tfsmith.ir.types import dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.types import Shape
kind = dtype_named("float32")
nodes = [Node("x", "Placeholder", (), {"dtype": kind, "shape": Shape((4,))})]
for number in range(10_000):
    nodes.append(Node(f"n{number}", ("Neg", "Abs", "Tanh")[number % 3], (nodes[-1].name,), {"T": kind}))
model = Model("graphdef", (MetaGraph(Part.of(Graph(tuple(nodes)))),))
with tfsmith.compile(model, [nodes[-1].name], engine="reference") as runner:
    feeds = {"x": numpy.ones(4, "float32")}
    runner.run(feeds)
    start = time.process_time()
    runner.run(feeds)
    print(time.process_time() - start)
"""
_ISOLATED = """
import sys, time
import numpy, tfsmith
from tfsmith.engines.isolated import IsolatedProgram
from tfsmith.engines.openvino import OpenVino
from tfsmith.engines.program import make_program
from tfsmith.verbs.run import engine_options
program = make_program(tfsmith.load(sys.argv[1]))
feeds = {key: numpy.ones((1, 128), "int32") for key in program.inputs}
made = IsolatedProgram(program, "openvino", engine_options()) if sys.argv[2] == "isolated" else \\
    OpenVino().compile(program, engine_options())
with made:
    made.run(feeds)
    times = []
    for _ in range(int(sys.argv[3])):
        start = time.perf_counter()
        made.run(feeds)
        times.append(time.perf_counter() - start)
print(min(times))
"""
_SPLIT = """
import sys, time
import numpy, tfsmith
from tfsmith.ir.body import Part
from tfsmith.ir.types import dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
frozen = tfsmith.load(sys.argv[1])
graph = frozen.graph
string, kind = dtype_named("string"), dtype_named("float32")
last = sys.argv[4]
tail = Node("as_text", "AsString", (last,), {"T": kind})
model = Model("graphdef", (MetaGraph(Part.of(graph.replace(nodes=(*graph.nodes, tail)))),))
with tfsmith.compile(model, ["as_text"], engine=sys.argv[2]) as runner:
    feeds = {key: numpy.ones((1, 128), "int32") for key, port in runner.inputs.items() if port.required}
    runner.run(feeds)
    times = []
    for _ in range(int(sys.argv[3])):
        start = time.process_time()
        runner.run(feeds)
        times.append(time.process_time() - start)
print(runner.engine, min(times))
"""
_OUTPUT = "loss/output"


def rows(setup: Setup) -> list[Row]:
    """BERT-base and a ResNet50 at batch 1, a graph of many tiny ops, and what isolation costs."""
    repeat = "1" if setup.quick else "5"
    bert, resnet, frozen = setup.models.saved_model("ref"), setup.models.resnet(), setup.models.frozen("ref")
    groups = (
        {
            "bert": python(_OURS, bert, "reference", repeat),
            "bert peer": python(_PEER, bert, "", repeat),
        },
        {
            "resnet": python(_OURS, resnet, "reference", repeat),
            "resnet peer": python(_PEER, resnet, "", repeat),
        },
        {
            "auto": python(_OURS, bert, "auto", repeat),
            "auto here": python(_OURS, bert, "openvino", repeat),
        },
        {
            "openvino": python(_ISOLATED, bert, "here", repeat),
            "isolated": python(_ISOLATED, bert, "isolated", repeat),
        },
        {
            "split": python(_SPLIT, frozen, "auto", repeat, _OUTPUT),
            "whole": python(_SPLIT, frozen, "reference", repeat, _OUTPUT),
        },
        {"import": python(_IMPORT), "tiny": python(_TINY)},
    )
    found: dict[str, Figures] = {}
    for group in groups:  # each command takes the least of several runs, so that two turns will do
        commands = {key: Command(argv, own_clock=True) for key, argv in group.items()}
        found |= setup.compare(commands, _TURNS, warm=False)
    return [
        Row(_TOPIC, "BERT-base, batch 1, CPU of a run: reference", found["bert"], "TensorFlow", found["bert peer"],
            [at_most(3, found["bert"], found["bert peer"], "TensorFlow")]),
        Row(_TOPIC, "ResNet50, batch 1, CPU of a run: reference", found["resnet"], "TensorFlow", found["resnet peer"],
            [at_most(6, found["resnet"], found["resnet peer"], "TensorFlow")]),
        Row(_TOPIC, "BERT-base, batch 1, CPU of a run: auto", found["auto"], "OpenVINO alone", found["auto here"],
            [at_most(1.05, found["auto"], found["auto here"], "OpenVINO alone")]),
        Row(_TOPIC, "BERT-base with texts as outputs, CPU of a run: two engines", found["split"], "reference alone",
            found["whole"], [at_most(1, found["split"], found["whole"], "reference alone")]),
        Row(_TOPIC, "BERT-base, batch 1: OpenVINO in another process", found["isolated"], "in this one",
            found["openvino"]),
        Row(_TOPIC, "import of the reference engine, all values, CPU", found["import"],
            goals=[within(0.1, found["import"])]),
        Row(_TOPIC, "10,000 tiny ops on the reference engine, CPU", found["tiny"], goals=[within(1, found["tiny"])]),
    ]  # fmt: skip
