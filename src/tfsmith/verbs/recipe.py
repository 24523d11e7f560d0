"""`recipe`: makes, drafts, checks, draws and lists recipes: what to find in a graph, and what to put in its place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from tfsmith.errors import NotFoundInModelError, OutputError, UsageError, nearest
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Match, Pattern, Recipe, Variant
from tfsmith.patterns.rule import Rule
from tfsmith.records import record, replace, values
from tfsmith.storage import FileSink
from tfsmith.storage.place import Output, write_file
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import _path
from tfsmith.verbs._shared import MATCHING, Result, open_model, output_name, sized
from tfsmith.view import plural

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from tfsmith.patterns.draft import RepeatedBlock
    from tfsmith.patterns.raised_draft import RaisedBlock
    from tfsmith.verbs._shared import FilePath, Files, Loads, Matching, MatchingLoads, ModelOrPath, Names, Out, Words
    from tfsmith.verbs.replace import Replaced

__all__ = [
    "DraftedFormula",
    "DraftedRecipe",
    "MadeRecipe",
    "RecipeDrawing",
    "RecipeList",
    "builtin_recipe",
    "builtin_recipes",
    "check_recipe",
    "draft_recipe",
    "draw_recipe",
    "list_recipes",
    "load_node",
    "load_recipe",
    "make_recipe",
    "read_recipe",
    "save_recipe",
]

PatternOrPath: TypeAlias = "Pattern | FilePath"
NodeOrPath: TypeAlias = "Node | FilePath"
RecipeOrPath: TypeAlias = "Recipe | FilePath"
FLAGS = MappingProxyType({"out": ("--output",)})
_FOLDER = Path(__file__).parents[1] / "patterns/recipes"
_Draft = TypeVar("_Draft", bound="_Drafted")


@record
class RecipeList(Result):
    """The recipes that come with tfsmith: descriptions by name."""

    recipes: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def report(self) -> Iterator[str]:
        """One line each."""
        width = max(map(len, self.recipes), default=0)
        yield from (f"{name:<{width}}  {what}" for name, what in self.recipes.items())

    def to_json(self) -> dict[str, Any]:
        """Descriptions by name."""
        return dict(self.recipes)


def list_recipes() -> RecipeList:
    """Lists the recipes that come with tfsmith.

    Example:
        tfsmith recipe list
    """
    return RecipeList({name: load_recipe(name).description for name in builtin_recipes()})


def builtin_recipes() -> list[str]:
    """The names of the recipes that come with tfsmith, sorted."""
    from tfsmith.patterns.library import RULES

    return sorted([*RULES, *(path.stem for path in _FOLDER.glob("*.toml"))])


def builtin_recipe(name: str) -> Path:
    """The file of a recipe that comes with tfsmith.

    Raises:
        UsageError: There is none of this name, or it is a rule in Python.
    """
    path = _FOLDER / f"{name}.toml"
    if path.exists():
        return path
    names = builtin_recipes()
    if name in names:
        what = f"the recipe {name!r} is a rule in Python, and has no file"
        raise UsageError(what, remedy="pass its name; its code is in tfsmith.patterns.library")
    near = nearest(name, names) or names
    remedy = f"there are {', '.join(near)}; or pass a file (.toml, .pb, .pbtxt)" if near else "pass a file"
    raise UsageError(f"there is no recipe {name!r}", remedy=remedy)


@checked
def load_recipe(source: FilePath, **matching: Unpack[Matching]) -> Recipe:
    """Reads a recipe: a TOML file, a file of the original tools (`.pb`, `.pbtxt`), or one that comes with tfsmith.

    Args:
        source: The path, or a name of `list_recipes`.
        matching: As for `make_recipe`; for files of the original tools, which do not say it themselves.

    Raises:
        WrongFileError: The file is something else.
        UsageError: There is no such recipe, or it is not sound.
    """
    path = _path(source)
    if isinstance(source, str) and not path.exists() and not path.suffix and path.name == source:
        if not (_FOLDER / f"{source}.toml").exists():
            from tfsmith.patterns.library import RULES

            if source in RULES:
                return RULES[source]
        path = builtin_recipe(source)
    if path.suffix != ".toml":
        from tfsmith.formats.recipe import protobuf  # seldom needed
        from tfsmith.patterns.extract import recipe_from_pattern

        if not protobuf.is_toml(path):
            return replace(recipe_from_pattern(*protobuf.read_recipe(path), **matching), name=path.stem)
    from tfsmith.formats.recipe.toml import read_recipe_toml

    found = read_recipe_toml(path)
    if found.formula_text is None:
        return found
    from tfsmith.patterns.formula_text import rule_of_data  # seldom needed

    try:
        return rule_of_data(found)
    except UsageError as error:
        raise UsageError(error.what, path=path, where=error.where, remedy=error.remedy) from error


def read_recipe(recipe: RecipeOrPath, options: Mapping[str, Any]) -> Recipe:
    """The recipe that a verb was given: read if it is a path, with the options of the verb that say how it matches."""
    if isinstance(recipe, Recipe):
        return recipe
    return load_recipe(recipe, **{key: options[key] for key in MATCHING if key in options})


@checked
def save_recipe(recipe: Recipe, path: FilePath, *, inputs: Files = (), force: bool = False) -> None:
    """Writes a recipe: as TOML if the path ends in `.toml`, else in the format of the original tools.

    Args:
        recipe: The recipe.
        path: Where.
        inputs: What it was made of; none of it is replaced.
        force: Whether to replace a file that is there.

    Raises:
        UsageError: It is a rule that only Python can say; or that format holds one pattern and one node, and it was
            not made of these.
    """
    target = _path(path)
    if isinstance(recipe, Rule):
        from tfsmith.patterns.formula_text import rule_as_data

        recipe = rule_as_data(recipe)
        if target.suffix != ".toml":
            what = f"the rule {recipe.name!r} is a formula, which the format of the original tools cannot hold"
            raise UsageError(what, path=path, remedy="write it as .toml")
    if target.suffix == ".toml":
        from tfsmith.formats.recipe.toml import recipe_toml

        write_file(target, recipe_toml(recipe).encode(), inputs=inputs, force=force)
        return
    if recipe.source_pattern is None or recipe.target_node is None:
        what = "only a recipe that was made of a pattern and a node fits the format of the original tools"
        raise UsageError(what, path=path, remedy="write it as .toml")
    from tfsmith.formats.recipe.protobuf import write_recipe
    from tfsmith.verbs.extract import files_of

    sources = files_of((*recipe.source_pattern.nodes, recipe.target_node))
    with Output(target, inputs=(*inputs, *sources), force=force) as output:
        write_recipe(output.aside, recipe.source_pattern, recipe.target_node)


@record
class MadeRecipe(Recipe, Result):
    """A recipe that was made of a pattern and a node.

    Attributes:
        read: The files that it was made of.
        out: Where it was written, if it was.
        notes: What the user should know.
    """

    read: tuple[FilePath, ...] = ()
    out: Path | None = None
    notes: tuple[str, ...] = ()

    @checked
    def save(self, path: FilePath, *, force: bool = False) -> MadeRecipe:
        """Writes it, as `save_recipe` does.

        Raises:
            OutputError: There is a file, which is not to be replaced.
        """
        save_recipe(self, path, inputs=self.read, force=force)
        return replace(self, out=Path(path))

    def report(self) -> Iterator[str]:
        """What becomes what, and where it was written."""
        query, target = self.variants[0].query, self.variants[0].targets[0]
        found = plural(len(query.nodes), "node")
        taken = f"takes {len(target.inputs)} of {plural(len(query.inputs), 'input')}"
        what = f"{found} become {target.rename}, a {target.op}, which {taken}"
        yield what if self.out is None else f"Wrote {sized(self.out, what)}"

    def to_json(self) -> dict[str, Any]:
        """The names of the nodes and of what enters them."""
        query, target = self.variants[0].query, self.variants[0].targets[0]
        return {
            "output": None if self.out is None else output_name(self.out),
            "nodes": [node.name for node in query.nodes],
            "inputs": list(query.inputs),
            "target": {"name": target.rename, "op": target.op, "inputs": list(target.inputs)},
        }


@checked
def make_recipe(
    pattern: PatternOrPath, node: NodeOrPath, recipe: Out = None, *, force: bool = False, **matching: Unpack[Matching]
) -> MadeRecipe:
    """Makes a recipe that finds what is built like a pattern and puts a node in its place.

    Args:
        pattern: What `extract` gave, or its file.
        node: The new node, or its file: a NodeDef, as text or binary. Its inputs name tensors of the model that the
            pattern was extracted from.
        recipe: The recipe to write: a `.pb` or `.pbtxt` as the original tools have it, or a readable `.toml`.
        force: Replace what is there.

    Raises:
        TfsmithError: The pattern is not sound, or the node does not fit it.

    Example:
        tfsmith recipe make pattern.pb node.pbtxt recipe.toml
    """
    from tfsmith.patterns.extract import recipe_from_pattern
    from tfsmith.verbs.extract import load_pattern

    found = pattern if isinstance(pattern, Pattern) else load_pattern(pattern)
    target = node if isinstance(node, Node) else load_node(node)
    made = recipe_from_pattern(found, target, **matching)
    read = tuple(one for one in (pattern, node) if not isinstance(one, (Pattern, Node)))
    result = MadeRecipe(**values(made), read=read)
    return result if recipe is None else result.save(recipe, force=force)


def load_node(path: FilePath) -> Node:
    """Reads a single NodeDef from a file, binary or text."""
    from tfsmith.formats.recipe.protobuf import read_node

    return read_node(_path(path))


@checked
def check_recipe(
    recipe: RecipeOrPath,
    model: ModelOrPath,
    *,
    keep_shared: bool = False,
    outputs: Names = (),
    **options: Unpack[MatchingLoads],
) -> Replaced:
    """Tells where a recipe fits a model, and what `replace` would change. Nothing is written.

    Args:
        recipe: A `.toml`, `.pb` or `.pbtxt`, or a name of `recipe list`.
        model: A SavedModel, a `.meta`, a GraphDef, or a checkpoint with its graph.
        keep_shared: Keep nodes of a match that others use, beside the new ones.
        outputs: What counts as an output, besides what signatures name.

    Example:
        tfsmith recipe check bert-encoder model.pb
    """
    from tfsmith.verbs.replace import replace as replace_matches

    found = replace_matches(model, recipe, keep_shared=keep_shared, outputs=outputs, explain=True, **options)
    return replace(found, is_trial=True)


class _Drafted(Result):
    """What was drafted of a model."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def model(self) -> Model:
            """The model."""

        @property
        def out(self) -> Path | None:
            """Where the recipe was written, if it was."""

    @property
    @abstractmethod
    def toml(self) -> str:
        """The recipe as a TOML file, with comments."""

    @property
    def text(self) -> str | None:
        """The TOML, where it was not written to a file."""
        return self.toml if self.out is None else None

    @checked
    def save(self: _Draft, path: FilePath, *, force: bool = False) -> _Draft:
        """Writes the recipe as a TOML file, with its comments.

        Raises:
            OutputError: It cannot be written there.
        """
        from tfsmith.formats.write import inputs_of

        target = _toml_path(path)
        write_file(target, self.toml.encode(), inputs=inputs_of(self.model), force=force)
        return replace(self, out=target)


def _commented(lines: Iterable[str], recipe: Recipe) -> str:
    """A recipe as a TOML file, below these comments."""
    from tfsmith.formats.recipe.toml import recipe_toml

    comment = "".join("".join(char if char.isprintable() else "?" for char in line) + "\n" for line in lines)
    return f"{comment}\n{recipe_toml(recipe)}"


@record(eq=False)
class DraftedRecipe(_Drafted):
    """A recipe for the block that a model repeats.

    Attributes:
        model: The model.
        block: What was found in it.
        op: The op of the new node.
        out: Where the recipe was written, if it was.
        notes: What the user should know.
    """

    model: Model
    block: RepeatedBlock
    op: str
    out: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.block.recipe

    @property
    def toml(self) -> str:
        """The recipe as a TOML file; comments say what its inputs are called in the model."""
        block = self.block
        where = "the graph" if block.body is None else f"function {block.body}"
        lines = [f"# Drafted: {block.units} blocks of {block.nodes} nodes in a row, in {where}."]
        lines.append("# What enters a block, and what it is called in the model ({i} counts the blocks):")
        width = max(len(one.name) for one in block.inputs)
        for one in block.inputs:
            unused = "" if one.used else ", which the new node does not take"
            rule = f"  {one.rule}" if one.rule else ""
            lines.append(f"#   {one.kind:<6}  {one.name:<{width}}  {one.shape!s:<12}{rule}{unused}".rstrip())
        return _commented(lines, block.recipe)

    def report(self) -> Iterator[str]:
        """How much becomes one node."""
        weights = plural(sum(one.kind == "weight" for one in self.block.inputs), "weight")
        blocks = f"{self.block.units} blocks of {plural(self.block.nodes, 'node')} and {weights}"
        yield f"Wrote {sized(self.out, f'{blocks} become one {self.op}')}"

    def to_json(self) -> dict[str, Any]:
        """What was found, with every input."""
        block = self.block
        return {
            "output": None if self.out is None else output_name(self.out),
            "name": self.recipe.name,
            "function": block.body,
            "blocks": block.units,
            "nodes": block.nodes,
            "inputs": [
                {"name": one.name, "kind": one.kind, "rule": one.rule, "shape": str(one.shape), "used": one.used}
                for one in block.inputs
            ],
        }


@record(eq=False)
class DraftedFormula(_Drafted):
    """A formula of what a model computes, as a recipe.

    Attributes:
        model: The model.
        block: What was found.
        out: Where it was written, if it was.
        notes: What the user should know.
    """

    model: Model
    block: RaisedBlock
    out: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The recipe, which finds what computes the same."""
        from tfsmith.patterns.formula_text import rule_of_data

        return rule_of_data(self.block.recipe)

    @property
    def toml(self) -> str:
        """The recipe as a TOML file; comments say what its parameters are in the model."""
        block = self.block
        where = "the graph" if block.body is None else f"function {block.body}"
        what = f"{block.units} blocks in a row" if block.units > 1 else "a formula"
        lines = [f"# {what}, in {where}; {block.output} is what it gives. What enters it there:"]
        width = max(len(one.name) for one in block.inputs)
        lines += [f"#   {one.kind:<6}  {one.name:<{width}}  {one.tensor}" for one in block.inputs]
        return _commented(lines, block.recipe)

    def report(self) -> Iterator[str]:
        """What was found."""
        what = plural(self.block.units, "block") if self.block.units > 1 else f"the formula of {self.block.output.node}"
        parameters = plural(len(self.block.inputs), "parameter")
        yield f"Wrote {sized(self.out, f'{what}, {parameters}')}"

    def to_json(self) -> dict[str, Any]:
        """The formula, with all that enters it."""
        block, text = self.block, self.block.recipe.formula_text
        assert text is not None
        return {
            "output": None if self.out is None else output_name(self.out),
            "name": block.recipe.name,
            "function": block.body,
            "blocks": block.units,
            "formula": list(text.lines),
            "block": [line for lines in text.blocks.values() for line in lines],
            "inputs": [{"name": one.name, "kind": one.kind, "tensor": str(one.tensor)} for one in block.inputs],
        }


@overload
def draft_recipe(
    model: ModelOrPath,
    *,
    seeds: Words = (),
    op: str = "Fused",
    name: str | None = None,
    raised: Literal[True],
    out: Out | None = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> DraftedFormula: ...
@overload
def draft_recipe(
    model: ModelOrPath,
    *,
    scope: str | None = None,
    seeds: Words = (),
    barriers: Words = (),
    op: str = "Fused",
    name: str | None = None,
    raised: Literal[False] = False,
    out: Out | None = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> DraftedRecipe: ...
@checked
def draft_recipe(
    model: ModelOrPath,
    *,
    scope: str | None = None,
    seeds: Words = (),
    barriers: Words = (),
    op: str = "Fused",
    name: str | None = None,
    raised: bool = False,
    out: Out | None = None,
    force: bool = False,
    **options: Unpack[Loads],
) -> DraftedRecipe | DraftedFormula:
    """Finds the block that a model repeats, such as the layer of an encoder, and makes a recipe of it.

    The recipe finds the whole chain of blocks, however long, and puts one node there. It takes what the first block
    took, what all blocks share, and the weights of all blocks in order. What the op is to be called, and which
    attributes it gets, is for its author to edit. Reads no weights.

    Args:
        model: A SavedModel, a `.meta`, a GraphDef, or a checkpoint with its graph.
        scope: Only blocks whose output's name fits this glob, such as 'bert/encoder/*'.
        seeds: The output of the last block; found by itself if there is none.
        barriers: Nodes that are outside of any block.
        op: The op of the new node.
        name: The recipe's name; by default as the file is called.
        raised: Say what a block computes, as a formula that finds it however it is spelled, and not its nodes.
        out: The `.toml` to write; to stdout without it.
        force: Replace what is there.

    Raises:
        NotFoundInModelError: Nothing repeats, or there is no such seed or barrier.

    Example:
        tfsmith recipe draft frozen.pb -o encoder.toml --op MyEncoder
    """
    from tfsmith.patterns.draft import DraftOptions, draft

    target = None if out is None else _toml_path(out)
    opened = open_model(model, options)
    called = name or ("draft" if target is None else target.stem)
    if raised:
        if scope is not None or barriers:
            what = "a formula is drafted of the whole model, and takes no scope and no barriers"
            raise UsageError(what, remedy="name the output of the last block ({seeds}), or leave {raised} out")
        from tfsmith.patterns.raised_draft import draft_raised

        formula = DraftedFormula(opened, draft_raised(opened, seeds=seeds, name=called, op_name=op))
        return formula if target is None else formula.save(target, force=force)
    block = draft(opened, DraftOptions(scope, tuple(seeds), tuple(barriers), op, called))
    drafted = DraftedRecipe(opened, block, op)
    return drafted if target is None else drafted.save(target, force=force)


def _toml_path(path: FilePath) -> Path:
    target = _path(path)
    if target.suffix != ".toml":
        raise UsageError("a drafted recipe is written as TOML", path=target, remedy="give it a name that ends in .toml")
    return target


@record(eq=False)
class RecipeDrawing(Result):
    """A drawing of a recipe.

    Attributes:
        recipe: The recipe.
        out: The file.
        model: The model whose names were drawn, if one was.
        matches: The matches in it.
        notes: What the user should know.
    """

    recipe: Recipe
    out: Path
    model: Model | None = None
    matches: tuple[Match, ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether it matches in the model, if there is one."""
        return self.model is None or bool(self.matches)

    def report(self) -> Iterator[str]:
        """Where it was drawn, and how often the recipe matches."""
        yield f"Drew recipe {self.recipe.name} into {self.out}"
        if self.model is not None:
            yield f"{plural(len(self.matches), 'match')} in the model"

    def to_json(self) -> dict[str, Any]:
        """The same."""
        found = None if self.model is None else len(self.matches)
        return {"output": output_name(self.out), "recipe": self.recipe.name, "matches": found}


@checked
def draw_recipe(
    recipe: RecipeOrPath,
    out: Out,
    *,
    model: ModelOrPath | None = None,
    variant: str | None = None,
    force: bool = False,
    **options: Unpack[MatchingLoads],
) -> RecipeDrawing:
    """Draws what a recipe looks for, what takes its place, and how each input is remapped.

    Args:
        recipe: A `.toml`, `.pb` or `.pbtxt`, or a name of `recipe list`.
        out: The `.svg` to write, or an `.html` that also lists every input.
        model: A model, to draw the names that it has. Variants that do not match in it are left out, unless none does.
        variant: Draw this variant; by default all of them in a page, and in an SVG the first that matches.
        force: Replace what is there.

    Raises:
        NotFoundInModelError: The recipe has no such variant.
        OutputError: It cannot be written there, or the name ends otherwise.

    Example:
        tfsmith recipe draw bert-encoder -o recipe.html --model frozen.pb
    """
    from tfsmith.formats.write import inputs_of
    from tfsmith.verbs.replace import find
    from tfsmith.view.recipe_drawing import draw_recipe as svg
    from tfsmith.view.recipe_drawing import recipe_page

    target = _path(out or "")
    if target.suffix not in (".svg", ".html"):
        raise OutputError("a drawing is an .svg or an .html", path=target, remedy="choose one of these endings")
    found = read_recipe(recipe, options)
    opened = None if model is None else open_model(model, options)
    read = () if isinstance(recipe, Recipe) else (recipe,)
    output = Output(target, inputs=(*read, *(() if opened is None else inputs_of(opened))), force=force)
    output.check()
    wanted = _variants(found, variant)
    matches = () if opened is None else find(opened, found).matches
    drawn = [(one, [match for match in matches if match.variant == one]) for one in wanted]
    if isinstance(found, Rule) and matches and matches[0].variant.query.nodes:
        drawn = [(matches[0].variant, [matches[0]])]  # each match of a rule has nodes of its own
    drawn = [each for each in drawn if each[1]] or drawn
    if target.suffix == ".html":
        page = recipe_page(found, drawn)
    else:
        page = svg(found, drawn[0][0], next(iter(drawn[0][1]), None), len(drawn[0][1]))
    with output, FileSink(output.aside) as sink:
        sink.write(page.encode())
    return RecipeDrawing(found, target, opened, matches)


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
