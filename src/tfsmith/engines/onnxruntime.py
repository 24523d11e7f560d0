"""ONNX files on onnxruntime: a program that is a file, and what runs it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.program import ModelProgram
from tfsmith.engines.protocol import Port
from tfsmith.errors import EngineError, NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.passes.freeze import FrozenGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OnnxProgram", "OnnxSession", "missing"]

_TYPES = MappingProxyType({"float": "float32", "double": "float64"})
_TYPE = re.compile(r"tensor\((\w+)\)")
_MOST_TEXT = 200
_BFLOAT16 = dtype_named("bfloat16")
_BFLOAT16_IN_ONNX = 16
"""The number of that type in TensorProto.DataType."""
_INSTALL = "pip install 'tfsmith[onnx]'"


def missing() -> str | None:
    """None if onnxruntime is installed, else what to do about that. Imports nothing."""
    return None if find_spec("onnxruntime") else f"onnxruntime is not installed: {_INSTALL}"


class OnnxSession:
    """A model of ONNX that is ready to run.

    Args:
        model: Its file, or its bytes.

    Attributes:
        inputs: What it takes, by name.
        outputs: What it computes, by name.
        version: The version of onnxruntime.
        notes: Nothing.

    Raises:
        EngineError: onnxruntime is not installed, or refuses the model.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, model: Path | bytes) -> None:
        gone = missing()
        if gone is not None:
            raise EngineError("onnxruntime is not installed", remedy=_INSTALL)
        import onnxruntime

        self.version = str(onnxruntime.__version__)
        self._path = model if isinstance(model, Path) else None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            given = str(model) if isinstance(model, Path) else model
            self._session: Any = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # it has a class for each of its codes, and none that they share
            what = f"onnxruntime refuses it: {_short(error)}"
            raise EngineError(what, path=self._path, remedy="check it with onnx.checker") from error
        self.inputs = {one.name: _port(one) for one in self._session.get_inputs()}
        self.outputs = {one.name: _port(one) for one in self._session.get_outputs()}

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once: arrays by input key to arrays by output key.

        Raises:
            EngineError: onnxruntime failed.
        """
        return dict(zip(self.outputs, self.compute(feeds, tuple(self.outputs)), strict=True))

    def compute(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """The arrays of these outputs."""
        if self._session is None:
            raise EngineError("the session was closed", remedy="open the model again")
        try:
            if any(port.dtype == _BFLOAT16 for port in (*self.inputs.values(), *self.outputs.values())):
                return self._compute_values(feeds, outputs)
            found = self._session.run(list(outputs), {key: _given(array) for key, array in feeds.items()})
        except Exception as error:
            what = f"onnxruntime failed: {_short(error)}"
            raise EngineError(what, path=self._path, remedy="check the shapes and values of the inputs") from error
        return [_taken(array) for array in found]

    def _compute_values(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """The same by values of onnxruntime's own: its bindings know no arrays of bfloat16, only their bytes."""
        import numpy
        from onnxruntime import OrtValue

        given = {
            key: OrtValue.ortvalue_from_numpy_with_onnx_type(array.copy("C").view(numpy.uint16), _BFLOAT16_IN_ONNX)
            if array.dtype == _BFLOAT16.numpy()
            else OrtValue.ortvalue_from_numpy(_given(array))
            for key, array in feeds.items()
        }
        found: list[NDArray[Any]] = []
        for value in self._session.run_with_ort_values(list(outputs), given):
            if value.element_type() != _BFLOAT16_IN_ONNX:
                found.append(_taken(value.numpy()))
                continue
            data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
            found.append(numpy.frombuffer(bytearray(data), _BFLOAT16.numpy()).reshape(value.shape()))
        return found

    def close(self) -> None:
        """Lets go of the model."""
        self._session = None

    def __enter__(self) -> OnnxSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} [...]"


def _port(found: Any) -> Port:
    match = _TYPE.fullmatch(found.type)
    name = match.group(1) if match else ""
    kind: DType | None = dtype_named(_TYPES.get(name, name)) if name else None
    dims = tuple(size if isinstance(size, int) else -1 for size in found.shape)
    return Port(found.name, kind, Shape(dims))


def _given(array: NDArray[Any]) -> NDArray[Any]:
    """An array as onnxruntime takes it: strings are text."""
    import numpy

    if array.dtype.kind != "O":
        return array
    flat = [item.decode() if isinstance(item, bytes) else item for item in array.reshape(-1).tolist()]
    return numpy.array(flat, object).reshape(array.shape)


def _taken(array: Any) -> NDArray[Any]:
    import numpy

    found: NDArray[Any] = numpy.asarray(array)
    if found.dtype.kind not in "OUS":
        return found
    flat = [item.encode() if isinstance(item, str) else item for item in found.reshape(-1).tolist()]
    texts = numpy.empty(len(flat), object)
    texts[:] = flat
    return texts.reshape(found.shape)


class OnnxProgram(ModelProgram):
    """An ONNX file as a program; what compares and runs programs takes it like any other.

    Args:
        path: The file.
        outputs: Which outputs; all by default.

    Raises:
        EngineError: onnxruntime is not installed, or refuses the file.
        NotFoundInModelError: There is no such output.
    """

    def __init__(self, path: Path, outputs: Sequence[str] = ()) -> None:
        if not path.is_file():
            raise UsageError("there is no such file", path=path, remedy="check the path")
        session = OnnxSession(path)
        for name in outputs:
            if name not in session.outputs:
                remedy = f"it has {', '.join(session.outputs)}"
                raise NotFoundInModelError(f"there is no output {name!r}", path=path, remedy=remedy)
        chosen = {name: session.outputs[name] for name in outputs or session.outputs}
        super().__init__(Model("graphdef", (MetaGraph(Part.of(Graph(()))),)), session.inputs, chosen)
        self.__dict__["session"] = session
        self.__dict__["file"] = path

    @property
    def path(self) -> Path | None:
        """The file."""
        found: Path = self.__dict__["file"]
        return found

    @cached_property
    def frozen(self) -> FrozenGraph:
        """No graph: what is inside is not TensorFlow's."""
        return FrozenGraph(self.model, {}, {}, ())

    def compiled(self) -> OnnxSession:
        """What runs it."""
        found: OnnxSession = self.__dict__["session"]
        return found
