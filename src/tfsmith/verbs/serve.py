"""`tfsmith serve PATH`: answers as TensorFlow Serving does, on the embedded engines."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.protocol import engine_named, usual_inputs
from tfsmith.engines.runner import AUTO, Runner, check_engine, compile_program
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.types import Shape
from tfsmith.records import record, replace
from tfsmith.storage import is_remote
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import Result, open_model
from tfsmith.verbs.run import engine_options
from tfsmith.view import Section, plural

if TYPE_CHECKING:
    from tfsmith.server.repository import ModelConfig
    from tfsmith.verbs._shared import FilePath, ModelOrPath, Pairs, Progress

__all__ = ["FLAGS", "Served", "serve"]

FLAGS = {"model_config": ("--model_config_file",)}
_SETTINGS = {"ENABLE_CPU_PINNING": False}
"""Of OpenVINO: to bind threads to cores for each run takes longer than to run a small model; servers share cores."""
_TINY_NODES, _TINY_BYTES, _TINY_RANK = 16, 1 << 14, 2
"""Nodes besides constants, bytes of these, and the rank of inputs, of a program that is tiny: no images, no words."""


@record
class Served(Result):
    """What a server did until it was stopped.

    Attributes:
        requests: How many requests there were.
        models: How many models it served.
        notes: Nothing: the log has it all.
    """

    requests: int
    models: int
    notes: tuple[str, ...] = ()

    def report(self) -> Iterator[Section | str]:
        """How much there was to do."""
        yield Section(f"served {plural(self.requests, 'request')} on {plural(self.models, 'model')}")

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"requests": self.requests, "models": self.models}


@checked
def serve(
    path: ModelOrPath | None = None,
    *,
    name: str | None = None,
    model_config: FilePath | None = None,
    labels: Pairs | None = None,
    host: str = "127.0.0.1",
    port: int = 8501,
    grpc_port: int = 8500,
    engine: str = AUTO,
    workers: int = 1,
    batch: int = 1,
    batch_wait_ms: float = 2.0,
    queue: int = 100,
    timeout: float = 60.0,
    max_body_mb: int = 64,
    poll: float = 2.0,
    log_requests: bool = False,
    progress: Progress | None = None,
) -> Served:
    """Serves models as TensorFlow Serving does: REST and gRPC, without TensorFlow.

    Runs until Ctrl-C or SIGTERM, and lets running requests end. The log goes to stderr, a line of JSON for each event.

    Args:
        path: A model, or a folder with a model in each numbered folder: the newest is served, new ones are picked up.
            Of a URL or an archive, only what is there at the start.
        name: What requests call the model; the name of the folder by default.
        model_config: Several models: a file with TensorFlow Serving's `model_config_list`, in place of a path.
        labels: Versions by label, as in stable=1; they are served besides the newest.
        host: Where to listen; 0.0.0.0 is for everybody who can reach this machine.
        port: Of REST; 0 takes a free one, which the log names.
        grpc_port: Of gRPC; 0 takes a free one, -1 leaves it closed.
        engine: openvino, reference, tensorflow, or auto for the first that is installed and can run the model; tiny
            ones run on reference, which hands them to nobody.
        workers: Compiled copies of each signature, that run at the same time.
        batch: Run requests together, up to so many rows, where that does not change results.
        batch_wait_ms: For how long a request may wait for others to join it.
        queue: The most requests of a signature that wait; more get 503 and Retry-After.
        timeout: Seconds after which a request is given up.
        max_body_mb: The largest request.
        poll: Look for new versions every so many seconds; 0 for never.
        log_requests: Log each request, not only those that fail.
        progress: Is not called: the log says what goes on.

    Returns:
        How many requests there were.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith serve models/half_plus_two --port 8501
        curl -d '{"instances": [1.0, 2.0, 5.0]}' http://localhost:8501/v1/models/half_plus_two:predict
    """
    from tfsmith.server.lanes import Limits
    from tfsmith.server.repository import ModelConfig, read_model_config, versions_of
    from tfsmith.server.run import Addresses, check_installed, serve_models

    check_engine(engine)
    _check_numbers(port=(port, 0), grpc_port=(grpc_port, -1), workers=(workers, 1), batch=(batch, 1),
                   batch_wait_ms=(batch_wait_ms, 0), queue=(queue, 1), max_body_mb=(max_body_mb, 1),
                   poll=(poll, 0))  # fmt: skip
    if not 0 < timeout <= 86_400:
        raise UsageError(f"{{timeout={timeout}}} makes no sense", remedy="pass seconds, from 0.001 to 86400")
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise UsageError("a server reads its models from a path", remedy="save the model, and pass where it is")
    if (path is None) == (model_config is None):
        what = "there is no model to serve" if path is None else "both a path and {model_config} name models"
        raise UsageError(what, remedy="pass a path, or {model_config} for several models")
    if model_config is not None:
        if name is not None or labels:
            raise UsageError("{name} and {labels} go with a path", remedy="write them into {model_config}")
        configs = read_model_config(model_config)
    else:
        configs = [ModelConfig(name or _name_of(path), os.fspath(path or ""), labels=_labels(labels or {}))]
    configs = [_mounted(one) if is_remote(one.path) else one for one in configs]
    place = configs[0].path
    if model_config is None and not (place and (versions_of(configs[0]) or Path(place).is_dir())):
        open_model(place, {}, needs_graph="serve")  # says what is wrong with it
    _check_names([one.name for one in configs])
    check_installed()

    def load(place: Path) -> Model:
        return open_model(place, {}, needs_graph="serve")

    def compile_model(model: Model, signature: str | None, any_shape: bool) -> Runner:
        program = make_program(model, signature=signature)
        options = replace(engine_options(), settings=_SETTINGS)
        is_tiny = engine == AUTO and _is_tiny(program) and not engine_named("reference").lacks(program)
        if any_shape:
            ports = {key: replace(port, shape=Shape(None)) for key, port in program.inputs.items()}
            program = dataclasses.replace(program, inputs=ports)
        return compile_program(program, "reference" if is_tiny else engine, options)

    limits = Limits(workers, batch, batch_wait_ms / 1000, queue, timeout, max_body_mb << 20)
    return Served(*serve_models(configs, load, compile_model, limits, Addresses(host, port, grpc_port), poll=poll,
                                log_requests=log_requests))  # fmt: skip


def _is_tiny(program: ModelProgram) -> bool:
    """Whether a program computes so little that to hand it to OpenVINO takes longer than to run it in numpy."""
    if any(port.shape.dims is None or len(port.shape.dims) > _TINY_RANK for port in program.inputs.values()):
        return False
    graph = program.flat(usual_inputs(program)).graph
    values = [node.get("value") for node in graph if node.op == "Const"]
    size = sum(value.nbytes for value in values)
    return len(graph.nodes) - len(values) <= _TINY_NODES and size <= _TINY_BYTES and not graph.library


def _mounted(config: ModelConfig) -> ModelConfig:
    """A model of a URL or an archive, by a path of this machine."""
    from tfsmith.storage.remote import local_path  # rare: loaded when needed

    return replace(config, path=str(local_path(config.path)))


def _name_of(path: FilePath | None) -> str:
    found = Path(path or "").absolute()
    name = found.parent.name if found.name.isdigit() else found.name.partition(".")[0] or found.name
    return name or "default"


def _labels(labels: Pairs) -> dict[str, int]:
    found: dict[str, int] = {}
    for label, version in labels.items():
        text = str(version)
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise UsageError(f"label {label!r} names no version: {text!r}", remedy="write {labels} as stable=1")
        found[label] = int(text)
    return found


def _check_names(names: list[str]) -> None:
    for name in names:
        if not name or set(name) & set("/:"):
            raise UsageError(f"no model can be called {name!r} in a URL", remedy="pass a {name} without / and :")


def _check_numbers(**numbers: tuple[float, int]) -> None:
    for name, (value, least) in numbers.items():
        most = 65535 if name.endswith("port") else 10**9
        if not least <= value <= most:
            raise UsageError(f"{{{name}={value}}} makes no sense", remedy=f"pass {least} to {most}")
