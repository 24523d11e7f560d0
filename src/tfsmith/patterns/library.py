"""The recipes that come with tfsmith: TOML files beside this one."""

from __future__ import annotations

from pathlib import Path

from tfsmith.errors import UsageError
from tfsmith.ir.names import nearest

__all__ = ["builtin_recipe", "builtin_recipes"]

_FOLDER = Path(__file__).with_name("recipes")


def builtin_recipes() -> list[str]:
    """The names of the recipes that come with tfsmith, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def builtin_recipe(name: str) -> Path:
    """The file of a recipe that comes with tfsmith.

    Raises:
        UsageError: There is none of this name.
    """
    names = builtin_recipes()
    if name not in names:
        near = nearest(name, names) or names
        remedy = f"there are {', '.join(near)}; or pass a file (.toml, .pb, .pbtxt)" if near else "pass a file"
        raise UsageError(f"there is no recipe {name!r}", remedy=remedy)
    return _FOLDER / f"{name}.toml"
