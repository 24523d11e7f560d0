"""`half_plus_two` and its like: the toy models of TensorFlow Serving's documentation, made without TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

from tfsmith.ir.body import Part
from tfsmith.ir.model import PREDICT, SERVING_DEFAULT, Model, Signature, TensorInfo
from tfsmith.ir.types import Shape
from tfsmith.records import replace
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.models import assemble
from tfsmith.testing.values import FLOAT32, STRING
from tfsmith.testing.weights import fixed

__all__ = ["half_plus", "write_half_plus"]

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


def half_plus(number: float) -> Model:
    """y = x / 2 + number, with the signatures that TensorFlow Serving's own have: predict, regress and classify.

    The input x is what an example has for it, [?, 1]; as in the original, a request may feed it in any shape.
    """
    builder = GraphBuilder("ref")
    examples = builder.placeholder(STRING, [None], "tf_example")
    slope = builder.variable("a", builder.const(0.5, FLOAT32), fixed(0.5, FLOAT32))
    offset = builder.variable("b", builder.const(number, FLOAT32), fixed(number, FLOAT32))
    parsed = builder.node(
        "ParseExample",
        [examples, builder.const([], STRING), [], [builder.const("x", STRING)], [builder.const([], FLOAT32)]],
        {"Nsparse": 0, "sparse_types": [], "Tdense": [FLOAT32], "dense_shapes": [Shape((1,))]},
        "ParseExample",
    )
    x = builder.node("Identity", [parsed.out], {}, "x").out
    y = builder.node("AddV2", [builder.node("Mul", [slope, x], {}, "mul").out, offset], {}, "y").out
    infos = {key: TensorInfo(output.tensor_name, output.dtype, Shape(dims))
             for key, output, dims in (("inputs", examples, (-1,)), ("x", x, (-1, 1)), ("y", y, (-1, 1)))}  # fmt: skip
    from_examples = {"inputs": infos["inputs"]}
    regress = Signature(from_examples, {"outputs": infos["y"]}, REGRESS)
    signatures = {
        SERVING_DEFAULT: Signature({"x": infos["x"]}, {"y": infos["y"]}, PREDICT),
        REGRESS: regress,
        "regress_x_to_y": regress,
        "classify_x_to_y": Signature(from_examples, {"scores": infos["y"]}, CLASSIFY),
    }
    model = assemble(builder, "sharded")
    info = replace(model.meta.info, tags=("serve",))
    meta = replace(model.meta, info_part=Part.of(info), signatures_part=Part.of(signatures))
    return replace(model, kind="saved_model", meta_graphs=(meta,))


def write_half_plus(path: str | os.PathLike[str], number: float) -> Path:
    """Writes the model as a SavedModel, such as `half_plus_two/00000123`."""
    from tfsmith.verbs._files import save

    save(half_plus(number), path, format="saved_model")
    return Path(path)
