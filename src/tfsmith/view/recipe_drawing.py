"""The drawing of a recipe: what is found, what enters it, what takes its place; as SVG, or as a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tfsmith.ir.node import CONTROL, Attr, Endpoint
from tfsmith.ir.recipe import Expression, Match, Query, Recipe, TargetNode, Variant
from tfsmith.records import field, record
from tfsmith.view.canvas import TIMES, Canvas, escape, fold_names, scope_groups, scope_numbers, shorten, text_width

__all__ = [
    "Box",
    "QueryLayout",
    "lay_out",
    "TargetInput",
    "ports",
    "input_in_model",
    "list_inputs",
    "names_in_model",
    "draw_recipe",
    "recipe_page",
]

_MOST_BOXES = 28
_MOST_OPS = 4
_FEW = 2


@record(frozen=False)
class Box:
    """Some wanted nodes that are drawn as one.

    Attributes:
        title: Their name, or the scope that they are in.
        names: The names of the nodes.
        ops: How often each op is among them.
        is_seed: Whether the rest of the graph may use one of them.
        row: Its row; 0 is nearest to the inputs.
    """

    title: str
    names: list[str] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    is_seed: bool = False
    row: int = 0

    def lines(self, strip: str) -> list[str]:
        """What is written into it."""
        title = self.title.removeprefix(strip)
        if len(self.names) == 1:
            return [title, next(iter(self.ops))]
        if len(self.names) <= _FEW:
            return [title, ", ".join(self.ops)]
        listed = [op if count == 1 else f"{op} {TIMES}{count}" for op, count in self.ops.most_common(_MOST_OPS)]
        more = len(self.ops) - _MOST_OPS
        return [title, f"{len(self.names)} nodes: " + ", ".join(listed) + (f", +{more} ops" if more > 0 else "")]


@record
class QueryLayout:
    """What is to be drawn of a query.

    Attributes:
        boxes: By title, in order.
        edges: Which box feeds which.
        carries: Edges from one repetition to the next.
        users: For each input of the query, the boxes that take it.
    """

    boxes: Mapping[str, Box]
    edges: frozenset[tuple[str, str]]
    carries: frozenset[tuple[str, str]]
    users: Mapping[str, tuple[str, ...]]


def lay_out(query: Query) -> QueryLayout:
    """Folds and layers a query; linear but for the few boxes that remain."""
    ops = {node.name: "|".join(node.ops) for node in query.nodes}
    folded = fold_names(ops, ops)
    title_of = {name: fold.title for fold in folded for name in fold.names}
    owners = _owners(query)
    scopes = scope_groups(
        (fold.title for fold in folded if not all(name in owners for name in fold.names)), _MOST_BOXES
    )
    box_of = {name: scopes[title_of[name]] for name in title_of if name not in owners}
    box_of |= {name: box_of[owner] for name, owner in owners.items()}
    turn = {name: scope_numbers(name) for fold in folded if len(fold.names) > 1 for name in fold.names}
    seeds = {endpoint.node for endpoint in query.outputs}
    boxes: dict[str, Box] = {}
    users: dict[str, list[str]] = {name: [] for name in query.inputs}
    edges: set[tuple[str, str]] = set()
    carries: set[tuple[str, str]] = set()
    for node in query.nodes:
        own = box_of[node.name]
        box = boxes.setdefault(own, Box(own))
        box.names.append(node.name)
        box.ops[ops[node.name]] += 1
        box.is_seed |= node.name in seeds
        for source in (endpoint.node for endpoint in node.inputs if endpoint.output != CONTROL):
            if source not in box_of:
                users.setdefault(source, []).append(own)
            elif box_of[source] == own:
                continue
            elif source in turn and node.name in turn and turn[source] != turn[node.name]:
                carries.add((box_of[source], own))
            else:
                edges.add((box_of[source], own))
    kept = _rank(boxes, edges)
    carries |= edges - kept
    return QueryLayout(
        boxes,
        frozenset(kept),
        frozenset(carries),
        {name: tuple(dict.fromkeys(found)) for name, found in users.items()},
    )


def _owners(query: Query) -> dict[str, str]:
    """For constants and their like that one node takes, that node: they are drawn in its box."""
    users: dict[str, set[str]] = {}
    for node in query.nodes:
        for source in node.inputs:
            users.setdefault(source.node, set()).add(node.name)
    seeds = {endpoint.node for endpoint in query.outputs}
    lonely = [node.name for node in query.nodes if not node.inputs and node.name not in seeds]
    return {name: next(iter(users[name])) for name in lonely if len(users.get(name, ())) == 1}


def _rank(boxes: Mapping[str, Box], edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Gives each box its row, and returns the edges that go forward; those that would close a circle are left out."""
    after: dict[str, list[str]] = {title: [] for title in boxes}
    for start, stop in sorted(edges):
        after[start].append(stop)
    order: list[str] = []
    state: dict[str, int] = {}
    kept: set[tuple[str, str]] = set()
    for root in boxes:
        todo = [(root, iter(after[root]))] if root not in state else []
        state.setdefault(root, 1)
        while todo:
            title, rest = todo[-1]
            following = next(rest, None)
            if following is None:
                state[title] = 2
                order.append(title)
                todo.pop()
                continue
            if state.get(following) != 1:
                kept.add((title, following))
            if following not in state:
                state[following] = 1
                todo.append((following, iter(after[following])))
    for title in reversed(order):
        for following in after[title]:
            if (title, following) in kept:
                boxes[following].row = max(boxes[following].row, boxes[title].row + 1)
    return kept


_EACH = re.compile(r"each\(([^()]*)\)")


@record
class TargetInput:
    """Some inputs of a new node that are drawn as one.

    Attributes:
        title: What they are called in the recipe.
        names: The inputs of the query that they take; none where they take another new node.
        numbers: Which inputs of the new node they are; of a chain of unknown length, those of its first unit.
        is_each: Whether there is one for each unit of a chain.
    """

    title: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    is_each: bool = False

    @property
    def label(self) -> str:
        """The numbers, shortened."""
        if len(self.numbers) <= 2 and not self.is_each:
            return ", ".join(map(str, self.numbers))
        shown = [str(number) for number in self.numbers[:2]]
        return ", ".join([*shown, "…", *([str(self.numbers[-1])] if len(self.numbers) > 2 else [])])


def ports(variant: Variant, target: TargetNode, units: int = 1) -> list[TargetInput]:
    """The inputs of a new node, folded where layers repeat.

    Args:
        variant: What the node belongs to.
        target: The node.
        units: How many units the chain has, as far as known.
    """
    known = _inputs(variant)
    order: dict[str, list[int]] = {}
    each: set[str] = set()
    number = 0
    for text in target.inputs:
        found = _EACH.fullmatch(text)
        listed = [text] if found is None else [name.strip() for name in found[1].split(",")]
        for _ in range(1 if found is None else units):
            for name in listed:
                order.setdefault(name, []).append(number)
                number += 1
        each |= set() if found is None else set(listed)
    return [
        TargetInput(
            fold.title,
            tuple(name for name in fold.names if name in known),
            tuple(sorted(number for name in fold.names for number in order[name])),
            any(name in each for name in fold.names),
        )
        for fold in fold_names(order)
    ]


def _inputs(variant: Variant) -> set[str]:
    before = variant.repeat.before if variant.repeat is not None else None
    return {*variant.query.inputs, *(before.inputs if before is not None else ())}


def names_in_model(match: Match | None, names: Sequence[str]) -> list[str]:
    """The tensors that inputs of the query are bound to, unit after unit, each named once."""
    found: dict[str, None] = {}
    for unit in () if match is None else (*([match.before] if match.before else []), *match.units):
        for name in names:
            if name in unit.inputs:
                found[_text(unit.inputs[name])] = None
    return list(found)


def input_in_model(match: Match | None, port: TargetInput) -> str:
    """What a folded input is in a model, in one line; "" where that is not known."""
    found = [fold.title for fold in fold_names(names_in_model(match, port.names))]
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "") if found else ""


def list_inputs(variant: Variant, target: TargetNode, match: Match | None) -> Iterator[tuple[int, str, str]]:
    """Every input of a new node: its number, its name in the recipe, and the tensor in the model."""
    units = match.units if match is not None else ()
    number = 0
    for text in target.inputs:
        each = _EACH.fullmatch(text)
        if each is None:
            yield number, text, ", ".join(names_in_model(match, [text.removeprefix("^")])[:1])
            number += 1
            continue
        listed = [name.strip() for name in each[1].split(",")]
        for turn in range(max(1, len(units))):
            for name in listed:
                bound = units[turn].inputs.get(name) if units else None
                title = f"{name} of unit {turn}" if units else f"{name} of each unit"
                yield number, title, "" if bound is None else _text(bound)
                number += 1


def _text(endpoint: Endpoint) -> str:
    return endpoint.node if endpoint.output in (0, CONTROL) else f"{endpoint.node}:{endpoint.output}"


_TOP, _LEFT, _ROW_GAP, _BOX_GAP = 96.0, 60.0, 34.0, 16.0
_LONGEST = 46
_MOST_ATTRS = 8
_MOST_UNUSED = 30


def draw_recipe(recipe: Recipe, variant: Variant, match: Match | None = None, count: int = 0) -> str:
    """An SVG of one variant of a recipe; with a match, also the names in that model.

    Args:
        recipe: The recipe.
        variant: The variant of it that is drawn.
        match: An occurrence of the variant.
        count: How many occurrences there are.
    """
    drawing = _Drawing(variant, match)
    drawing.canvas.text(20, 30, f"Recipe {recipe.name}: {shorten(recipe.description, 110)}", kind="title")
    found = f"; {count} match{'' if count == 1 else 'es'} in the model" if count else ""
    where = f", the first in function {match.body}" if match is not None and match.body else ""
    drawing.canvas.text(20, 50, f"variant {variant.name}{found}{where}", kind="note")
    drawing.draw()
    return drawing.canvas.svg()


@record(frozen=False)
class _Drawing:
    """What is drawn so far, and where."""

    variant: Variant
    match: Match | None
    canvas: Canvas = field(default_factory=Canvas)
    _places: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)
    """Of each box: left, top, width, height. Those of what comes before a chain have a `<` in front of their names."""
    _pills: dict[str, tuple[float, float]] = field(default_factory=dict)

    def draw(self) -> None:
        """All three columns."""
        right, bottom = self._found()
        self.canvas.text(_LEFT, _TOP - 16, "what is found", kind="head")
        pills = right + 90
        width = max([160.0, *(text_width(line) + 16 for port in self._ports() for line in self._pill_lines(port))])
        self.canvas.text(pills, _TOP - 16, "what enters it (barriers)", kind="head")
        self.canvas.text(pills, _TOP + 10, f"in {self._scope()}" if self._scope() else "", kind="small")
        targets = pills + width + 110
        self.canvas.text(targets, _TOP - 16, "what takes its place", kind="head")
        lowest = self._targets(pills, width, targets)
        lowest = self._unused(pills, width, lowest)
        self._legend(max(bottom, lowest) + 34)

    @property
    def _units(self) -> int:
        return len(self.match.units) if self.match is not None else 1

    def _ports(self) -> list[TargetInput]:
        return [port for target in self.variant.targets for port in ports(self.variant, target, self._units)]

    # The found nodes.

    def _found(self) -> tuple[float, float]:
        """Draws the piece of graph; returns its right and lower ends."""
        repeat = self.variant.repeat
        right, bottom = _LEFT, _TOP
        before = repeat.before if repeat is not None else None
        if before is not None:
            self.canvas.text(_LEFT, bottom + 12, "once, before the first unit", kind="note")
            right, bottom = self._piece(lay_out(before), bottom + 22, "<")
            bottom += _ROW_GAP
        if repeat is not None:
            times = f"{TIMES} {self._units}" if self.match is not None else f"at least {repeat.least} times"
            self.canvas.text(_LEFT, bottom + 12, f"the unit, {times}", kind="note")
            bottom += 22
        piece = lay_out(self.variant.query)
        low_right, low = self._piece(piece, bottom, "")
        if repeat is not None:
            self._carry(piece, repeat.carry)
            self._links(piece, repeat.links)
        return max(right, low_right), low

    def _piece(self, piece: QueryLayout, top: float, mark: str) -> tuple[float, float]:
        """Draws boxes and edges from the top downwards; returns the right and lower ends."""
        scope = _common_scope(list(piece.boxes))
        if scope:
            self.canvas.text(_LEFT, top + 10, f"in {scope}", kind="small")
            top += 18
        rows: dict[int, list[Box]] = {}
        for box in piece.boxes.values():
            rows.setdefault(box.row, []).append(box)
        right = _LEFT
        feeding: dict[str, list[str]] = {}
        for start, stop in sorted(piece.edges):
            feeding.setdefault(stop, []).append(start)
        for row in sorted(rows):
            left, tallest = _LEFT, 0.0
            for box in sorted(rows[row], key=lambda box: self._pull(feeding.get(box.title, ()), mark)):
                lines = [shorten(line, _LONGEST) for line in box.lines(scope)]
                width = max(map(text_width, lines)) + 16
                kind = "seed" if box.is_seed and not mark else "box"
                hint = "\n".join(box.names[:40]) + ("\n..." if len(box.names) > 40 else "")
                height = self.canvas.box(left, top, width, lines, kind=kind, hint=hint)
                self._places[mark + box.title] = (left, top, width, height)
                left, tallest = left + width + _BOX_GAP, max(tallest, height)
            right, top = max(right, left - _BOX_GAP), top + tallest + _ROW_GAP
        for start, stop in sorted(piece.edges):
            self._down(mark + start, mark + stop)
        for start, stop in sorted(piece.carries):
            self._back(mark + start, mark + stop)
        return right, top - _ROW_GAP

    def _pull(self, feeding: Sequence[str], mark: str) -> float:
        """The preferred place of a box: under what feeds it."""
        spots = [left + width / 2 for left, _, width, _ in (self._places[mark + title] for title in feeding)]
        return sum(spots) / len(spots) if spots else 0.0

    def _down(self, start: str, stop: str) -> None:
        (x, y, width, height), (to_x, to_y, to_width, _) = self._places[start], self._places[stop]
        self.canvas.down((x + width / 2, y + height), (to_x + to_width / 2, to_y))

    def _back(self, start: str, stop: str) -> None:
        (x, y, _, height), (to_x, to_y, _, to_height) = self._places[start], self._places[stop]
        self.canvas.back((x, y + height / 2), (to_x, to_y + to_height / 2), 18)

    def _carry(self, piece: QueryLayout, carry: Mapping[str, Endpoint]) -> None:
        """From the output of a unit to where the next one takes it."""
        for name, endpoint in carry.items():
            start = _box_of(piece, endpoint.node)
            for stop in piece.users.get(name, ())[:1]:
                if start is not None:
                    self._back(start, stop)

    def _links(self, piece: QueryLayout, links: Mapping[str, Endpoint]) -> None:
        """From what comes before the chain to where each unit takes it."""
        before = self.variant.repeat.before if self.variant.repeat is not None else None
        above = None if before is None else lay_out(before)
        for name, endpoint in links.items():
            start = None if above is None else _box_of(above, endpoint.node)
            for stop in piece.users.get(name, ()):
                if start is not None:
                    self._down("<" + start, stop)

    # What enters, and what takes it.

    def _pill_lines(self, port: TargetInput) -> list[str]:
        there = input_in_model(self.match, port)
        title = port.title.removeprefix(self._scope()) + (" (of each unit)" if port.is_each else "")
        count = f"  {TIMES}{len(port.names)}" if len(port.names) > 1 else ""
        is_new = there and there != port.title
        return [shorten(title, _LONGEST) + count, *([shorten(there, _LONGEST + 8)] if is_new else [])]

    def _scope(self) -> str:
        """The scope that all inputs are in, which need not be said of each."""
        return _common_scope([port.title for port in self._ports() if port.names])

    def _targets(self, pills: float, width: float, left: float) -> float:
        """Draws the new nodes with their inputs beside them; returns the lower end."""
        top = _TOP
        for target in self.variant.targets:
            lines = [shorten(line, 60) for line in (target.op, *_attr_lines(target))]
            listed = ports(self.variant, target, self._units)
            labels = [f"{port.label}: {shorten(port.title.removeprefix(self._scope()), _LONGEST)}" for port in listed]
            box = max(map(text_width, [*lines, *labels])) + 30
            head = 18 + 14 * len(lines)
            pitch = [34.0 + 14 * (len(self._pill_lines(port)) - 1) for port in listed]
            room = sum(pitch) + 4
            self.canvas.box(left, top, box, lines, kind="target", room=room)
            y = top + head
            for port, label, space in zip(listed, labels, pitch, strict=True):
                self.canvas.dot(left, y + 12)
                self.canvas.text(left + 10, y + 16, label)
                self._pill(port, pills, y, width)
                if port.names:
                    x, middle = self._pills[port.title]
                    self.canvas.across((x + width, middle), (left - 4, y + 12), kind="map")
                y += space
            top = self._outputs(target, left, y + 8, box) + 24
        self._passed_on(left, top)
        return top

    def _pill(self, port: TargetInput, x: float, y: float, width: float) -> None:
        if port.title in self._pills or not port.names:
            return
        lines = self._pill_lines(port)
        self.canvas.box(x, y, width, lines, kind="barrier", hint="\n".join(port.names[:40]), round_=11)
        self._pills[port.title] = (x, y + 12)
        self._uses(port.names, x, y + 12)

    def _uses(self, names: Sequence[str], x: float, y: float) -> None:
        """Thin lines to the boxes that take an input."""
        repeat = self.variant.repeat
        before = repeat.before if repeat is not None else None
        pieces = [("", lay_out(self.variant.query)), *([("<", lay_out(before))] if before is not None else [])]
        used = {mark + title for mark, piece in pieces for name in names for title in piece.users.get(name, ())}
        for title in sorted(used):
            left, top, width, height = self._places[title]
            self.canvas.across((x, y), (left + width, top + height / 2), kind="use")

    def _outputs(self, target: TargetNode, left: float, top: float, width: float) -> float:
        """Which outputs of the found nodes each output of a new node replaces."""
        for found, new in self.variant.outputs.items():
            if new.node != target.name:
                continue
            lines = [f"output {new.output} takes the place of", shorten(_endpoint(found), _LONGEST)]
            there = self._node_in_model(found.node)
            lines += [shorten(there, _LONGEST + 8)] if there and there != found.node else []
            middle = left + width / 2
            self.canvas.down((middle, top - 6), (middle, top + 14), kind="out")
            top += 14 + self.canvas.box(left, top + 14, max(map(text_width, lines)) + 16, lines, kind="seed") + 8
        return top

    def _node_in_model(self, name: str) -> str:
        return self.match.units[-1].nodes.get(name, "") if self.match is not None else ""

    def _passed_on(self, left: float, top: float) -> None:
        """Outputs whose place an input takes: the nodes are removed."""
        for found, new in self.variant.outputs.items():
            if new.node in self.variant.query.inputs:
                text = f"{_endpoint(new)} itself takes the place of {_endpoint(found)}"
                self.canvas.box(left, top, text_width(text) + 16, [text], kind="seed")
                top += 34

    def _unused(self, x: float, width: float, top: float) -> float:
        """Inputs of the query that no new node takes."""
        taken = {name for port in self._ports() for name in port.names}
        repeat = self.variant.repeat
        carried = {*(repeat.links if repeat is not None else ())}
        passed = {endpoint.node for endpoint in self.variant.outputs.values()}
        left_over = [name for name in self.variant.query.inputs if name not in taken | carried]
        listed = [fold for fold in fold_names(left_over) if fold.title not in passed]
        if not listed:
            return top
        counts = ["" if len(fold.names) == 1 else f"  {TIMES}{len(fold.names)}" for fold in listed]
        titles = [shorten(fold.title.removeprefix(self._scope()), 2 * _LONGEST) for fold in listed]
        lines = [title + count for title, count in zip(titles, counts, strict=True)]
        shown = lines[:_MOST_UNUSED] + (
            [f"... and {len(lines) - _MOST_UNUSED} more"] if len(lines) > _MOST_UNUSED else []
        )
        head = "looked at, but not taken by what is new:"
        width = max(width, *(text_width(line) + 16 for line in (head, *shown)))
        return top + self.canvas.box(x, top, width, [head, *shown], kind="idle", round_=11)

    def _legend(self, y: float) -> None:
        words = (
            "yellow: outputs that the rest of the graph may use · green: where an input comes from and which input of "
            "the new node takes it · dashed: from one repetition to the next"
        )
        self.canvas.text(20, y, words, kind="note")


def _common_scope(titles: Sequence[str]) -> str:
    """The scope that all titles are in, with its slash; "" where there is none or only one box."""
    if len(titles) < 2:
        return ""
    first, last = min(titles), max(titles)  # what these two have in common, all have
    count = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind("/", 0, count) + 1]


def _box_of(piece: QueryLayout, name: str) -> str | None:
    return next((title for title, box in piece.boxes.items() if name in box.names), None)


def _endpoint(endpoint: Endpoint) -> str:
    return f"{endpoint.node}:{endpoint.output}"


def _attr_lines(target: TargetNode) -> list[str]:
    listed = [f"{name} = {_value(value)}" for name, value in target.attrs.items()]
    return listed[:_MOST_ATTRS] + ([f"... and {len(listed) - _MOST_ATTRS} more"] if len(listed) > _MOST_ATTRS else [])


def _value(value: Attr | Expression) -> str:
    if isinstance(value, Expression):
        return value.text
    plain = value.value
    return plain.decode("utf-8", "replace") if isinstance(plain, bytes) else str(plain)


_STYLE = """
body { font: 14px/1.45 "DejaVu Sans", Helvetica, Arial, sans-serif; color: #1c2733; margin: 24px; }
table { border-collapse: collapse; margin: 8px 0 20px; }
td, th { text-align: left; padding: 2px 14px 2px 0; font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; }
th { border-bottom: 1px solid #8aa0b8; }
.drawing { overflow: auto; border: 1px solid #d5dde6; }
summary { cursor: pointer; margin-top: 12px; }
"""


def recipe_page(recipe: Recipe, drawn: Sequence[tuple[Variant, Sequence[Match]]]) -> str:
    """A self-contained page; it fetches nothing and runs no script.

    Args:
        recipe: The recipe.
        drawn: Its variants, with the matches of each in the model, if there is one.
    """
    parts = [f"<h1>Recipe {escape(recipe.name)}</h1><p>{escape(recipe.description)}</p>"]
    for variant, matches in drawn:
        first = matches[0] if matches else None
        parts.append(f"<h2>Variant {escape(variant.name)}</h2>")
        parts.append(f'<div class="drawing">{draw_recipe(recipe, variant, first, len(matches))}</div>')
        parts += [_tables(variant, match) for match in matches] or [_tables(variant, None)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Recipe {escape(recipe.name)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _tables(variant: Variant, match: Match | None) -> str:
    parts = []
    for target in variant.targets:
        place = "" if match is None else f" at {next(iter(match.units[-1].nodes.values()), '')}"
        where = f" in function {match.body}" if match is not None and match.body else ""
        rows = "".join(
            f"<tr><td>{number}</td><td>{escape(name)}</td><td>{escape(tensor)}</td></tr>"
            for number, name, tensor in list_inputs(variant, target, match)
        )
        summary = f"All inputs of {escape(target.name)} ({escape(target.op)}){escape(place)}{escape(where)}"
        head = "<tr><th>input</th><th>in the recipe</th><th>in the model</th></tr>"
        parts.append(f"<details><summary>{summary}</summary><table>{head}{rows}</table></details>")
    return "\n".join(parts)
