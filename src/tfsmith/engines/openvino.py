"""OpenVINO: the embedded engine. It takes the frozen graph from memory, without a file between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.protocol import Clock, FlatGraph, Lack, LackError, Options, Port, Program, usual_inputs
from tfsmith.errors import EngineError, TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.node import CONTROL, Attr, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, dtype_named
from tfsmith.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Handover", "OpenVino", "OpenVinoProgram"]

# Our dtypes by OpenVINO's names for them. What is not here is "dynamic" to OpenVINO, which then says what it misses.
_TYPES = MappingProxyType(
    {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "boolean", "string": "string"}
    | {f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
    | {f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
)


class Handover:
    """One handing-over of a graph. Keep it for as long as the converted model is used: it owns the constants' memory.

    Attributes:
        error: What went wrong on our side while the frontend asked; the frontend itself only gets to see its text.
    """

    def __init__(self, graph: Graph, outputs: Sequence[str]) -> None:
        self._graph = graph
        self._outputs = tuple(outputs)
        self._kept: list[Any] = []
        self.error: TfsmithError | None = None

    def close(self) -> None:
        """Lets go of the memory, once the converted model is gone. Python would find the circle only at some time."""
        self._kept.clear()

    def iterator(self) -> Any:
        """A new iterator over the whole graph, for `FrontEnd.load`."""
        decoder, iterator = _classes()
        made = iterator(self, [decoder(self, self._graph, node) for node in self._graph], (), self._outputs)
        self._kept.append(made)
        return made

    def body(self, name: str) -> Any | None:
        """A new iterator over a function of the library; None if there is no such function."""
        function = self._graph.library.get(name)
        if function is None:
            return None
        decoder, iterator = _classes()
        decoders = [decoder(self, function, node) for node in (*_arguments(function), *function.nodes)]
        outputs = [str(function.resolve(function.ret[found.name])) for found in function.signature.outputs]
        made = iterator(self, decoders, [f"{name}:0" for name in function.args], outputs)
        self._kept.append(made)
        return made

    def attribute(self, body: Body, node: Node, name: str) -> Any:
        """A node's attribute, or its default, in OpenVINO's terms."""
        from openvino import OVAny

        try:
            found = node.attrs.get(name)
            found = _default(body, node, name) if found is None else found
            if found is not None and found.tensor is not None:
                return OVAny(self._tensor(found.tensor))
            return OVAny(None if found is None else _plain(found.kind, found.value))
        except TfsmithError as error:
            self.error = self.error or error
            raise

    def _tensor(self, tensor: Tensor) -> Any:
        """A constant. Its memory is shared, not copied, unless it is a few numbers that are broadcast, or strings."""
        import numpy
        from openvino import Tensor as OvTensor
        from openvino import Type

        values = tensor.numpy()  # checks the checksum
        if tensor.dtype.base.name == "string":
            return OvTensor(numpy.array(values.reshape(-1).tolist() or [b""], "S")[: values.size].reshape(values.shape))
        if values.size < 2 or not values.flags.c_contiguous:
            values = numpy.array(values, order="C")
        kind = _TYPES.get(tensor.dtype.base.name, "dynamic")
        if tensor.dtype.base.name == "bfloat16":
            raw = OvTensor(_writeable(values).view(numpy.uint16), values.shape, Type.bf16)
            self._kept.append((values, raw))
            return raw
        if kind == "dynamic":
            values = numpy.array(values, order="C")  # such as complex numbers; OpenVINO says what it misses
        shared = _writeable(values)
        self._kept.append((values, shared))
        return OvTensor(shared, shared_memory=True)


def _writeable(values: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array that claims to be writeable, which OpenVINO insists on.

    Nobody writes to it: constants of a model do not change, and OpenVINO maps its own files read-only, too.
    """
    import ctypes

    import numpy

    if values.flags.writeable:
        return values
    memory = (ctypes.c_byte * values.nbytes).from_address(values.ctypes.data)
    found: NDArray[Any] = numpy.frombuffer(memoryview(memory), values.dtype).reshape(values.shape)
    return found


def _arguments(function: Function) -> Iterator[Node]:
    """A function's arguments as the placeholders that OpenVINO takes them for."""
    shapes = function.part.value.arg_attrs
    for number, arg in enumerate(function.signature.inputs):
        told = shapes.get(number, {}).get("_output_shapes")
        first = told.shapes[0] if told is not None and told.shapes else UNKNOWN
        kind = DType(0, "dynamic", "DT_INVALID", 0) if arg.type is None else arg.type
        yield Node(arg.name, "Placeholder", (), {"dtype": kind, "shape": first})


def _default(body: Body, node: Node, name: str) -> Attr | None:
    """What an attribute means where the file leaves it out."""
    op = body.op_def(node.op)
    return None if op is None else next((found.default for found in op.attrs if found.name == name), None)


def _plain(kind: str, value: Any) -> Any:
    """An attribute's value, as the frontend's decoders of files give it."""
    if kind.startswith("list("):
        return [_plain(kind[5:-1], item) for item in value]
    convert = _CONVERT.get(kind)
    return value if convert is None else convert(value)


def _ov_type(value: DType) -> Any:
    from openvino import Type

    return getattr(Type, _TYPES.get(value.base.name, "dynamic"))


def _ov_shape(value: Shape) -> Any:
    from openvino import PartialShape

    return PartialShape.dynamic() if value.dims is None else PartialShape(list(value.dims))


def _ov_float(value: float) -> Any:
    import numpy

    return numpy.float32(value)


def _ov_text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_CONVERT: Mapping[str, Any] = MappingProxyType(
    {
        "type": _ov_type,
        "shape": _ov_shape,
        "float": _ov_float,
        "string": _ov_text,
        "func": lambda value: value.name,
        "list": lambda value: None,
        "none": lambda value: None,
    }
)


@cache
def _classes() -> tuple[Any, Any]:
    """The two classes, made on first use: their bases are OpenVINO's."""
    from openvino.frontend.tensorflow.py_tensorflow_frontend import _FrontEndDecoderBase, _FrontEndPyGraphIterator

    class Decoder(_FrontEndDecoderBase):  # type: ignore[misc]
        """One node. The methods are called from C++, by these names."""

        def __init__(self, handover: Handover, body: Body, node: Node) -> None:
            super().__init__()
            self._handover = handover
            self._body = body
            self._node = node
            self._inputs = [found for found in body.inputs_of(node) if found.output != CONTROL]

        def get_op_name(self) -> str:
            return self._node.name

        def get_op_type(self) -> str:
            return self._node.op

        def get_input_size(self) -> int:
            return len(self._inputs)

        def get_input_node_name(self, index: int) -> str:
            return self._inputs[index].node

        def get_input_node_name_output_port_index(self, index: int) -> int:
            return self._inputs[index].output

        def get_input_node_name_output_port_name(self, index: int) -> str:
            return ""  # the index says it all

        def get_attribute(self, name: str) -> Any:
            return self._handover.attribute(self._body, self._node, name)

    class Nodes(_FrontEndPyGraphIterator):  # type: ignore[misc]
        """The nodes of a graph or function, one after the other."""

        def __init__(self, handover: Handover, decoders: list[Any], inputs: Any, outputs: Any) -> None:
            super().__init__()
            self._handover = handover
            self._decoders = decoders
            self._inputs = list(inputs)
            self._outputs = list(outputs)
            self._at = 0

        def size(self) -> int:
            return len(self._decoders)

        def reset(self) -> None:
            self._at = 0

        def next_impl(self) -> None:
            self._at += 1

        def is_end(self) -> bool:
            return self._at >= len(self._decoders)

        def get_decoder(self) -> Any:
            return self._decoders[self._at]

        def get_body_graph_iterator(self, name: str) -> Any:
            return self._handover.body(name)

        def get_input_names(self) -> list[str]:
            return self._inputs

        def get_output_names(self) -> list[str]:
            return self._outputs

        def get_input_names_map(self) -> dict[str, str]:
            return {}

        def get_output_names_map(self) -> dict[str, str]:
            return {}

    return Decoder, Nodes


_INSTALL = "pip install 'tfsmith[openvino]'"
_OTHER = "run it with TensorFlow ({engine='tensorflow'})"
_SETTINGS = MappingProxyType({"INFERENCE_PRECISION_HINT": "f32"})  # else it may compute in bfloat16 on its own accord
_NO_RULE = re.compile(r"No conversion rule found for operations: ([^\n]*)")
_FAILED = re.compile(
    r"^-- (\S+) with a message:\n(.*?)(?=^-- \S+ with a message:|^Summary:|\Z)", re.MULTILINE | re.DOTALL
)
_NOISE = re.compile(r"^(Exception from \S+|Check '.*' failed at \S+|FrontEnd API failed with \w+|At:)[:.]?$")
_MOST_TEXT = 400
_NO_OP = "OpenVINO has no such op"
_SAID_OF_OPS = ("layerType", "originalLayersNames")
_COMPLEX = (dtype_named("complex64"), dtype_named("complex128"))


class OpenVino:
    """The engine. Loads OpenVINO only when something is compiled."""

    name = "openvino"

    def available(self) -> str | None:
        """None if OpenVINO is installed, else how to install it."""
        return None if find_spec("openvino") else f"OpenVINO is not installed; {_INSTALL}"

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        """What OpenVINO's frontend cannot convert, with the nodes; converts, but neither compiles nor runs."""
        self._require()
        try:
            _Converted(program, usual_inputs(program))
        except LackError as error:
            return error.lacks
        return ()

    def compile(self, program: Program, options: Options) -> OpenVinoProgram:
        """Converts and compiles for the CPU, in float32 where the model says so."""
        self._require()
        if options.op_libraries:
            what = "OpenVINO cannot load TensorFlow's op libraries"
            raise LackError(self.name, [Lack("custom ops", (), what)], path=program.path, remedy=_OTHER)
        return OpenVinoProgram(program, options)

    def _require(self) -> None:
        missing = self.available()
        if missing is not None:
            what, _, remedy = missing.partition("; ")
            raise EngineError(what, remedy=remedy)


class OpenVinoProgram:
    """A compiled program.

    Which optional inputs are fed decides what the graph is, and OpenVINO must know the rank of every input. So each
    such choice is compiled by itself, when it is met for the first time.
    """

    def __init__(self, program: Program, options: Options) -> None:
        import openvino

        self.version = str(openvino.__version__).partition("-")[0]
        self.notes = _notes(program)
        self._program = program
        self._clock = options.clock
        self._settings = {**_SETTINGS, **options.settings} | ({} if options.clock is None else {"PERF_COUNT": "YES"})
        self._core = openvino.Core()
        self._ready: dict[tuple[frozenset[str], frozenset[tuple[str, int]]], _Request] = {}
        fed = usual_inputs(program)
        if any(program.inputs[key].shape.dims is None for key in fed):
            _check_ops(program, fed)
        else:
            self._request(fed, {})

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once. The arrays are not copied where OpenVINO can use them as they are."""
        inputs = self._program.inputs
        ranks = {key: values.ndim for key, values in feeds.items() if inputs[key].shape.dims is None}
        return self._request(frozenset(feeds), ranks).run(feeds)

    def _request(self, fed: frozenset[str], ranks: Mapping[str, int]) -> _Request:
        key = (fed, frozenset(ranks.items()))
        if key not in self._ready:
            self._ready[key] = _Request(_Converted(self._program, fed, ranks), self._core, self._settings, self._clock)
        return self._ready[key]

    def close(self) -> None:
        """Lets go of the compiled models and of the weights."""
        for request in self._ready.values():
            request.close()
        self._ready.clear()

    def __enter__(self) -> OpenVinoProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _notes(program: Program) -> tuple[str, ...]:
    ports = (*program.inputs.values(), *program.outputs.values())
    if any(port.dtype is not None and port.dtype.base.name == "float64" for port in ports):
        return ("OpenVINO computes float64 as float32; for all digits take TensorFlow",)
    return ()


def _check_ops(program: Program, fed: frozenset[str]) -> None:
    """Tells what OpenVINO lacks before anything runs, where it cannot be compiled yet."""
    try:
        _Converted(program, fed)
    except LackError as error:
        if any(lack.reason == _NO_OP for lack in error.lacks):  # others may be for want of a rank
            raise


class _Converted:
    """An OpenVINO model made of a program, and what it needs to live."""

    def __init__(self, program: Program, fed: frozenset[str], ranks: Mapping[str, int] = MappingProxyType({})) -> None:
        from openvino.frontend import FrontEndManager

        self.program = program
        self.flat = _ranked(program.flat(fed), ranks)
        _check_types(program, self.flat.graph)
        outputs = _tensors(self.flat)
        self.handover = Handover(self.flat.graph, outputs)
        frontend = FrontEndManager().load_by_framework("tf")
        try:
            self.model = frontend.convert(frontend.load(self.handover.iterator()))
        except Exception as error:  # OpenVINO raises RuntimeErrors of many kinds
            if self.handover.error is not None:
                raise self.handover.error from error
            raise _explained(program, self.flat, str(error), frontend) from error
        if len(self.model.outputs) != len(outputs):
            what = f"OpenVINO made {len(self.model.outputs)} outputs of {len(outputs)}"
            raise EngineError(what, path=program.path, remedy=_OTHER)


def _check_types(program: Program, graph: Graph) -> None:
    """Refuses complex inputs and constants, whose imaginary parts OpenVINO would leave out without a word."""
    kinds = {node.name: node.peek("dtype") for node in graph if node.op in ("Placeholder", "Const")}
    names = tuple(name for name, kind in kinds.items() if kind is not None and kind.dtype in _COMPLEX)
    if names:
        lack = Lack("complex numbers", names, "OpenVINO leaves out imaginary parts")
        raise LackError("openvino", [lack], path=program.path, remedy=_OTHER)


def _tensors(flat: FlatGraph) -> list[str]:
    """The tensors that are the outputs, each once: OpenVINO dies of one that it is asked for twice."""
    return list(dict.fromkeys(flat.outputs.values()))


def _ranked(flat: FlatGraph, ranks: Mapping[str, int]) -> FlatGraph:
    """The graph with inputs of these ranks."""
    if not ranks:
        return flat
    found = {parse_input(flat.inputs[key]).node: rank for key, rank in ranks.items() if key in flat.inputs}
    changes = {name: flat.graph[name].replace(attrs={"shape": Shape((-1,) * rank)}) for name, rank in found.items()}
    return replace(flat, graph=flat.graph.map_nodes(changes))


class _Request:
    """A compiled model with its inputs and outputs by key."""

    def __init__(
        self, converted: _Converted, core: Any, settings: Mapping[str, Any], clock: Clock | None = None
    ) -> None:
        program = converted.program
        self._clock = clock
        self._path = program.path
        self._handover = converted.handover  # its memory is the model's
        try:
            self._compiled = core.compile_model(converted.model, "CPU", dict(settings))
            # A call of the compiled model makes one too, but they would keep each other alive for ever.
            self._request = self._compiled.create_infer_request()
        except Exception as error:
            what = f"OpenVINO cannot compile it: {one_line(str(error))}"
            raise LackError("openvino", [Lack("the CPU plugin", (), what)], path=self._path, remedy=_OTHER) from error
        named = {name: port for port in self._compiled.inputs for name in port.names}
        # what the graph does not need after all, OpenVINO leaves out
        self._inputs = {key: named[name] for key, name in converted.flat.inputs.items() if name in named}
        places = {name: index for index, name in enumerate(_tensors(converted.flat))}
        self._outputs = [(key, program.outputs[key], places[name]) for key, name in converted.flat.outputs.items()]
        self._kinds = [output.element_type.get_type_name() for output in self._compiled.outputs]
        self._bfloat16 = {key for key, port in self._inputs.items() if port.element_type.get_type_name() == "bf16"}
        self._origins = {} if clock is None else _origins(self._compiled.get_runtime_model(), converted.flat.graph)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        try:
            results = self._request.infer(
                {port: _given(feeds[key], key in self._bfloat16) for key, port in self._inputs.items()},
                share_inputs=True,
            ).to_tuple()
        except Exception as error:
            what = f"OpenVINO failed: {one_line(str(error))}"
            is_memory = isinstance(error, MemoryError) or "allocate" in str(error)
            remedy = "run the batch in chunks ({chunk})" if is_memory else "check the shapes of the inputs"
            raise EngineError(what, path=self._path, remedy=remedy) from error
        if self._clock is not None:
            for info in self._request.get_profiling_info():
                self._clock.add("", self._origins.get(info.node_name, ""), info.real_time.total_seconds())
        return {key: _taken(results[index], port, self._kinds[index]) for key, port, index in self._outputs}

    def close(self) -> None:
        """Lets go of it all, in the order of who needs whom."""
        del self._request, self._inputs, self._compiled
        self._handover.close()


def _origins(runtime: Any, graph: Graph) -> dict[str, str]:
    """For each op that OpenVINO runs, by its name, the node that it was made of, as far as OpenVINO says it.

    What several nodes were fused into counts for the one whose name it has, else for the last of them. The norm of a
    layer norm, which has no name, counts for the node that takes it. Names are lost where OpenVINO moved a layout.
    """
    found: dict[str, str] = {}
    for op in reversed(runtime.get_ordered_ops()):
        name = op.get_friendly_name()
        facts = {key: str(value.astype(str)) for key, value in op.get_rt_info().items() if key in _SAID_OF_OPS}
        layers = facts.get("originalLayersNames", "").split(",")
        named = [one for one in (name, *reversed(layers)) if one in graph]
        if not named and facts.get("layerType") == "MVN":
            takers = [port.get_node() for output in op.outputs() for port in output.get_target_inputs()]
            named = [found[taker.get_friendly_name()] for taker in takers if taker.get_friendly_name() in found]
        if named:
            found[name] = named[0]
    return found


def _given(values: NDArray[Any], is_bfloat16: bool) -> Any:
    """An input as OpenVINO takes it."""
    import numpy

    if values.dtype.kind == "O":
        return numpy.array(values.reshape(-1).tolist() or [b""], "S")[: values.size].reshape(values.shape)
    if is_bfloat16:
        from openvino import Tensor, Type

        return Tensor(numpy.array(values, order="C").view(numpy.uint16), values.shape, Type.bf16)
    flags = values.flags
    return values if flags.c_contiguous and flags.writeable else numpy.require(values, requirements=["C", "W"])


def _taken(values: Any, port: Port, kind: str) -> NDArray[Any]:
    """An answer as TensorFlow gives it: of the type that the model says, strings as `bytes`."""
    import numpy

    array: NDArray[Any] = numpy.asarray(values)
    if kind == "bf16":
        array = array.view(dtype_named("bfloat16").numpy())  # OpenVINO has no numpy type for it, and shows other bits
    if array.dtype.kind in "SU":
        items = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
        found = numpy.empty(len(items), object)
        found[:] = items
        return found.reshape(array.shape)
    wanted = array.dtype if port.dtype is None else port.dtype.numpy()
    return array if array.dtype == wanted else array.astype(wanted)


def _explained(program: Program, flat: FlatGraph, text: str, frontend: Any) -> EngineError:
    """What to raise for the frontend's message: the ops that it has no rule for, and those that it failed on."""
    lacks = list(_lacks(flat, text, frontend))
    if lacks:
        return LackError("openvino", lacks, path=program.path, remedy=_OTHER)
    return EngineError(f"OpenVINO cannot read the graph: {one_line(text)}", path=program.path, remedy=_OTHER)


def _lacks(flat: FlatGraph, text: str, frontend: Any) -> Iterator[Lack]:
    nodes = _nodes_by_op(flat.graph)
    missing = [op.strip() for found in _NO_RULE.findall(text) for op in found.split(",") if op.strip()]
    for op in missing:
        yield Lack(op, tuple(nodes.get(op, ())), _NO_OP)
    failed = {op: reason for op, reason in _FAILED.findall(text) if op not in missing}
    left = _unconverted(flat, frontend) if failed else set()
    for op, reason in failed.items():
        there = nodes.get(op, [])
        named = [name for name in there if name in left] or there
        yield Lack(op, tuple(named), f"OpenVINO says: {one_line(reason)}")


def _nodes_by_op(graph: Graph) -> dict[str, list[str]]:
    """The names of all nodes of each op, those in functions too."""
    found: dict[str, list[str]] = {}
    for body in (graph, *graph.library.values()):
        for node in body.nodes:
            name = node.name if body is graph else f"{node.name} in {body.title}"
            found.setdefault(node.op, []).append(name)
    return found


def _unconverted(flat: FlatGraph, frontend: Any) -> set[str]:
    """The nodes that are left when all others are converted."""
    try:
        handover = Handover(flat.graph, _tensors(flat))
        model = frontend.convert_partially(frontend.load(handover.iterator()))
        return {op.get_friendly_name() for op in model.get_ops() if op.get_type_name() == "TFFrameworkNode"}
    except Exception:  # only to tell more exactly; all nodes of the op are told otherwise
        return set()


def one_line(text: str) -> str:
    """The words of OpenVINO's message that mean something to a user."""
    lines = [line.strip() for line in text.splitlines()]
    told = " ".join(line for line in lines if line and not _NOISE.match(line)) or "no reason given"
    return told if len(told) <= _MOST_TEXT else f"{told[:_MOST_TEXT]} [...]"
