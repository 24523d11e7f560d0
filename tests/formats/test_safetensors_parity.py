"""The real safetensors library reads what we write, and we read what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import deserialize, safe_open
from safetensors.numpy import load_file, save_file

import tfsmith
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_checkpoint_files

PLAIN = (
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
)


def _array(dtype: str) -> Any:
    return (np.arange(12).reshape(3, 4) % 5).astype(dtype)


def test_a_checkpoint_arrives_bit_for_bit(tmp_path: Path) -> None:
    made = bert_classifier(BertConfig(30, 16, 2, 2, 32))
    prefix = write_checkpoint_files(made, tmp_path / "training")
    weights = tfsmith.load_weights(prefix)
    tfsmith.save_weights(weights, tmp_path / "model.safetensors")
    found = load_file(tmp_path / "model.safetensors")
    assert set(found) == set(weights)
    for name, array in found.items():
        np.testing.assert_array_equal(array, weights[name].numpy(), name)


@pytest.mark.parametrize("dtype", PLAIN)
def test_every_dtype_both_ways(tmp_path: Path, dtype: str) -> None:
    array = _array(dtype)
    arrays = {"a": array, "scalar": array[1, 1].copy(), "empty": array[:0]}
    tfsmith.save_weights(
        {name: ArrayTensor.of(np.asarray(one)) for name, one in arrays.items()}, tmp_path / "o.safetensors"
    )
    theirs = load_file(tmp_path / "o.safetensors")
    save_file({name: np.asarray(one) for name, one in arrays.items()}, tmp_path / "t.safetensors")
    ours = tfsmith.load_weights(tmp_path / "t.safetensors")
    for name, wanted in arrays.items():
        np.testing.assert_array_equal(theirs[name], wanted)
        np.testing.assert_array_equal(ours[name].numpy(), wanted)
        assert theirs[name].dtype == wanted.dtype == ours[name].numpy().dtype


@pytest.mark.parametrize(
    ("dtype", "code"),
    [(ml_dtypes.bfloat16, "BF16"), (ml_dtypes.float8_e4m3fn, "F8_E4M3"), (ml_dtypes.float8_e5m2, "F8_E5M2")],
)
def test_short_floats_keep_their_bits(tmp_path: Path, dtype: Any, code: str) -> None:
    array = np.linspace(-2, 2, 12).reshape(3, 4).astype(dtype)
    path = tmp_path / "o.safetensors"
    tfsmith.save_weights({"a": ArrayTensor.of(array)}, path)
    [(name, facts)] = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]  # it has no types
    assert name == "a"
    assert facts["dtype"] == code
    assert list(facts["shape"]) == [3, 4]
    assert bytes(facts["data"]) == array.tobytes()


def test_shards_and_their_index(tmp_path: Path) -> None:
    arrays = {f"w{number}": np.full(1000, number, np.float32) for number in range(5)}
    tensors = {name: ArrayTensor.of(array) for name, array in arrays.items()}
    tfsmith.save_weights(tensors, tmp_path / "model.safetensors", max_shard_bytes=9000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) == 3
    for name, shard in index["weight_map"].items():
        with safe_open(tmp_path / shard, framework="numpy") as opened:
            np.testing.assert_array_equal(opened.get_tensor(name), arrays[name])
