"""`tfsmith serve` in a process of its own, asked over real sockets: REST, gRPC, versions, limits, the end."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.serving import Server, ask, serving
from tests.support.serving_api import api_pool, message, stub

from tfsmith.testing.half_plus import write_half_plus
from tfsmith.wire import message_class
from tfsmith.wire.schema import schema

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, number in (("half_plus_two", 2.0), ("half_plus_three", 3.0)):
        (folder / name).mkdir()
        write_half_plus(folder / name / "00000123", number)
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    config = models / "models.config"
    config.write_text(
        f"""model_config_list {{
  config {{ name: "half_plus_two" base_path: "{models}/half_plus_two" model_platform: "tensorflow" }}
  config {{ name: "half_plus_three" base_path: "{models}/half_plus_three"
           version_labels {{ key: "stable" value: 123 }} }}
}}"""
    )
    with serving("--model-config", str(config), "--max-body-mb", "1", "--log-requests") as found:
        yield found
        assert found.stop() == 0
        assert found.events("stopped")


def test_the_documented_calls_give_the_documented_answers(server: Server) -> None:
    two, three = (f"{server.rest}/v1/models/half_plus_{name}" for name in ("two", "three"))
    status = {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert ask(three)[:2] == (200, {"model_version_status": [status]})
    assert ask(f"{two}:predict", {"instances": [1.0, 2.0, 5.0]})[:2] == (200, {"predictions": [2.5, 3.0, 4.5]})
    assert ask(f"{three}:predict", {"instances": [1.0, 2.0, 5.0]})[:2] == (200, {"predictions": [3.5, 4.0, 5.5]})
    examples = {"signature_name": "tensorflow/serving/regress", "examples": [{"x": 1.0}, {"x": 2.0}]}
    assert ask(f"{three}:regress", examples)[:2] == (200, {"results": [3.5, 4.0]})
    code, answer, headers = ask(f"{server.rest}/v1/models/half:predict", {"instances": [1.0, 5.0]})
    assert (code, answer) == (404, {"error": "Servable not found for request: Latest(half)"})
    assert headers["content-type"] == "application/json"


def test_versions_labels_columns_and_classes(server: Server) -> None:
    three = f"{server.rest}/v1/models/half_plus_three"
    wanted = {"outputs": [[3.5], [4.0]]}
    for way in ("", "/versions/123", "/labels/stable"):
        assert ask(f"{three}{way}:predict", {"inputs": [[1.0], [2.0]]})[:2] == (200, wanted)
        assert ask(f"{three}{way}:predict", {"inputs": {"x": [[1.0], [2.0]]}})[:2] == (200, wanted)
        assert ask(f"{three}{way}")[0] == 200
    classes = {"signature_name": "classify_x_to_y", "examples": [{"x": 1.0}]}
    assert ask(f"{three}:classify", classes)[:2] == (200, {"results": [[["", 3.5]]]})


def test_nan_and_infinity_go_in_and_out(server: Server) -> None:
    body = b'{"instances": [[NaN], [Infinity], [-Infinity]]}'
    request = urllib.request.Request(f"{server.rest}/v1/models/half_plus_two:predict", body)
    with urllib.request.urlopen(request) as answer:
        assert b"[NaN], [Infinity], [-Infinity]" in answer.read()


def test_metadata_is_the_json_of_the_proto(server: Server) -> None:
    code, found, _ = ask(f"{server.rest}/v1/models/half_plus_three/metadata")
    assert code == 200
    assert found["model_spec"] == {"name": "half_plus_three", "signature_name": "", "version": "123"}
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    shape = {"dim": [{"size": "-1", "name": ""}, {"size": "1", "name": ""}], "unknown_rank": False}
    assert signature["inputs"]["x"] == {"dtype": "DT_FLOAT", "tensor_shape": shape, "name": "x:0"}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/models/none", None, 404),
        ("/v1/models/half_plus_two/versions/7", None, 404),
        ("/v1/models/half_plus_two/versions/7:predict", {"instances": [1.0]}, 404),
        ("/v1/models/half_plus_two/versions/99999999999999999999:predict", {"instances": [1.0]}, 400),
        ("/v1/models/half_plus_three/labels/none:predict", {"instances": [1.0]}, 400),
        ("/v1/models", None, 400),
        ("/v1/models/half_plus_two:guess", {"instances": [1.0]}, 400),
        ("/v1/models/half_plus_two:predict", None, 400),
        ("/v1/models/half_plus_two:predict", b"", 400),
        ("/v1/models/half_plus_two:predict", b"{not json", 400),
        ("/v1/models/half_plus_two:predict", b"[" * 50_000, 400),
        ("/v1/models/half_plus_two:predict", b'{"instances": [[1e400]]}', 400),
        ("/v1/models/half_plus_two:predict", b'{"instances": [[' + b"9" * 400 + b".0]]}", 400),
        ("/v1/models/half_plus_two:predict", [1.0], 400),
        ("/v1/models/half_plus_two:predict", {}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": []}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": ["a"]}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": [[1.0], [1.0, 2.0]]}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": [[[1.0, 2.0]]]}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": [{"z": 1.0}]}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": [1.0], "signature_name": "none"}, 400),
        ("/v1/models/half_plus_two:predict", {"instances": [1.0], "signature_name": 7}, 400),
        ("/v1/models/half_plus_two:regress", {"examples": [{"x": 1.0}]}, 400),
        ("/v1/models/half_plus_two:regress", {"examples": [{}], "signature_name": "regress_x_to_y"}, 400),
        ("/v1/models/half_plus_two:regress", {"examples": [{"x": 1e39}], "signature_name": "regress_x_to_y"}, 400),
        ("/v1/models/half_plus_two:predict", b" " * (2 << 20), 413),
        ("/v2/models/none/infer", {"inputs": []}, 404),
        ("/v2/models/half_plus_two/infer", {}, 400),
        ("/v2/models/half_plus_two/infer", {"inputs": [{"name": "x"}]}, 400),
        ("/v2/models/half_plus_two/infer", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP64"}]}, 400),
        ("/v2/models/half_plus_two/infer",
         {"inputs": [{"name": "x", "shape": [3, 1], "datatype": "FP32", "data": [1.0]}]}, 400),
        ("/v2/health/none", None, 404),
        ("/nowhere", None, 404),
    ],
)  # fmt: skip
def test_bad_requests_get_their_code_and_a_json_error(server: Server, path: str, body: Any, code: int) -> None:
    found, answer, _ = ask(f"{server.rest}{path}", body)
    assert (found, list(answer)) == (code, ["error"]), answer
    assert len(answer["error"]) < 300
    assert answer["error"]
    assert "Traceback" not in answer["error"]


@pytest.mark.parametrize(
    ("coding", "body", "code"),
    [
        ("gzip", gzip.compress(b'{"instances": [[1.0]]}'), 200),
        ("gzip", b'{"instances": [[1.0]]}', 400),
        ("gzip", gzip.compress(b'{"instances": [[1.0]]}')[:-4], 400),
        ("gzip", gzip.compress(b" " * (2 << 20)), 413),
        ("br", b"", 400),
    ],
)
def test_a_compressed_body_is_read_within_the_limit(server: Server, coding: str, body: bytes, code: int) -> None:
    found, answer, _ = ask(f"{server.rest}/v1/models/half_plus_two:predict", body, **{"Content-Encoding": coding})
    assert (found, list(answer)) == (code, ["predictions"] if code == 200 else ["error"])


def test_methods_that_nothing_takes_are_malformed_requests(server: Server) -> None:
    for path in ("/v1/models/half_plus_two", "/v2/models/half_plus_two/infer"):
        for method in ("DELETE", "PUT"):
            request = urllib.request.Request(f"{server.rest}{path}", method=method)
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(request)
            wanted = {"error": f"Malformed request: {method} {path}"}
            assert (error.value.code, json.load(error.value)) == (400, wanted)
            error.value.close()


def test_kserve(server: Server) -> None:
    base = f"{server.rest}/v2"
    assert ask(f"{base}/health/live")[:2] == (200, {"live": True})
    assert ask(f"{base}/health/ready")[:2] == (200, {"ready": True})
    assert ask(base)[1]["name"] == "tfsmith"
    found = ask(f"{base}/models/half_plus_two")[1]
    assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 1]}]
    assert ask(f"{base}/models/half_plus_two/ready")[0] == 200
    for data in ([1.0, 2.0], [[1.0], [2.0]]):
        body = {"id": "7", "inputs": [{"name": "x", "shape": [2, 1], "datatype": "FP32", "data": data}]}
        answer = ask(f"{base}/models/half_plus_two/versions/123/infer", body)[1]
        outputs = [{"name": "y", "shape": [2, 1], "datatype": "FP32", "data": [2.5, 3.0]}]
        assert answer == {"model_name": "half_plus_two", "model_version": "123", "id": "7", "outputs": outputs}


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _call(server: Server, method: str, request: bytes) -> bytes:
    """A call with bytes as they are, whatever they are."""
    import grpc

    with grpc.insecure_channel(server.grpc) as channel:
        answer: bytes = channel.unary_unary(f"/tensorflow.serving.{method}")(request, timeout=30)
        return answer


def test_the_messages_are_those_of_tensorflow_servings_package() -> None:
    ours = [name for name in schema().messages if name.startswith("serving.")]
    assert len(ours) > 25
    for name in ours:
        theirs = api_pool().FindMessageTypeByName(_theirs(f"tensorflow.{name}"))
        for field in message_class(name).DESCRIPTOR.fields:
            other = theirs.fields_by_name[field.name]
            for fact in ("number", "type", "is_repeated", "is_packed", "has_presence"):
                assert getattr(field, fact) == getattr(other, fact), f"{name}.{field.name}: {fact}"
            for kind in ("message_type", "enum_type", "containing_oneof"):
                found, wanted = getattr(field, kind), getattr(other, kind)
                assert (found and _theirs(found.full_name)) == (wanted and wanted.full_name), f"{name}.{field.name}"


def _theirs(name: str) -> str:
    """The full name of what our table has under a shorter one."""
    return name.replace("serving.VersionPolicy", "serving.FileSystemStoragePathSourceConfig.ServableVersionPolicy")


def _request(kind: str, signature: str = "", **spec: Any) -> Any:
    asked = message(f"tensorflow.serving.{kind}")
    asked.model_spec.name, asked.model_spec.signature_name = "half_plus_two", signature
    if "version" in spec:
        asked.model_spec.version.value = spec["version"]
    return asked


def test_a_stock_grpc_client(server: Server) -> None:
    import grpc

    with grpc.insecure_channel(server.grpc) as channel:
        service = stub(channel, "PredictionService")
        asked = _request("PredictRequest", "serving_default", version=123)
        given = asked.inputs["x"]
        given.dtype = 1  # DT_FLOAT
        given.float_val.extend([1.0, 2.0, 5.0])
        for size in (3, 1):
            given.tensor_shape.dim.add(size=size)
        answer = service["Predict"](asked, timeout=30)
        assert list(answer.outputs) == ["y"]
        assert list(answer.outputs["y"].float_val) == [2.5, 3.0, 4.5]
        assert [dim.size for dim in answer.outputs["y"].tensor_shape.dim] == [3, 1]
        assert answer.model_spec == asked.model_spec

        for method, kind, signature in (("Regress", "Regression", "regress_x_to_y"),
                                        ("Classify", "Classification", "classify_x_to_y")):  # fmt: skip
            asked = _request(f"{kind}Request", signature)
            feature = asked.input.example_list.examples.add().features.feature["x"]
            feature.float_list.value.append(1.0)
            result = service[method](asked, timeout=30).result
            values = (
                [one.value for one in result.regressions]
                if method == "Regress"
                else [(one.label, one.score) for row in result.classifications for one in row.classes]
            )
            assert values == ([2.5] if method == "Regress" else [("", 2.5)])

        asked = _request("GetModelMetadataRequest")
        asked.metadata_field.append("signature_def")
        found = message("tensorflow.serving.SignatureDefMap")
        assert service["GetModelMetadata"](asked, timeout=30).metadata["signature_def"].Unpack(found)
        assert found.signature_def["serving_default"].method_name == "tensorflow/serving/predict"
        assert found.signature_def["serving_default"].inputs["x"].name == "x:0"

        status = stub(channel, "ModelService")["GetModelStatus"](_request("GetModelStatusRequest"), timeout=30)
        (version,) = status.model_version_status
        assert (version.version, version.state, version.status.error_code) == (123, 30, 0)  # AVAILABLE, OK
        with pytest.raises(grpc.RpcError) as error:
            service["MultiInference"](message("tensorflow.serving.MultiInferenceRequest"), timeout=30)
        assert error.value.code().name == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    ("method", "request_", "code"),
    [
        ("Predict", _field(1, _field(1, b"none")), "NOT_FOUND"),
        ("Predict", _field(1, _field(1, b"half_plus_two")), "INVALID_ARGUMENT"),
        ("Predict", _field(1, _field(1, b"half_plus_two") + _field(3, b"no")), "INVALID_ARGUMENT"),
        ("Predict", _field(1, _field(1, b"half_plus_two") + _field(4, b"no")), "FAILED_PRECONDITION"),
        ("Predict", _field(1, b""), "INVALID_ARGUMENT"),  # no name
        ("Predict", _field(1, _field(1, b"half_plus_two")) + _field(2, _field(1, b"x") + _field(
            2, b"\x08\x02" + _field(2, _field(2, b"\x08\x01") * 2) + _field(6, b"\0" * 8))),
         "INVALID_ARGUMENT"),  # float64, whatever the values
        ("GetModelMetadata", _field(1, _field(1, b"half_plus_two")), "INVALID_ARGUMENT"),
        ("Predict", _field(1, _field(1, b"half_plus_two")) + _field(2, _field(1, b"x") + _field(
            2, b"\x08\x01" + _field(2, _field(2, b"\x08\xff\xff\xff\xff\x0f")) + _field(5, b"\0\0\0\0"))),
         "INVALID_ARGUMENT"),  # a tensor that claims 16 GB
        ("Predict", b"\xff\xff", "INTERNAL"),
        ("Predict", b" " * (2 << 20), "RESOURCE_EXHAUSTED"),
    ],
)  # fmt: skip
def test_grpc_errors_have_their_codes(server: Server, method: str, request_: bytes, code: str) -> None:
    import grpc

    with pytest.raises(grpc.RpcError) as error:
        _call(server, f"PredictionService/{method}", request_)
    assert error.value.code().name == code


def test_metrics_page_and_log(server: Server) -> None:
    ask(f"{server.rest}/v1/models/half_plus_two:predict", {"instances": [1.0]})
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        with urllib.request.urlopen(f"{server.rest}{path}") as answer:
            text = answer.read().decode()
        assert 'tfsmith_requests_total{api="rest",method="predict",model="half_plus_two",status="OK"}' in text
        assert "made_up" not in text
    with urllib.request.urlopen(f"{server.rest}/") as answer:
        page = answer.read().decode()
    assert "half_plus_two" in page
    assert (
        "{&quot;signature_name&quot;: &quot;serving_default&quot;, &quot;inputs&quot;: {&quot;x&quot;: [[1.0]]}}"
        in page
    )
    assert any(one["path"] == "/v1/models/half_plus_two:predict" and one["status"] == 200
               for one in server.events("request"))  # fmt: skip
    assert {"time", "level", "event"} <= set(server.log[0])


def test_a_new_version_takes_over_and_no_request_fails(tmp_path: Path) -> None:
    base = tmp_path / "model"
    base.mkdir()
    write_half_plus(base / "1", 1.0)
    with serving(str(base), "--poll", "0.1", "--batch", "4") as server:
        url = f"{server.rest}/v1/models/model:predict"
        codes: set[int] = set()
        answers: set[float] = set()
        done = threading.Event()

        def keep_asking() -> None:
            while not done.is_set():
                code, answer, _ = ask(url, {"instances": [[2.0]]})
                codes.add(code)
                answers.add(answer["predictions"][0][0] if code == 200 else np.nan)

        threads = [threading.Thread(target=keep_asking) for _ in range(3)]
        for thread in threads:
            thread.start()
        write_half_plus(tmp_path / "2", 2.0)
        (base / "2").mkdir()  # a folder that is copied slowly: at first there is no model in it
        time.sleep(0.3)
        shutil.copytree(tmp_path / "2", base / "2", dirs_exist_ok=True)
        end = time.monotonic() + 60
        while time.monotonic() < end and not server.events("unloaded"):
            time.sleep(0.05)
        done.set()
        for thread in threads:
            thread.join()
        assert codes == {200}
        assert answers == {2.0, 3.0}
        assert ask(url, {"instances": [[2.0]]})[1] == {"predictions": [[3.0]]}
        states = {one["version"]: one["state"] for one in ask(url.removesuffix(":predict"))[1]["model_version_status"]}
        assert states == {"1": "END", "2": "AVAILABLE"}
        assert server.stop() == 0


def test_requests_that_run_when_it_is_stopped_still_end(models: Path) -> None:
    with serving(str(models / "half_plus_two")) as server:
        found: list[int] = []
        body = json.dumps({"instances": [[1.0]] * 200_000}).encode()
        asking = threading.Thread(
            target=lambda: found.append(ask(f"{server.rest}/v1/models/half_plus_two:predict", body)[0])
        )
        asking.start()
        time.sleep(0.3)
        assert server.stop(signal.SIGINT) == 0
        asking.join()
        assert found == [200]


def test_a_model_is_served_out_of_an_archive_and_a_url(models: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "half"), "zip", models, "half_plus_two")
    url = f"zip://half_plus_two::{Path(archive).as_uri()}"
    config = tmp_path / "models.config"
    places = {"a": archive, "b": url}
    text = " ".join(f'config {{ name: "{name}" base_path: "{place}" }}' for name, place in places.items())
    config.write_text(f"model_config_list {{ {text} }}")
    with serving("--model-config", str(config), "--engine", "reference") as server:
        for name in places:
            found = ask(f"{server.rest}/v1/models/{name}/versions/123:predict", {"instances": [[1.0]]})
            assert found[:2] == (200, {"predictions": [[2.5]]})
        assert server.stop() == 0
