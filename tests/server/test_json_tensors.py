"""JSON to arrays and back, as TensorFlow Serving's REST API documents it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tfsmith.engines.protocol import Port
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.server.json_tensors import (
    flat_json,
    json_array,
    json_text,
    named_inputs,
    outputs_text,
    parse_object,
    serialized_examples,
)
from tfsmith.server.lanes import RequestError
from tfsmith.wire import new


def port(kind: str, *dims: int) -> Port:
    return Port("x:0", dtype_named(kind), Shape(dims))


THREE = {"tag": port("string", -1), "signal": port("int32", -1, 5), "sensor": port("float32", -1, 2, 2)}


def test_rows_and_columns_of_the_documentation_are_the_same() -> None:
    rows = {
        "instances": [
            {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
            {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
        ]
    }
    columns = {
        "inputs": {
            "tag": ["foo", "bar"],
            "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
            "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]],
        }
    }
    one, in_rows = named_inputs(rows, THREE)
    other, in_columns = named_inputs(columns, THREE)
    assert (in_rows, in_columns) == (True, False)
    assert one["tag"].tolist() == other["tag"].tolist() == [b"foo", b"bar"]
    for key in ("signal", "sensor"):
        assert one[key].dtype == other[key].dtype == THREE[key].dtype.numpy()  # type: ignore[union-attr]
        np.testing.assert_array_equal(one[key], other[key])


def test_base64_in_rows_columns_and_with_other_alphabets() -> None:
    inputs = {"image_bytes": port("string", -1)}
    found, _ = named_inputs({"instances": [{"b64": "aW1hZ2UgYnl0ZXM="}, "text\x00"]}, inputs)
    assert found["image_bytes"].tolist() == [b"image bytes", b"text\x00"]
    found, _ = named_inputs({"inputs": {"b64": "_-8"}}, {"x": port("string")})
    assert found["x"].item() == b"\xff\xef"


def test_what_is_no_input_is_left_out_of_columns_unless_it_may_be_a_misspelt_one() -> None:
    inputs = {"x": port("float32"), "scale": Port("scale:0", dtype_named("float32"), Shape(()), False)}
    found, _ = named_inputs({"inputs": {"x": 1.0, "scale": 2.0, "comment": "none"}}, inputs)
    assert set(found) == {"x", "scale"}
    with pytest.raises(RequestError, match="scael"):
        named_inputs({"inputs": {"x": 1.0, "scael": 2.0}}, inputs)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float32", ["1"]),
        ("float32", [True]),
        ("float32", [1.0, True]),
        ("float32", [None]),
        ("float32", [[1.0], [2.0, 3.0]]),
        ("float32", [[1.0], 2.0]),
        ("float32", [1e39]),
        ("float32", [2**24 + 1]),
        ("int32", [1.5]),
        ("int32", [2**31]),
        ("uint8", [-1]),
        ("int64", [2**70]),
        ("bool", [1]),
        ("string", [1]),
        ("string", [["a"], "b"]),
        ("string", [{"b64": "%"}]),
        ("string", [{"b64": "aa", "more": 1}]),
        ("int32", {"a": 1}),
    ],
)
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(RequestError) as error:
        json_array(value, port(kind, -1), "x")
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("float32", [1, 2.5], [1.0, 2.5]),
        ("float32", [float("inf"), -float("inf")], [np.inf, -np.inf]),
        ("float64", 2, 2.0),
        ("int64", [2**62], [2**62]),
        ("uint64", [2**63], [2**63]),
        ("bool", [[True], [False]], [[True], [False]]),
        ("float32", [], []),
    ],
)
def test_values_of_the_type_are_taken(kind: str, value: Any, wanted: Any) -> None:
    found = json_array(value, port(kind), "x")
    assert found.dtype == dtype_named(kind).numpy()
    np.testing.assert_array_equal(found, np.array(wanted, found.dtype))


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"instances": [1.0], "inputs": [1.0]},
        {"instances": []},
        {"instances": 1.0},
        {"instances": [{"x": 1.0}, 2.0]},
        {"instances": [{"x": 1.0}, {"x": 1.0, "z": 1}]},
        {"instances": [{"y": 1.0}]},
        {"inputs": {"y": 1.0}},
    ],
)
def test_requests_that_do_not_fit_are_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        named_inputs(request_, {"x": port("float32", -1)})


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as error:
        parse_object(body)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([0.2, 3.0, 1 / 3, 9e6, 3e-5], np.float32), "[0.2, 3.0, 0.333333343, 9e+06, 3e-05]"),
        (np.array([np.nan, np.inf, -np.inf], np.float32), "[NaN, Infinity, -Infinity]"),
        (np.array([0.1, 1 / 3]), "[0.1, 0.33333333333333331]"),
        (np.array([[1, 2], [3, 4]], np.int32), "[[1, 2], [3, 4]]"),
        (np.array([True, False]), "[true, false]"),
        (np.array(2.5, np.float32), "2.5"),
        (np.zeros((2, 0), np.float32), "[[], []]"),
        (np.zeros((0, 2), np.float32), "[]"),
        (np.zeros((2, 0, 3), np.float32), "[[], []]"),
        (np.array([b"a", b"\xff"], object), '["a", {"b64": "/w=="}]'),
    ],
)
def test_arrays_are_printed_as_tensorflow_serving_does(array: Any, text: str) -> None:
    assert json_text(array) == text


def test_every_float_comes_back() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * np.float32(1e-3)
    np.testing.assert_array_equal(np.array(json.loads(json_text(values)), np.float32), values)


def test_answers_in_rows_and_columns() -> None:
    one, two = np.array([[1.0], [2.0]], np.float32), np.array([b"a", b"b"], object)
    assert json.loads(outputs_text({"y": one}, in_rows=True)) == {"predictions": [[1.0], [2.0]]}
    assert json.loads(outputs_text({"y": one}, in_rows=False)) == {"outputs": [[1.0], [2.0]]}
    rows = json.loads(outputs_text({"y": one, "z_bytes": two}, in_rows=True))
    assert rows == {"predictions": [{"y": [1.0], "z_bytes": {"b64": "YQ=="}}, {"y": [2.0], "z_bytes": {"b64": "Yg=="}}]}
    assert json.loads(outputs_text({"y": one, "z": two}, in_rows=False))["outputs"]["z"] == ["a", "b"]
    for bad in ({"y": one, "z": two[:1]}, {"y": np.float32(1)}):
        with pytest.raises(RequestError):
            outputs_text({key: np.asarray(value) for key, value in bad.items()}, in_rows=True)


def test_examples_of_the_documentation() -> None:
    body = {"context": {"query": "pizza"}, "examples": [{"image": {"b64": "aW1n"}, "n": [1, 2]}, {"x": [1.5, 2.0]}]}
    first, second = (new("Example").FromString(one) for one in serialized_examples(body))
    assert first.features.feature["image"].bytes_list.value[:] == [b"img"]
    assert first.features.feature["n"].int64_list.value[:] == [1, 2]
    assert first.features.feature["query"].bytes_list.value[:] == [b"pizza"]
    assert second.features.feature["x"].float_list.value[:] == [1.5, 2.0]
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"examples": []},
        {"examples": [1]},
        {"examples": [{"x": [1, 2.5]}]},
        {"examples": [{"x": None}]},
        {"context": {"x": 1}, "examples": [{"x": 1}]},
        {"examples": [{"x": 2**70}]},
    )
    for bad in wrong:
        with pytest.raises(RequestError):
            serialized_examples(bad)


def test_kserve_has_no_form_for_bytes_that_are_no_text() -> None:
    assert flat_json(np.array([[1.0, 2.0]], np.float32)) == "[1.0, 2.0]"
    with pytest.raises(RequestError):
        flat_json(np.array([b"\xff"], object))
