"""Makes small models with an old Keras, as it saved them: `NAME.h5.xz`, and what that Keras itself reads from them.

Needs the Keras that is wanted, in an environment of its own; tests need none of it:

    python tools/make_keras_files.py tests/data/keras keras-2.2
    python tools/make_keras_files.py tests/data/keras tf-keras-2.19 tf_keras
    python tools/make_keras_files.py tests/data/keras tf-keras-2.19 tf_keras saved_model

The last one writes `NAME.tar.xz`: SavedModels with their `keras_metadata.pb`, of layers inside of layers with a Lambda
and a layer of the user's own (`functional`), and of a model of the user's own class (`subclassed`).

`NAME.json` lists the weights as Keras gives them after `load_model`: layer, shape, and the SHA-256 of their bytes. The
Python 3.6 of Keras 1 runs this, too.
"""

import hashlib
import json
import lzma
import os
import sys
import tarfile
import tempfile
from typing import Any

ENDINGS = (".h5", ".keras", ".weights.h5")


def build(keras: Any) -> Any:
    """A small model, trained for one step."""
    import numpy

    layers = keras.layers
    if keras.__version__.startswith("1."):
        parts = [layers.Dense(4, input_shape=(6,)), layers.BatchNormalization(), layers.Dense(3, name="answers")]
    else:
        parts = [layers.Conv2D(4, 3, input_shape=(8, 8, 1)), layers.BatchNormalization(), layers.Reshape((6, 24)),
                 layers.LSTM(5), layers.Dense(3, name="answers")]  # fmt: skip
    model = keras.models.Sequential(parts)
    model.compile("adam", "mse")
    random = numpy.random.RandomState(7)
    model.set_weights([random.normal(size=one.shape).astype("float32") for one in model.get_weights()])
    shape = (4, *model.input_shape[1:])
    model.train_on_batch(random.rand(*shape).astype("float32"), random.rand(4, 3).astype("float32"))
    return model


def build_saved_models(keras: Any, folder: str) -> None:
    """Two models as SavedModels: one of layers inside of layers, and one of a class of its own."""
    import numpy

    layers = keras.layers

    class Scale(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(name="scale", shape=(int(shape[-1]),))

        def call(self, x: Any) -> Any:
            return x * self.scale

    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = layers.Dense(3, name="inside")
            self.second = layers.Dense(2, name="answers")

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    deepest = keras.Sequential([layers.LayerNormalization(input_shape=(6,), name="norm")], name="deepest")
    inner = keras.Sequential([layers.Dense(6, input_shape=(4,), name="wide"), deepest], name="inner")
    x = keras.Input((8, 8, 1))
    y = inner(layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, name="first")(x)))
    twice = eval(compile("lambda one: one * 2", "model.py", "eval"))  # its code holds the name of its file
    y = Scale(name="own")(layers.Lambda(twice, name="twice")(y))
    model = keras.Model(x, layers.Dense(2, name="answers")(y))
    model.compile("adam", "mse")
    random = numpy.random.RandomState(7)
    model.set_weights([random.normal(size=one.shape).astype("float32") for one in model.get_weights()])
    model.train_on_batch(random.rand(4, 8, 8, 1).astype("float32"), random.rand(4, 2).astype("float32"))
    model.save(os.path.join(folder, "functional"), save_format="tf")  # noqa: PTH118
    net = Net()
    net(numpy.zeros((1, 4), "float32"))
    net.save(os.path.join(folder, "subclassed"), save_format="tf")  # noqa: PTH118


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file of an archive without its owner and time."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def main() -> None:
    if os.environ.get("KERAS_BACKEND") == "theano":  # Keras 1 imports parts of it that it takes for granted
        import theano.ifelse
        import theano.tensor.nnet.bn  # noqa: F401
    import importlib

    import h5py

    folder, name, module = (*sys.argv[1:], "keras")[:3]
    keras = importlib.import_module(module)
    with tempfile.TemporaryDirectory() as place:
        if sys.argv[4:] == ["saved_model"]:
            build_saved_models(keras, place)
            with tarfile.open(os.path.join(folder, f"{name}.tar.xz"), "w:xz") as archive:  # noqa: PTH118
                for kind in ("functional", "subclassed"):
                    archive.add(os.path.join(place, kind), kind, filter=_nobody)  # noqa: PTH118
            return
        model = build(keras)
        for ending in ENDINGS if module == "tf_keras" else ENDINGS[:1]:
            path = os.path.join(place, f"model{ending}")  # noqa: PTH118
            model.save_weights(path) if ending == ".weights.h5" else model.save(path)
            with open(path, "rb") as file:
                packed = lzma.compress(file.read(), preset=9 | lzma.PRESET_EXTREME)
            with open(os.path.join(folder, f"{name}{ending}.xz"), "wb") as made:  # noqa: PTH118
                made.write(packed)
        again = keras.models.load_model(os.path.join(place, "model.h5"))  # noqa: PTH118
        weights = [
            [layer.name, list(one.shape), hashlib.sha256(one.astype("float32").tobytes()).hexdigest()]
            for layer in again.layers
            for one in layer.get_weights()
        ]
    facts = {
        "keras": keras.__version__,
        "backend": keras.backend.backend(),
        "h5py": h5py.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "weights": weights,
    }
    with open(os.path.join(folder, f"{name}.json"), "w") as made_text:  # noqa: PTH118
        made_text.write(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
