"""The engines by name, in the order in which `auto` tries them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

from tfsmith.engines.protocol import Engine
from tfsmith.errors import UsageError

__all__ = ["ENGINES", "engine_named"]

ENGINES = ("openvino", "tensorflow")
_HOMES = MappingProxyType({"openvino": "OpenVino", "tensorflow": "TensorFlow"})


def engine_named(name: str) -> Engine:
    """The engine called so. Only its own file is loaded.

    Raises:
        UsageError: There is none.
    """
    if name not in _HOMES:
        raise UsageError(f"there is no engine {name!r}", remedy=f"choose {' or '.join(('auto', *ENGINES))}")
    found: Engine = getattr(import_module(f"tfsmith.engines.{name}"), _HOMES[name])()
    return found
