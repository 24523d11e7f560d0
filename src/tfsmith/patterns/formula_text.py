"""The formulas of rules as text, and rules as data: what needs no Python can be written to a file, and read again.

A formula is some lines: `y = LayerNorm(x, gamma, beta)` names a part, and the last line is the whole. It is parsed, and
nothing of it is ever run.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isinf
from typing import Any

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.node import Attr, Endpoint, attr
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.recipe import Expression, FormulaText, Recipe, TargetNode
from tfsmith.patterns.rule import FUNCTIONS, POWERS, RAISED, Added, Bindings, Form, Operand, Rule, Setting, Units, op
from tfsmith.records import replace

__all__ = ["FileRule", "formula_lines", "rule_as_data", "rule_of_data"]

_MOST_TEXT = 20_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_EACH = re.compile(r"each\(([A-Za-z][A-Za-z0-9_]*)\)")
_COUNT = re.compile(r"count\(([A-Za-z][A-Za-z0-9_]*)\)")
_KINDS = RAISED | {"OneOf", "Optional", "Repeat"}
_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "__add__",
    ast.Sub: "__sub__",
    ast.Mult: "__mul__",
    ast.Div: "__truediv__",
    ast.Pow: "__pow__",
}
_WIDTH = 100
"""Parts of longer lines get lines of their own."""


# reading


class _Reader:
    """Makes forms of text."""

    def __init__(self, where: str, blocks: Mapping[str, Rule], given: Mapping[str, Any] | None = None) -> None:
        self._where = where
        self._blocks = blocks
        self._named: dict[str, Any] = dict(given or {})
        self.parameters: dict[str, None] = {}

    def read(self, lines: Sequence[str]) -> Form:
        """The form of the last line.

        Raises:
            UsageError: It is no formula.
        """
        text = "\n".join(lines)
        if len(text) > _MOST_TEXT:
            raise self._wrong(f"the formula has {len(text):,} characters", f"write at most {_MOST_TEXT:,}")
        try:
            statements = ast.parse(text).body
            for statement in statements[:-1]:
                self._assign(statement)
            last = statements[-1] if statements else None
            found = self._form(last.value) if isinstance(last, ast.Expr) else None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._wrong(f"the formula cannot be read: {error}", "correct it") from error
        if not isinstance(found, Form):
            raise self._wrong("the last line of the formula is no form", "write what is to be found")
        return found

    def _wrong(self, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=self._where, remedy=remedy)

    def _assign(self, statement: ast.stmt) -> None:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name) or target.id in self._named:
            raise self._wrong("a line of the formula names no new part", "write name = form on all lines but the last")
        if target.id in self.parameters:
            raise self._wrong(f"{target.id!r} is used before it is named", "name parts first")
        self._named[target.id] = self._form(statement.value)

    def _form(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, type(None))):
            return node.value
        if isinstance(node, ast.Name):
            return self._variable(node.id)
        if isinstance(node, ast.List):
            return [self._form(one) for one in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self._form(node.operand)
            if isinstance(inner, (Form, int, float)):
                return -inner
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            return self._arithmetic(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._wrong(
            f"{ast.unparse(node)[:60]!r} is nothing that a formula has", "write forms, numbers and + - * / **"
        )

    def _variable(self, name: str) -> Any:
        if name in self._named:
            return self._named[name]
        if not _NAME.fullmatch(name):
            raise self._wrong(f"{name!r} is no name for a parameter", "begin it with a letter")
        self.parameters.setdefault(name)
        return Form("var", (name,))

    def _arithmetic(self, node: ast.BinOp) -> Any:
        one, other = self._form(node.left), self._form(node.right)
        if not isinstance(one, (Form, int, float)) or not isinstance(other, (Form, int, float)):
            raise self._wrong("something that is no number and no form is computed with", "correct it")
        if isinstance(one, Form) or isinstance(other, Form):
            is_power = isinstance(node.op, ast.Pow)
            if is_power and not (isinstance(one, Form) and isinstance(other, (int, float))):
                raise self._wrong("an exponent is no number", "write a number")
            if isinstance(one, Form):
                return getattr(one, _SIGNS[type(node.op)])(other)
            return getattr(other, _SIGNS[type(node.op)].replace("__", "__r", 1))(one)
        raise self._wrong("two numbers are computed with", "write their result")

    def _call(self, node: ast.Call) -> Form:
        name, is_plain = "", False
        if isinstance(node.func, ast.Name):
            name = node.func.id
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            name, is_plain = node.func.attr, node.func.value.id == "op"
        keywords = {word.arg: self._form(word.value) for word in node.keywords if word.arg is not None}
        if len(keywords) != len(node.keywords):
            raise self._wrong("** is nothing that a formula has", "name each setting")
        if name == "Repeat":
            return self._repeat(node.args, keywords)
        arguments = [self._form(one) for one in node.args]
        if name in _KINDS or name in FUNCTIONS or name in POWERS:
            try:
                return getattr(op, name)(*arguments, **keywords)  # type: ignore[no-any-return]
            except TypeError as error:
                raise self._wrong(f"{name} is given what it does not take", "see tfsmith.op") from error
        if is_plain and _NAME.fullmatch(name) and name[0].isupper():
            return Form(f"op {name}", arguments, keywords)
        raise self._wrong(
            f"there is no form {name or ast.unparse(node.func)[:40]!r}", f"there are {', '.join(sorted(_KINDS))}"
        )

    def _repeat(self, arguments: Sequence[ast.expr], keywords: dict[str, Any]) -> Form:
        first = arguments[0] if len(arguments) == 3 else None
        block = self._blocks.get(first.id) if isinstance(first, ast.Name) else None
        if block is None:
            raise self._wrong("Repeat is of no block of this file", "write Repeat(block, x, units), and the block")
        least = keywords.pop("least", 1)
        if not isinstance(least, int) or least < 1:
            raise self._wrong("the least number of blocks is no number", "write least=2")
        x, units = (self._form(one) for one in arguments[1:])
        return op.Repeat(block, x, units, least=least, **keywords)


# writing


def formula_lines(form: Form) -> tuple[str, ...]:
    """The text of a form; a part that is used twice has a name.

    Raises:
        UsageError: It has a part that only Python can say.
    """
    return _Writer(form).lines()


class _Writer:
    """Writes forms."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._used = Counter(id(part) for whole in _each_once(form) for part in _parts(whole))
        self._taken = set(form.variables)
        self._names: dict[int, str] = {}
        self._lines: list[str] = []

    def lines(self) -> tuple[str, ...]:
        """All lines."""
        last = self._text(self._form)
        return (*self._lines, last)

    def _text(self, part: Any) -> str:
        if isinstance(part, float) and isinf(part):
            return "1e999" if part > 0 else "-1e999"
        if not isinstance(part, Form):
            return "[" + ", ".join(map(self._text, part)) + "]" if isinstance(part, (list, tuple)) else repr(part)
        if part.kind == "var":
            return str(part.operands[0])
        if id(part) in self._names:
            return self._names[id(part)]
        text = self._written(part)
        if self._used[id(part)] > 1 or len(text) > _WIDTH:
            stem = part.kind.removeprefix("op ").lower()
            number = next(n for n in range(1, len(self._taken) + 2) if f"{stem}_{n}" not in self._taken)
            self._names[id(part)] = name = f"{stem}_{number}"
            self._taken.add(name)
            if part is not self._form:
                self._lines.append(f"{name} = {text}")
                return name
        return text

    def _written(self, part: Form) -> str:
        kind, operands = part.kind, part.operands
        if kind in ("add", "multiply"):
            return f"({self._text(operands[0])} {'+' if kind == 'add' else '*'} {self._text(operands[1])})"
        if kind == "power":
            return f"({self._text(operands[0])} ** {operands[1]!r})"
        if kind == "rule":
            raise UsageError("a rule is part of its formula", remedy="write out its formula")
        settings = [f"{key}={self._text(value)}" for key, value in part.settings.items()]
        if kind == "Repeat":
            operands = (Form("var", (operands[0].name,)), *operands[1:])
            settings = [one for one in settings if one != "least=1"]
        given = list(operands)
        while given and given[-1] is None:
            given.pop()
        name = f"op.{kind[3:]}" if kind.startswith("op ") else kind
        return f"{name}({', '.join([*map(self._text, given), *settings])})"


def _parts(form: Form) -> Iterator[Form]:
    for part in (*form.operands, *form.settings.values()):
        if isinstance(part, Form) and part.kind != "var":
            yield part


def _each_once(form: Form) -> Iterator[Form]:
    seen: set[int] = set()
    todo = [form]
    while todo:
        part = todo.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            todo += _parts(part)


# rules of files


class FileRule(Rule):
    """A rule that was read from a file: its formula, and the nodes that take the place of a match. It runs no code."""

    __slots__ = ("_data",)

    def __init__(self, name: str, description: str, data: FormulaText) -> None:
        blocks = {
            key: FileRule(key, "", FormulaText(lines, parameters=data.block_parameters.get(key, ())))
            for key, lines in data.blocks.items()
        }
        reader = _Reader(f"recipe {name!r}", blocks)
        form = reader.read(data.lines)
        found = [one for one in form.variables if one in reader.parameters]
        parameters = tuple(dict.fromkeys((*data.parameters, *found)))
        self._set(name, description, form, parameters, [one.text for one in data.require])
        self._data = data
        self._formula = lambda *given: self._filled(blocks, given)
        if self.replaces:
            self._prove()

    def _filled(self, blocks: Mapping[str, Rule], given: Sequence[Any]) -> Form:
        """Its form with other forms in the place of its parameters."""
        named = dict(zip(self.parameters, given, strict=True))
        return _Reader(f"recipe {self.name!r}", blocks, named).read(self._data.lines)

    @property
    def replaces(self) -> bool:
        """Whether it says what takes the place of a match."""
        return self._data.result is not None

    def build(self, found: Mapping[str, Any]) -> Added:
        """The new nodes for what was found.

        Raises:
            UsageError: It only finds; or a new node takes what is not there.
        """
        result = self._data.result
        if result is None:
            raise self._wrong("it finds, and does not say what to put there", "add [[formula.target]] and result")
        targets = tuple(self._target(one, found) for one in self._data.targets)
        known = {one.name for one in targets} | {key for key, value in found.items() if isinstance(value, Operand)}
        if result.node not in known:
            raise self._wrong(f"its result is {str(result)!r}, which is no target and no parameter", "name one")
        return Added(targets, result)

    def _target(self, target: TargetNode, found: Mapping[str, Any]) -> TargetNode:
        inputs: list[str] = []
        for text in target.inputs:
            each = _EACH.fullmatch(text)
            if each is not None:
                inputs += self._all(each[1], found)
                continue
            name = text.partition(":")[0]
            if name in found and not isinstance(found[name], Operand):
                raise UnsupportedError(f"{name!r} is no tensor here", remedy="take something else")
            if name not in found and name not in {one.name for one in self._data.targets}:
                raise self._wrong(f"{target.name!r} takes {text!r}, which is nothing that is found", "correct it")
            inputs.append(text)
        attrs = {key: self._attr(target.op, key, value, found) for key, value in target.attrs.items()}
        return replace(target, inputs=tuple(inputs), attrs=attrs)

    def _all(self, name: str, found: Mapping[str, Any]) -> list[str]:
        units = found.get(name)
        if not isinstance(units, Units):
            raise self._wrong(f"{name!r} are no blocks of a chain", "each(units) takes what Repeat binds")
        shared = _shared(self.form, name)
        return [
            one.key for unit in units for key, one in unit.items() if isinstance(one, Operand) and key not in shared
        ]

    def _attr(self, op_name: str, key: str, value: Attr | Expression, found: Mapping[str, Any]) -> Attr | Expression:
        if not isinstance(value, Expression):
            return value
        counted = _COUNT.fullmatch(value.text)
        known = builtin_op(op_name)
        kinds = {} if known is None else {one.name: one.kind for one in known.attrs}
        if counted is not None:
            return attr(len(self._all(counted[1], found)), kinds.get(key))
        if value.text in found and not isinstance(found[value.text], Operand):
            return attr(found[value.text], kinds.get(key))
        return value


def _shared(form: Form, units: str) -> frozenset[str]:
    """The parameters that all blocks of a chain have in common."""
    chains = [part for part in form.walk() if part.kind == "Repeat" and part.operands[2].operands[0] == units]
    return frozenset(key for part in chains for key in part.settings if key != "least")


def rule_of_data(recipe: Recipe) -> Recipe:
    """A recipe that was read, as a rule if it has a formula; others as they are.

    Raises:
        UsageError: The formula makes no sense, or what it puts in cannot be.
    """
    if recipe.formula_text is None or isinstance(recipe, Rule):
        return recipe
    return FileRule(recipe.name, recipe.description, recipe.formula_text)


class _Sealed(Operand):
    """A tensor in a trial of a builder, of which nothing may be asked."""

    __slots__ = ()

    def __init__(self, key: str) -> None:
        object.__setattr__(self, "key", key)

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedError(f"its builder asks for {name.lstrip('_')!r} of {self.key!r}", remedy="keep its code")


def rule_as_data(rule: Rule) -> Recipe:
    """A rule as data that a file can hold.

    Raises:
        UsageError: It has something that only Python can say: a guard, a search of its own, or a builder that looks at
            what was found.
    """
    if isinstance(rule, FileRule):
        return Recipe(rule.name, rule.description, (), formula_text=rule._data)

    def wrong(what: str) -> UsageError:
        return UsageError(what, where=f"rule {rule.name!r}", remedy="keep its code: only Python can say that")

    blocks = {part.operands[0].name: part.operands[0] for part in rule.form.walk() if part.kind == "Repeat"}
    for one in (rule, *blocks.values()):
        guards = [guard for guard in one.where if not isinstance(guard, str)]
        if guards or one.search is not None:
            said = f"its guard {getattr(guards[0], '__name__', 'of it')!r}" if guards else "what finds it"
            raise wrong(f"{said} is written in Python, and no file can say it")
        if one is not rule and one.where:
            raise wrong(f"its block {one.name!r} has guards")
    targets: tuple[TargetNode, ...] = ()
    result: Endpoint | None = None
    if rule.replaces:
        try:
            made = [_trial(rule, count) for count in (2, 3)]
        except UnsupportedError as error:
            raise wrong(error.what) from error
        except TypeError as error:
            raise wrong("its builder computes with what was found") from error
        if made[0] != made[1]:
            raise wrong("its builder depends on how many blocks there are")
        targets, result = made[0].targets, made[0].result
    return Recipe(
        rule.name,
        rule.description,
        (),
        formula_text=FormulaText(
            formula_lines(rule.form),
            {name: formula_lines(block.form) for name, block in blocks.items()},
            targets,
            result,
            tuple(Expression(guard) for guard in rule.where if isinstance(guard, str)),
            rule.parameters,
            {name: block.parameters for name, block in blocks.items()},
        ),
    )


def _trial(rule: Rule, count: int) -> Added:
    """What a builder makes of a match of which nothing is known, with so many blocks in its chains."""
    settings = {
        str(value.operands[0])
        for part in rule.form.walk()
        if part.kind in RAISED
        for value in part.settings.values()
        if isinstance(value, Form)
    }
    chains = {part.operands[2].operands[0]: part.operands[0] for part in rule.form.walk() if part.kind == "Repeat"}
    found: dict[str, Any] = {}
    every: dict[str, list[str]] = {}
    for name in rule.parameters:
        if name in chains:
            names = chains[name].parameters[1:]
            units = [Bindings({one: _Sealed(f"{name}[{at}].{one}") for one in names}) for at in range(count)]
            found[name] = Units(units)
            shared = _shared(rule.form, name)
            every[name] = [one.key for unit in units for key, one in unit.items() if key not in shared]
        else:
            found[name] = Setting(name) if name in settings else _Sealed(name)
    added = rule.build(found)
    return Added(tuple(_gathered(one, every) for one in added.targets), added.result)


def _gathered(target: TargetNode, every: Mapping[str, list[str]]) -> TargetNode:
    """A new node with `each(units)` in the place of all that blocks have bound."""
    inputs = list(target.inputs)
    for name, keys in every.items():
        at = next((at for at in range(len(inputs)) if inputs[at : at + len(keys)] == keys), None)
        if at is not None:
            inputs[at : at + len(keys)] = [f"each({name})"]
    if any("[" in one for one in inputs):
        raise UnsupportedError("its builder takes some of what blocks have, not all of it", remedy="keep its code")
    return replace(target, inputs=tuple(inputs))
