"""What the doors share: a request on a servable, and what is said of a model, whatever carries it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.errors import TfsmithError
from tfsmith.formats.graph.metagraph import signature_to_message
from tfsmith.ir.model import SERVING_DEFAULT, Signature
from tfsmith.server.lanes import Lane, RequestError, as_request_error
from tfsmith.server.repository import Repository, Servable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Metrics", "Service", "classes_of", "examples_input", "regressions_of", "signature_map"]

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


class Metrics:
    """Counts and times for Prometheus, in a registry of the server's own."""

    def __init__(self, repository: Repository) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        self._known: dict[tuple[str, ...], tuple[Any, Any]] = {}
        labels = ["model", "api", "method"]
        self._count = Counter("tfsmith_requests", "Requests by status.", [*labels, "status"], registry=self.registry)
        self._seconds = Histogram("tfsmith_request_seconds", "Time of requests.", labels, registry=self.registry)
        self._running = Gauge("tfsmith_requests_running", "Requests that run or wait.", registry=self.registry)
        waiting = Gauge("tfsmith_requests_waiting", "Requests that no worker has taken.", ["model"],
                        registry=self.registry)  # fmt: skip
        for name in repository.names:
            waiting.labels(name).set_function(lambda name=name: _waiting(repository, name))

    def request(self, model: str, api: str, method: str) -> _Counted:
        """Counts and times what runs inside; a `RequestError` gives the status."""
        return _Counted(self, model, api, method)

    def begin(self) -> None:
        """Counts a request that runs."""
        self._running.inc()

    def end(self, model: str, api: str, method: str, status: str, seconds: float) -> None:
        """Counts a request that ended. To find the counters by their labels takes longer than to count."""
        self._running.dec()
        if status == "NOT_FOUND":
            model = ""  # names that clients make up are not kept
        labels = (model, api, method, status)
        if labels not in self._known:
            self._known[labels] = self._count.labels(*labels), self._seconds.labels(*labels[:3])
        count, time_taken = self._known[labels]
        count.inc()
        time_taken.observe(seconds)

    @property
    def total(self) -> int:
        """How many requests there were."""
        return sum(int(one.value) for one in self._count.collect()[0].samples if one.name.endswith("_total"))

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        from prometheus_client import generate_latest

        found: bytes = generate_latest(self.registry)
        return found


class _Counted:
    """A request from its begin to its end, for the metrics."""

    def __init__(self, metrics: Metrics, model: str, api: str, method: str) -> None:
        self._metrics = metrics
        self._labels = (model, api, method)
        self._start = time.perf_counter()

    def __enter__(self) -> None:
        self._metrics.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        status = error.code if isinstance(error, RequestError) else "OK" if error is None else "INTERNAL"
        self._metrics.end(*self._labels, status, time.perf_counter() - self._start)


def _waiting(repository: Repository, name: str) -> int:
    try:
        with repository.use(name) as servable:
            return servable.waiting
    except RequestError:
        return 0


class Service:
    """Requests, whatever carries them."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.metrics = Metrics(repository)

    def lane(self, servable: Servable, signature: str, *methods: str) -> tuple[str, Signature, Lane]:
        """A signature, by its name or the default one, and where it runs.

        Raises:
            RequestError: There is none of that name, it is of another method, or no engine can run it.
        """
        name = signature or SERVING_DEFAULT
        if not signature and name not in servable.signatures and len(servable.signatures) == 1:
            name = next(iter(servable.signatures))
        found = servable.signatures.get(name)
        if found is None:
            raise RequestError("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
        if methods and found.method_name not in methods:
            what = f"Expected signature method_name to be {methods[0]}. Was: {found.method_name}"
            raise RequestError("INVALID_ARGUMENT", what)
        try:
            return name, found, servable.lane(name)
        except TfsmithError as error:
            raise RequestError("UNIMPLEMENTED", as_request_error(error).what) from error


def signature_map(servable: Servable) -> Any:
    """The signatures of a model, as TensorFlow Serving's SignatureDefMap."""
    from tfsmith.wire import new

    found = new("serving.SignatureDefMap")
    for key, signature in servable.signatures.items():
        found.signature_def[key].CopyFrom(signature_to_message(signature))
    return found


def examples_input(signature: Signature) -> str:
    """The key of the input that takes serialized examples.

    Raises:
        RequestError: There is not one input, or it takes no strings.
    """
    if len(signature.inputs) != 1 or next(iter(signature.inputs.values())).dtype.base.name != "string":
        raise RequestError("INVALID_ARGUMENT", "Expected one input Tensor of serialized examples.")
    return next(iter(signature.inputs))


def classes_of(results: Mapping[str, NDArray[Any]], count: int) -> Sequence[Sequence[tuple[bytes, float]]]:
    """The labels and scores of each example.

    Raises:
        RequestError: The outputs are not those of a classification.
    """
    labels, scores = results.get("classes"), results.get("scores")
    given = [array for array in (labels, scores) if array is not None]
    if not given:
        raise RequestError("FAILED_PRECONDITION", 'Expected outputs to contain at least one of "classes" or "scores"')
    for array in given:
        if array.ndim != 2 or len(array) != count or array.shape != given[0].shape:
            shape = list(array.shape)
            raise RequestError("INVALID_ARGUMENT", f"Expected Tensor shape: [{count} num_classes] but got {shape}")
    rows, columns = given[0].shape
    return [
        [(b"" if labels is None else labels[row, column], 0.0 if scores is None else scores[row, column].item())
         for column in range(columns)]
        for row in range(rows)
    ]  # fmt: skip


def regressions_of(results: Mapping[str, NDArray[Any]], count: int) -> NDArray[Any]:
    """The value of each example.

    Raises:
        RequestError: The outputs are not those of a regression.
    """
    found = results.get("outputs")
    if found is None:
        raise RequestError("FAILED_PRECONDITION", "No regression outputs found in SignatureDef")
    if found.shape not in ((count,), (count, 1)):
        what = f"Expected output Tensor shape to be either [{count}] or [{count}, 1]. Got: {list(found.shape)}"
        raise RequestError("INVALID_ARGUMENT", what)
    return found.reshape(count)
