"""Makes small models with an old Keras, as it saved them: `NAME.h5.xz`, and what that Keras itself reads from them.

Needs the Keras that is wanted, in an environment of its own; tests need none of it:

    python tools/make_keras_files.py tests/data/keras keras-2.2
    python tools/make_keras_files.py tests/data/keras tf-keras-2.19 tf_keras

`NAME.json` lists the weights as Keras gives them after `load_model`: layer, shape, and the SHA-256 of their bytes. The
Python 3.6 of Keras 1 runs this, too.
"""

import hashlib
import json
import lzma
import os
import sys
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


def main() -> None:
    if os.environ.get("KERAS_BACKEND") == "theano":  # Keras 1 imports parts of it that it takes for granted
        import theano.ifelse
        import theano.tensor.nnet.bn  # noqa: F401
    import importlib

    import h5py

    folder, name, module = (*sys.argv[1:], "keras")[:3]
    keras = importlib.import_module(module)
    with tempfile.TemporaryDirectory() as place:
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
