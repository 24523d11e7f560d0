"""tfsmith: the workshop for TensorFlow model files that needs no TensorFlow.

    import tfsmith
    m = tfsmith.load("model.ckpt-1603")
    m.graph, m.signatures, m.collections, m.variables["bert/pooler/dense/kernel"].numpy()
    tfsmith.save(m, "copy.meta")

Names are loaded on first use, so that `import tfsmith` takes a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfsmith._version import __version__
from tfsmith.errors import TfsmithError

if TYPE_CHECKING:
    from tfsmith import bert_op as bert_op
    from tfsmith.api import (
        Runner,
        check,
        compare_weights,
        compile,
        configure,
        convert,
        diff,
        export,
        extract,
        freeze,
        graph_text,
        likely_inputs,
        likely_outputs,
        load,
        load_bert,
        load_pattern,
        load_recipe,
        load_weights,
        make_recipe,
        map_weights,
        optimize,
        replace,
        run,
        save,
        save_pattern,
        save_recipe,
        save_replaced,
        save_weights,
        summarize,
        thaw,
        verify,
        verify_checksums,
    )
    from tfsmith.ir.dtype import DType
    from tfsmith.ir.function import Function
    from tfsmith.ir.graph import Graph
    from tfsmith.ir.metagraph import Signature
    from tfsmith.ir.model import Model
    from tfsmith.ir.node import Node
    from tfsmith.ir.recipe import Pattern, Recipe
    from tfsmith.ir.shape import Shape
    from tfsmith.ir.tensor import Tensor

__all__ = [
    "load",
    "save",
    "freeze",
    "export",
    "thaw",
    "convert",
    "run",
    "compile",
    "diff",
    "check",
    "extract",
    "save_pattern",
    "load_pattern",
    "make_recipe",
    "load_recipe",
    "save_recipe",
    "replace",
    "save_replaced",
    "configure",
    "optimize",
    "load_weights",
    "save_weights",
    "compare_weights",
    "map_weights",
    "load_bert",
    "graph_text",
    "summarize",
    "likely_inputs",
    "likely_outputs",
    "verify",
    "verify_checksums",
    "DType",
    "Shape",
    "Model",
    "Graph",
    "Function",
    "Node",
    "Pattern",
    "Recipe",
    "Runner",
    "Signature",
    "Tensor",
    "TfsmithError",
    "__version__",
]

_FROM_API = (
    "load",
    "save",
    "freeze",
    "export",
    "thaw",
    "convert",
    "run",
    "compile",
    "diff",
    "check",
    "extract",
    "save_pattern",
    "load_pattern",
    "make_recipe",
    "load_recipe",
    "save_recipe",
    "replace",
    "save_replaced",
    "configure",
    "optimize",
    "load_weights",
    "save_weights",
    "compare_weights",
    "map_weights",
    "load_bert",
    "graph_text",
    "summarize",
    "likely_inputs",
    "likely_outputs",
    "verify",
    "verify_checksums",
    "Runner",
)
_FROM_IR = {
    "DType": "dtype",
    "Shape": "shape",
    "Model": "model",
    "Graph": "graph",
    "Function": "function",
    "Node": "node",
    "Pattern": "recipe",
    "Recipe": "recipe",
    "Signature": "metagraph",
    "Tensor": "tensor",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _FROM_API:
        return getattr(import_module("tfsmith.api"), name)
    if name in _FROM_IR:
        return getattr(import_module(f"tfsmith.ir.{_FROM_IR[name]}"), name)
    if name == "bert_op":
        return import_module("tfsmith.bert_op")
    raise AttributeError(f"module 'tfsmith' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
