"""Both doors in this process, on real engines that wait for a gate: busy, too late, drained, broken, of all types."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.serving import ask
from tests.support.serving_api import message, stub

import tfsmith
from tfsmith.engines.runner import Runner
from tfsmith.ir.body import Part
from tfsmith.ir.model import PREDICT, SERVING_DEFAULT, Model, Signature, TensorInfo
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.records import replace
from tfsmith.server.answers import Service
from tfsmith.server.grpc_door import make_grpc_server
from tfsmith.server.lanes import Limits
from tfsmith.server.repository import ModelConfig, Repository
from tfsmith.server.rest import make_app
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.half_plus import write_half_plus
from tfsmith.testing.models import assemble
from tfsmith.testing.values import FLOAT32, STRING
from tfsmith.testing.weights import fixed
from tfsmith.verbs._files import save

ONE = {"instances": [[1.0]]}


class Gated:
    """A runner that waits until a gate is open."""

    def __init__(self, runner: Runner, gate: threading.Event) -> None:
        self._runner, self._gate = runner, gate
        self.inputs, self.outputs = runner.inputs, runner.outputs
        self.engine, self.version, self.close = "gated", runner.version, runner.close  # never run by the event loop

    def run_bound(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        assert self._gate.wait(60)
        return self._runner.run_bound(feeds)


class Doors:
    """What serves: the addresses, the models, the gate, and the log."""

    def __init__(self, base: Path, **limits: Any) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.repository = Repository(
            [ModelConfig("model", str(base)), ModelConfig("ein Modell, größer", str(base))],
            tfsmith.load,
            self._compile,
            Limits(**limits),
            lambda event, **facts: self.log.append((event, facts)),
        )
        self.repository.poll()
        self.service = Service(self.repository)
        self.rest = self.grpc = ""

    def _compile(self, model: Model, signature: str | None, any_shape: bool) -> Any:
        return Gated(tfsmith.compile(model, engine="reference", signature=signature), self.gate)

    def predict(self, body: Any, way: str = "") -> tuple[int, Any, dict[str, str]]:
        return ask(f"{self.rest}/v1/models/model{way}:predict", body)

    def wait_for(self, what: Callable[[], Any]) -> None:
        end = time.monotonic() + 60
        while not what():
            assert time.monotonic() < end
            time.sleep(0.005)

    @property
    def waiting(self) -> int:
        with self.repository.use("model") as servable:
            return servable.waiting

    @property
    def running(self) -> float:
        with urllib.request.urlopen(f"{self.rest}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith("tfsmith_requests_running")).split()[1])


@contextmanager
def opened(base: Path, **limits: Any) -> Iterator[Doors]:
    import uvicorn

    doors = Doors(base, **limits)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        app = make_app(doors.service, lambda event, **facts: doors.log.append((event, facts)))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        grpc_server, port = make_grpc_server(doors.service, "127.0.0.1:0", lambda *_, **__: None)
        grpc_server.start()
        doors.rest, doors.grpc = f"http://127.0.0.1:{listener.getsockname()[1]}", f"127.0.0.1:{port}"
        try:
            doors.wait_for(lambda: server.started)
            yield doors
        finally:
            doors.gate.set()
            server.should_exit = True
            thread.join()
            grpc_server.stop(0).wait()
            doors.repository.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    return write_half_plus(tmp_path / "base" / "1", 1.0).parent


def test_a_full_queue_is_503_and_says_when_to_come_again(base: Path) -> None:
    with opened(base, queue=1) as doors, ThreadPoolExecutor(3) as pool:
        doors.gate.clear()
        first = pool.submit(doors.predict, ONE)
        doors.wait_for(lambda: doors.running == 1 and not doors.waiting)
        second = pool.submit(doors.predict, ONE)
        doors.wait_for(lambda: doors.waiting == 1)
        code, answer, headers = doors.predict(ONE)
        assert (code, headers["retry-after"]) == (503, "1")
        assert "ask again later" in answer["error"]
        assert _grpc_code(doors, _half(1.0)) == "UNAVAILABLE"
        doors.gate.set()
        for one in (first, second):
            assert one.result()[:2] == (200, {"predictions": [[1.5]]})
        assert doors.predict(ONE)[0] == 200


def test_a_request_that_takes_too_long_is_504(base: Path) -> None:
    with opened(base, timeout=0.3) as doors:
        doors.gate.clear()
        code, answer, _ = doors.predict(ONE)
        assert (code, answer) == (504, {"error": "the request took over 0.3 s"})
        assert _grpc_code(doors, _half(1.0)) == "DEADLINE_EXCEEDED"
        doors.gate.set()
        doors.wait_for(lambda: doors.predict(ONE)[0] == 200)  # it serves on


def test_a_version_that_others_replace_ends_what_it_has_begun(base: Path, tmp_path: Path) -> None:
    with opened(base) as doors, ThreadPoolExecutor(2) as pool:
        with doors.repository.use("model") as servable:
            old = weakref.ref(servable)
        del servable
        doors.gate.clear()
        begun = pool.submit(doors.predict, ONE)
        doors.wait_for(lambda: doors.running == 1)
        write_half_plus(tmp_path / "2", 2.0).rename(base / "2")
        polling = pool.submit(doors.repository.poll)
        doors.wait_for(lambda: _states(doors) == {"1": "UNLOADING", "2": "AVAILABLE"})
        assert not begun.done()
        assert doors.predict(ONE, "/versions/1")[0] == 404
        doors.gate.set()
        assert begun.result()[:2] == (200, {"predictions": [[1.5]]})
        polling.result()
        assert _states(doors) == {"1": "END", "2": "AVAILABLE"}
        assert doors.predict(ONE)[1] == {"predictions": [[2.5]]}
        assert old() is None, "an unloaded version stays in memory"


def test_a_new_version_that_is_broken_does_not_end_the_old_one(base: Path, tmp_path: Path) -> None:
    with opened(base) as doors:
        write_half_plus(tmp_path / "2", 2.0)
        (tmp_path / "2" / "saved_model.pb").write_bytes(b"no model")
        (tmp_path / "2").rename(base / "2")
        doors.repository.poll()
        assert _states(doors) == {"2": "END", "1": "AVAILABLE"}
        broken = ask(f"{doors.rest}/v1/models/model/versions/2")[1]["model_version_status"][0]["status"]
        assert broken["error_code"] == "UNKNOWN"
        assert "saved_model.pb" in broken["error_message"]
        assert doors.predict(ONE)[1] == {"predictions": [[1.5]]}
        assert doors.predict(ONE, "/versions/2")[0] == 404
        shutil.rmtree(base / "2")  # and what is removed is forgotten, what is repaired is taken
        write_half_plus(tmp_path / "2", 2.0).rename(base / "2")
        doors.repository.poll()
        assert doors.predict(ONE)[1] == {"predictions": [[2.5]]}


def _states(doors: Doors) -> dict[str, str]:
    found = ask(f"{doors.rest}/v1/models/model")[1]["model_version_status"]
    return {one["version"]: one["state"] for one in found}


def _half(*values: float) -> Any:
    asked = message("tensorflow.serving.PredictRequest")
    asked.model_spec.name = "model"
    asked.inputs["x"].dtype = 1
    asked.inputs["x"].float_val.extend(values)
    for size in (len(values), 1):
        asked.inputs["x"].tensor_shape.dim.add(size=size)
    return asked


def _grpc(doors: Doors, asked: Any) -> Any:
    import grpc

    with grpc.insecure_channel(doors.grpc) as channel:
        return stub(channel, "PredictionService")["Predict"](asked, timeout=30)


def _grpc_code(doors: Doors, asked: Any) -> str:
    import grpc

    with pytest.raises(grpc.RpcError) as error:
        _grpc(doors, asked)
    return str(error.value.code().name)


def write_many_types(path: Path) -> Path:
    """A model with an output of each type that JSON or a TensorProto has a form of its own for, in three signatures."""
    builder = GraphBuilder()
    x, text = builder.placeholder(FLOAT32, [None], "x"), builder.placeholder(STRING, [None], "text")
    one = builder.variable("one", builder.const(1.0, FLOAT32), fixed(1.0, FLOAT32))
    same = builder.node("Mul", [x, one], {}, "same").out
    kinds = ("float16", "bfloat16", "float64", "int8", "uint16", "int64", "bool", "complex64")
    casts = {kind: builder.node("Cast", [same], {"DstT": dtype_named(kind)}, kind).out for kind in kinds}
    texts = builder.node("Identity", [text], {}, "texts").out
    infos = {
        key: TensorInfo(out.tensor_name, out.dtype, Shape((-1,)))
        for key, out in {**casts, "x": x, "text": text, "plain": texts, "as_bytes": texts}.items()
    }

    def signature(inputs: Sequence[str], outputs: Sequence[str]) -> Signature:
        return Signature({key: infos[key] for key in inputs}, {key: infos[key] for key in outputs}, PREDICT)

    signatures = {
        SERVING_DEFAULT: signature(["x"], kinds[:-1]),
        "texts": signature(["text"], ["plain", "as_bytes"]),
        "complex": signature(["x"], kinds[-1:]),
    }
    model = assemble(builder, "sharded")
    info = replace(model.meta.info, tags=("serve",))
    meta = replace(model.meta, info_part=Part.of(info), signatures_part=Part.of(signatures))
    path.parent.mkdir()
    save(replace(model, kind="saved_model", meta_graphs=(meta,)), path, format="saved_model")
    return path


def test_all_types_and_two_signatures(tmp_path: Path) -> None:
    with opened(write_many_types(tmp_path / "model" / "1").parent) as doors:
        code, answer, _ = doors.predict({"inputs": [1.5, 3.0]})
        assert code == 200
        assert answer["outputs"] == {
            "float16": [1.5, 3.0],
            "bfloat16": [1.5, 3.0],
            "float64": [1.5, 3.0],
            "int8": [1, 3],
            "uint16": [1, 3],
            "int64": [1, 3],
            "bool": [True, True],
        }
        assert doors.predict({"inputs": []})[1]["outputs"]["float16"] == []
        text = {"signature_name": "texts", "inputs": ["a", {"b64": base64.b64encode(b"\xff").decode()}]}
        assert doors.predict(text)[1]["outputs"] == {
            "plain": ["a", {"b64": "/w=="}],
            "as_bytes": [{"b64": "YQ=="}, {"b64": "/w=="}],
        }
        assert doors.predict({"signature_name": "complex", "inputs": [1.0]})[0] == 501
        assert doors.predict({"signature_name": "texts", "inputs": [1.0]})[0] == 400
        kserve = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1.5, 3.0]}], "outputs": [
            {"name": "float16"}, {"name": "bool"}]}  # fmt: skip
        assert ask(f"{doors.rest}/v2/models/model/infer", kserve)[1]["outputs"] == [
            {"name": "float16", "shape": [2], "datatype": "FP16", "data": [1.5, 3.0]},
            {"name": "bool", "shape": [2], "datatype": "BOOL", "data": [True, True]},
        ]

        asked = message("tensorflow.serving.PredictRequest")
        asked.model_spec.name = "model"
        asked.inputs["x"].dtype = 1
        asked.inputs["x"].tensor_content = np.array([1.5, 3.0], "<f4").tobytes()
        asked.inputs["x"].tensor_shape.dim.add(size=2)
        outputs = _grpc(doors, asked).outputs
        assert np.array(outputs["float16"].half_val, "uint16").view("float16").tolist() == [1.5, 3.0]
        assert list(outputs["bfloat16"].half_val) == [0x3FC0, 0x4040]
        assert list(outputs["int8"].int_val) == list(outputs["uint16"].int_val) == [1, 3]
        assert list(outputs["int64"].int64_val) == [1, 3]
        assert list(outputs["bool"].bool_val) == [True, True]
        asked.output_filter.append("float64")
        assert {key: list(one.double_val) for key, one in _grpc(doors, asked).outputs.items()} == {
            "float64": [1.5, 3.0]
        }
        asked.model_spec.signature_name = "complex"
        del asked.output_filter[:]
        assert list(_grpc(doors, asked).outputs["complex64"].scomplex_val) == [1.5, 0.0, 3.0, 0.0]


def test_a_name_may_be_any_text(base: Path) -> None:
    with opened(base) as doors:
        name = urllib.parse.quote("ein Modell, größer")
        with urllib.request.urlopen(f"{doors.rest}/") as page:
            assert f"v1/models/{name}:predict" in page.read().decode()
        assert ask(f"{doors.rest}/v1/models/{name}:predict", ONE)[1] == {"predictions": [[1.5]]}
        assert ask(f"{doors.rest}/v2/models/{name}/ready")[0] == 200


def test_an_error_is_spelled_as_in_the_documentation(base: Path) -> None:
    with opened(base) as doors:
        request = urllib.request.Request(f"{doors.rest}/v1/models/half:predict", json.dumps(ONE).encode())
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request)
        assert error.value.read() == b'{ "error": "Servable not found for request: Latest(half)" }'
        error.value.close()
