"""`tfsmith VERB ...`: finds the verb, loads only its file, runs it, and shows its result."""

from __future__ import annotations

import argparse
import gc
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from tfsmith import __version__
from tfsmith.cli.common import (
    BAD,
    DONE,
    NO,
    LineParser,
    complain,
    emit,
    open_closed_streams,
    progress,
    rare_collections,
    run,
    said,
    similar,
    spelled,
    warn,
)
from tfsmith.errors import Hint, Speller, UsageError, worded
from tfsmith.records import replace
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import LISTED, REPEATED, Option, Verb, flag_of, read_verb
from tfsmith.verbs._shared import ModelResult, Result
from tfsmith.view import Section, json_value, plain_text

__all__ = ["arguments_of", "command", "main", "make_parser", "parser_of", "speller"]


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
    from tfsmith.ir.model import SERVING_DEFAULT

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


_WHAT = "The workshop for TensorFlow model files that needs no TensorFlow."


def command() -> int:
    """The program `tfsmith`: as `main`, in a process that ends with it.

    Python looks for reference cycles once more when it ends. There is nothing to be gained: the memory goes anyway.
    """
    with rare_collections():
        code = main()
        gc.disable()
        gc.freeze()
    return code


@rare_collections()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit code."""
    open_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD


def _main(words: list[str]) -> int:
    name, rest = _command(words)
    if not name or not VERBS[name][0]:
        return _choose(name, rest)
    verb = read_verb(name, VERBS[name][0])
    inner = _inner(name, rest)
    parsed = make_parser(verb, inner=inner).parse_args(rest)
    spell = speller(verb if inner is None else inner)
    return run(lambda: _work(verb, parsed, spell, inner), debug=parsed.debug, spell=spell)


def _inner(name: str, words: list[str]) -> Verb | None:
    """The verb that a fleet is to run, whose options its command takes, too."""
    word = next((word for word in words if not word.startswith("-")), "")
    return read_verb(word, VERBS[word][0]) if name == "fleet" and word in VERBS and VERBS[word][0] else None


def parser_of(name: str) -> LineParser:
    """The parser of a command, with all that it takes; of a verb with actions, with theirs."""
    home, line = VERBS[name] if name else ("", _WHAT)
    if home:
        return make_parser(read_verb(name, home))
    parser = LineParser(prog=f"tfsmith {name}".rstrip(), description=f"{line[0].upper()}{line[1:].rstrip('.')}.")
    parser.add_argument("--version", action="version", version=f"tfsmith {__version__}")
    kind = "ACTION" if name else "VERB"
    found = parser.add_subparsers(dest="name", metavar=kind, required=True, parser_class=LineParser)
    for one, key in _below(name).items():
        inner = found.add_parser(one, help=VERBS[key][1])
        if name:
            make_parser(read_verb(key, VERBS[key][0]), parser=inner)
    return parser


def _below(name: str) -> dict[str, str]:
    """The actions of a verb by their own names, or all verbs."""
    start = f"{name} " if name else ""
    return {key[len(start) :]: key for key in VERBS if key.startswith(start) and " " not in key[len(start) :]}


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The verb that the words begin with, of one or two words, and what follows it."""
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in VERBS:
            return name, words[count:]
    return "", words


def _choose(name: str, words: list[str]) -> int:
    """No verb, or no action of one: help, the version, or what may have been meant."""
    parser, names = parser_of(name), list(_below(name))
    word = next((word for word in words if not word.startswith("-")), None)
    if word is not None and word not in names and not {"-h", "--help", "--version"} & set(words):
        parser.error(f"there is no {'action' if name else 'verb'} {word!r}{similar(word, names)}")
    parser.parse_args(words)
    return BAD


def _work(verb: Verb, parsed: Namespace, spell: Speller, inner: Verb | None = None) -> int:
    arguments = arguments_of(verb, parsed)
    if inner is not None:
        arguments["options"] = arguments_of(inner, parsed)
    tells_steps = any(option.kind == "Progress" for option in verb.options)
    with progress("" if tells_steps else verb.name) as step:
        result = verb.function(**arguments, **({"progress": step} if tells_steps else {}))
    code = _show(result, spell, as_json=parsed.json, out=getattr(parsed, "out", None))
    sys.stdout.flush()  # who reads it through a pipe should have it now
    result.stay()
    return code


def _show(result: Result, spell: Speller, *, as_json: bool, out: object) -> int:
    """Prints what a verb gave: data to stdout, the rest to stderr; and gives the exit code.

    Args:
        result: What it gave.
        spell: How the verb's options are spelled.
        as_json: Whether to print JSON.
        out: Where it was to be written.
    """
    for line in result.remarks:
        complain(worded(line, spell))
    verified = result.verified if isinstance(result, ModelResult) else None
    if verified is not None:
        for line in verified.brief():
            complain(worded(line, spell))
        if not verified.is_same:
            complain(f"error: the result does not answer as the original does; {out} was not written")
            return NO
    warn(result.warnings, spell)
    if as_json:
        facts = result.to_json()
        if isinstance(facts, dict) and "warnings" in facts:
            lines = {str(note): said(note, spell) for note in result.notes}
            facts = {**facts, "warnings": [lines.get(one, worded(one, spell)) for one in facts["warnings"]]}
        emit(_json(_reworded(facts, spell)) + "\n", exact=True)
    elif result.text is not None:
        emit(result.text, exact=True)
    elif sys.stdout.isatty():
        from tfsmith.cli.render import print_sections  # a pipe gets plain text

        print_sections(_parts(result, spell))
    else:
        emit(plain_text(_parts(result, spell)), exact=True)
    return DONE if result else NO


def _parts(result: Result, spell: Speller) -> Iterator[Section | str]:
    """What a verb reports, with its hints as the command words them."""
    for part in result.report():
        if isinstance(part, Section):
            yield replace(part, title=_reworded(part.title, spell), notes=tuple(_reworded(part.notes, spell)))
        else:
            yield _reworded(part, spell)


def _reworded(facts: Any, spell: Speller) -> Any:
    """Data with its hints as the command words them."""
    if isinstance(facts, Hint):
        return worded(facts, spell)
    if isinstance(facts, dict):
        return {key: _reworded(item, spell) for key, item in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [_reworded(item, spell) for item in facts]
    return facts


def _json(facts: dict[str, Any] | list[Any]) -> str:
    """Facts as JSON, which has no infinity and no NaN: these are texts in it."""
    import json

    try:
        return json.dumps(facts, indent=2, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(json_value(facts), indent=2, allow_nan=False, default=str)
