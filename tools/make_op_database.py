"""Writes the definitions of all ops of the installed TensorFlow: src/tfsmith/ir/ops.json.zlib.

Of their prose it keeps the first line, in src/tfsmith/ir/op_summaries.zlib.

Run it with a Python that has TensorFlow, when a new TensorFlow adds ops:

    python tools/make_op_database.py
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

FLAGS = {"s": "is_stateful", "c": "is_commutative", "g": "is_aggregate"}


def main() -> None:
    import tensorflow as tf
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    lines = [json.dumps({"tensorflow": tf.__version__, "producer": tf.version.GRAPH_DEF_VERSION})]
    for op in sorted(ops.op, key=lambda op: str(op.name)):
        lines.append(f"{op.name}\t{json.dumps(_row(op), separators=(',', ':'))}")
    _pack("ops.json.zlib", lines)
    _pack("op_summaries.zlib", [f"{op.name}\t{line}" for op in ops.op if (line := _summary(op))])


def _pack(name: str, lines: list[str]) -> None:
    packed = zlib.compress("\n".join(lines).encode(), 9)  # xz is a quarter smaller, and three times as slow to read
    (Path(__file__).parents[1] / "src/tfsmith/ir" / name).write_bytes(packed)
    print(f"{name}: {len(lines)} lines, {len(packed)} bytes")


def _summary(op: Any) -> str:
    """The first line of what Python's docstring of the op says; the definitions themselves carry none."""
    import inspect

    import tensorflow as tf

    function = getattr(tf.raw_ops, op.name, None)
    doc = inspect.getdoc(function) if function is not None else ""
    paragraph = " ".join((op.summary or doc or "").split("\n\n")[0].split())
    return "" if paragraph.startswith("TODO") else paragraph


def _row(op: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "i": [_arg(arg) for arg in op.input_arg],
        "o": [_arg(arg) for arg in op.output_arg],
        "a": [_attr(attr) for attr in op.attr],
        "f": "".join(letter for letter, flag in FLAGS.items() if getattr(op, flag)),
    }
    return {key: value for key, value in row.items() if value}


def _arg(arg: Any) -> list[Any]:
    if arg.type_list_attr:
        how: Any = f"[{arg.type_list_attr}]"
    elif arg.number_attr:
        how = f"{arg.number_attr}*{arg.type_attr or arg.type}"
    else:
        how = arg.type_attr or arg.type
    return [arg.name, how, int(arg.is_ref)]


def _attr(attr: Any) -> list[Any]:
    default = [_value(attr.type, attr.default_value)] if attr.HasField("default_value") else []
    allowed = []
    if attr.HasField("allowed_values"):
        kind = "type" if attr.type.endswith(("type", "type)")) else "string"
        allowed = _value(f"list({kind})", attr.allowed_values)
    row = [attr.name, attr.type, default, allowed, [attr.minimum] if attr.has_minimum else []]
    while not row[-1]:
        row.pop()
    return row


def _value(kind: str, value: Any) -> Any:
    if kind.startswith("list("):
        field = {"string": "s", "int": "i", "float": "f", "bool": "b"}.get(kind[5:-1], kind[5:-1])
        return [_plain(kind[5:-1], item) for item in getattr(value.list, field)]
    return _plain(kind, getattr(value, value.WhichOneof("value")))


def _plain(kind: str, value: Any) -> Any:
    if kind == "tensor":
        import tensorflow as tf

        array = tf.make_ndarray(value)
        return [value.dtype, list(array.shape), array.tobytes().decode("latin-1")]
    if kind == "string":
        return value.decode("latin-1")
    if kind == "shape":
        return None if value.unknown_rank else [dim.size for dim in value.dim]
    return value


if __name__ == "__main__":
    main()
