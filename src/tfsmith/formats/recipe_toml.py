"""The readable form of a recipe: a TOML file.

    [recipe]
    name = "layer_norm"
    description = "what it does, in a sentence"
    [[variant]]
    name = "tf1"
    inputs = ["x", "gamma"]                # names for the tensors that enter from outside
    through = ["Identity"]                 # ops that may stand on any edge
    require = ["rank(x) == 2"]             # what must be true of a match
    [[variant.node]]                       # a node to be found
    name = "mean"
    op = "Mean"                            # or several: ["Add", "AddV2"]
    inputs = ["x", "axis", "^other"]       # "node", "node:1", "^node", or a name of `inputs`
    attrs = {keep_dims = true, T = "float32"}
    value = 1e-12                          # of a Const: a value, a list, or {values = [...], shape = [...]}
    commutative = true                     # by default as its op is
    [variant.names]                        # what inputs or nodes must be called in the model
    gamma = "layer_{i}/LayerNorm/gamma"    # the end of a name; {i} is one number in a unit, and the next in the next
    [variant.repeat]                       # the nodes above are a unit that repeats
    carry = {x = "add_1"}                  # input of a unit = output of the one before
    shared = ["mask"]                      # inputs that are the same in all units
    least = 2
    [variant.before]                       # what stands before the first unit
    inputs = ["raw"]
    outputs = ["sub"]
    links = {mask = "sub"}                 # shared input = output of these nodes
    [[variant.before.node]]
    [[variant.target]]                     # a node to be put in
    name = "fused"
    op = "MyLayerNorm"
    inputs = ["x", "each(gamma)"]
    attrs = {epsilon = 0.001, T = "=attr(mean, T)", units = "=dim(gamma, 0)"}
    device = ""
    rename = "{scope}/{name}"
    fold = false
    output_args = ["y"]                    # names of its outputs, if nobody knows the op
    [variant.replace]
    "add_1" = "fused:0"                    # output of the found nodes = output of the new ones, or one of `inputs`

Attributes are typed by the op's definition; of an op that nobody knows, as `tfsmith.ir.literals` says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Set
from pathlib import Path

from tfsmith.errors import UnreadableFileError, UsageError
from tfsmith.formats.toml_table import Table
from tfsmith.ir.attr import Attr
from tfsmith.ir.commutative import is_commutative
from tfsmith.ir.literals import attr_from_literal
from tfsmith.ir.name_rule import NameRule, parse_name_rule
from tfsmith.ir.node import CONTROL, Endpoint, parse_input
from tfsmith.ir.opdb import builtin_op
from tfsmith.ir.recipe import (
    ConstantQuery,
    Expression,
    NodeQuery,
    Query,
    Recipe,
    Repeat,
    TargetNode,
    Variant,
)
from tfsmith.limits import MAX_SMALL_MESSAGE
from tfsmith.records import record

__all__ = ["attr_kind", "parse_recipe_toml", "read_recipe_toml", "usually_commutative"]

_EACH = re.compile(r"each\(([^()]*)\)")


def read_recipe_toml(path: Path) -> Recipe:
    """Reads a recipe from a TOML file.

    Raises:
        UnreadableFileError: It cannot be read, or is no text.
        UsageError: It is no recipe; the error names the line or the table, and what to do.
    """
    try:
        if path.stat().st_size > MAX_SMALL_MESSAGE:
            raise UnreadableFileError("it is too large for a recipe", path=path, remedy="pass a recipe")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise UnreadableFileError(what, path=path, remedy="check the path") from error
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8"
        raise UnreadableFileError("this is not text", path=path, offset=error.start, remedy=remedy) from error
    return parse_recipe_toml(text, path)


def parse_recipe_toml(text: str, path: Path | None = None) -> Recipe:
    """Reads a recipe from the text of a TOML file.

    Args:
        text: The text.
        path: The file, for errors; a recipe without a name is called as the file is.

    Raises:
        UsageError: It is no recipe; the error names the line or the table, and what to do.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"this is no sound TOML: {error}", path=path, remedy="correct that line") from error
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise UsageError(f"this is no sound TOML: {error}", path=path, remedy="correct the file") from error
    top = Table(found, path, "the file")
    top.check({"recipe", "variant"})
    head = top.table("recipe")
    head.check({"name", "description"})
    variants = tuple(_variant(table, number) for number, table in enumerate(top.tables("variant"), 1))
    if not variants:
        raise top.problem("there is no variant, so nothing to look for", "write [[variant]] with its nodes")
    name = head.text("name", "" if path is None else path.stem)
    return Recipe(name, head.text("description", ""), variants)


_QUERY_KEYS = {"inputs", "outputs", "through", "node", "names"}


def _variant(table: Table, number: int) -> Variant:
    table.check(_QUERY_KEYS | {"name", "repeat", "before", "target", "replace", "require"})
    name = table.text("name", str(number))
    table = table.called(f"variant {name!r}")
    replace = table.table("replace", "[variant.replace]")
    query = _query(table, tuple(replace.values))
    repeat = _repeat(table, query)
    before = None if repeat is None else repeat.before
    tables = table.named_tables("target")
    targets = tuple(map(_target, tables))
    names = _Names(query, before, frozenset(one.name for one in targets))
    both = sorted(names.targets & {*query.inputs, *(node.name for node in query.nodes)})
    if both:
        raise table.problem(f"{both[0]!r} is the name of a target and of what is looked for", "choose another name")
    for target, one in zip(targets, tables, strict=True):
        for text in target.inputs:
            names.check_target_input(one, text)
    outputs: dict[Endpoint, Endpoint] = {}
    entering = {Endpoint(name, 0) for name in query.inputs}
    for key in replace.values:
        new = parse_input(replace.text(key, ""))
        if new.output == CONTROL or (new.node not in names.targets and new not in entering):
            raise replace.problem(f"{key!r} is replaced by {str(new)!r}, which is no target and no input", "name one")
        outputs[parse_input(key)] = new
    if set(outputs) != set(query.outputs):
        missing = sorted(map(str, set(query.outputs) ^ set(outputs)))
        what = f"outputs and [variant.replace] do not name the same: {missing[0]!r} is only in one of them"
        raise table.problem(what, "say for each output what replaces it")
    require = tuple(Expression(text) for text in table.texts("require"))
    return Variant(name, query, targets, outputs, repeat, require)


def _query(table: Table, replaced: tuple[str, ...] = ()) -> Query:
    inputs = table.texts("inputs")
    tables = table.named_tables("node")
    nodes = tuple(map(_node, tables))
    if not nodes:
        raise table.problem("there is no node to look for", "write [[variant.node]] with name, op and inputs")
    names = {node.name for node in nodes}
    entering: set[str] = set()
    for name in inputs:
        if not name or ":" in name or name.startswith("^") or name in names or name in entering:
            what = f"{name!r} cannot be the name of an input: it is taken, or has a colon"
            raise table.problem(what, "choose another name")
        entering.add(name)
    for node, one in zip(nodes, tables, strict=True):
        for found in node.inputs:
            if found.node in names or (found.node in entering and found.output == 0):
                continue
            raise one.unknown(found.node, [*names, *inputs], "no node and no input of this variant")
    outputs = table.texts("outputs") or replaced
    for text in outputs:
        found = parse_input(text)
        if found.node not in names or found.output == CONTROL:
            raise table.unknown(text, sorted(names), "the output of no node")
    if not outputs:
        raise table.problem("nothing is said to be its output", 'write [variant.replace] with "node" = "target:0"')
    rules = _name_rules(table.table("names", "names"), {*names, *inputs})
    return Query(nodes, inputs, tuple(map(parse_input, outputs)), table.texts("through"), rules)


def _name_rules(table: Table, known: Set[str]) -> dict[str, NameRule]:
    rules: dict[str, NameRule] = {}
    for key in table.values:
        if key not in known:
            raise table.unknown(key, sorted(known), "no node and no input of this variant")
        text = table.text(key, "")
        try:
            rules[key] = parse_name_rule(text)
        except UsageError as error:
            raise table.problem(f"{key}: {error.what}", error.remedy or "correct it") from error
    return rules


def _node(table: Table) -> NodeQuery:
    table.check({"name", "op", "inputs", "attrs", "value", "commutative"})
    name, ops = _name(table), table.texts("op")
    if not ops or not all(ops):
        raise table.problem("it has no op", 'write op = "MatMul", or several in a list')
    literals = table.table("attrs", "attrs")
    attrs = {key: _attr(literals, key, ops) for key in literals.values}
    constant = _constant(table) if "value" in table.values else None
    inputs = tuple(map(parse_input, table.texts("inputs")))
    commutative = table.flag("commutative", usually_commutative(ops, inputs, attrs))
    return NodeQuery(name, ops, inputs, attrs, constant, commutative)


def _name(table: Table) -> str:
    name = table.text("name", "")
    if not name or ":" in name or name.startswith("^"):
        raise table.problem(f"it has no sound name ({name!r})", "give it a name without colons")
    return name


def usually_commutative(ops: tuple[str, ...], inputs: tuple[Endpoint, ...], attrs: Mapping[str, Attr]) -> bool:
    """Whether the first two inputs of a wanted node may stand in either order, if the recipe does not say it."""
    pairs = sum(found.output != CONTROL for found in inputs) > 1
    return pairs and all(is_commutative(op, attrs.get("T")) for op in ops)


def attr_kind(name: str, ops: tuple[str, ...]) -> str | None:
    """The kind of an attribute by the definition of the first of these ops that declares it; None if none does."""
    for op in ops:
        found = builtin_op(op)
        kind = next((one.kind for one in found.attrs if one.name == name), None) if found is not None else None
        if kind is not None:
            return kind
    return None


def _attr(table: Table, name: str, ops: tuple[str, ...]) -> Attr:
    known = [found for found in map(builtin_op, ops) if found is not None]
    kind = attr_kind(name, ops)
    if kind is None and len(known) == len(ops) and not name.startswith("_"):
        declared = sorted({one.name for found in known for one in found.attrs})
        raise table.unknown(name, declared, f"no attribute of {' or '.join(ops)}")
    try:
        return attr_from_literal(table.values[name], kind)
    except UsageError as error:
        raise table.problem(f"{name}: {error.what}", error.remedy or "correct it") from error


def _constant(table: Table) -> ConstantQuery:
    value = table.values["value"]
    shape: tuple[int, ...] | None = None
    tolerance = 1e-6
    if isinstance(value, Mapping):
        inner = table.table("value", "value")
        inner.check({"values", "shape", "tolerance"})
        dims, tolerance = inner.values.get("shape"), inner.number("tolerance", 1e-6)
        if dims is not None and (not isinstance(dims, list) or not all(type(dim) is int and dim >= 0 for dim in dims)):
            raise inner.problem(f"{dims!r} is no shape", "write a list of numbers")
        shape = None if dims is None else tuple(dims)
        value = inner.values.get("values", [])
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, (bool, int, float, str)) for one in values):
        raise table.problem("value is no number, text, or list of these", "write value = 1e-12, or value = [0, 2, 1]")
    return ConstantQuery(tuple(one.encode() if isinstance(one, str) else one for one in values), shape, tolerance)


def _repeat(table: Table, query: Query) -> Repeat | None:
    if "repeat" not in table.values:
        if "before" in table.values:
            raise table.problem("[variant.before] stands before units that repeat", "write [variant.repeat] too")
        return None
    found = table.table("repeat", "[variant.repeat]")
    found.check({"carry", "shared", "least"})
    carry = found.table("carry", "carry")
    names = {node.name for node in query.nodes}
    carried: dict[str, Endpoint] = {}
    for key in carry.values:
        output = parse_input(carry.text(key, ""))
        if key not in query.inputs or output.node not in names or output.output == CONTROL:
            what = f"{key} = {str(output)!r} carries no output of a node to an input"
            raise carry.problem(what, 'write carry = {x = "add_1"}')
        carried[key] = output
    if not carried:
        raise found.problem("nothing is carried from unit to unit", 'write carry = {x = "add_1"}')
    shared = found.texts("shared")
    for name in shared:
        if name not in query.inputs or name in carried:
            raise found.unknown(name, sorted(set(query.inputs) - set(carried)), "no input that units can share")
    least = found.values.get("least", 1)
    if type(least) is not int or least < 1:
        raise found.problem(f"least = {least!r} is no number of units", "write 1 or more")
    before, links = _before(table, shared)
    return Repeat(carried, shared, before, links, least)


def _before(table: Table, shared: tuple[str, ...]) -> tuple[Query | None, dict[str, Endpoint]]:
    if "before" not in table.values:
        return None, {}
    found = table.table("before", "[variant.before]")
    found.check(_QUERY_KEYS | {"links"})
    linked = found.table("links", "links")
    links = {key: parse_input(linked.text(key, "")) for key in linked.values}
    query = _query(found, tuple(map(str, links.values())))
    for key, output in links.items():
        if key not in shared or output not in query.outputs:
            what = f"{key} = {str(output)!r} links no output of these nodes to a shared input"
            raise linked.problem(what, 'write links = {mask = "sub"}')
    if not links:
        raise found.problem("nothing links it to the units", 'write links = {mask = "sub"}')
    return query, links


def _target(table: Table) -> TargetNode:
    table.check({"name", "op", "inputs", "attrs", "device", "rename", "fold", "output_args"})
    name, op = _name(table), table.text("op", "")
    if not op:
        raise table.problem("it has no op", 'write op = "MatMul"')
    literals = table.table("attrs", "attrs")
    attrs: dict[str, Attr | Expression] = {}
    for key, value in literals.values.items():
        is_computed = isinstance(value, str) and value.startswith("=")
        attrs[key] = Expression(value[1:].strip()) if is_computed else _attr(literals, key, (op,))
    return TargetNode(
        name,
        op,
        table.texts("inputs"),
        attrs,
        table.text("device", ""),
        table.text("rename", "{scope}/{name}"),
        table.flag("fold", False),
        table.texts("output_args"),
    )


@record
class _Names:
    """What the inputs of targets may name."""

    query: Query
    before: Query | None
    targets: frozenset[str]

    def check_target_input(self, table: Table, text: str) -> None:
        """Sees that an input of a target is something."""
        each = _EACH.fullmatch(text)
        words = [text] if each is None else [word.strip() for word in each[1].split(",")]
        known: set[str] = set(self.targets) if each is None else set()
        for query in (self.query, self.before):
            if query is not None and (each is None or query is self.query):
                known |= {*query.inputs, *(node.name for node in query.nodes)}
        for word in words:
            if parse_input(word).node not in known:
                raise table.unknown(word, sorted(known), "nothing that is found or put in")
