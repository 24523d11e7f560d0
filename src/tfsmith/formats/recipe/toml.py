"""The readable form of a recipe: a TOML file, read and written."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from tfsmith.errors import UnreadableFileError, UsageError, nearest
from tfsmith.ir.literals import attr_from_literal, literal_of, shortest
from tfsmith.ir.node import CONTROL, Attr, Endpoint, parse_input
from tfsmith.ir.opdef import builtin_op, is_commutative
from tfsmith.ir.recipe import (
    ConstantQuery,
    Expression,
    FormulaText,
    NameRule,
    NodeQuery,
    Query,
    Recipe,
    Repeat,
    TargetNode,
    Variant,
    parse_name_rule,
)
from tfsmith.limits import MAX_SMALL_MESSAGE
from tfsmith.records import record, replace

__all__ = ["TomlTable", "attr_kind", "parse_recipe_toml", "read_recipe_toml", "usually_commutative", "recipe_toml"]


@record
class TomlTable:
    """A table of a TOML file.

    Attributes:
        values: What is in it.
        path: The file, for errors.
        where: What to call the table in errors.
    """

    values: Mapping[str, Any]
    path: Path | None
    where: str

    def problem(self, what: str, remedy: str) -> UsageError:
        """What to raise about this table."""
        return UsageError(what, path=self.path, where=self.where, remedy=remedy)

    def unknown(self, name: str, known: Iterable[str], what: str) -> UsageError:
        """What to raise about a name that is not one of those known."""
        names = list(known)
        near = nearest(name, names) or names[:8]
        return self.problem(f"{name!r} is {what}", f"there is {', '.join(near)}" if near else "there is none")

    def called(self, where: str) -> TomlTable:
        """The same table under another name."""
        return replace(self, where=where)

    def check(self, known: Set[str]) -> None:
        """Refuses keys that nobody knows."""
        for key in self.values:
            if key not in known:
                raise self.unknown(key, sorted(known), "nothing that this table has")

    def table(self, key: str, where: str | None = None) -> TomlTable:
        """A table in it; an empty one if there is none."""
        found = self.values.get(key, {})
        if not isinstance(found, Mapping):
            raise self.problem(f"{key!r} is no table", f"write [{key}], or {{name = value}}")
        return TomlTable(found, self.path, f"{self.where}, {where or key}")

    def tables(self, key: str) -> list[TomlTable]:
        """A list of tables in it."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise self.problem(f"{key!r} is no list of tables", f"write [[{key}]], with two brackets")
        return [TomlTable(one, self.path, f"{key} {number}") for number, one in enumerate(found, 1)]

    def named_tables(self, key: str) -> list[TomlTable]:
        """A list of tables with names, each name once."""
        found = self.tables(key)
        names = [one.text("name", "") for one in found]
        seen: set[str] = set()
        for name in names:
            if name in seen and name:
                raise self.problem(f"two tables of [[{key}]] have the name {name!r}", "choose another")
            seen.add(name)
        return [
            one.called(f"{self.where}, {key} {name!r}" if name else f"{self.where}, {one.where}")
            for one, name in zip(found, names, strict=True)
        ]

    def text(self, key: str, default: str) -> str:
        """Some text."""
        found = self.values.get(key, default)
        if not isinstance(found, str):
            raise self.problem(f"{key!r} is no text", f'write {key} = "..."')
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """One text, or several; none if there is none."""
        found = self.values.get(key, [])
        texts = [found] if isinstance(found, str) else found
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise self.problem(f"{key!r} is no text and no list of texts", f'write {key} = ["...", "..."]')
        return tuple(texts)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self.values.get(key, default)
        if not isinstance(found, bool):
            raise self.problem(f"{key!r} is neither true nor false", f"write {key} = true")
        return found

    def number(self, key: str, default: float) -> float:
        """A number."""
        found = self.values.get(key, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise self.problem(f"{key!r} is no number", f"write {key} = 1.0")
        return float(found)


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
    top = TomlTable(found, path, "the file")
    top.check({"recipe", "variant", "formula"})
    head = top.table("recipe")
    head.check({"name", "description"})
    if "formula" in top.values:
        if "variant" in top.values:
            raise top.problem("it has a formula and variants", "write one of them")
        title = head.text("name", "" if path is None else path.stem)
        return Recipe(title, head.text("description", ""), (), formula_text=_formula(top.table("formula")))
    variants = tuple(_variant(table, number) for number, table in enumerate(top.tables("variant"), 1))
    if not variants:
        raise top.problem("there is no variant, so nothing to look for", "write [[variant]] with its nodes")
    name = head.text("name", "" if path is None else path.stem)
    return Recipe(name, head.text("description", ""), variants)


def _formula(table: TomlTable) -> FormulaText:
    table.check({"text", "parameters", "require", "block", "target", "result"})
    lines, targets = table.texts("text"), tuple(map(_target, table.named_tables("target")))
    if not lines:
        raise table.problem("there is no formula to look for", 'write text = ["LayerNorm(x, gamma, beta)"]')
    blocks: dict[str, tuple[str, ...]] = {}
    parameters: dict[str, tuple[str, ...]] = {}
    for block in table.named_tables("block"):
        block.check({"name", "text", "parameters"})
        name = _name(block)
        blocks[name], parameters[name] = block.texts("text"), block.texts("parameters")
    result = table.text("result", "")
    if bool(targets) and not result:
        raise table.problem("nothing says what takes the place of a match", 'write result = "target"')
    require = tuple(Expression(text) for text in table.texts("require"))
    end = parse_input(result) if result else None
    return FormulaText(lines, blocks, targets, end, require, table.texts("parameters"), parameters)


_QUERY_KEYS = {"inputs", "outputs", "through", "node", "names"}


def _variant(table: TomlTable, number: int) -> Variant:
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


def _query(table: TomlTable, replaced: tuple[str, ...] = ()) -> Query:
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


def _name_rules(table: TomlTable, known: Set[str]) -> dict[str, NameRule]:
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


def _node(table: TomlTable) -> NodeQuery:
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


def _name(table: TomlTable) -> str:
    name = table.text("name", "")
    if not name or ":" in name or name.startswith("^"):
        raise table.problem(f"it has no sound name ({name!r})", "give it a name without colons")
    return name


def usually_commutative(ops: tuple[str, ...], inputs: tuple[Endpoint, ...], attrs: Mapping[str, Attr]) -> bool:
    """Whether the first two inputs of a wanted node may be in either order, if the recipe does not say it."""
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


def _attr(table: TomlTable, name: str, ops: tuple[str, ...]) -> Attr:
    known = [found for found in map(builtin_op, ops) if found is not None]
    kind = attr_kind(name, ops)
    if kind is None and len(known) == len(ops) and not name.startswith("_"):
        declared = sorted({one.name for found in known for one in found.attrs})
        raise table.unknown(name, declared, f"no attribute of {' or '.join(ops)}")
    try:
        return attr_from_literal(table.values[name], kind)
    except UsageError as error:
        raise table.problem(f"{name}: {error.what}", error.remedy or "correct it") from error


def _constant(table: TomlTable) -> ConstantQuery:
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


def _repeat(table: TomlTable, query: Query) -> Repeat | None:
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


def _before(table: TomlTable, shared: tuple[str, ...]) -> tuple[Query | None, dict[str, Endpoint]]:
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


def _target(table: TomlTable) -> TargetNode:
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

    def check_target_input(self, table: TomlTable, text: str) -> None:
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


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100
"""A longer list is written with one value on a line."""


def recipe_toml(recipe: Recipe) -> str:
    """The text of a recipe, which reads as the same recipe again (but for the files that it was made from).

    Raises:
        UnsupportedError: It puts in a constant that is too large to be written out.
    """
    lines = ["[recipe]", _pair("name", recipe.name)]
    lines += [_pair("description", recipe.description)] if recipe.description else []
    if recipe.formula_text is not None:
        lines += _formula_lines(recipe.formula_text)
    for variant in recipe.variants:
        lines += _variant_lines(variant)
    return "\n".join(lines) + "\n"


def _formula_lines(formula: FormulaText) -> list[str]:
    lines = ["", "[formula]", _pair("text", list(formula.lines))]
    lines += [_pair("parameters", list(formula.parameters))] if formula.parameters else []
    lines += [_pair("require", [one.text for one in formula.require])] if formula.require else []
    lines += [_pair("result", _text(formula.result))] if formula.result is not None else []
    for name, text in formula.blocks.items():
        lines += ["", "[[formula.block]]", _pair("name", name), _pair("text", list(text))]
        given = formula.block_parameters.get(name, ())
        lines += [_pair("parameters", list(given))] if given else []
    for target in formula.targets:
        lines += ["", "[[formula.target]]", *_target_lines(target)]
    return lines


def _variant_lines(variant: Variant) -> list[str]:
    lines = ["", "[[variant]]", _pair("name", variant.name), *_head(variant.query)]
    lines += [_pair("require", [one.text for one in variant.require])] if variant.require else []
    for node in variant.query.nodes:
        lines += ["", "[[variant.node]]", *_node_lines(node)]
    lines += _names(variant.query, "[variant.names]")
    if variant.repeat is not None:
        lines += _repeat_lines(variant.repeat)
    for target in variant.targets:
        lines += ["", "[[variant.target]]", *_target_lines(target)]
    lines += ["", "[variant.replace]"]
    return lines + [f"{_string(_text(old))} = {_string(str(new))}" for old, new in variant.outputs.items()]


def _head(query: Query) -> list[str]:
    lines = [_pair("inputs", list(query.inputs))] if query.inputs else []
    lines.append(_pair("outputs", [_text(output) for output in query.outputs]))
    return lines + ([_pair("through", list(query.through))] if query.through else [])


def _repeat_lines(repeat: Repeat) -> list[str]:
    lines = ["", "[variant.repeat]", _pair("carry", {key: _text(output) for key, output in repeat.carry.items()})]
    lines += [_pair("shared", list(repeat.shared))] if repeat.shared else []
    lines += [_pair("least", repeat.least)] if repeat.least != 1 else []
    if repeat.before is None:
        return lines
    links = {key: _text(output) for key, output in repeat.links.items()}
    lines += ["", "[variant.before]", *_head(repeat.before), _pair("links", links)]
    for node in repeat.before.nodes:
        lines += ["", "[[variant.before.node]]", *_node_lines(node)]
    return lines + _names(repeat.before, "[variant.before.names]")


def _names(query: Query, title: str) -> list[str]:
    return ["", title, *(_pair(key, rule.text) for key, rule in query.names.items())] if query.names else []


def _node_lines(node: NodeQuery) -> list[str]:
    ops: Any = node.ops[0] if len(node.ops) == 1 else list(node.ops)
    lines = [_pair("name", node.name), _pair("op", ops)]
    lines += [_pair("inputs", [_text(one) for one in node.inputs])] if node.inputs else []
    attrs = {key: literal_of(value, attr_kind(key, node.ops)) for key, value in node.attrs.items()}
    lines += [_pair("attrs", attrs)] if attrs else []
    lines += [_pair("value", _constant_lines(node.constant))] if node.constant is not None else []
    usual = usually_commutative(node.ops, node.inputs, node.attrs)
    return lines + ([] if usual == node.is_commutative else [_pair("commutative", node.is_commutative)])


def _constant_lines(constant: ConstantQuery) -> Any:
    values = [one.decode("utf-8", "replace") if isinstance(one, bytes) else _number(one) for one in constant.values]
    if constant.shape is None and constant.tolerance == 1e-6:
        return values[0] if len(values) == 1 else values
    table: dict[str, Any] = {"values": values}
    if constant.shape is not None:
        table["shape"] = list(constant.shape)
    if constant.tolerance != 1e-6:
        table["tolerance"] = constant.tolerance
    return table


def _number(value: float) -> float:
    """Constants are mostly of 32 bits; whoever compares them allows for more than what is cut off here."""
    return shortest(value) if isinstance(value, float) and abs(value) < 1e38 else value


def _target_lines(target: TargetNode) -> list[str]:
    lines = [_pair("name", target.name), _pair("op", target.op)]
    lines += [_pair("inputs", list(target.inputs))] if target.inputs else []
    attrs = {key: _attr_lines(value, key, target.op) for key, value in target.attrs.items()}
    lines += [_pair("attrs", attrs)] if attrs else []
    lines += [_pair("device", target.device)] if target.device else []
    lines += [_pair("rename", target.rename)] if target.rename != "{scope}/{name}" else []
    lines += [_pair("fold", True)] if target.fold else []
    return lines + ([_pair("output_args", list(target.output_args))] if target.output_args else [])


def _attr_lines(value: Attr | Expression, name: str, op: str) -> Any:
    return f"={value.text}" if isinstance(value, Expression) else literal_of(value, attr_kind(name, (op,)))


def _text(endpoint: Endpoint) -> str:
    if endpoint.output == CONTROL:
        return f"^{endpoint.node}"
    return f"{endpoint.node}:{endpoint.output}" if endpoint.output else endpoint.node


def _pair(key: str, value: Any) -> str:
    text = _value(value)
    if isinstance(value, list) and len(text) > _WIDTH:
        text = "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    return f"{_key(key)} = {text}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)  # also "inf" and "-inf"


def _string(text: str) -> str:
    """A basic string: TOML escapes as JSON does, and also wants the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
