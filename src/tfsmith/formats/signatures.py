"""SignatureDef <-> `Signature`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfsmith.formats.tensorproto import plan_tensor, set_shape, shape_from_message, tensor_from_message
from tfsmith.ir.dtype import dtype, dtype_named
from tfsmith.ir.shape import Shape
from tfsmith.ir.signature import Signature, TensorInfo
from tfsmith.wire.messages import new
from tfsmith.wire.plan import WritePlan

__all__ = ["signatures_from_messages", "plan_signatures"]

_SPARSE_ROLES = ("values", "indices", "dense_shape")


def signatures_from_messages(messages: Mapping[str, Any], path: str | None = None) -> dict[str, Signature]:
    """All signatures of a meta graph, sorted by key, their inputs and outputs too."""
    return {key: _signature(messages[key], path) for key in sorted(messages)}


def _signature(message: Any, path: str | None) -> Signature:
    return Signature(
        {key: _info(message.inputs[key], f"input {key!r}", path) for key in sorted(message.inputs)},
        {key: _info(message.outputs[key], f"output {key!r}", path) for key in sorted(message.outputs)},
        message.method_name,
        {key: tensor_from_message(message.defaults[key], f"default {key!r}", path) for key in sorted(message.defaults)},
    )


def _info(message: Any, label: str, path: str | None) -> TensorInfo:
    kind, shape = dtype(message.dtype), shape_from_message(message.tensor_shape, label, path)
    encoding = message.WhichOneof("encoding")
    if encoding == "coo_sparse":
        sparse = message.coo_sparse
        int64 = dtype_named("int64")
        parts = {
            "values": TensorInfo(sparse.values_tensor_name, kind, Shape((-1,))),
            "indices": TensorInfo(sparse.indices_tensor_name, int64, Shape((-1, -1))),
            "dense_shape": TensorInfo(sparse.dense_shape_tensor_name, int64, Shape((-1,))),
        }
        return TensorInfo("", kind, shape, "sparse", parts)
    if encoding == "composite_tensor":
        inner = enumerate(message.composite_tensor.components)
        components = {str(number): _info(item, label, path) for number, item in inner}
        spec = message.composite_tensor.type_spec.SerializeToString()
        return TensorInfo("", kind, shape, "composite", components, spec)
    return TensorInfo(message.name, kind, shape)


def plan_signatures(plan: WritePlan, number: int, signatures: Mapping[str, Signature]) -> None:
    """Adds the entries of the map, sorted by key, as fields with this number."""
    for key in sorted(signatures):
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, _message(signatures[key]).SerializeToString(deterministic=True))
        plan.add_field(number, entry)


def _message(signature: Signature) -> Any:
    message = new("SignatureDef")
    message.method_name = signature.method_name
    for infos, target in ((signature.inputs, message.inputs), (signature.outputs, message.outputs)):
        for key, info in infos.items():
            _fill(target[key], info)
    for key, tensor in signature.defaults.items():
        message.defaults[key].ParseFromString(plan_tensor(tensor).tobytes())
    return message


def _fill(message: Any, info: TensorInfo) -> None:
    if info.encoding != "composite" or info.dtype.number:  # TensorFlow gives these to the components alone
        message.dtype = info.dtype.number
        set_shape(message.tensor_shape, info.shape)
    if info.encoding == "dense":
        message.name = info.name
    elif info.encoding == "sparse":
        for role in _SPARSE_ROLES:
            setattr(message.coo_sparse, f"{role}_tensor_name", info.components[role].name)
    else:
        message.composite_tensor.type_spec.ParseFromString(info.type_spec)
        for component in info.components.values():
            _fill(message.composite_tensor.components.add(), component)
