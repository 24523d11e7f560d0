"""JSON to arrays and back, as TensorFlow Serving's REST API has them: rows or columns, base64, NaN and Infinity."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfsmith.engines.protocol import Port
from tfsmith.server.lanes import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "flat_json",
    "json_array",
    "json_text",
    "named_inputs",
    "outputs_text",
    "parse_object",
    "serialized_examples",
]

_EXACT = {"float32": 2**24 - 1, "float64": 2**53 - 1, "float16": 2**11 - 1, "bfloat16": 2**8 - 1}
"""The largest whole number below which all are floats of the type."""
_FLOAT32_MAX = 3.4028234663852886e38
_SHOWN = 60
_LARGE_NUMBER = re.compile(rb"[eE]\+?\d{3}|\d{300}")
"""What only a body has that may hold a number beyond float64; the rare case, for it is slower to read."""


def _bad(what: str) -> RequestError:
    return RequestError("INVALID_ARGUMENT", what)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        RequestError: It is none.
    """
    if not body:
        raise _bad("JSON Parse error: The document is empty")
    try:
        found = json.loads(body, parse_float=_finite) if _LARGE_NUMBER.search(body) else json.loads(body)
    except (ValueError, RecursionError) as error:  # bytes that are no UTF-8 among them
        raise _bad(f"JSON Parse error: {error}") from error
    if not isinstance(found, dict):
        raise _bad(f"JSON Value: {_shown(found)} Is not object")
    return found


def _finite(text: str) -> float:
    """A number that float64 can hold; Python itself would make it infinite without a word."""
    found = float(text)
    if math.isinf(found):
        raise ValueError("Number too big to be stored in double.")
    return found


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def named_inputs(request: Mapping[str, Any], inputs: Mapping[str, Port]) -> tuple[dict[str, Any], bool]:
    """The arrays of a predict request by input, and whether it came in rows (`instances`).

    Raises:
        RequestError: It does not fit the signature.
    """
    if ("instances" in request) == ("inputs" in request):
        both = "expecting only one of 'inputs' or 'instances' keys to exist"
        raise _bad(f"Not formatted correctly {both}" if "inputs" in request else "Missing 'inputs' or 'instances' key")
    if "inputs" in request:
        return {key: json_array(value, inputs[key], key) for key, value in _columns(request["inputs"], inputs)}, False
    rows = request["instances"]
    if not isinstance(rows, list):
        raise _bad("Expecting 'instances' to be an list/array")
    if not rows:
        raise _bad("No values in 'instances' array")
    found = {key: json_array(column, inputs[key], key) for key, column in _rows(rows, inputs)}
    return found, True


def _columns(value: Any, inputs: Mapping[str, Port]) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or _is_base64(value):
        if len(inputs) != 1:
            raise _bad(f"inputs is a plain value/list, but expecting an object with: {', '.join(inputs)}")
        yield next(iter(inputs)), value
        return
    for key, port in inputs.items():
        if key in value:
            yield key, value[key]
        elif port.required:
            raise _bad(f"Missing named input: {key} in 'inputs' object.")
    if not all(key in value for key in inputs):  # a key that is no input may be a misspelt one; else it is left out
        _check_known(value, inputs, "'inputs' object")


def _check_known(found: Mapping[str, Any], inputs: Mapping[str, Port], where: str) -> None:
    unknown = next((key for key in found if key not in inputs), None)
    if unknown is not None:
        raise _bad(f"{where} does not have named input: {unknown}; the inputs are: {', '.join(inputs)}")


def _rows(rows: list[Any], inputs: Mapping[str, Port]) -> Iterator[tuple[str, list[Any]]]:
    is_named = isinstance(rows[0], dict) and not _is_base64(rows[0])
    if not is_named and len(inputs) != 1:
        raise _bad(f"instances is a plain list, but expecting list of objects with: {', '.join(inputs)}")
    keys = set(rows[0]) if is_named else set()
    needed = {key for key, port in inputs.items() if port.required}
    for number, row in enumerate(rows):
        if is_named != (isinstance(row, dict) and not _is_base64(row)):
            wanted, got = ("object", "list") if is_named else ("value/list", "object")
            raise _bad(f"Expecting {wanted} but got {got} at item {number} of input list")
        if is_named:
            where = f"Failed to process element: {number} of 'instances' list. JSON object:"
            _check_known(row, inputs, where)
            if set(row) != keys or needed - keys:
                raise _bad(f"{where} {_shown(row)} keys must be equal to: {','.join(inputs)}")
    if not is_named:
        yield next(iter(inputs)), rows
        return
    for key in inputs:
        if key in keys:
            yield key, [row[key] for row in rows]


def json_array(value: Any, port: Port, key: str) -> NDArray[Any]:
    """A JSON value as an array of an input's type; its shape is checked by who runs it.

    Raises:
        RequestError: A value is of another type, lists are ragged, or a number would change.
    """
    import numpy

    wanted = None if port.dtype is None else port.dtype.base
    if wanted is None or wanted.name == "string":
        array = _filled(value, key, _as_bytes if wanted else _as_any)
        return array if wanted else numpy.asarray(array.tolist())
    element = wanted.numpy()
    is_float = "float" in wanted.name
    if not is_float and element.kind not in "iub":
        raise RequestError("UNIMPLEMENTED", f"input {key!r} is {wanted}, which JSON has no form for")
    try:
        array = numpy.asarray(value)
    except (ValueError, OverflowError) as error:
        raise _bad(f"input {key!r}: lists of different lengths or depths ({error})") from error
    kinds = "b" if element.kind == "b" else "iuf" if is_float else "iu"
    if array.size and (array.dtype.kind not in kinds or (element.kind != "b" and _has_bool(value))):
        raise _bad(f"JSON Value: {_shown(_culprit(value))} in input {key!r} is not of expected type: {wanted}")
    return _exact(array, element, wanted.name, key)


def _has_bool(value: Any) -> bool:
    """Whether there is a boolean among numbers; numpy takes them for 0 and 1."""
    if isinstance(value, list):
        first = value[0] if value else None
        return any(map(_has_bool, value)) if isinstance(first, list) else bool in set(map(type, value))
    return isinstance(value, bool)


def _culprit(value: Any) -> Any:
    """The value to show of a list that is not what it should be: the first that is no number, else the first."""
    while isinstance(value, list) and value:
        value = next((one for one in value if not isinstance(one, (int, float)) or isinstance(one, bool)), value[0])
    return value


def _exact(array: NDArray[Any], element: Any, kind: str, key: str) -> NDArray[Any]:
    """The numbers as the model's type, if none changes but by rounding of decimals."""
    import numpy

    if array.dtype == element or not array.size:
        return array.astype(element)
    if element.kind in "iu":
        limits = numpy.iinfo(element)
        is_lossy = int(array.min()) < limits.min or int(array.max()) > limits.max
        found = array.astype(element)
    elif array.dtype.kind in "iu":
        is_lossy = max(-int(array.min()), int(array.max())) > _EXACT.get(kind, 0)
        found = array.astype(element)
    else:
        if element.itemsize >= 4 and abs(array).max() <= _FLOAT32_MAX:  # not of NaN
            return array.astype(element)
        with numpy.errstate(over="ignore"):
            found = array.astype(element)
        is_lossy = bool((numpy.isfinite(array) & ~numpy.isfinite(found.astype(array.dtype))).any())
    if is_lossy:
        raise _bad(f"Cannot convert JSON values of input {key!r} to {kind} without loss of precision")
    return found


def _filled(value: Any, key: str, leaf: Callable[[Any, str], Any]) -> NDArray[Any]:
    """Nested lists as an array of objects, each leaf converted."""
    import numpy

    found = numpy.array(value, object)
    flat = found.reshape(-1)
    for index, one in enumerate(flat):
        if isinstance(one, list):  # numpy leaves lists of different lengths as they are
            raise _bad(f"input {key!r}: lists of different lengths or depths at level: {found.ndim}")
        flat[index] = leaf(one, key)
    return found


def _as_bytes(value: Any, key: str) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not _is_base64(value):
        raise _bad(f"JSON Value: {_shown(value)} in input {key!r} is not of expected type: string")
    try:
        text = value["b64"].translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad(f"Unable to base64 decode input {key!r}") from error


def _as_any(value: Any, key: str) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    return _as_bytes(value, key)


def serialized_examples(request: Mapping[str, Any]) -> NDArray[Any]:
    """The examples of a classify or regress request, as serialized tf.train.Example messages.

    Raises:
        RequestError: They are not formatted so.
    """
    import numpy

    from tfsmith.wire import new

    examples = request.get("examples")
    if not isinstance(examples, list):
        raise _bad("key 'examples' is expected to be a list/array")
    if not examples:
        raise _bad("'examples' value is an empty array")
    context = request.get("context", {})
    found = numpy.empty(len(examples), object)
    for number, example in enumerate(examples):
        for part in (context, example):
            if not isinstance(part, dict):
                raise _bad(f"Example must be JSON object but got JSON {_shown(part)}")
        if set(context) & set(example):
            raise _bad(f"the context has features of example {number}: {', '.join(set(context) & set(example))}")
        message = new("Example")
        for name, value in {**context, **example}.items():
            _fill_feature(message.features.feature[name], name, value)
        found[number] = message.SerializeToString(deterministic=True)
    return found


def _fill_feature(feature: Any, name: str, value: Any) -> None:
    values = value if isinstance(value, list) else [value]
    kinds = {"int64" if isinstance(one, (bool, int)) else "float" if isinstance(one, float) else "bytes"
             for one in values}  # fmt: skip
    if len(kinds) > 1:
        raise _bad(f"Unexpected element type in feature: {name} expecting type: {min(kinds)}")
    try:
        if kinds == {"int64"}:
            feature.int64_list.value.extend(map(int, values))
        elif kinds == {"float"}:
            if any(_FLOAT32_MAX < abs(one) < math.inf for one in values):
                raise _bad(f"Cannot convert JSON values of feature {name!r} to float without loss of precision")
            feature.float_list.value.extend(values)
        elif kinds:
            feature.bytes_list.value.extend(_as_bytes(one, name) for one in values)
    except ValueError as error:
        raise _bad(f"Feature: {name} has an element that is out of range") from error


def outputs_text(results: Mapping[str, NDArray[Any]], *, in_rows: bool) -> str:
    """The answer to a predict request, in the form in which it was asked.

    Raises:
        RequestError: Rows were asked for, and an output has none, or not as many as another.
    """
    texts = {key: json_text(array, is_bytes=key.endswith("_bytes"), in_rows=in_rows)
             for key, array in _checked(results, in_rows=in_rows).items()}  # fmt: skip
    if len(texts) == 1:
        (text,) = texts.values()
        return f'{{\n    "predictions": [{", ".join(text)}]\n}}\n' if in_rows else f'{{\n    "outputs": {text}\n}}\n'
    if not in_rows:
        inside = ",\n".join(f"        {json.dumps(key)}: {text}" for key, text in texts.items())
        return f'{{\n    "outputs": {{\n{inside}\n    }}\n}}\n'
    names = [json.dumps(key) for key in texts]
    rows = (", ".join(map(": ".join, zip(names, row, strict=True))) for row in zip(*texts.values(), strict=True))
    inside = ",\n".join(f"        {{{row}}}" for row in rows)
    return f'{{\n    "predictions": [\n{inside}\n    ]\n}}\n'


def _checked(results: Mapping[str, NDArray[Any]], *, in_rows: bool) -> Mapping[str, NDArray[Any]]:
    if not in_rows:
        return results
    sizes = {key: len(array) if array.ndim else None for key, array in results.items()}
    for key, size in sizes.items():
        if size is None:
            raise _bad(f"Tensor name: {key} has no batch dimension; ask with 'inputs' in place of 'instances'")
    if len(set(sizes.values())) > 1:
        raise _bad(f"Tensors have inconsistent batch sizes: {sizes}; ask with 'inputs' in place of 'instances'")
    return results


def json_text(array: NDArray[Any], *, is_bytes: bool = False, in_rows: bool = False) -> Any:
    """An array as JSON text, or a list of the texts of its rows."""
    texts = [_leaf(one, is_bytes) for one in array.reshape(-1).tolist()] if array.dtype.kind == "O" else _plain(array)
    for axis in reversed(range(in_rows, array.ndim)):
        size, count = array.shape[axis], math.prod(array.shape[:axis])
        texts = [f"[{', '.join(texts[index * size : (index + 1) * size])}]" for index in range(count)]
    return texts if in_rows else texts[0]


def flat_json(array: NDArray[Any]) -> str:
    """All values of an array in one JSON list, as KServe has them."""
    if array.dtype.kind == "O":
        try:
            return json.dumps([one.decode("utf-8") for one in array.reshape(-1).tolist()])
        except UnicodeDecodeError as error:
            what = "an output has bytes that are no text, for which this API has no form; ask /v1 or gRPC"
            raise RequestError("UNIMPLEMENTED", what) from error
    return f"[{', '.join(_plain(array))}]"


def _leaf(value: bytes, is_bytes: bool) -> str:
    if not is_bytes:
        try:
            return json.dumps(value.decode("utf-8"), ensure_ascii=False)
        except UnicodeDecodeError:
            pass  # bytes that are no text have this form alone
    return f'{{"b64": "{base64.b64encode(value).decode()}"}}'


def _plain(array: NDArray[Any]) -> list[str]:
    """The numbers of an array as JSON texts: six digits where they say it all, else all digits of the type."""
    kind = array.dtype.kind
    if kind in "iu":
        return list(map(str, array.reshape(-1).tolist()))
    if kind == "b":
        return ["true" if one else "false" for one in array.reshape(-1).tolist()]
    if kind == "c":
        raise RequestError("UNIMPLEMENTED", f"an output is {array.dtype}, which JSON has no form for")
    import numpy

    wide = array if array.dtype == numpy.float64 else array.astype(numpy.float32)
    values = wide.reshape(-1).tolist()
    texts = [f"{value:.6g}" for value in values]
    digits = 17 if wide.dtype == numpy.float64 else 9
    differs = numpy.array([float(text) for text in texts]).astype(wide.dtype) != wide.reshape(-1)
    for index in numpy.flatnonzero(differs):
        texts[index] = f"{values[index]:.{digits}g}"
    return [_NAMES.get(text) or (text if "." in text or "e" in text else f"{text}.0") for text in texts]


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
