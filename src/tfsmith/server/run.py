"""Runs both doors until a signal: the REST door in this thread, gRPC in its own, polling in another."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from tfsmith.errors import EngineError, UsageError
from tfsmith.records import record
from tfsmith.server.lanes import Limits
from tfsmith.server.repository import ModelConfig, Repository

__all__ = ["Addresses", "check_installed", "log_to", "serve_models"]

_PACKAGES = ("starlette", "uvicorn", "grpc", "prometheus_client")


@record
class Addresses:
    """Where to listen; a port of -1 for a door that stays closed, 0 for one that is free."""

    host: str
    port: int
    grpc_port: int


def check_installed() -> None:
    """Refuses to go on without what the doors are built on.

    Raises:
        EngineError: A package is missing.
    """
    from importlib.util import find_spec

    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise EngineError(f"{', '.join(missing)} is not installed", remedy="pip install 'tfsmith[serve]'")


def log_to(stream: Any) -> Callable[..., None]:
    """A log: a line of JSON for each event, with the time and the facts."""
    lock = threading.Lock()

    def log(event: str, *, level: str = "info", **facts: Any) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "event": event, **facts}, default=str)
        with lock:
            stream.write(f"{line}\n")
            stream.flush()

    return log


def serve_models(
    configs: list[ModelConfig],
    load: Callable[..., Any],
    compile_model: Callable[..., Any],
    limits: Limits,
    addresses: Addresses,
    *,
    poll: float,
    log_requests: bool,
) -> tuple[int, int]:
    """Serves until SIGINT or SIGTERM, then lets running requests end.

    Returns:
        How many requests there were, and how many models.

    Raises:
        UsageError: A port cannot be had.
        TfsmithError: A model cannot be loaded at the start.
    """
    import uvicorn

    from tfsmith.server.answers import Service
    from tfsmith.server.grpc_door import make_grpc_server
    from tfsmith.server.rest import make_app

    log = log_to(sys.stderr)
    listener = _listen(addresses.host, addresses.port, "port")
    repository = Repository(configs, load, compile_model, limits, log)
    service = Service(repository)
    grpc_server = None
    try:
        grpc_port = -1
        if addresses.grpc_port >= 0:
            _listen(addresses.host, addresses.grpc_port, "grpc_port").close()  # grpcio would say more than an error
            grpc_server, grpc_port = make_grpc_server(service, _joined(addresses.host, addresses.grpc_port), log)
            if not grpc_port:
                raise _taken(addresses.host, addresses.grpc_port, "grpc_port")
        with _early_stop():
            _in_thread(repository.poll)
        _check_any(repository, log)
        repository.start(poll)
        if grpc_server is not None:
            grpc_server.start()
        config = uvicorn.Config(
            make_app(service, log, log_requests=log_requests),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, int(limits.timeout)),
            timeout_keep_alive=75,
        )
        host, port = listener.getsockname()[:2]
        grpc_at = None if grpc_port < 0 else _joined(host, grpc_port)
        log("listening", rest=f"http://{_joined(host, port)}", grpc=grpc_at, models=repository.names)
        _make_server(config).run([listener])
        log("stopping")
    finally:
        listener.close()
        if grpc_server is not None:
            grpc_server.stop(limits.timeout).wait()
        repository.close()
    log("stopped", requests=service.metrics.total)
    return service.metrics.total, len(configs)


def _in_thread(work: Callable[[], None]) -> None:
    """Runs this in another thread, and waits for it.

    OpenVINO gives the thread that compiles a signal stack of its own, and frees it with the model, whoever closes that.
    In the main thread the next signal would then end the process.
    """
    with ThreadPoolExecutor(1, "tfsmith-load") as pool:
        pool.submit(work).result()


@contextmanager
def _early_stop() -> Iterator[None]:
    """SIGTERM while the models load ends the process as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_any(repository: Repository, log: Callable[..., None]) -> None:
    """Refuses to start where a model was found and none of its versions could be loaded; says what is not there yet."""
    from tfsmith.server.lanes import RequestError

    for name in repository.names:
        try:
            found = repository.status(name)
        except RequestError:
            log("waiting", level="warning", model=name, reason="there is no version in its folder yet")
            continue
        if not any(one.state == "AVAILABLE" for one in found):
            raise EngineError(f"model {name!r} cannot be served: {found[0].error}")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(host: str, port: int, option: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(
            f"no address {host!r} ({error.strerror or error})", remedy="pass {host='127.0.0.1'}"
        ) from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
        found.set_inheritable(False)
    except (OSError, OverflowError) as error:
        found.close()
        raise _taken(host, port, option) from error
    return found


def _taken(host: str, port: int, option: str) -> UsageError:
    return UsageError(f"{_joined(host, port)} cannot be had", remedy=f"choose another {{{option}}}; 0 takes a free one")


def _make_server(config: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):  # type: ignore[misc]
        """Stops at SIGINT and SIGTERM, and lets this process go on; uvicorn's own would raise the signal again."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Handles signals in the main thread; elsewhere there are none."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            wanted = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, self.handle_exit) for number in wanted}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    return Server(config)
