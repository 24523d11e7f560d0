"""F4: Recipes that write themselves: the block that a model repeats, and its weights."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfsmith.api.files import load
from tfsmith.ir.model import Model
from tfsmith.patterns.draft import Drafted, DraftedInput, DraftOptions
from tfsmith.patterns.draft import draft as draft_block
from tfsmith.storage.place import write_file

__all__ = ["Drafted", "DraftedInput", "draft_recipe", "draft_text", "save_draft"]


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


def save_draft(
    drafted: Drafted, path: str | os.PathLike[str], *, model: Model | None = None, force: bool = False
) -> None:
    """Writes a drafted recipe as a TOML file, with its comments.

    Args:
        drafted: The draft.
        path: Where.
        model: The model that it was drafted from, none of whose files is replaced.
        force: Whether to replace a file that is there.

    Raises:
        OutputError: It cannot be written there.
    """
    from tfsmith.formats.write import inputs_of

    write_file(path, draft_text(drafted).encode(), inputs=() if model is None else inputs_of(model), force=force)
