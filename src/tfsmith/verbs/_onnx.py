"""ONNX for the verbs: lowers a model, writes it, proves it; and opens what is ONNX already."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith import records
from tfsmith.engines.onnxruntime import OnnxProgram
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.reference import ReferenceProgram
from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.formats.onnx.writer import ExternalData, plan_onnx, write_onnx
from tfsmith.formats.write import inputs_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.types import Shape
from tfsmith.ops import TABLES
from tfsmith.ops.inference import Inference
from tfsmith.storage.place import Output
from tfsmith.verbs._shared import Result, output_name, sized
from tfsmith.view import human_bytes, plural

if TYPE_CHECKING:
    from tfsmith.onnx.lower import Given, Lacking, Lowered
    from tfsmith.verbs._prove import Verified

__all__ = ["ConvertedOnnx", "OnnxOptions", "convert_to_onnx", "is_onnx", "lower_program", "onnx_bytes", "open_onnx"]

_DOMAIN = "tensorflow"
_SHOWN = 3
_ROOM = 110
"""So many characters of an error say what has no form; the rest of the line says where, and what to do."""


@records.record
class OnnxOptions:
    """How a model becomes ONNX.

    Attributes:
        opset: The version of ONNX' ops; None for the default.
        signature: Which signature.
        cut_at: Tensors that are to be inputs.
        outputs: What is computed.
        input_shapes: Shapes of inputs.
        batch_size: The size of first dimensions that are open.
        external_data: Where weights lie.
        keep_names: Whether inputs and outputs are called as their tensors.
        map_ops: For ops that ONNX has not, the domain and name that their nodes get.
    """

    opset: int | None = None
    signature: str | None = None
    cut_at: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    input_shapes: Mapping[str, Sequence[int | None]] = records.field(default_factory=dict)
    batch_size: int | None = None
    external_data: ExternalData = "auto"
    keep_names: bool = False
    map_ops: Mapping[str, str] = records.field(default_factory=dict)


@records.record
class ConvertedOnnx(Result):
    """What converting to ONNX gave.

    Attributes:
        source: The model that was converted.
        out: Where it was written; None if it was not.
        opset: The version of ONNX' ops.
        inputs: Each input's name, type and shape.
        outputs: Each output's name, type and shape.
        ops: How many nodes of each op it has, most first.
        weights: How many weights it has, and their bytes.
        notes: What to beware of.
        verified: How it compares with the original.
    """

    source: Model
    out: Path | None
    opset: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    ops: Mapping[str, int]
    weights: tuple[int, int]
    notes: tuple[str, ...] = ()
    verified: Verified | None = None

    def __bool__(self) -> bool:
        """Whether the result computes what the original does, as far as that was asked."""
        return self.verified is None or self.verified.is_same

    def report(self) -> Iterator[str]:
        """What was written, and its inputs and outputs."""
        count, size = self.weights
        nodes = sum(self.ops.values())
        facts = (f"ONNX, opset {self.opset}", plural(nodes, "node"), plural(count, "weight"))
        if self.out is None:
            yield f"Nothing was written ({', '.join((*facts, human_bytes(size)))})"
        else:
            yield f"Wrote {sized(self.out, *facts)}"
        yield from (f"input {name}: {told}" for name, told in self.inputs.items())
        yield from (f"output {name}: {told}" for name, told in self.outputs.items())
        if self.verified is not None:
            yield from self.verified.brief()

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "kind": "onnx",
            "opset": self.opset,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "ops": dict(self.ops),
            "weights": self.weights[0],
            "bytes": self.weights[1],
            "verified": None if self.verified is None else self.verified.to_json(),
            "warnings": [str(note) for note in self.notes],
        }


def is_onnx(path: object) -> bool:
    """Whether a path is called as an ONNX file."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix == ".onnx"


def open_onnx(path: str | os.PathLike[str], outputs: Sequence[str] = ()) -> OnnxProgram:
    """An ONNX file, ready to run on onnxruntime."""
    return OnnxProgram(Path(path), outputs)


def convert_to_onnx(
    source: Model, out: str | os.PathLike[str], options: OnnxOptions, *, force: bool, verify: bool, engine: str
) -> ConvertedOnnx:
    """Lowers a model and writes it, whole or not at all; with `verify`, only if it computes the same.

    Raises:
        UnsupportedError: Something has no form in ONNX; nothing is written.
    """
    beside = re.compile(re.escape(f"{Path(out).name}.data"))
    output = Output(out, inputs=inputs_of(source), force=force, others=beside)
    output.check()
    program = make_program(source, options.outputs or None, signature=options.signature, inputs=options.cut_at)
    lowered = lower_program(program, options)
    if lowered.lacks:
        raise _refusal(lowered.lacks, program)
    head, graph = _serialized(lowered)
    verified: Verified | None = None
    with output:
        write_onnx(output.aside, head, graph, lowered.weights, options.external_data)
        if verify:
            verified = _proof(program, output.aside, engine)
            if not verified.is_same:
                output.discard()
    is_written = verified is None or verified.is_same
    return ConvertedOnnx(
        source,
        output.path if is_written else None,
        int(lowered.model.graph.opset_imports[""]),
        {str(value.name): _told(value) for value in lowered.model.graph.inputs},
        {str(value.name): _told(value) for value in lowered.model.graph.outputs},
        _op_counts(lowered),
        (len(lowered.weights), sum(tensor.nbytes for tensor in lowered.weights.values())),
        lowered.notes,
        verified,
    )


def _told(value: Any) -> str:
    kind = "?" if value.dtype is None else value.dtype.name.lower()
    sizes = "?" if value.shape is None else f"[{', '.join(str(size) for size in value.shape)}]".replace("None", "?")
    return f"{ {'float': 'float32', 'double': 'float64'}.get(kind, kind) } {sizes}"


def _op_counts(lowered: Lowered) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in lowered.model.graph.all_nodes():
        name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def lower_program(program: ModelProgram, options: OnnxOptions) -> Lowered:
    """A model as ONNX, in memory; its weights are not read. What has no form is among `lacks`.

    Raises:
        UsageError: An option does not fit the model.
    """
    if not find_spec("onnx_ir"):
        remedy = "pip install 'tfsmith[onnx]'"
        raise UnsupportedError("to write ONNX needs the packages onnx and onnx-ir", remedy=remedy)
    from tfsmith.onnx.lower import DEFAULT_OPSET, OPSETS, Given, LowerOptions, lower

    opset = DEFAULT_OPSET if options.opset is None else options.opset
    if opset not in OPSETS:
        remedy = f"choose one from {OPSETS[0]} to {OPSETS[-1]}"
        raise UsageError(f"opset {opset} is not written", remedy=remedy)
    fed = frozenset(key for key, port in program.inputs.items() if port.required)
    flat = program.flat(fed)
    shapes = _shapes(program, flat.inputs, options)
    inputs: list[Given] = []
    names: set[str] = set()
    for key, tensor in flat.inputs.items():
        name = _name(program.inputs[key].tensor if options.keep_names else key, names)
        inputs.append(Given(name, tensor, program.inputs[key].dtype, shapes[key]))
    outputs: list[Given] = []
    for key, tensor in flat.outputs.items():
        name = _name(program.outputs[key].tensor if options.keep_names else key, names)
        outputs.append(Given(name, tensor, program.outputs[key].dtype, program.outputs[key].shape))
    custom = dict(_custom(program, flat.graph, options.map_ops))
    lowered = lower(flat.graph, inputs, outputs, LowerOptions(opset, custom, _tables(program, flat.graph)))
    notes = [*lowered.notes]
    for op, (domain, name) in custom.items():
        if op not in options.map_ops:
            notes.append(f"{op} is no op of TensorFlow's: it stays as {domain}:{name}, which the runtime must know")
    return records.replace(lowered, notes=tuple(notes))


def _tables(program: ModelProgram, graph: Any) -> dict[str, Any]:
    """The keys and values of the lookup tables of a graph, as the model fills them."""
    if not any(node.op in TABLES for node in graph):
        return {}
    with ReferenceProgram(program, is_run=False) as filled:
        return filled.tables()


def _name(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def _custom(program: ModelProgram, graph: Any, asked: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The ops that become nodes of another domain: those that were named, and those that TensorFlow does not have."""
    used = {node.op for node in graph} | {node.op for function in graph.library.values() for node in function.nodes}
    for op, target in asked.items():
        domain, colon, name = target.rpartition(":")
        if not colon or not domain or not name:
            raise UsageError(f"{{map_ops}} {op}={target} is not understood", remedy="write OP=domain:Name")
        if op not in used:
            raise UsageError(f"the model has no op {op!r}", path=program.path, remedy="leave it out of {map_ops}")
        yield op, (domain, name)
    for op in sorted(used):
        if op not in asked and builtin_op(op) is None and op not in graph.library and graph.op_def(op) is not None:
            yield op, (_DOMAIN, op)


def _shapes(program: ModelProgram, used: Mapping[str, str], options: OnnxOptions) -> dict[str, Shape]:
    """The shapes of the inputs, with those that were asked for."""
    found = {key: _input_shape(program, key) for key in used}
    for name, sizes in options.input_shapes.items():
        key = next((key for key in used if name in (key, used[key], parse_input(used[key]).node)), None)
        if key is None:
            remedy = f"it has {', '.join(used)}"
            raise UsageError(f"there is no input {name!r}", path=program.path, remedy=remedy)
        asked, own = Shape.of(sizes), found[key].dims
        if own is not None and (len(own) != len(sizes) or any(_differ(*pair) for pair in zip(own, sizes, strict=True))):
            remedy = "give it a shape that fits"
            raise UsageError(f"input {key!r} is {found[key]}, not {asked}", path=program.path, remedy=remedy)
        found[key] = asked
    if options.batch_size is not None:
        if options.batch_size < 1:
            raise UsageError(f"{{batch_size={options.batch_size}}} makes no sense", remedy="pass 1 or more")
        for key, shape in found.items():
            dims = shape.dims
            if dims and dims[0] < 0:
                found[key] = Shape((options.batch_size, *dims[1:]))
    return found


def _input_shape(program: ModelProgram, key: str) -> Shape:
    """The shape of an input; of an inner tensor, as far as the graph says it."""
    port = program.inputs[key]
    if port.shape.rank is not None:
        return port.shape
    graph, tensor = program.frozen.model.graph, parse_input(port.tensor)
    return Inference(graph).shape(graph, tensor) if tensor.node in graph.by_name else port.shape


def _differ(own: int, asked: int | None) -> bool:
    return own >= 0 and asked is not None and asked >= 0 and own != asked


def _refusal(lacks: Sequence[Lacking], program: ModelProgram) -> UnsupportedError:
    """All that has no form, in one line: with nodes and reasons where there is room, else as many names as fit."""
    told = "; ".join(_lack_line(one) for one in lacks)
    if len(told) > _ROOM:
        count = plural(sum(len(one.nodes) for one in lacks), "node")
        ops = list(dict.fromkeys(one.op for one in lacks))
        shown = next(at for at in range(len(ops), -1, -1) if len(", ".join(ops[:at])) <= _ROOM or at <= 1)
        more = f" and {plural(len(ops) - shown, 'op')} more" if len(ops) > shown else ""
        told = f"{', '.join(ops[:shown])}{more} ({count})"
        if len(ops) == 1:
            told = f"{ops[0]} ({count}): {lacks[0].reason}"
    remedy = (
        "{check(model, target='onnx')} lists nodes and reasons; cut there ({cut_at}), or name another op ({map_ops})"
    )
    since = max(one.since for one in lacks)
    if since and all(one.since for one in lacks):
        remedy = f"pass {{opset={since}}}"
    return UnsupportedError(f"no form in ONNX: {told}", path=program.path, remedy=remedy)


def _lack_line(one: Lacking) -> str:
    shown = ", ".join(one.nodes[:_SHOWN])
    more = f" and {len(one.nodes) - _SHOWN} more" if len(one.nodes) > _SHOWN else ""
    return f"{one.op} ({shown}{more}): {one.reason}"


def _serialized(lowered: Lowered) -> tuple[bytes, bytes]:
    """The messages of a model without its weights: all but the graph, and the graph."""
    import onnx_ir

    from tfsmith import __version__

    model = lowered.model
    model.producer_name, model.producer_version = "tfsmith", __version__
    proto = onnx_ir.serde.serialize_model(model)
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    return proto.SerializeToString(), graph


def onnx_bytes(lowered: Lowered) -> bytes:
    """A small model as one message, in memory."""
    return plan_onnx(*_serialized(lowered), lowered.weights).tobytes()


def _proof(program: ModelProgram, written: Path, engine: str) -> Verified:
    from tfsmith.verbs.verify import verify_programs

    return verify_programs(program, open_onnx(written), engine=engine)
