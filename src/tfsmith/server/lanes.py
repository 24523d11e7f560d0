"""A lane runs the requests of one signature: a bounded queue, workers with a runner each, and batches.

A run that is known to be short takes less time than to hand it to a worker and its results back. Where a lane is idle,
such a request runs at once, in the thread that brings it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from tfsmith.engines.feeds import bind_feeds, make_input
from tfsmith.engines.protocol import Port
from tfsmith.engines.runner import Runner, mixed_output
from tfsmith.errors import EngineError, NotFoundInModelError, TfsmithError, UsageError
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

__all__ = ["Lane", "Limits", "RequestError", "as_request_error"]

_PROBE_ROWS = 4
"""Rows of the batch that shows whether the rows of a model depend on each other."""
_SHORT_SECONDS, _LONG_SECONDS = 0.001, 0.02
"""A run of the first is short. Shapes of which a run took the second no longer count as such."""
_MOST_SHAPES = 1000
"""Shapes of inputs whose runs are known to be short, at most."""


class RequestError(Exception):
    """A request that is refused.

    Attributes:
        code: The name of a gRPC status, such as "NOT_FOUND"; REST has a number for each.
        what: What is wrong, for the client.
    """

    def __init__(self, code: str, what: str) -> None:
        super().__init__(what)
        self.code = code
        self.what = what


@record
class Limits:
    """How requests run.

    Attributes:
        workers: Runners of each signature.
        batch: The most rows that are run together; 1 for no batches.
        wait: For how many seconds a request may wait for others to join its batch.
        queue: The most requests of a signature that wait; more are refused.
        timeout: Seconds after which a request is given up.
        body: The most bytes of a request.
    """

    workers: int = 1
    batch: int = 1
    wait: float = 0.002
    queue: int = 100
    timeout: float = 60.0
    body: int = 64 << 20


def as_request_error(error: Exception) -> RequestError:
    """What a client is told of an error: its own input, or an engine that failed."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, (UsageError, NotFoundInModelError)):
        return RequestError("INVALID_ARGUMENT", str(error))
    if isinstance(error, EngineError):
        is_input = error.where is not None  # a node refuses the values, as TensorFlow's would
        return RequestError("INVALID_ARGUMENT" if is_input else "INTERNAL", _without_path(error))
    if isinstance(error, TfsmithError):
        return RequestError("INTERNAL", _without_path(error))
    return RequestError("INTERNAL", "the server failed; its log says why")


def _without_path(error: TfsmithError) -> str:
    """The error without the path of the server's file, which is not the client's."""
    return "; ".join(part for part in (error.where, error.what) if part)


class _Request:
    """Feeds that wait for a worker."""

    __slots__ = ("feeds", "form", "future", "is_alone", "rows")

    def __init__(self, feeds: Arrays, rows: int, form: object, is_alone: bool) -> None:
        self.feeds = feeds
        self.rows = rows
        self.form = form
        self.is_alone = is_alone
        self.future: Future[dict[str, NDArray[Any]]] = Future()


class Lane:
    """The requests of one signature, run by threads that have a runner each.

    Args:
        name: What it is, for the names of the threads.
        runners: Compiled models that all compute the same.
        limits: How requests run.
        log: Takes an event and its facts.
        steady: Whether the time of a run depends on the shapes of the inputs alone, so that short ones can be known.
        loose: Makes a lane that takes any shapes. It runs what is fed as a list of numbers where the signature says
            [?, 1], as TensorFlow Serving's own examples do; TensorFlow does not look at the signature's shapes.
    """

    def __init__(
        self,
        name: str,
        runners: list[Runner],
        limits: Limits,
        log: Callable[..., None],
        *,
        steady: bool = False,
        loose: Callable[[], Lane] | None = None,
    ) -> None:
        self._steady = steady
        self._short: set[object] = set()
        self._together = 1
        self._make_loose = loose
        self._loose: Lane | None = None
        self._making = threading.Lock()
        self.inputs = runners[0].inputs
        self.outputs = runners[0].outputs
        self.engine = f"{runners[0].engine} {runners[0].version}"
        self._runners = runners
        self._limits = limits
        self._queue: deque[_Request] = deque()
        self._ready = threading.Condition()
        self._is_open = True
        self._free = 0
        why = _why_no_batches(runners[0]) if limits.batch > 1 else "not asked for"
        self.batches = why is None
        if limits.batch > 1 and why is not None:
            log("no_batches", level="warning", lane=name, reason=why)
        self._threads = [
            threading.Thread(target=self._work, args=(runner,), name=f"tfsmith-{name}-{number}", daemon=True)
            for number, runner in enumerate(runners)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Requests that no worker has taken yet."""
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether a request waits or runs."""
        return bool(self._queue) or self._free < len(self._runners)

    def submit(self, feeds: Mapping[str, Any]) -> dict[str, NDArray[Any]] | Future[dict[str, NDArray[Any]]]:
        """Checks the feeds and queues them; or runs them, where that is known to be short.

        Raises:
            RequestError: They do not fit the model, or too many requests wait.
            TfsmithError: A short run failed.
        """
        if self._make_loose is not None and _is_flat(self.inputs, feeds):
            return self._loose_lane(self._make_loose).submit(feeds)
        try:
            bound = bind_feeds(self.inputs, feeds)
        except TfsmithError as error:
            raise as_request_error(error) from error
        with self._ready:
            if not self._is_open:
                raise RequestError("UNAVAILABLE", "the model is being unloaded; ask again")
            if len(self._queue) - self._free >= self._limits.queue:
                raise RequestError("UNAVAILABLE", f"{len(self._queue)} requests wait already; ask again later")
            is_alone = not self.busy
            if not is_alone or self._together > 1 or _shapes(bound) not in self._short:
                rows, form = self._form(bound) if self.batches else (0, None)
                request = _Request(bound, rows, form, is_alone)
                self._queue.append(request)
                self._ready.notify()
                return request.future
        start = perf_counter()
        found = self._runners[0].run_bound(bound)
        self._note_time(bound, perf_counter() - start)
        return found

    def _loose_lane(self, make: Callable[[], Lane]) -> Lane:
        with self._making:
            if self._loose is None:
                try:
                    self._loose = make()
                except TfsmithError as error:
                    raise as_request_error(error) from error
            return self._loose

    def _form(self, feeds: Arrays) -> tuple[int, object]:
        """How many rows a request has, and what must be equal in requests that run together; None for one alone."""
        sizes = {array.shape[0] for array in feeds.values()}
        if len(sizes) != 1 or min(sizes) < 1 or max(sizes) > self._limits.batch:
            return 0, None
        form = tuple(sorted((key, array.dtype.str, array.shape[1:]) for key, array in feeds.items()))
        return sizes.pop(), form

    def close(self) -> None:
        """Lets the workers finish what is queued, and lets go of the engines."""
        if self._loose is not None:
            self._loose.close()
        with self._ready:
            self._is_open = False
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()
        for runner in self._runners:
            runner.close()

    def _work(self, runner: Runner) -> None:
        while True:
            taken = self._take()
            if not taken:
                return
            wanted = [request for request in taken if request.future.set_running_or_notify_cancel()]
            if wanted:
                start = perf_counter()
                _run(runner, wanted)
                if self._steady and len(wanted) == 1:
                    self._note_time(wanted[0].feeds, perf_counter() - start)

    def _note_time(self, feeds: Arrays, seconds: float) -> None:
        if seconds > _LONG_SECONDS:
            self._short.discard(_shapes(feeds))
        elif seconds < _SHORT_SECONDS and len(self._short) < _MOST_SHAPES:
            self._short.add(_shapes(feeds))

    def _take(self) -> list[_Request]:
        """The next requests that run together; none when the lane is closed and empty."""
        with self._ready:
            self._free += 1
            while not self._queue and self._is_open:
                self._ready.wait()
            self._free -= 1
            if not self._queue:
                return []
            found = [self._queue.popleft()]
            if found[0].form is None:
                return found
            self._join(found)
            self._together = len(found)
            return found

    def _join(self, found: list[_Request]) -> None:
        """Adds requests of the same form, as they come, until the batch is full or the first has waited enough.

        One that came alone, after one that ran alone, does not wait: nobody else seems to ask.
        """
        is_lone = found[0].is_alone and self._together == 1
        rows, end = found[0].rows, monotonic() + (0 if is_lone else self._limits.wait)
        while rows < self._limits.batch:
            if not self._queue:
                left = end - monotonic()
                if left <= 0 or not self._is_open:
                    return
                self._ready.wait(left)
                continue
            other = self._queue[0]
            if other.form != found[0].form or rows + other.rows > self._limits.batch:
                return
            found.append(self._queue.popleft())
            rows += other.rows


def _shapes(feeds: Arrays) -> object:
    return tuple([(key, array.shape) for key, array in feeds.items()])


def _is_flat(inputs: Mapping[str, Port], feeds: Mapping[str, Any]) -> bool:
    """Whether an input that wants [?, 1] is fed a list of numbers."""
    for key, port in inputs.items():
        dims = port.shape.dims
        if dims is not None and len(dims) == 2 and dims[1] == 1 and getattr(feeds.get(key), "ndim", 2) == 1:
            return True
    return False


def _run(runner: Runner, requests: list[_Request]) -> None:
    """Runs requests together. Where that fails, each runs alone, so that none pays for another."""
    if len(requests) == 1:
        _run_one(runner, requests[0])
        return
    import numpy

    feeds = {key: numpy.concatenate([one.feeds[key] for one in requests]) for key in requests[0].feeds}
    rows = sum(one.rows for one in requests)
    try:
        found = runner.run_bound(feeds)
    except Exception:  # of any kind: alone, each request gets its own
        found = {}
    if not found or any(array.ndim == 0 or len(array) != rows for array in found.values()):
        for one in requests:
            _run_one(runner, one)
        return
    start = 0
    for one in requests:
        one.future.set_result({key: array[start : start + one.rows] for key, array in found.items()})
        start += one.rows


def _run_one(runner: Runner, request: _Request) -> None:
    try:
        request.future.set_result(runner.run_bound(request.feeds))
    except Exception as error:  # whoever waits for it decides what to say
        request.future.set_exception(error)


def _why_no_batches(runner: Runner) -> str | None:
    """Why requests of a model must not run together; None if they may. Runs it on a few rows."""
    import numpy

    for key, port in (*runner.inputs.items(), *runner.outputs.items()):
        dims = port.shape.dims
        if not dims or dims[0] >= 0:
            return f"the first dimension of {key!r} is not open"
    try:
        generator = numpy.random.default_rng(0)
        made = {
            key: make_input(port, "random", generator=generator, batch=_PROBE_ROWS)
            for key, port in runner.inputs.items()
        }
        mixed = mixed_output(runner, made)
    except TfsmithError as error:
        return f"made-up inputs do not run ({error.what})"
    return None if mixed is None else f"rows of output {mixed!r} depend on the other rows of their batch"
