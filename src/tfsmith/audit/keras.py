"""What Keras would run when it loads a model, by the configs that it keeps as JSON. Reads texts, imports nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsmith.audit.findings import Finding, Level

__all__ = ["keras_findings"]

_LONGEST_SHOWN = 120
_OWN_MODULES = re.compile(r"(keras|tf_keras|keras_hub|keras_nlp|keras_cv|tensorflow|builtins)(\.|$)")
"""Modules that Keras' own configs name."""
_PLAIN_BUILTINS = frozenset({"int", "float", "bool", "str", "list", "tuple", "dict", "set", "bytes", "slice", "type"})
_ACTS = re.compile(
    r"(^|\.)(io|raw_ops|data|distribute|debugging|profiler|summary|autograph|load_library|load_op_library|py_function"
    r"|numpy_function|py_func|saved_model|config)(\.|$)"
)
"""Parts of TensorFlow that do more than compute; a layer that calls one by name is no usual layer."""


def keras_findings(layers: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """What Keras runs when it loads the model: Lambda layers, functions by name, objects of other modules.

    Args:
        layers: Where each stands, and its config as JSON.
    """
    for where, text in layers:
        if not text:
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            what = f"the config of a Keras layer cannot be read ({type(error).__name__})"
            yield Finding("disguised", "suspicious", what, "", where, when="in the file")
            continue
        for one in _tables(found):
            yield from _of_table(where, one)


def _of_table(where: str, one: Mapping[str, Any]) -> Iterator[Finding]:
    kind = str(one.get("class_name", "")).rpartition(">")[2]
    config = one.get("config")
    if kind == "__lambda__":
        yield _found(where, "dangerous", "a config holds compiled Python code")
    elif kind == "Lambda" and isinstance(config, dict):
        yield _lambda(where, config)
    elif kind in ("TFOpLambda", "SlicingOpLambda") and isinstance(config, dict):
        called = str(config.get("function", ""))
        if _ACTS.search(called):
            yield _found(where, "dangerous", f"a layer calls tf.{called} by its name", called)
    module = one.get("module")
    if not isinstance(module, str) or "class_name" not in one:
        return
    name = config if isinstance(config, str) else str(one.get("class_name"))
    is_plain = module != "builtins" or kind in ("__tuple__", "__lambda__") or name in _PLAIN_BUILTINS
    if not _OWN_MODULES.match(module):
        level: Level = "suspicious" if one.get("registered_name") else "dangerous"
        what = f"Keras imports {_shown(module)} and takes {_shown(name)!r} from it"
        yield _found(where, level, what, f"{module}.{name}")
    elif not is_plain:
        level = "suspicious" if kind == "function" and one.get("registered_name") else "dangerous"
        yield _found(where, level, f"Keras takes {_shown(name)!r} from builtins", f"builtins.{name}")


def _lambda(where: str, config: Mapping[str, Any]) -> Finding:
    name = str(config.get("name", where))
    code, kind = config.get("function"), str(config.get("function_type", "lambda"))
    others = ("output_shape", "mask", "arguments")
    has_code = kind == "lambda" or isinstance(code, (list, dict))
    has_code = has_code or any(config.get(f"{other}_type") == "lambda" for other in others)
    if has_code:
        return _found(where, "dangerous", f"Lambda layer {_shown(name)!r} holds compiled Python code", op="Lambda")
    what = f"Lambda layer {_shown(name)!r} calls {_shown(str(code))!r}"
    return _found(where, "suspicious", what, str(code), op="Lambda")


def _found(where: str, level: Level, what: str, constant: str = "", *, op: str = "") -> Finding:
    return Finding("keras-code", level, what, op, where, "", _shown(constant), "at load")


def _tables(found: Any) -> Iterator[Mapping[str, Any]]:
    """All tables with a class name, however deep."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "class_name" in one:
                yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
