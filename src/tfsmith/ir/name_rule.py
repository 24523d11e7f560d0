"""`NameRule`: what names of a model must be like, such as `layer_{i}/attention/self/query/kernel`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfsmith.errors import UsageError
from tfsmith.records import field, record

__all__ = ["NameRule", "parse_name_rule"]

_COUNT = re.compile(r"\{(?:([0-9]{1,6})\*?)?i(?:([+-])([0-9]{1,9}))?\}")
_DIGITS = "([0-9]{1,9})"
_MOST_TEXT = 1000
_FORMS = "write {i}, {i+1} or {6i+2} where the number stands"


@record
class NameRule:
    """A rule that a name fits if it ends so, from the beginning of a scope on: `a/{i}` fits `a/3` and `model/a/3`.

    `{i}` is a number. It is the same in all names of a unit, and one more in the unit that follows. `{6i+2}` is a
    number that is counted from it, for names that TensorFlow made unique. TensorFlow calls the first of these `dense`,
    not `dense_0`, so `dense_{i}` also fits a name without the number, which is 0 then.

    Attributes:
        text: The rule as it is written.
        expression: A regular expression that finds it at the end of a name; one group for each number.
        steps: For each number, by how much it goes up when `{i}` goes up by one, and what it is when `{i}` is 0.
    """

    text: str
    expression: re.Pattern[str] = field(compare=False, repr=False)
    steps: tuple[tuple[int, int], ...] = field(compare=False, repr=False)

    @property
    def counts(self) -> bool:
        """Whether it has a number."""
        return bool(self.steps)

    def count(self, names: Iterable[str], wanted: int | None = None) -> int | None:
        """What `{i}` is in the first of these names that fits; 0 if the rule has no number, None if no name fits.

        Args:
            names: All names of one thing.
            wanted: The number that it must be, if it is known.
        """
        for name in names:
            found = self._count(name)
            if found is not None and (not self.steps or wanted is None or found == wanted):
                return found
        return None

    def _count(self, name: str) -> int | None:
        match = self.expression.search(name)
        if match is None:
            return None
        found: set[int] = set()
        for group, (step, start) in zip(match.groups(), self.steps, strict=True):
            number, rest = divmod(int(group or "0") - start, step)
            if rest:
                return None
            found.add(number)
        if not found:
            return 0
        return found.pop() if len(found) == 1 else None


def parse_name_rule(text: str) -> NameRule:
    """Reads a rule for names.

    Raises:
        UsageError: No name can fit it, or it is not clear what is meant.
    """
    if not text.strip("/") or len(text) > _MOST_TEXT:
        raise UsageError(f"a rule for names has {len(text)} characters", remedy=f"write 1 to {_MOST_TEXT}")
    if re.search(r":[0-9]+$|^\^", text):
        raise UsageError(f"{text!r} names an output or a control input", remedy="write the name of the node alone")
    expression, steps, at = r"(?:^|/)", [], 0
    for found in _COUNT.finditer(text):
        before, after = text[at : found.start()], text[found.end() :]
        step = int(found[1] or "1")
        if not step:
            raise UsageError(f"{found[0]} in {text!r} does not count", remedy=_FORMS)
        if (at and not before) or before[-1:].isdigit() or after[:1].isdigit():
            what = f"{text!r} does not say where the number of {found[0]} ends"
            raise UsageError(what, remedy="let something else than a digit stand beside it")
        is_copy = before.endswith("_") and len(before.rpartition("/")[2]) > 1 and after[:1] in ("", "/")
        if is_copy:
            expression += re.escape(before[:-1]) + f"(?:_{_DIGITS})?"
        else:
            expression += re.escape(before) + _DIGITS
        steps.append((step, int(f"{found[2] or '+'}{found[3] or 0}")))
        at = found.end()
    rest = text[at:]
    if re.search(r"[{}]", _COUNT.sub("", text)):
        raise UsageError(f"{text!r} has braces that are no number", remedy=_FORMS)
    return NameRule(text, re.compile(f"{expression}{re.escape(rest)}\\Z"), tuple(steps))
