"""F4: Drawings of recipes."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tfsmith.api.files import _path
from tfsmith.api.patterning import replace
from tfsmith.errors import NotFoundInModelError, OutputError
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.recipe import Match, Recipe, Variant
from tfsmith.storage.place import Output
from tfsmith.storage.sink import FileSink

__all__ = ["draw_recipe"]


def draw_recipe(
    recipe: Recipe,
    path: str | os.PathLike[str],
    *,
    model: Model | None = None,
    variant: str | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> tuple[Match, ...]:
    """Draws what a recipe looks for, what takes its place, and how each input is remapped.

    Args:
        recipe: The recipe.
        path: Where: an `.svg`, or an `.html` that also lists every input.
        model: A model, to draw the names that it has. Variants that do not match in it are left out, unless none does.
        variant: Draw this variant; by default all of them in a page, and in an SVG the first that matches.
        inputs: What else was read, such as the recipe's file; none of it is replaced.
        force: Whether to replace a file that is there.

    Returns:
        The matches in the model.

    Raises:
        NotFoundInModelError: The recipe has no such variant.
        OutputError: It cannot be written there, or the name ends otherwise.
    """
    from tfsmith.formats.write import inputs_of
    from tfsmith.view.recipe_drawing import draw_recipe as svg
    from tfsmith.view.recipe_drawing import recipe_page

    target = _path(path)
    if target.suffix not in (".svg", ".html"):
        raise OutputError("a drawing is an .svg or an .html", path=target, remedy="choose one of these endings")
    output = Output(target, inputs=(*inputs, *(() if model is None else inputs_of(model))), force=force)
    output.check()
    wanted = _variants(recipe, variant)
    matches = () if model is None else replace(model, recipe, keep_shared=True).matches
    drawn = [(one, [match for match in matches if match.variant == one]) for one in wanted]
    drawn = [found for found in drawn if found[1]] or drawn
    if target.suffix == ".html":
        text = recipe_page(recipe, drawn)
    else:
        text = svg(recipe, drawn[0][0], next(iter(drawn[0][1]), None), len(drawn[0][1]))
    with output, FileSink(output.aside) as sink:
        sink.write(text.encode())
    return matches


def _variants(recipe: Recipe, name: str | None) -> tuple[Variant, ...]:
    if name is None:
        return recipe.variants
    found = tuple(one for one in recipe.variants if one.name == name)
    if not found:
        names = [one.name for one in recipe.variants]
        near = nearest(name, names) or names
        what = f"the recipe {recipe.name!r} has no variant {name!r}"
        raise NotFoundInModelError(what, remedy=f"it has {', '.join(map(repr, near))}")
    return found
