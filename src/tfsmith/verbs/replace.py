"""`replace`: finds what a recipe describes, and puts the recipe's nodes in its place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfsmith import records
from tfsmith.api.files import _path, _refuse_own_files, load
from tfsmith.ir.model import Model
from tfsmith.ir.recipe import Recipe
from tfsmith.passes.interface import Note
from tfsmith.storage.sink import explained
from tfsmith.verbs.recipe import load_recipe

if TYPE_CHECKING:
    from tfsmith.patterns.replace import Replaced

__all__ = ["replace", "save_replaced"]


def replace(
    model: Model | str | os.PathLike[str],
    recipe: Recipe | str | os.PathLike[str],
    *,
    keep_shared: bool = False,
    outputs: Sequence[str] = (),
    limit: int | None = None,
    functions: bool = True,
) -> Replaced:
    """Finds all that fits a recipe, in the graph and in every function, and puts the recipe's nodes in its place.

    Everything else stays as it is, byte for byte; no weights are read.

    Args:
        model: A model, or its path.
        recipe: The recipe, its file, or the name of one that comes with tfsmith.
        keep_shared: Whether to keep nodes of a match that others use too; by default such a match is left alone.
        outputs: What counts as an output besides what signatures name; of a graph without any, the likely ones.
        limit: How many matches to replace at most.
        functions: Whether to look into functions, too.

    Returns:
        The model and the matches; if there are none, the reason, and the nearest miss.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    from tfsmith.patterns.replace import ReplaceOptions  # extracting needs none of this
    from tfsmith.patterns.replace import replace as replace_matches

    opened = model if isinstance(model, Model) else load(model)
    found = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    return replace_matches(opened, found, ReplaceOptions(keep_shared, tuple(outputs), limit, functions))


def save_replaced(
    before: Model, after: Model, path: str | os.PathLike[str], *, link: bool = False, force: bool = False
) -> tuple[Note, ...]:
    """Writes a model whose graph was changed.

    A GraphDef is written with its weights, as text if the path ends in `.pbtxt`. Of a SavedModel, a path that ends in
    `.pb` or `.pbtxt` gets the graph alone, to be put in the place of `saved_model.pb`; another one a whole folder. Of a
    `.meta`, such a path gets the graph as a GraphDef; another one the `.meta` and its checkpoint.

    Args:
        before: The model as it was opened.
        after: What to write.
        path: Where.
        link: Whether to make hard links of weight files, in place of copies.
        force: Whether to replace what is there.

    Returns:
        What the user should know.

    Raises:
        OutputError: It cannot be written there; what was there before is untouched.
    """
    from tfsmith.formats.saver import Target, refuse_other_files, write_main_file, write_target

    target = _path(path)
    is_graph = target.suffix in (".pb", ".pbtxt")
    text = target.suffix == ".pbtxt"
    with explained(target):
        if after.kind == "saved_model" and is_graph:
            if not force:
                Target(target, "graphdef", text).refuse_existing()
            refuse_other_files(before, target)
            write_main_file(after, target)
            return ()
        _refuse_own_files(before, target)
        if after.kind == "metagraph" and not is_graph:
            wanted = target if target.suffix == ".meta" else target.with_name(f"{target.name}.meta")
            chosen = Target(wanted, "metagraph", prefix=wanted.with_suffix("") if after.variables else None)
        elif after.kind == "saved_model":
            chosen = Target(target, "saved_model")
        else:
            after = records.replace(after, kind="graphdef", raw=None)
            chosen = Target(target, "graphdef", text)
        if not force:
            chosen.refuse_existing()
        written = write_target(after, before, chosen, shards=None, link=link, force=force)
    notes: list[Note] = []
    if link and len(written.linked) < len(written.files):
        copied = tuple(file.name for file in written.files if file not in written.linked)
        notes.append(Note("not linked", copied, "they lie on a disk that cannot link to the other"))
    if written.fingerprint:
        notes.append(Note("fingerprint.pb is left out", (), "it is of the model as it was"))
    return tuple(notes)
