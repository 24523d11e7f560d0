"""`Signature`: the inputs and outputs that a model offers by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.records import field, record

__all__ = ["Signature", "TensorInfo", "PREDICT", "SERVING_DEFAULT"]

PREDICT = "tensorflow/serving/predict"
SERVING_DEFAULT = "serving_default"


@record
class TensorInfo:
    """A tensor of the graph as a signature names it.

    Attributes:
        name: The tensor, such as "x:0"; "" for sparse and composite ones, whose `components` have names.
        dtype: Its type.
        shape: Its shape.
        encoding: "dense", "sparse" (values, indices, dense shape) or "composite" (any other).
        components: The tensors that make up a sparse or composite one, by role.
        type_spec: What kind of composite it is, as TensorFlow wrote it.
    """

    name: str
    dtype: DType
    shape: Shape
    encoding: Literal["dense", "sparse", "composite"] = "dense"
    components: Mapping[str, TensorInfo] = field(default_factory=dict)
    type_spec: bytes = b""


@record
class Signature:
    """What one entry point takes and gives, by key, in the order of the file."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    method_name: str = PREDICT
    defaults: Mapping[str, Tensor] = field(default_factory=dict)
