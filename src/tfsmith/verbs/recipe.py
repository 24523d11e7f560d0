"""`recipe`: makes, drafts, checks, draws and lists recipes: what to find in a graph, and what to put in its place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfsmith import records
from tfsmith.api.files import _path, _refuse_own_files, load
from tfsmith.errors import NotFoundInModelError, OutputError, UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Match, Pattern, Recipe, Variant
from tfsmith.storage.sink import explained, write_atomically
from tfsmith.verbs.extract import load_pattern, refuse_sources

if TYPE_CHECKING:
    from tfsmith.patterns.draft import Drafted
    from tfsmith.patterns.extract import Attrs

__all__ = [
    "builtin_recipe",
    "builtin_recipes",
    "draft_recipe",
    "draft_text",
    "draw_recipe",
    "list_recipes",
    "load_node",
    "load_recipe",
    "make_recipe",
    "save_draft",
    "save_recipe",
]

_FOLDER = Path(__file__).parents[1] / "patterns/recipes"


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


def load_node(path: str | os.PathLike[str]) -> Node:
    """Reads a single NodeDef from a file, binary or text."""
    from tfsmith.formats.recipe.protobuf import read_node

    return read_node(_path(path))


def make_recipe(
    pattern: Pattern | str | os.PathLike[str],
    node: Node | str | os.PathLike[str],
    *,
    attrs: Attrs = "declared",
    ignore: Iterable[str] = (),
    also: Iterable[str] = (),
    values: bool = True,
) -> Recipe:
    """A recipe that finds what is built like the pattern and puts the node in its place.

    Args:
        pattern: What `extract` gave, or its file.
        node: The new node, or its file. Its inputs name tensors of the model that the pattern was extracted from.
        attrs: Which attributes must be equal: "declared" by the ops' definitions, "types" among them, or "none".
        ignore: Attributes that need not be equal nevertheless.
        also: Attributes that must be equal besides, such as "_output_shapes".
        values: Whether constants of up to 16 values inside the pattern must have the same values.

    Raises:
        TfsmithError: The pattern is not sound, or the node does not fit it.
    """
    from tfsmith.patterns.extract import recipe_from_pattern

    found = pattern if isinstance(pattern, Pattern) else load_pattern(pattern)
    target = node if isinstance(node, Node) else load_node(node)
    return recipe_from_pattern(found, target, attrs=attrs, ignore=ignore, also=also, values=values)


def load_recipe(
    source: str | os.PathLike[str],
    *,
    attrs: Attrs = "declared",
    ignore: Iterable[str] = (),
    also: Iterable[str] = (),
    values: bool = True,
) -> Recipe:
    """Reads a recipe: a TOML file, a file of the original tools (`.pb`, `.pbtxt`), or one that comes with tfsmith.

    Args:
        source: The path, or a name of `list_recipes`.
        attrs: As for `make_recipe`; for files of the original tools, which do not say it themselves.
        ignore: The same.
        also: The same.
        values: The same.

    Raises:
        WrongFileError: The file is something else.
        UsageError: There is no such recipe, or it is not sound.
    """
    from tfsmith.formats.recipe.protobuf import is_toml, read_recipe

    path = _path(source)
    if isinstance(source, str) and not path.exists() and not path.suffix and path.name == source:
        path = builtin_recipe(source)
    if path.suffix == ".toml" or is_toml(path):
        from tfsmith.formats.recipe.toml import read_recipe_toml

        return read_recipe_toml(path)
    from tfsmith.patterns.extract import recipe_from_pattern

    pattern, node = read_recipe(path)
    made = recipe_from_pattern(pattern, node, attrs=attrs, ignore=ignore, also=also, values=values)
    return records.replace(made, name=path.stem)


def save_recipe(recipe: Recipe, path: str | os.PathLike[str]) -> None:
    """Writes a recipe: as TOML if the path ends in `.toml`, else in the format of the original tools.

    Raises:
        UsageError: That format holds one pattern and one node, and this recipe was not made of these.
    """
    target = _path(path)
    if target.suffix == ".toml":
        from tfsmith.formats.recipe.toml import recipe_toml

        write_atomically(target, recipe_toml(recipe).encode())
        return
    if recipe.source_pattern is None or recipe.target_node is None:
        what = "only a recipe that was made of a pattern and a node fits the format of the original tools"
        raise UsageError(what, path=path, remedy="write it as .toml")
    from tfsmith.formats.recipe.protobuf import write_recipe

    with explained(target):
        refuse_sources((*recipe.source_pattern.nodes, recipe.target_node), target)
        write_recipe(target, recipe.source_pattern, recipe.target_node)


def list_recipes() -> dict[str, str]:
    """The recipes that come with tfsmith: descriptions by name."""
    from tfsmith.formats.recipe.toml import read_recipe_toml

    return {name: read_recipe_toml(builtin_recipe(name)).description for name in builtin_recipes()}


def draft_recipe(
    model: Model | str | os.PathLike[str],
    *,
    scope: str | None = None,
    seeds: Sequence[str] = (),
    barriers: Sequence[str] = (),
    op: str = "Fused",
    name: str = "draft",
) -> Drafted:
    """Finds the block that a model repeats (the layer of an encoder, say) and makes a recipe of it. Reads no weights.

    The recipe finds the whole chain of blocks, however long, and puts one node of op `op` there. It takes what the
    first block took, what all blocks share, and the weights of all blocks in order. What the op is to be called, and
    which attributes it gets, is for its author to edit.

    Args:
        model: A model, or its path.
        scope: A glob; only blocks whose output's name fits it count.
        seeds: The output of the last block; found by itself if there is none.
        barriers: Nodes that are outside of any block.
        op: The op of the new node.
        name: The recipe's name.

    Raises:
        NotFoundInModelError: Nothing repeats, or there is no such seed or barrier.
    """
    from tfsmith.patterns.draft import DraftOptions
    from tfsmith.patterns.draft import draft as draft_block

    opened = model if isinstance(model, Model) else load(model)
    return draft_block(opened, DraftOptions(scope, tuple(seeds), tuple(barriers), op, name))


def draft_text(drafted: Drafted) -> str:
    """The text of a drafted recipe's TOML file; comments say what its inputs are called in the model."""
    from tfsmith.formats.recipe.toml import recipe_toml

    where = "the graph" if drafted.body is None else f"function {drafted.body}"
    lines = [f"# Drafted: {drafted.units} blocks of {drafted.nodes} nodes in a row, in {where}."]
    lines.append("# What enters a block, and what it is called in the model ({i} counts the blocks):")
    width = max(len(one.name) for one in drafted.inputs)
    for one in drafted.inputs:
        unused = "" if one.used else ", which the new node does not take"
        rule = f"  {one.rule}" if one.rule else ""
        lines.append(f"#   {one.kind:<6}  {one.name:<{width}}  {one.shape!s:<12}{rule}{unused}".rstrip())
    comment = "".join("".join(char if char.isprintable() else "?" for char in line) + "\n" for line in lines)
    return f"{comment}\n{recipe_toml(drafted.recipe)}"


def save_draft(drafted: Drafted, path: str | os.PathLike[str], *, model: Model | None = None) -> None:
    """Writes a drafted recipe as a TOML file, with its comments.

    Args:
        drafted: The draft.
        path: Where; a file that is there is replaced.
        model: The model that it was drafted from, none of whose files is replaced.

    Raises:
        OutputError: It cannot be written there.
    """
    target = _path(path)
    with explained(target):
        if model is not None:
            _refuse_own_files(model, target)
        write_atomically(target, draft_text(drafted).encode())


def draw_recipe(
    recipe: Recipe, path: str | os.PathLike[str], *, model: Model | None = None, variant: str | None = None
) -> tuple[Match, ...]:
    """Draws what a recipe looks for, what takes its place, and how each input is remapped.

    Args:
        recipe: The recipe.
        path: Where: an `.svg`, or an `.html` that also lists every input. A file that is there is replaced.
        model: A model, to draw the names that it has. Variants that do not match in it are left out, unless none does.
        variant: Draw this variant; by default all of them in a page, and in an SVG the first that matches.

    Returns:
        The matches in the model.

    Raises:
        NotFoundInModelError: The recipe has no such variant.
        OutputError: It cannot be written there, or the name ends otherwise.
    """
    from tfsmith.verbs.replace import replace
    from tfsmith.view.recipe_drawing import draw_recipe as svg
    from tfsmith.view.recipe_drawing import recipe_page

    target = _path(path)
    if target.suffix not in (".svg", ".html"):
        raise OutputError("a drawing is an .svg or an .html", path=target, remedy="choose one of these endings")
    if model is not None:
        _refuse_own_files(model, target)
    wanted = _variants(recipe, variant)
    matches = () if model is None else replace(model, recipe, keep_shared=True).matches
    drawn = [(one, [match for match in matches if match.variant == one]) for one in wanted]
    drawn = [found for found in drawn if found[1]] or drawn
    if target.suffix == ".html":
        text = recipe_page(recipe, drawn)
    else:
        text = svg(recipe, drawn[0][0], next(iter(drawn[0][1]), None), len(drawn[0][1]))
    write_atomically(target, text.encode())
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
