"""Files of Keras 3 are read as Keras reads them, and Keras loads what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from tools.check_keras_applications import compare_application

import tfsmith

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def model() -> Any:
    import keras

    layers = keras.layers
    images = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, name="first")(images)
    x = layers.BatchNormalization()(layers.DepthwiseConv2D(3)(x))
    inner = keras.Sequential([keras.Input((64,)), layers.Dense(6), layers.LayerNormalization()], name="inner")
    y = layers.LSTM(3)(layers.Reshape((2, 3))(inner(layers.Flatten()(x))))
    made = keras.Model(images, layers.Dense(2, name="answers")(y))
    made.compile("adam", "mse")
    random = numpy.random.default_rng(5)
    made.set_weights([random.normal(size=one.shape).astype("float32") for one in made.get_weights()])
    made.train_on_batch(random.random((2, 8, 8, 3), "float32"), random.random((2, 2), "float32"))
    return made


@pytest.fixture(scope="module")
def files(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keras3")
    for name in ("m.keras", "m.h5"):
        model.save(folder / name)
    model.save_weights(folder / "m.weights.h5")
    model.export(str(folder / "exported"), verbose=False)
    return folder


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_as_keras_reads_it(name: str, model: Any, files: Path) -> None:
    opened = tfsmith.load(files / name)
    assert opened.keras is not None
    layers = {layer.name: layer for layer in opened.keras.layers}
    for layer in model.layers:
        keys = list(layers[layer.name].all_weights())
        assert len(keys) == len(layer.get_weights())
        ours = [opened.variables[key].numpy() for key in keys]
        assert all((one == other).all() for one, other in zip(ours, layer.get_weights(), strict=True))


@pytest.mark.parametrize("name", ["m.keras", "m.h5", "m.weights.h5"])
def test_equal_to_the_saved_model(name: str, files: Path) -> None:
    first = tfsmith.load_weights(files / name, training=False)
    found = tfsmith.compare_weights(first, tfsmith.load_weights(files / "exported", training=False))
    assert {one.verdict for one in found} == {"same"}
    assert len({id(one.first) for one in found}) == len(first)  # the SavedModel has copies


@pytest.mark.parametrize(("source", "target"), [("m.keras", "a.h5"), ("m.h5", "b.keras"), ("m.keras", "c.keras"),
                                                ("m.h5", "d.h5"), ("m.keras", "e.weights.h5")])  # fmt: skip
def test_keras_loads_what_is_written(source: str, target: str, model: Any, files: Path, tmp_path: Path) -> None:
    import keras

    tfsmith.convert(files / source, tmp_path / target)
    assert all(one.verdict == "same" for one in tfsmith.compare_weights(files / source, tmp_path / target))
    if target.endswith(".weights.h5"):
        loaded = keras.models.load_model(files / source, compile=False)
        loaded.set_weights([one * 0 for one in loaded.get_weights()])
        loaded.load_weights(tmp_path / target)
    else:
        loaded = keras.models.load_model(tmp_path / target, compile=False)
    wanted = model.get_weights()
    assert all((one == other).all() for one, other in zip(loaded.get_weights(), wanted, strict=True))


def test_bfloat16(tmp_path: Path) -> None:
    import keras

    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype="bfloat16")])
    made.save(tmp_path / "m.keras")
    tfsmith.convert(tmp_path / "m.keras", tmp_path / "n.keras")
    for name in ("m.keras", "n.keras"):
        kernel = tfsmith.load_weights(tmp_path / name)["layers/dense/vars/0"]
        assert kernel.dtype.name == "bfloat16"
        assert (kernel.numpy() == made.get_weights()[0]).all()
    again = keras.models.load_model(tmp_path / "n.keras")
    assert (again.get_weights()[0] == made.get_weights()[0]).all()


def test_an_application_is_equal_to_its_saved_model_and_frozen_graph(tmp_path: Path) -> None:
    """One of those that `python -m tools.check_keras_applications` goes through, made small."""
    settings = {"input_shape": (32, 32, 3), "alpha": 0.25, "classes": 5}
    count, _, verdicts = compare_application("MobileNet", tmp_path, **settings)
    assert count == 137
    pairs = [f"{file}, {other}" for file in ("model.h5", "model.keras") for other in ("exported", "frozen.pb")]
    assert verdicts == dict.fromkeys(pairs, "same")


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".ckpt"])
def test_weights_of_an_archive_come_back_from_elsewhere(ending: str, model: Any, files: Path, tmp_path: Path) -> None:
    import keras

    tfsmith.convert(files / "m.keras", tmp_path / f"there{ending}")
    tfsmith.save_weights(
        tfsmith.load_weights(tmp_path / f"there{ending}", excluded=["optimizer/*"]), tmp_path / "back.weights.h5"
    )
    loaded = keras.models.load_model(files / "m.keras", compile=False)
    loaded.set_weights([one * 0 for one in loaded.get_weights()])
    loaded.load_weights(tmp_path / "back.weights.h5")
    tfsmith.convert(tmp_path / f"there{ending}", tmp_path / "back.keras", like=files / "m.keras")
    whole = keras.models.load_model(tmp_path / "back.keras")
    wanted = model.get_weights()
    for one in (loaded, whole):
        assert all((found == other).all() for found, other in zip(one.get_weights(), wanted, strict=True))
    states = zip(whole.optimizer.variables, model.optimizer.variables, strict=True)
    assert all((one.numpy() == other.numpy()).all() for one, other in states)
