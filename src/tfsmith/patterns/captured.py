"""The names of the variables that a function captures."""

from __future__ import annotations

from tfsmith.ir.body import Body
from tfsmith.ir.function import Function
from tfsmith.ir.metagraph import MetaGraph

__all__ = ["captured_variables"]


def captured_variables(meta: MetaGraph, body: Body) -> dict[str, str]:
    """The names of the variables that a function captures, by argument, as Python's objects know them."""
    objects = meta.objects
    if objects is None or not isinstance(body, Function):
        return {}
    bound = objects.concrete_functions.get(body.name, {}).get("bound_inputs", ())
    args = body.args[len(body.args) - len(bound) :] if len(bound) <= len(body.args) else ()
    found: dict[str, str] = {}
    for arg, number in zip(args, bound, strict=False):
        if isinstance(number, int) and 0 <= number < len(objects.nodes):
            saved = objects.nodes[number]
            name = saved.details.get("name") if saved.kind == "variable" else None
            found |= {arg: name} if isinstance(name, str) and name else {}
    return found if len(set(found.values())) == len(found) else {}  # Keras may call all of them "kernel"
