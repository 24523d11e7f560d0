"""TensorFlow Serving's gRPC: PredictionService and ModelService, by the names and numbers of its protos."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

from tfsmith.errors import TfsmithError
from tfsmith.formats.graph import tensor_from_message
from tfsmith.ir.types import DType, as_dtype
from tfsmith.server.answers import (
    CLASSIFY,
    REGRESS,
    Service,
    classes_of,
    examples_input,
    regressions_of,
    signature_map,
)
from tfsmith.server.lanes import Lane, RequestError, as_request_error
from tfsmith.server.repository import Servable
from tfsmith.wire import message_class, new

if TYPE_CHECKING:
    import grpc
    from numpy.typing import NDArray

__all__ = ["make_grpc_server"]

_THREADS = 32
_LISTS = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    "uint32": "uint32_val", "uint64": "uint64_val", "string": "string_val",
}  # fmt: skip
"""Where TensorFlow Serving puts the values of a type; small integers are in int_val."""


def make_grpc_server(service: Service, address: str, log: Callable[..., None]) -> tuple[grpc.Server, int]:
    """A server, not started yet, and its port; 0 if the address cannot be had."""
    import grpc

    size = service.repository.limits.body
    options = [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(ThreadPoolExecutor(_THREADS, "tfsmith-grpc"), options=options)
    door = _Door(service, log)
    for name, methods in {
        "tensorflow.serving.PredictionService": {
            "Predict": (door.predict, "PredictRequest"),
            "Classify": (door.classify, "ClassificationRequest"),
            "Regress": (door.regress, "RegressionRequest"),
            "GetModelMetadata": (door.metadata, "GetModelMetadataRequest"),
        },
        "tensorflow.serving.ModelService": {"GetModelStatus": (door.status, "GetModelStatusRequest")},
    }.items():
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                door.guarded(method, answer),
                request_deserializer=message_class(f"serving.{kind}").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for method, (answer, kind) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    try:
        return server, server.add_insecure_port(address)
    except RuntimeError:  # what grpcio raises for a port that is taken
        return server, 0


class _Door:
    """The methods. Each takes a request and the seconds that are left, and gives a response."""

    def __init__(self, service: Service, log: Callable[..., None]) -> None:
        self._service = service
        self._log = log

    def guarded(self, method: str, answer: Callable[[Any, float], Any]) -> Callable[[Any, Any], Any]:
        """A handler that ends with the status of what went wrong."""
        import grpc

        def handle(request: Any, context: Any) -> Any:
            left = context.time_remaining()
            seconds = min(self._service.repository.limits.timeout, 1e9 if left is None else left)
            try:
                with self._service.metrics.request(request.model_spec.name, "grpc", method):
                    return self._answer(answer, request, seconds)
            except RequestError as error:
                self._log("refused", level="warning", api="grpc", method=method, status=error.code, error=error.what)
                context.abort(grpc.StatusCode[error.code], error.what)

        return handle

    def _answer(self, answer: Callable[[Any, float], Any], request: Any, seconds: float) -> Any:
        try:
            return answer(request, seconds)
        except RequestError:
            raise
        except (FutureTimeout, CancelledError) as error:
            raise RequestError("DEADLINE_EXCEEDED", "the request took too long") from error
        except Exception as error:
            if not isinstance(error, TfsmithError):
                self._log("failed", level="error", api="grpc", error=repr(error), trace=traceback.format_exc())
            raise as_request_error(error) from error

    def _use(self, spec: Any) -> Any:
        if not spec.name:
            raise RequestError("INVALID_ARGUMENT", "ModelSpec has no name specified.")
        choice = spec.WhichOneof("version_choice")
        version = spec.version.value if choice == "version" else None
        return self._service.repository.use(
            spec.name, version, spec.version_label if choice == "version_label" else None
        )

    def _run(self, lane: Lane, feeds: Mapping[str, Any], seconds: float) -> dict[str, NDArray[Any]]:
        found = lane.submit(feeds)
        if isinstance(found, dict):
            return found
        try:
            return found.result(seconds)
        except FutureTimeout:
            found.cancel()
            raise

    def predict(self, request: Any, seconds: float) -> Any:
        """PredictionService.Predict."""
        with self._use(request.model_spec) as servable:
            name, _, lane = self._service.lane(servable, request.model_spec.signature_name)
            wanted = list(request.output_filter) or list(lane.outputs)
            unknown = next((key for key in wanted if key not in lane.outputs), None)
            if unknown is not None:
                raise RequestError("INVALID_ARGUMENT", f"output tensor alias not found in signature: {unknown}")
            most = self._service.repository.limits.body
            unnamed = next((key for key in request.inputs if key not in lane.inputs), None)
            if unnamed is not None:
                raise RequestError("INVALID_ARGUMENT", f"input tensor alias not found in signature: {unnamed}")
            feeds = {key: _array(tensor, key, lane.inputs[key].dtype, most) for key, tensor in request.inputs.items()}
            results = self._run(lane, feeds, seconds)
            response = new("serving.PredictResponse")
            for key in wanted:
                _fill(response.outputs[key], results[key])
            _fill_spec(response.model_spec, servable, name)
            return response

    def classify(self, request: Any, seconds: float) -> Any:
        """PredictionService.Classify."""
        with self._use(request.model_spec) as servable:
            name, results, count = self._run_examples(servable, request, seconds, CLASSIFY)
            response = new("serving.ClassificationResponse")
            for row in classes_of(results, count):
                classes = response.result.classifications.add().classes
                for label, score in row:
                    classes.add(label=label.decode("utf-8", "replace"), score=score)
            _fill_spec(response.model_spec, servable, name)
            return response

    def regress(self, request: Any, seconds: float) -> Any:
        """PredictionService.Regress."""
        with self._use(request.model_spec) as servable:
            name, results, count = self._run_examples(servable, request, seconds, REGRESS)
            response = new("serving.RegressionResponse")
            for value in regressions_of(results, count).tolist():
                response.result.regressions.add(value=value)
            _fill_spec(response.model_spec, servable, name)
            return response

    def _run_examples(
        self, servable: Servable, request: Any, seconds: float, method: str
    ) -> tuple[str, dict[str, NDArray[Any]], int]:
        import numpy

        name, signature, lane = self._service.lane(servable, request.model_spec.signature_name, method)
        kind = request.input.WhichOneof("kind")
        examples = [] if kind is None else list(getattr(request.input, kind).examples)
        if not examples:
            raise RequestError("INVALID_ARGUMENT", "Input is empty.")
        if kind == "example_list_with_context":
            for example in examples:
                example.MergeFrom(request.input.example_list_with_context.context)
        array = numpy.empty(len(examples), object)
        array[:] = [example.SerializeToString(deterministic=True) for example in examples]
        return name, self._run(lane, {examples_input(signature): array}, seconds), len(examples)

    def metadata(self, request: Any, seconds: float) -> Any:
        """PredictionService.GetModelMetadata."""
        fields = list(request.metadata_field)
        if not fields:
            raise RequestError("INVALID_ARGUMENT", "GetModelMetadataRequest must specify at least one metadata_field")
        unknown = next((name for name in fields if name != "signature_def"), None)
        if unknown is not None:
            raise RequestError("INVALID_ARGUMENT", f"Metadata field {unknown} is not supported")
        with self._use(request.model_spec) as servable:
            response = new("serving.GetModelMetadataResponse")
            _fill_spec(response.model_spec, servable, "")
            packed = response.metadata["signature_def"]
            packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
            packed.value = signature_map(servable).SerializeToString(deterministic=True)
            return response

    def status(self, request: Any, seconds: float) -> Any:
        """ModelService.GetModelStatus."""
        spec = request.model_spec
        choice = spec.WhichOneof("version_choice")
        version = spec.version.value if choice == "version" else None
        label = spec.version_label if choice == "version_label" else None
        response = new("serving.GetModelStatusResponse")
        for one in self._service.repository.status(spec.name, version, label):
            found = response.model_version_status.add(version=one.version, state=one.state)
            found.status.error_code = "UNKNOWN" if one.error else "OK"
            found.status.error_message = one.error
        return response


def _fill_spec(spec: Any, servable: Servable, signature: str) -> None:
    spec.name, spec.signature_name = servable.name, signature
    spec.version.value = servable.version


def _array(message: Any, key: str, wanted: DType | None, most: int) -> NDArray[Any]:
    """The values of a TensorProto. One that repeats its last value may claim any size, so that is looked at first."""
    try:
        tensor = tensor_from_message(message, f"input {key!r}")
        if wanted is not None and tensor.dtype.base != wanted.base:
            raise RequestError("INVALID_ARGUMENT", f"input {key!r} is {wanted.base}, but {tensor.dtype} is given")
        if tensor.nbytes > most:
            raise RequestError("INVALID_ARGUMENT", f"input {key!r} has {tensor.nbytes:,} bytes, of {most:,} at most")
        found: NDArray[Any] = tensor.numpy()
        return found
    except TfsmithError as error:
        raise RequestError("INVALID_ARGUMENT", f"input {key!r} is no tensor: {error.what}") from error


def _fill(message: Any, array: NDArray[Any]) -> None:
    """An array as a TensorProto, with its values in lists by type, which clients read."""
    import numpy

    kind = as_dtype(array.dtype)
    message.dtype = kind.number
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    flat = array.reshape(-1)
    if kind.name in _LISTS:
        getattr(message, _LISTS[kind.name]).extend(flat.tolist())
    elif kind.name in ("float16", "bfloat16"):
        message.half_val.extend(flat.view(numpy.uint16).tolist())
    elif kind.name in ("complex64", "complex128"):
        parts = flat.view(numpy.float32 if kind.name == "complex64" else numpy.float64)
        (message.scomplex_val if kind.name == "complex64" else message.dcomplex_val).extend(parts.tolist())
    elif array.dtype.kind in "iu":
        message.int_val.extend(flat.tolist())
    else:
        message.tensor_content = numpy.ascontiguousarray(flat).tobytes()
