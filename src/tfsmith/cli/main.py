"""`tfsmith VERB ...`: finds the verb, loads only its file, runs it, and shows its result."""

from __future__ import annotations

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
    warn,
)
from tfsmith.cli.parser import arguments_of, make_parser, speller
from tfsmith.errors import Hint, Speller, worded
from tfsmith.records import replace
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import Verb, read_verb
from tfsmith.verbs._shared import ModelResult, Result
from tfsmith.view.text import Section, json_value, plain_text

__all__ = ["command", "main", "parser_of"]

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
