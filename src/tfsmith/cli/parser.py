"""The parser of a command, made from the verb's function; and what was typed, as the function's arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tfsmith.cli.common import LineParser, spelled
from tfsmith.errors import Speller, UsageError
from tfsmith.records import replace
from tfsmith.verbs._declare import LISTED, REPEATED, Option, Verb, flag_of

__all__ = ["arguments_of", "make_parser", "speller"]

_TYPES = {"int": int, "float": float}


class _Ordered(argparse.Action):
    """Keeps --signature, --input and --output in the order given: each input belongs to the signature before it."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Adds one to the list."""
        what = "signature" if self.metavar == "NAME" else self.option_strings[0][2:]
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest, None) or []), (what, values)])


class _Once(argparse.Action):
    """Keeps one value. A second one is refused: nobody could tell which of them counts."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Keeps it."""
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option} is given twice")
        setattr(namespace, self.dest, values)


def make_parser(verb: Verb, *, parser: LineParser | None = None, inner: Verb | None = None) -> LineParser:
    """The parser of a verb: its arguments, their help, and the examples.

    Args:
        verb: The verb.
        parser: What to fill; by default a new one.
        inner: A verb that this one runs, whose options it takes, too.
    """
    if parser is None:
        parser = LineParser(prog=f"tfsmith {verb.name}", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.description = "\n\n".join(part for part in (verb.doc.summary, verb.doc.text) if part).replace("`", "")
    lines = "".join(f"  {line}\n" for line in verb.doc.example.splitlines())
    parser.epilog = f"examples:\n{lines}" if lines else None
    groups: dict[str, Any] = {"": parser}
    for option in verb.options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        if inner is None or option.kind != "Pairs":
            _add(groups[option.group], option)
    own = {option.name for option in verb.options}
    for option in () if inner is None else inner.options:
        if option.flags and option.name not in own:
            title = f"of {inner.name}" if inner is not None else ""
            groups.setdefault(title, parser.add_argument_group(title) if title not in groups else None)
            _add(groups[title], replace(option, is_required=False))
    parser.add_argument("--json", action="store_true", help="print what was found or done as JSON")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _add(parser: Any, option: Option) -> None:
    text = _help(option)
    if not option.flags:
        if option.is_required or option.kind == "ModelOrPath":
            more: dict[str, Any] = {"nargs": "+"} if option.kind == "Many" else {}
            more |= {} if option.is_required else {"nargs": "?"}
            more |= {"choices": option.choices} if option.choices else {"metavar": option.metavar}
            parser.add_argument(option.name, help=text, **more)
        return
    settings: dict[str, Any] = {"dest": option.name, "help": text, "default": None}
    if option.kind == "Signatures":
        parser.add_argument(*option.flags, metavar="NAME", action=_Ordered, **settings)
        for word in ("input", "output"):
            what = {**settings, "help": f"an {word} of the signature"}
            parser.add_argument(f"--{word}", metavar="KEY=TENSOR", action=_Ordered, **what)
        return
    if option.kind == "bool":
        action = "store_false" if option.default is True else "store_true"
        if option.is_optional:
            parser.add_argument(*option.flags, action=argparse.BooleanOptionalAction, **settings)
        else:
            parser.add_argument(*option.flags, action=action, **settings)
        return
    if option.choices:
        settings["choices"] = option.choices
    elif option.kind == "Words":
        settings |= {"action": "extend", "nargs": "+"}
    elif option.kind in REPEATED or option.kind in LISTED:
        settings["action"] = "append"
    settings.setdefault("action", _Once)
    settings["type"] = _TYPES.get(option.kind, str)
    metavar = {"metavar": option.metavar} if option.metavar and not option.choices else {}
    parser.add_argument(*option.flags, required=option.is_required, **metavar, **settings)


def speller(verb: Verb) -> Speller:
    """How errors and notes spell the options of a verb."""
    flags = {one.name: next((flag for flag in one.flags if flag.startswith("--")), one.metavar) for one in verb.options}
    flags |= {one.name: flag_of(one.name, "Many") for one in verb.options if one.kind == "Entries"}
    return lambda name, value: spelled(name, value, flags)


def _help(option: Option) -> str:
    """What an option means, and what holds without it."""
    text = option.help.replace("`", "")
    if option.kind == "bool" and option.default is True:
        text = f"Turn this off: {text[:1].lower()}{text[1:]}"
    elif option.default not in (None, False, "", ()) and "default" not in text:
        default = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else option.default
        text = f"{text.removesuffix('.')} ({default} by default)."
    return text.replace("%", "%%")


def arguments_of(verb: Verb, parsed: argparse.Namespace) -> dict[str, Any]:
    """What was typed, as the arguments of the verb's function. What was not typed is left to its defaults.

    Raises:
        UsageError: A value is not understood.
    """
    found: dict[str, Any] = dict(verb.in_command)
    for option in verb.options:
        value = getattr(parsed, option.name, None)
        if value is not None:
            found[option.name] = _value(option, value)
    return found


def _value(option: Option, value: Any) -> Any:
    if option.kind in LISTED:
        return _listed(option, value)
    if option.kind == "Words":
        return tuple(name.strip() for word in value for name in word.split(",") if name.strip())
    if option.kind in ("Many", "Globs", "Files", "Feeds", "Renames"):
        return tuple(value)
    if option.kind == "Pairs":
        return _keyed(option, [_pair(option, text) for text in value])
    if option.kind == "Shapes":
        return _keyed(option, [_shape(option, text) for text in value])
    return _signatures(value) if option.kind == "Signatures" else value


def _listed(option: Option, texts: Sequence[str]) -> tuple[Any, ...]:
    """Names or numbers joined by commas. Only of tags there may be none."""
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if not all(text.strip(", ") for text in texts) and option.name not in ("tags", "other_tags"):
        raise UsageError(f"{option.flags[-1]} names nothing", remedy=f"write {option.metavar}, or leave it out")
    if option.kind != "Sizes":
        return tuple(words)
    wrong = next((word for word in words if not word.lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is no number", remedy="pass numbers joined by commas, such as 1,8")
    return tuple(map(int, words))


def _keyed(option: Option, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Values by key, of which none may be given twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _twice(option.flags[-1], key)
        found[key] = value
    return found


def _twice(flag: str, key: str) -> UsageError:
    return UsageError(f"{flag} names {key!r} twice", remedy="leave one of them out")


def _pair(option: Option, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageError(f"{option.flags[-1]} {text!r} is not understood", remedy=f"write {option.metavar}")
    return key, value


def _shape(option: Option, text: str) -> tuple[str, tuple[int | None, ...]]:
    """Reads "NAME=1,128", where "?" or -1 is an unknown dimension."""
    name, equals, dims = text.rpartition("=")
    words = [word.strip() for word in dims.split(",") if word.strip()]
    if not (name and equals) or not all(word in ("?", "-1") or _is_size(word) for word in words):
        raise UsageError(f"{option.flags[0]} {text!r} is not understood", remedy="write NAME=1,128 (? for unknown)")
    return name, tuple(None if word in ("?", "-1") else int(word) for word in words)


def _is_size(word: str) -> bool:
    """Whether this is a dimension: a number that 64 bits can hold."""
    return word.isascii() and word.isdecimal() and len(word) < 19


def _signatures(words: Sequence[tuple[str, str]]) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """What the user asked for: for each signature its inputs and outputs, keys to tensor names."""
    from tfsmith.ir.metagraph import SERVING_DEFAULT

    found: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    name = SERVING_DEFAULT
    for what, text in words:
        if what == "signature":
            name = text
            found.setdefault(name, ({}, {}))
            continue
        key, equals, tensor = text.partition("=")
        if not (key and equals and tensor):
            raise UsageError(f"--{what} {text!r} is not understood", remedy="write KEY=TENSOR, such as x=input_ids:0")
        entries = found.setdefault(name, ({}, {}))[what == "output"]
        if key in entries:
            raise _twice(f"--{what}", key)
        entries[key] = tensor
    for key, (_, outputs) in found.items():
        if not outputs:
            raise UsageError(f"signature {key!r} has no output", remedy="add --output KEY=TENSOR")
    return found
