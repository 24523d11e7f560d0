"""F4: Patterns and recipes: extract, make, replace; and attributes set in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith import records
from tfsmith.api.files import _path, load
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.formats.kinds import MAIN_FILES, As
from tfsmith.formats.sniff import sniff
from tfsmith.ir.body import Body
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern, Recipe
from tfsmith.passes.interface import Note
from tfsmith.patterns.library import builtin_recipe, builtin_recipes
from tfsmith.storage.place import Output, write_file
from tfsmith.storage.span import open_file, real_path

if TYPE_CHECKING:  # each verb needs only its own
    from tfsmith.passes.configure import Configured
    from tfsmith.patterns.extract import Attrs
    from tfsmith.patterns.replace import Replaced

__all__ = [
    "configure",
    "extract",
    "known_barriers",
    "list_recipes",
    "load_node",
    "load_pattern",
    "load_recipe",
    "make_recipe",
    "replace",
    "save_in_place",
    "save_main_file",
    "save_pattern",
    "save_recipe",
    "save_replaced",
    "select_meta_graph",
]

Source = Model | str | os.PathLike[str]


def select_meta_graph(model: Model, index: int) -> Model:
    """The same model, seen through its meta graph number `index`, counted from 0.

    Raises:
        NotFoundInModelError: It has no such number.
    """
    if not 0 <= index < len(model.meta_graphs):
        count = len(model.meta_graphs)
        there = f"it has {count}, counted from 0" if count else "it has none"
        raise NotFoundInModelError(f"there is no meta graph {index}", path=model.path, remedy=there)
    return records.replace(model, selected=index)


def extract(
    model: Source,
    seeds: Sequence[str],
    barriers: Sequence[str] = (),
    barrier_ops: Iterable[str] = (),
    *,
    function: str | None = None,
    constants: bool = False,
) -> Pattern:
    """The nodes that the seeds need, up to the barriers. Reads no weights.

    Args:
        model: A model, or its path.
        seeds: The names of the nodes to begin at.
        barriers: The names of nodes at which to stop.
        barrier_ops: Ops at whose nodes to stop.
        function: The function to look in; the graph itself by default.
        constants: Whether constants that are no barriers belong to the pattern; by default they are open ends.

    Raises:
        UsageError: An end is open: a node without inputs that is no barrier.
        NotFoundInModelError: There is no such node or function.
    """
    from tfsmith.patterns.extract import extract as extract_nodes

    opened = model if isinstance(model, Model) else load(model)
    return extract_nodes(_body(opened, function), seeds, barriers, barrier_ops, constants=constants)


def known_barriers(
    model: Model, names: Sequence[str], *, function: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of these names that are in the graph, each once, and those that are not.

    A list of barriers serves for models that differ a little: what a model does not have cannot be reached.
    """
    body = _body(model, function)
    there = dict.fromkeys(name for name in names if name in body or name in body.args)
    return tuple(there), tuple(dict.fromkeys(name for name in names if name not in there))


def _body(model: Model, function: str | None) -> Body:
    if function is None:
        return model.graph
    found = model.graph.library.get(function)
    if found is None:
        near = nearest(function, model.graph.library)
        remedy = f"the nearest are {', '.join(near)}" if near else "`tfsmith show --functions` lists them"
        raise NotFoundInModelError(f"there is no function {function!r}", path=model.path, remedy=remedy)
    return found


def save_pattern(
    pattern: Pattern, path: str | os.PathLike[str], *, model: Model | None = None, force: bool = False
) -> None:
    """Writes a pattern in the format of the original tools; as text if the path ends in `.pbtxt`.

    Args:
        pattern: The pattern.
        path: Where.
        model: The model that it was extracted from, none of whose files is replaced.
        force: Whether to replace a file that is there.

    Raises:
        OutputError: It cannot be written there, or the pattern still lies in that file.
    """
    from tfsmith.formats.recipe.protobuf import write_pattern
    from tfsmith.formats.write import inputs_of

    inputs = (*map(Path, _sources(pattern.nodes)), *(() if model is None else inputs_of(model)))
    with Output(path, inputs=inputs, force=force) as output:
        write_pattern(output.aside, pattern)


def _sources(nodes: Iterable[Node]) -> list[str]:
    """The files that nodes may still lie in."""
    return list(dict.fromkeys(node.base.name for node in nodes if node.base is not None))


def load_pattern(path: str | os.PathLike[str]) -> Pattern:
    """Reads a pattern file, binary or text."""
    from tfsmith.formats.recipe.protobuf import read_pattern

    return read_pattern(_path(path))


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


def save_recipe(
    recipe: Recipe,
    path: str | os.PathLike[str],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Writes a recipe: as TOML if the path ends in `.toml`, else in the format of the original tools.

    Args:
        recipe: The recipe.
        path: Where.
        inputs: What it was made of; none of it is replaced.
        force: Whether to replace a file that is there.

    Raises:
        UsageError: That format holds one pattern and one node, and this recipe was not made of these.
    """
    target = _path(path)
    if target.suffix == ".toml":
        from tfsmith.formats.recipe.toml import recipe_toml

        write_file(target, recipe_toml(recipe).encode(), inputs=inputs, force=force)
        return
    if recipe.source_pattern is None or recipe.target_node is None:
        what = "only a recipe that was made of a pattern and a node fits the format of the original tools"
        raise UsageError(what, path=path, remedy="write it as .toml")
    from tfsmith.formats.recipe.protobuf import write_recipe

    sources = _sources((*recipe.source_pattern.nodes, recipe.target_node))
    with Output(target, inputs=(*inputs, *sources), force=force) as output:
        write_recipe(output.aside, recipe.source_pattern, recipe.target_node)


def list_recipes() -> dict[str, str]:
    """The recipes that come with tfsmith: descriptions by name."""
    from tfsmith.formats.recipe.toml import read_recipe_toml

    return {name: read_recipe_toml(builtin_recipe(name)).description for name in builtin_recipes()}


def replace(
    model: Source,
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
    before: Model,
    after: Model,
    path: str | os.PathLike[str],
    *,
    format: As | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    prove: Callable[[Path], bool] | None = None,
    link: bool = False,
    force: bool = False,
) -> tuple[Note, ...]:
    """Writes a model whose graph was changed; as what, the path's ending decides.

    Args:
        before: The model as it was opened.
        after: What to write.
        path: Where.
        format: What to write, whatever the path says; see `save`.
        inputs: What else was read, such as the recipe; none of it is replaced.
        prove: Looks at what was written, before it is put in place, and says whether it is right.
        link: Whether to make hard links of weight files, in place of copies.
        force: Whether to replace what is there.

    Returns:
        What the user should know.

    Raises:
        OutputError: It cannot be written there; what was there before is untouched.
    """
    from tfsmith.api.output import place_model

    placed = place_model(after, path, before=before, inputs=inputs, prove=prove, format=format, link=link, force=force)
    return placed.notes


def save_main_file(model: Model, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Writes the main file of a model alone (a SavedModel's graph), to be put in its place by hand.

    It may lie in the model's own folder, but replaces no file that was there when the model was opened.

    Raises:
        OutputError: It cannot be written there.
    """
    from tfsmith.formats.write import inputs_of, write_main_file

    folder = [model.path / name for name in MAIN_FILES] if model.path is not None and model.path.is_dir() else []
    files = [*(one for one in inputs_of(model) if not one.is_dir()), *folder]
    others = [side.path for side in model.side_files if not _is_main_file(side.path)]
    with Output(path, inputs=(*files, *others), force=force) as output:
        write_main_file(model, output.aside)


def _is_main_file(path: Path) -> bool:
    """Whether this is a graph that was so written before."""
    return path.is_file() and sniff(open_file(path)).kind == "saved_model"


def configure(
    model: Source, settings: Mapping[str, Any], *, ops: Sequence[str] = (), nodes: Sequence[str] = ()
) -> Configured:
    """Sets attributes of nodes, in all meta graphs and functions.

    Args:
        model: A model, or its path.
        settings: Values by attribute; text is read as the kind that the op's definition says.
        ops: Nodes of these ops are chosen.
        nodes: Nodes whose names fit one of these globs are chosen; if `ops` are given too, only if both fit.

    Raises:
        UsageError: The op has no such attribute, or the value is of another kind.
    """
    from tfsmith.passes.configure import configure as configure_pass

    opened = model if isinstance(model, Model) else load(model)
    return configure_pass(opened, settings, ops=ops, nodes=nodes)


def save_in_place(model: Model) -> Path:
    """Writes the graph of a changed model over the file that it was read from, in one step; gives the file.

    The weights beside it stay as they are. Where the file's name is a link, what it leads to is replaced.

    Raises:
        OutputError: It cannot be written; the file is as it was.
    """
    from tfsmith.formats.write import main_file, write_main_file

    path = main_file(model)
    with Output(real_path(path), force=True) as output:
        write_main_file(model, output.aside)
    return path
