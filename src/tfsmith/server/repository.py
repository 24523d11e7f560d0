"""The models of a server: versions below base paths, loaded when they appear, and drained when others take over."""

from __future__ import annotations

import gc
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfsmith.engines.runner import Runner
from tfsmith.errors import TfsmithError, UnreadableFileError, UsageError
from tfsmith.ir.model import SERVING_DEFAULT, Model, Signature, TensorInfo
from tfsmith.ir.types import dtype_named
from tfsmith.ops import LOOPS
from tfsmith.ops.traits import Trait, traits
from tfsmith.records import field, record, replace
from tfsmith.server.lanes import Lane, Limits, RequestError

__all__ = ["ModelConfig", "Repository", "Servable", "VersionStatus", "is_version", "read_model_config"]

Log = Callable[..., None]
CompileModel = Callable[[Model, "str | None", bool], Runner]
"""Compiles a signature of a model; for the shapes that it says, or for any."""
LATEST = "latest"
_EMBEDDED = ("openvino", "reference")
"""Engines that run in this process."""
_LOOPING = Trait.CONTROL_FLOW | Trait.GRAPH_INSIDE | Trait.RUNS_CODE


@record
class ModelConfig:
    """A model of a server.

    Attributes:
        name: What requests call it.
        path: A model, or a folder with a model in each numbered folder.
        policy: "latest", "all", or the versions to serve.
        count: How many of the latest.
        labels: Versions by label.
    """

    name: str
    path: str
    policy: str | tuple[int, ...] = LATEST
    count: int = 1
    labels: Mapping[str, int] = field(default_factory=dict)


@record
class VersionStatus:
    """A version of a model, its state as TensorFlow Serving calls it, and what went wrong with it."""

    version: int
    state: str
    error: str = ""


def read_model_config(path: str | os.PathLike[str]) -> list[ModelConfig]:
    """Reads TensorFlow Serving's `model_config_list`, in protobuf's text format.

    Raises:
        UsageError: It is not understood, or names a model twice or not at all.
        UnreadableFileError: It cannot be read.
    """
    from google.protobuf import text_format

    from tfsmith.wire import new

    message = new("serving.ModelServerConfig")
    try:
        text_format.Parse(Path(path).read_text("utf-8"), message)
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise UnreadableFileError(what, path=path, remedy="check the path") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UsageError(
            f"no configuration of models ({error})", path=path, remedy="write model_config_list { config { ... } }"
        ) from error
    found = [_config(one, path) for one in message.model_config_list.config]
    names = [one.name for one in found]
    if not found or len(set(names)) < len(names):
        what = "it names a model twice" if found else "it has no model"
        raise UsageError(what, path=path, remedy="give each model a config { name: ... base_path: ... } of its own")
    return found


def _config(one: Any, path: str | os.PathLike[str]) -> ModelConfig:
    if not one.name or not one.base_path:
        raise UsageError("a model has no name or no base_path", path=path, remedy="give it both")
    if one.model_platform not in ("", "tensorflow"):
        remedy = 'write model_platform: "tensorflow"'
        raise UsageError(f"model {one.name!r} is for {one.model_platform!r}", path=path, remedy=remedy)
    chosen = one.model_version_policy
    kind = chosen.WhichOneof("policy_choice")
    policy = tuple(chosen.specific.versions) if kind == "specific" else kind or LATEST
    labels = dict(one.version_labels)
    return ModelConfig(one.name, one.base_path, policy, max(1, chosen.latest.num_versions), labels)


def is_version(name: str) -> bool:
    """Whether a folder's name is a version: digits, as TensorFlow Serving has it."""
    return name.isascii() and name.isdigit() and len(name) < 19


class Servable:
    """One version of a model, ready to run. Its first signature is compiled at once, the others when they are asked.

    Args:
        name: The model's name.
        version: Its version.
        model: What was loaded.
        compile_model: Compiles a signature of a model.
        limits: How requests run.
        log: Takes an event and its facts.

    Raises:
        TfsmithError: No engine can run it.
    """

    def __init__(
        self,
        name: str,
        version: int,
        model: Model,
        compile_model: CompileModel,
        limits: Limits,
        log: Log,
    ) -> None:
        self.name = name
        self.version = version
        self._model = model
        self._compile = compile_model
        self._limits = limits
        self._log = log
        self._lanes: dict[str, Lane] = {}
        self._compiling = threading.Lock()
        self._users = 0
        self._idle = threading.Condition()
        self.signatures: Mapping[str, Signature] = model.signatures
        if not self.signatures:
            lane = self._make_lane(None)
            self._lanes[SERVING_DEFAULT] = lane
            self.signatures = {SERVING_DEFAULT: _made_signature(lane)}
        elif SERVING_DEFAULT in self.signatures or len(self.signatures) == 1:
            self.lane(SERVING_DEFAULT if SERVING_DEFAULT in self.signatures else next(iter(self.signatures)))

    def lane(self, signature: str) -> Lane:
        """Where a signature's requests run; compiled now if it was not asked for before."""
        found = self._lanes.get(signature)
        if found is not None:
            return found
        with self._compiling:
            if signature not in self._lanes:
                self._lanes[signature] = self._make_lane(signature)
            return self._lanes[signature]

    def is_compiled(self, signature: str) -> bool:
        """Whether a request for a signature, or for the default one, can run at once."""
        return (signature or SERVING_DEFAULT) in self._lanes

    def _make_lane(self, signature: str | None) -> Lane:
        name = f"{self.name}/{self.version}/{signature or SERVING_DEFAULT}"
        runners = [self._compile(self._model, signature, False) for _ in range(self._limits.workers)]
        self._log("compiled", lane=name, engine=f"{runners[0].engine} {runners[0].version}")
        if "reference" in runners[0].engine and not self._lanes:  # it reads values when it runs, but now is the time
            for tensor in self._model.variables.values():
                tensor.verify()

        def loose() -> Lane:
            runner = self._compile(self._model, signature, True)
            self._log("compiled", lane=f"{name}/any-shape", engine=f"{runner.engine} {runner.version}")
            limits = replace(self._limits, batch=1)
            return Lane(f"{name}/any-shape", [runner], limits, self._log, steady=self._is_steady(runner))

        return Lane(name, runners, self._limits, self._log, steady=self._is_steady(runners[0]), loose=loose)

    def _is_steady(self, runner: Runner) -> bool:
        """Whether the values of the inputs do not matter to the time of a run: no loops, no sizes that are fed."""
        graph = self._model.graph
        ops = {node.op for body in (graph, *graph.library.values()) for node in body.nodes}
        is_straight = not ops & LOOPS and not any((traits(op) or Trait(0)) & _LOOPING for op in ops)
        kinds = [port.dtype for port in runner.inputs.values()]
        is_float = all(kind is not None and "float" in kind.base.name for kind in kinds)
        return runner.engine in _EMBEDDED and is_straight and is_float

    @property
    def waiting(self) -> int:
        """Requests that no worker has taken yet."""
        return sum(lane.waiting for lane in list(self._lanes.values()))

    def hold(self) -> None:
        """Keeps it loaded until `release`."""
        with self._idle:
            self._users += 1

    def release(self) -> None:
        """Ends a use of it."""
        with self._idle:
            self._users -= 1
            if not self._users:
                self._idle.notify_all()

    def close(self) -> None:
        """Waits until nobody uses it, and unloads it."""
        with self._idle:
            while self._users:
                self._idle.wait()
        for lane in self._lanes.values():
            lane.close()


def _made_signature(lane: Lane) -> Signature:
    """A signature of a model that has none: what its runner takes and gives."""
    inputs, outputs = (
        {key: TensorInfo(port.tensor, port.dtype or dtype_named("float32"), port.shape) for key, port in ports.items()}
        for ports in (lane.inputs, lane.outputs)
    )
    return Signature(inputs, outputs)


class _Served:
    """A model of the server: what is loaded of it, and what became of each version."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.is_base = False
        self.available: dict[int, Servable] = {}
        self.states: dict[int, VersionStatus] = {}
        self.tried: dict[int, object] = {}

    def find(self, version: int | None, label: str | None) -> Servable:
        name = self.config.name
        if label is not None:
            if label not in self.config.labels:
                raise RequestError("FAILED_PRECONDITION", f"Unrecognized servable version label: {label}")
            version = self.config.labels[label]
        if version is None:
            if not self.available:
                raise RequestError("NOT_FOUND", f"Servable not found for request: Latest({name})")
            return self.available[max(self.available)]
        if version not in self.available:
            raise RequestError("NOT_FOUND", f"Servable not found for request: Specific({name}, {version})")
        return self.available[version]


class Repository:
    """All models of a server. `poll` loads what appeared, and drains what it replaces.

    Args:
        configs: The models.
        load: Opens a path.
        compile_model: Compiles a signature of a model.
        limits: How requests run.
        log: Takes an event and its facts.
    """

    def __init__(
        self,
        configs: Sequence[ModelConfig],
        load: Callable[[Path], Model],
        compile_model: CompileModel,
        limits: Limits,
        log: Log,
    ) -> None:
        self.limits = limits
        self._load = load
        self._compile = compile_model
        self._log = log
        self._models = {config.name: _Served(config) for config in configs}
        self._lock = threading.Lock()
        self._polling = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def names(self) -> list[str]:
        """The models, by name."""
        return list(self._models)

    @property
    def is_ready(self) -> bool:
        """Whether each model has a version that can be asked."""
        return all(one.available for one in self._models.values())

    def labels(self, name: str) -> Mapping[str, int]:
        """The labels of a model."""
        return self._models[name].config.labels

    @contextmanager
    def use(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[Servable]:
        """A version that stays loaded as long as the block runs; the newest by default.

        Raises:
            RequestError: There is no such model, version or label.
        """
        with self._lock:
            if name not in self._models:
                wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
                raise RequestError("NOT_FOUND", f"Servable not found for request: {wanted}")
            servable = self._models[name].find(version, label)
            servable.hold()
        try:
            yield servable
        finally:
            servable.release()

    def status(self, name: str, version: int | None = None, label: str | None = None) -> list[VersionStatus]:
        """What became of the versions of a model, the newest first.

        Raises:
            RequestError: There is no such model, version or label.
        """
        with self._lock:
            states = self._models[name].states if name in self._models else {}
            if label is not None and name in self._models:
                version = self._models[name].find(None, label).version
            found = [states[number] for number in sorted(states, reverse=True) if version in (None, number)]
        if not found:
            what = f"any versions of model {name}" if version is None else f"version {version} of model {name}"
            raise RequestError("NOT_FOUND", f"Could not find {what}")
        return found

    def start(self, seconds: float) -> None:
        """Polls from now on, in a thread; 0 seconds for never."""
        if seconds > 0:
            self._thread = threading.Thread(target=self._keep, args=(seconds,), name="tfsmith-poll", daemon=True)
            self._thread.start()

    def _keep(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            try:
                self.poll()
            except Exception as error:  # the next poll may do better; the server goes on
                self._log("poll_failed", level="error", error=repr(error), trace=traceback.format_exc())

    def poll(self) -> None:
        """Looks at all base paths once: loads new versions, then drains those that are no longer wanted."""
        with self._polling:
            for served in self._models.values():
                self._poll(served)

    def _poll(self, served: _Served) -> None:
        places = versions_of(served.config)
        if Path(served.config.path) not in places.values():
            served.is_base |= bool(places)
        elif served.is_base:
            return  # a base path that lost its versions is no model itself
        for version in sorted(places):
            if version not in served.available:
                self._try(served, version, places[version])
        wanted = set(places)
        if not wanted or max(wanted) not in served.available:
            return  # what is there serves on until there is something newer to take its place
        for version in sorted(set(served.available) - wanted):
            self._unload(served, version)

    def _try(self, served: _Served, version: int, place: Path) -> None:
        """Loads a version, unless that failed before and nothing has changed since."""
        name, stamp = served.config.name, _stamp(place)
        if served.tried.get(version) == stamp:
            return
        served.tried[version] = stamp
        self._set(served, VersionStatus(version, "LOADING"))
        try:
            servable = Servable(name, version, self._load(place), self._compile, self.limits, self._log)
        except Exception as error:  # of any kind: the versions that are there serve on
            self._set(served, VersionStatus(version, "END", str(error)))
            more = {} if isinstance(error, TfsmithError) else {"trace": traceback.format_exc()}
            self._log("load_failed", level="error", model=name, version=version, error=str(error), **more)
            return
        with self._lock:
            served.available[version] = servable
            served.states[version] = VersionStatus(version, "AVAILABLE")
        served.tried.pop(version, None)
        self._log("available", model=name, version=version, path=str(place))

    def _unload(self, served: _Served, version: int) -> None:
        with self._lock:
            servable = served.available.pop(version)
            served.states[version] = VersionStatus(version, "UNLOADING")
        self._log("draining", model=served.config.name, version=version)
        servable.close()
        del servable
        gc.collect()  # models refer to themselves; Python does not see how large they are, and would keep dozens
        self._set(served, VersionStatus(version, "END"))
        self._log("unloaded", model=served.config.name, version=version)

    def _set(self, served: _Served, status: VersionStatus) -> None:
        with self._lock:
            served.states[status.version] = status

    def close(self) -> None:
        """Ends polling, waits for the requests that run, and unloads everything."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._polling:
            for served in self._models.values():
                for version in list(served.available):
                    self._unload(served, version)


def versions_of(config: ModelConfig) -> dict[int, Path]:
    """The versions that should be served, with their paths: numbered folders, or the path itself as one version."""
    base = Path(config.path)
    numbered: dict[int, Path] = {}
    if base.is_dir() and not any((base / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
        numbered = {int(one.name): one for one in base.iterdir() if is_version(one.name) and one.is_dir()}
    if not numbered:
        is_base = base.is_dir() and not any(base.iterdir())
        return {} if is_base or not _is_there(base) else {int(base.name) if is_version(base.name) else 1: base}
    if config.policy == "all":
        return numbered
    chosen = set(config.policy if isinstance(config.policy, tuple) else sorted(numbered)[-config.count :])
    chosen |= set(config.labels.values())
    return {version: path for version, path in numbered.items() if version in chosen}


def _is_there(path: Path) -> bool:
    """Whether a path, or a checkpoint with this prefix, exists."""
    return path.exists() or path.with_name(f"{path.name}.index").exists()


def _stamp(place: Path) -> object:
    """What changes when somebody copies more files into a folder."""
    if not place.is_dir():
        return place.stat().st_mtime_ns if place.exists() else None
    found = [(str(one), one.stat()) for one in sorted(place.rglob("*")) if one.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
