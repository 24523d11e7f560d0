"""The REST door: TensorFlow Serving's `/v1`, KServe's `/v2`, health, metrics and the page, on starlette."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import traceback
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tfsmith import __version__
from tfsmith.engines.protocol import Port
from tfsmith.errors import TfsmithError
from tfsmith.server.answers import (
    CLASSIFY,
    REGRESS,
    Service,
    classes_of,
    examples_input,
    regressions_of,
    signature_map,
)
from tfsmith.server.json_tensors import (
    flat_json,
    json_array,
    json_text,
    named_inputs,
    outputs_text,
    parse_object,
    serialized_examples,
)
from tfsmith.server.lanes import Lane, RequestError, as_request_error
from tfsmith.server.page import make_page
from tfsmith.server.repository import Servable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HTTP_CODES", "make_app"]

HTTP_CODES: Mapping[str, int] = {
    "CANCELLED": 499, "INVALID_ARGUMENT": 400, "DEADLINE_EXCEEDED": 504, "NOT_FOUND": 404, "FAILED_PRECONDITION": 400,
    "RESOURCE_EXHAUSTED": 413, "UNIMPLEMENTED": 501, "INTERNAL": 500, "UNAVAILABLE": 503,
}  # fmt: skip
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_ASK = re.compile(rf"{_MODEL}:(?P<method>classify|regress|predict)", re.IGNORECASE)
_LOOK = re.compile(rf"{_MODEL}(?P<method>/metadata)?", re.IGNORECASE)
_KSERVE = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?(?P<method>/ready|/infer)?")
_KINDS = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "string": "BYTES",
}  # fmt: skip
"""KServe's names of the types."""
_LARGE = 1 << 18
"""A body of so many bytes is read in a thread, so that other requests need not wait."""
_BUSY_SECONDS = "1"
_PATIENCE = 4
"""Of a body that is too large, so many times as much as is allowed is still read."""


def make_app(service: Service, log: Callable[..., None], *, log_requests: bool = False) -> Callable[..., Any]:
    """The ASGI application.

    Args:
        service: Whom to ask.
        log: Takes an event and its facts.
        log_requests: Whether to log each request; failed ones are always logged.
    """
    return _Door(service, log, log_requests)


async def _http_error(request: Request, error: Exception) -> Response:
    """What starlette itself refuses: an unknown path or method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _error(status, f"Malformed request: {request.method} {request.scope['path']}")


def _error(status: int, what: str) -> Response:
    headers = {"Retry-After": _BUSY_SECONDS} if status == 503 else None
    return Response(f'{{ "error": {json.dumps(what)} }}', status, headers, "application/json")


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


class _Door:
    """What each path gives. Starlette has the routes of all but the two APIs, whose paths have forms of their own."""

    def __init__(self, service: Service, log: Callable[..., None], log_requests: bool) -> None:
        self._service = service
        self._repository = service.repository
        self._limits = service.repository.limits
        self._log = log
        self._log_requests = log_requests
        routes = [
            Route("/v2/health/{what}", self.health),
            Route("/v2", self.server_metadata),
            Route("/metrics", self.metrics),
            Route("/monitoring/prometheus/metrics", self.metrics),
            Route("/", self.page),
        ]
        self._routes = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, as ASGI calls it."""
        path = scope.get("path", "")
        if scope["type"] == "http" and path.startswith("/v1/"):
            await (await self._handle("v1", self.tensorflow_serving, Request(scope, receive)))(scope, receive, send)
        elif scope["type"] == "http" and path.startswith("/v2/models/"):
            await (await self._handle("v2", self.kserve, Request(scope, receive)))(scope, receive, send)
        else:
            await self._routes(scope, receive, send)

    async def _handle(self, api: str, answer: Callable[[Request], Awaitable[str]], request: Request) -> Response:
        """An answer within the limit of time, with errors as JSON."""
        start, what = time.perf_counter(), ""
        try:
            response = _json(await self._answer(answer, request))
        except RequestError as error:
            what = error.what
            response = _error(HTTP_CODES.get(error.code, 500), what)
        if self._log_requests or what:
            path, milliseconds = request.scope["path"], round(1000 * (time.perf_counter() - start), 3)
            self._log("refused" if what else "request", level="warning" if what else "info", api=api,
                      method=request.method, path=path[:200], status=response.status_code, ms=milliseconds,
                      **({"error": what} if what else {}))  # fmt: skip
        return response

    async def _answer(self, answer: Callable[[Request], Awaitable[str]], request: Request) -> str:
        try:
            return await _within(self._limits.timeout, answer(request))
        except RequestError:
            raise
        except (TimeoutError, asyncio.TimeoutError, CancelledError) as error:
            raise RequestError("DEADLINE_EXCEEDED", f"the request took over {self._limits.timeout:g} s") from error
        except ClientDisconnect as error:
            raise RequestError("CANCELLED", "the client went away") from error
        except Exception as error:
            if not isinstance(error, TfsmithError):
                self._log("failed", level="error", api="rest", error=repr(error), trace=traceback.format_exc())
            raise as_request_error(error) from error

    async def _object(self, request: Request) -> dict[str, Any]:
        """The JSON body, within the limit of size.

        A body that is somewhat larger is read to its end and dropped: most clients look for an answer only then.
        """
        told = request.headers.get("content-length", "")
        most = self._limits.body
        if told.isdecimal() and int(told) > most * _PATIENCE:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most * _PATIENCE:
                raise self._too_large()
            if size <= most:
                parts.append(part)
        if size > most:
            raise self._too_large()
        body, coding = b"".join(parts), request.headers.get("content-encoding", "identity").lower()
        if coding == "identity" and size < _LARGE:
            return parse_object(body)
        found: dict[str, Any] = await run_in_threadpool(lambda: parse_object(self._decoded(body, coding)))
        return found

    def _decoded(self, body: bytes, coding: str) -> bytes:
        """A body as it was before the client compressed it, within the limit of size."""
        if coding == "identity":
            return body
        if coding != "gzip":
            raise RequestError("INVALID_ARGUMENT", f"Content-Encoding {coding[:40]} is unknown; send gzip or none")
        unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            found = unzip.decompress(body, self._limits.body + 1)
        except zlib.error as error:
            raise RequestError("INVALID_ARGUMENT", f"the request is not gzip ({error})") from error
        if len(found) > self._limits.body:
            raise self._too_large()
        if not unzip.eof or unzip.unused_data:
            raise RequestError("INVALID_ARGUMENT", "the request is not one whole gzip stream")
        return found

    def _too_large(self) -> RequestError:
        return RequestError("RESOURCE_EXHAUSTED", f"the request has over {self._limits.body:,} bytes")

    async def _run(self, lane: Lane, feeds: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        found = lane.submit(feeds)
        return found if isinstance(found, dict) else await asyncio.wrap_future(found)

    async def _lane(self, servable: Servable, signature: Any, *methods: str) -> tuple[str, Any, Lane]:
        if not isinstance(signature, str):
            raise RequestError("INVALID_ARGUMENT", "'signature_name' key must be a string value.")
        if servable.is_compiled(signature):
            return self._service.lane(servable, signature, *methods)
        found: tuple[str, Any, Lane] = await run_in_threadpool(self._service.lane, servable, signature, *methods)
        return found

    async def tensorflow_serving(self, request: Request) -> str:
        """`/v1/models/...`: status, metadata, predict, classify, regress."""
        path = request.scope["path"]
        pattern = {"POST": _ASK, "GET": _LOOK}.get(request.method)
        found = None if pattern is None else pattern.fullmatch(path)
        if found is None:
            if path.rstrip("/") == "/v1/models" and request.method == "GET":
                raise RequestError("INVALID_ARGUMENT", "Missing model name in request.")
            raise RequestError("INVALID_ARGUMENT", f"Malformed request: {request.method} {path}")
        name, version, label = found["name"], _version(found["version"]), found["label"]
        method = (found["method"] or "/status").lstrip("/").lower()
        with self._service.metrics.request(name, "rest", method):
            if method == "status":
                return _status_text(self._repository.status(name, version, label))
            with self._repository.use(name, version, label) as servable:
                if method == "metadata":
                    return _metadata_text(servable)
                body = await self._object(request)
                if method == "predict":
                    return await self._predict(servable, body)
                return await self._examples(servable, body, method)

    async def _predict(self, servable: Servable, body: dict[str, Any]) -> str:
        _, _, lane = await self._lane(servable, body.get("signature_name", ""))
        feeds, in_rows = named_inputs(body, lane.inputs)
        results = await self._run(lane, feeds)
        if sum(array.size for array in results.values()) < _LARGE >> 4:
            return outputs_text(results, in_rows=in_rows)
        text: str = await run_in_threadpool(outputs_text, results, in_rows=in_rows)
        return text

    async def _examples(self, servable: Servable, body: dict[str, Any], method: str) -> str:
        wanted = CLASSIFY if method == "classify" else REGRESS
        _, signature, lane = await self._lane(servable, body.get("signature_name", ""), wanted)
        examples = serialized_examples(body)
        results = await self._run(lane, {examples_input(signature): examples})
        if method == "regress":
            return f'{{\n    "results": {json_text(regressions_of(results, len(examples)))}\n}}\n'
        import numpy

        rows = [
            "[" + ", ".join(f"[{json.dumps(label.decode('utf-8', 'replace'))}, {json_text(numpy.float32(score))}]"
                            for label, score in row) + "]"
            for row in classes_of(results, len(examples))
        ]  # fmt: skip
        return f'{{\n    "results": [{", ".join(rows)}]\n}}\n'

    async def kserve(self, request: Request) -> str:
        """`/v2/models/...`: metadata, readiness, infer."""
        found = _KSERVE.fullmatch(request.scope["path"])
        is_infer = found is not None and found["method"] == "/infer"
        if found is None or request.method != ("POST" if is_infer else "GET"):
            raise RequestError("INVALID_ARGUMENT", f"Malformed request: {request.method} {request.scope['path']}")
        name, version = found["name"], _version(found["version"])
        method = (found["method"] or "/metadata").lstrip("/")
        with (
            self._service.metrics.request(name, "kserve", method),
            self._repository.use(name, version) as servable,
        ):
            if method == "ready":
                return json.dumps({"name": name, "ready": True})
            if method == "infer":
                return await self._infer(servable, await self._object(request))
            _, _, lane = await self._lane(servable, "")
            versions = [str(one.version) for one in self._repository.status(name) if one.state == "AVAILABLE"]
            sides = {side: [_port(key, port) for key, port in ports.items()]
                     for side, ports in (("inputs", lane.inputs), ("outputs", lane.outputs))}  # fmt: skip
            return json.dumps({"name": name, "versions": versions, "platform": "tensorflow_savedmodel", **sides})

    async def _infer(self, servable: Servable, body: dict[str, Any]) -> str:
        settings = body.get("parameters", {})
        signature = settings.get("signature_name", "") if isinstance(settings, dict) else ""
        _, _, lane = await self._lane(servable, signature)
        feeds = _kserve_inputs(body.get("inputs"), lane.inputs)
        asked = body.get("outputs", [])
        if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
            raise RequestError("INVALID_ARGUMENT", "'outputs' must be a list of objects with a 'name'")
        wanted = [one.get("name") for one in asked] or list(lane.outputs)
        unknown = next((key for key in wanted if key not in lane.outputs), None)
        if unknown is not None:
            raise RequestError("INVALID_ARGUMENT", f"the model has no output {unknown!r}")
        results = await self._run(lane, feeds)
        texts = [
            f'{{"name": {json.dumps(key)}, "shape": {list(results[key].shape)}, '
            f'"datatype": "{_datatype(lane.outputs[key])}", "data": {flat_json(results[key])}}}'
            for key in wanted
        ]
        head: dict[str, Any] = {"model_name": servable.name, "model_version": str(servable.version)}
        if "id" in body:
            head["id"] = str(body["id"])
        return f'{json.dumps(head)[:-1]}, "outputs": [{", ".join(texts)}]}}'

    async def health(self, request: Request) -> Response:
        """`/v2/health/live` and `/v2/health/ready`."""
        what = request.path_params["what"]
        if what not in ("live", "ready"):
            return _error(404, f"Malformed request: GET {request.scope['path']}")
        is_good = what == "live" or self._repository.is_ready
        return Response(json.dumps({what: is_good}), 200 if is_good else 503, media_type="application/json")

    async def server_metadata(self, request: Request) -> Response:
        """`/v2`: who answers."""
        return _json(json.dumps({"name": "tfsmith", "version": __version__, "extensions": []}))

    async def metrics(self, request: Request) -> Response:
        """What Prometheus reads."""
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def page(self, request: Request) -> Response:
        """`/`: the models, an example request of each, and a form."""
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src "
                   "'unsafe-inline'; connect-src 'self'", "X-Content-Type-Options": "nosniff"}  # fmt: skip
        return Response(make_page(self._repository), headers=headers, media_type="text/html")


async def _within(seconds: float, answer: Awaitable[str]) -> str:
    """An answer, unless it takes longer. Python 3.10 needs a task for that, which costs a small request a tenth."""
    if sys.version_info < (3, 11):
        return await asyncio.wait_for(answer, seconds)
    async with asyncio.timeout(seconds):
        return await answer


def _version(text: str | None) -> int | None:
    if text is not None and len(text) > 18:
        raise RequestError("INVALID_ARGUMENT", f"Failed to convert version: {text} to numeric.")
    return None if text is None else int(text)


def _status_text(found: Any) -> str:
    rows = [
        {
            "version": str(one.version),
            "state": one.state,
            "status": {"error_code": "UNKNOWN" if one.error else "OK", "error_message": one.error},
        }
        for one in found
    ]
    return json.dumps({"model_version_status": rows}, indent=1) + "\n"


def _metadata_text(servable: Servable) -> str:
    from google.protobuf.json_format import MessageToDict

    signatures = MessageToDict(
        signature_map(servable), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    spec = {"name": servable.name, "signature_name": "", "version": str(servable.version)}
    return json.dumps({"model_spec": spec, "metadata": {"signature_def": signatures}}, indent=1) + "\n"


def _datatype(port: Port) -> str:
    name = "" if port.dtype is None else port.dtype.base.name
    if name not in _KINDS:
        raise RequestError("UNIMPLEMENTED", f"KServe has no name for the type {name or 'that the model leaves open'}")
    return _KINDS[name]


def _port(key: str, port: Port) -> dict[str, Any]:
    return {"name": key, "datatype": _datatype(port), "shape": list(port.shape.dims or ())}


def _kserve_inputs(given: Any, inputs: Mapping[str, Port]) -> dict[str, Any]:
    """The arrays of an infer request: `data` flat or nested, in the shape that it says."""
    if not isinstance(given, list):
        raise RequestError("INVALID_ARGUMENT", "'inputs' must be a list of tensors")
    found: dict[str, Any] = {}
    for one in given:
        key = one.get("name") if isinstance(one, dict) else None
        if not isinstance(key, str) or key not in inputs or key in found:
            what = f"input {key!r} is given twice" if key in found else f"the model has no input {key!r}"
            raise RequestError("INVALID_ARGUMENT", f"{what}; the inputs are: {', '.join(inputs)}")
        shape, kind = one.get("shape"), _datatype(inputs[key])
        if one.get("datatype") != kind:
            raise RequestError("INVALID_ARGUMENT", f"input {key!r} is {kind}, not {one.get('datatype')!r}")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise RequestError("INVALID_ARGUMENT", f"the shape of input {key!r} must be a list of sizes")
        array = json_array(one.get("data"), inputs[key], key)
        count = 1
        for size in shape:
            count *= size
        if array.size != count or (array.ndim > 1 and list(array.shape) != shape):
            what = f"input {key!r} has {array.size} values in shape {list(array.shape)}, but says {shape}"
            raise RequestError("INVALID_ARGUMENT", what)
        found[key] = array.reshape(shape)
    return found
