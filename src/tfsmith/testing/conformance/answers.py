"""TensorFlow's answers to the cases, packed: a file for each family, with the version that gave them.

A file is a message as `tfsmith.engines.frames` writes it, compressed. Answers are found by the digest of what was
asked (nodes, what is fed, what is fetched), so a case that was changed has none. No digest covers an answer: the last
bits of TensorFlow's own kernels depend on the machine.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.ir.graph import Function
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.tensor import Tensor, TensorBase
from tfsmith.ops.samples import Case
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Answer", "Answers", "FOLDER", "digest", "load_answers", "pack_answers"]

FOLDER = Path(__file__).with_name("answers")
_LEVEL = 9
_DIGITS = 14


@record(eq=False)
class Answer:
    """What TensorFlow says to a case.

    Attributes:
        kind: "values"; "refused" where it raises an error for what is fed; "lacks" where it has no kernel for it on a
            CPU, so that any answer is right.
        values: The tensors that were fetched, in order.
    """

    kind: Literal["values", "refused", "lacks"]
    values: tuple[NDArray[Any], ...] = ()


@record(eq=False)
class Answers:
    """All answers of a family, by digest, and the version of TensorFlow that gave them ("" where there are none)."""

    version: str
    by_digest: Mapping[str, Answer]


@cache
def load_answers(family: str) -> Answers:
    """The packed answers of a family; read once."""
    path = FOLDER / f"{family}.zlib"
    if not path.is_file():
        return Answers("", {})
    say, arrays = read_frame(io.BytesIO(zlib.decompress(path.read_bytes())))
    found: dict[str, Answer] = {}
    for key, kind in say["cases"].items():
        if isinstance(kind, int):
            found[key] = Answer("values", tuple(arrays[f"{key}:{number}"] for number in range(kind)))
        else:
            found[key] = Answer(kind)
    return Answers(say["tensorflow"], MappingProxyType(found))


def pack_answers(answers: Answers) -> bytes:
    """The bytes of a family's file; the same for the same answers."""
    cases: dict[str, int | str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for key in sorted(answers.by_digest):
        answer = answers.by_digest[key]
        cases[key] = len(answer.values) if answer.kind == "values" else answer.kind
        arrays.update({f"{key}:{number}": values for number, values in enumerate(answer.values)})
    stream = io.BytesIO()
    write_frame(stream, {"tensorflow": answers.version, "cases": cases}, arrays)
    return zlib.compress(stream.getvalue(), _LEVEL)


def digest(case: Case) -> str:
    """What a case asks, in a few letters. Its name does not count."""
    told = hashlib.sha256()
    for part in _parts(case):
        told.update(len(part).to_bytes(4, "little") + part)
    return told.hexdigest()[:_DIGITS]


def _parts(case: Case) -> Iterator[bytes]:
    for node in case.nodes:
        yield from _node_parts(node)
    for function in case.functions:
        yield from _function_parts(function)
    for key in sorted(case.feeds):
        shape = case.shapes.get(key)
        yield f"{key} {case.types[key]} {case.feeds[key].shape} {'' if shape is None else shape}".encode()
        yield _bits(case.feeds[key])
    yield " ".join(case.fetches).encode()


def _node_parts(node: Node) -> Iterator[bytes]:
    yield f"{node.name} {node.op} {' '.join(node.inputs)}".encode()
    yield from _attr_parts(node.attrs)


def _function_parts(function: Function) -> Iterator[bytes]:
    signature = function.signature
    arguments = [f"{arg.name} {arg.type} {arg.type_attr}" for arg in (*signature.inputs, *signature.outputs)]
    yield f"{function.name} {arguments} {sorted(function.ret.items())} {sorted(function.control_ret.items())}".encode()
    for node in function.nodes:
        yield from _node_parts(node)


def _attr_parts(attrs: Mapping[str, Attr]) -> Iterator[bytes]:
    for key in sorted(attrs):
        yield f"{key} {attrs[key].kind}".encode()
        yield _attr_bits(attrs[key].value)


def _attr_bits(value: Any) -> bytes:
    if isinstance(value, TensorBase):
        tensor = cast("Tensor", value)
        return f"{tensor.dtype} {tensor.shape} ".encode() + _bits(tensor.numpy())
    if isinstance(value, Func):
        return b" ".join((value.name.encode(), *_attr_parts(value.attrs)))
    if isinstance(value, tuple):
        return b"[" + b",".join(map(_attr_bits, value)) + b"]"
    return value if isinstance(value, bytes) else str(value).encode()


def _bits(array: NDArray[Any]) -> bytes:
    if array.dtype.kind == "O":
        return b"".join(len(item).to_bytes(4, "little") + item for item in array.reshape(-1).tolist())
    plain = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return plain.tobytes()
