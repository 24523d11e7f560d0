"""Makes the reference of the commands and of the Python API from the code itself, as Markdown.

    python -m tools.make_reference FOLDER       writes commands.md and api.md there, to look at them

`tools/make_site.py` makes the same pages when the site is built; no copy is kept. Links in them are written as from the
root of the repository.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.site_headings import slug

import tfsmith
from tfsmith import errors
from tfsmith.cli.main import parser_of
from tfsmith.verbs import VERBS

__all__ = ["api_page", "commands_page", "main"]

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
_ROW = re.compile(r"^\| `tfsmith (\w+).*\| (.+?) \|$", re.MULTILINE)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$")
_ENTRY = re.compile(r"^    (\*{0,2}\w+): *(.*)$")
_FACTS = (property, functools.cached_property)
_WORD = re.compile(r"\b[A-Z]\w+\b")

COMMANDS_HEAD = """\
# Commands

Made from the code: what `tfsmith VERB --help` says, as a page. `MODEL` is a SavedModel folder, a `.meta`, a GraphDef
`.pb` or `.pbtxt`, a checkpoint prefix, or a folder with checkpoints.

Every command ends with 0 if it is done, with 1 if the answer is no (nothing matched, models differ, a target lacks
something), and with 2 if the call or a file is wrong; then one line that begins with `error:` says what, where, and
what to do. Data goes to stdout, everything else to stderr.

"""
API_HEAD = """\
# Python API

Made from the code: all that `import tfsmith` gives, and the types that come back. [The guide](docs/guides/python.md)
has examples.

"""
COMPAT_HEAD = """\
## Command lines of other tools

These take the flags of the tools that they stand for. [Coming from other tools](docs/coming-from.md) says what differs.

"""


def commands_page() -> str:
    """All verbs with their arguments, and the command lines of other tools."""
    more = dict(_ROW.findall((ROOT / "README.md").read_text()))
    pieces = [COMMANDS_HEAD, _table(("command", "what it does"), _verb_rows()), "\n"]
    for verb in VERBS:
        first, _, action = verb.partition(" ")
        if action and not VERBS[first][0]:  # it is told of with its verb
            continue
        parser = parser_of(verb)
        link = f"More: {more[verb]}.\n\n" if "](" in more.get(verb, "") else ""
        pieces += _command(parser, 2, link)
    pieces.append(COMPAT_HEAD)
    for file in sorted((ROOT / "src/tfsmith/compat").glob("[a-z]*.py")):
        module = import_module(f"tfsmith.compat.{file.stem}")
        if not hasattr(module, "_parser"):  # what two of them share
            continue
        parser = module._parser()
        parser.prog = f"python -m tfsmith.compat.{file.stem}"
        pieces += _command(parser, 3)
    return "".join(pieces)


def _verb_rows() -> list[tuple[str, str]]:
    return [(f"[`tfsmith {verb}`](#{slug(f'tfsmith {verb}')})", what) for verb, (_, what) in VERBS.items()]


def _command(parser: argparse.ArgumentParser, level: int, more: str = "") -> Iterator[str]:
    """A parser as a section: description, usage, arguments; then its own commands, one level down."""
    yield f"{'#' * level} {parser.prog}\n\n{parser.description or ''}\n\n{more}"
    parser.formatter_class = functools.partial(argparse.HelpFormatter, width=WIDTH)
    vars(parser)["color"] = False  # Python 3.14 would colour it in a terminal
    yield f"```text\n{_usage(parser)}\n```\n\n"
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    rows = [(_name(action), _help(parser, action)) for action in parser._actions if action not in below]
    shown = [(name, what) for name, what in rows if what is not None and name != "`-h`, `--help`"]
    yield _table(("argument", "what it is"), shown) + "\n" if shown else ""
    for action in below:
        for name, inner in action.choices.items():
            inner.prog = f"{parser.prog} {name}"
            yield from _command(inner, level + 1)


def _usage(parser: argparse.ArgumentParser) -> str:
    """How a command is called, without the word "usage"."""
    first, *others = parser.format_usage().rstrip().splitlines()
    return "\n".join([first.removeprefix("usage: "), *(line.removeprefix(" " * len("usage: ")) for line in others)])


def _name(action: argparse.Action) -> str:
    """How an argument is written: `-o OUT`, `--output OUT`."""
    metavar = action.metavar if isinstance(action.metavar, str) else None
    value = metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{option}`" if action.nargs == 0 else f"`{option} {value}`" for option in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str | None:
    """What is said about an argument; None if it is not to be shown."""
    if action.help == argparse.SUPPRESS:
        return None
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    notes = ["required"] if action.required and action.option_strings else []
    repeats = action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction)
    notes += ["may be given several times"] if isinstance(action, argparse._AppendAction) else []
    notes += ["one or more"] if repeats and action.nargs == "+" else []
    if action.default not in (None, False, True, [], argparse.SUPPRESS) and "default" not in text and action.nargs != 0:
        notes.append(f"`{action.default}` by default")
    return f"{_plain(text)} ({'; '.join(notes)})" if notes else _plain(text)


def api_page() -> str:
    """Everything public: functions, classes, the types that functions give back, errors."""
    public = {name: getattr(tfsmith, name) for name in tfsmith.__all__ if not name.startswith("__")}
    functions = {name: thing for name, thing in public.items() if not inspect.isclass(thing)}
    classes = {name: thing for name, thing in public.items() if inspect.isclass(thing) and not _is_error(thing)}
    others = _types_in(functions.values(), known=set(classes))
    pieces = [API_HEAD, f"`tfsmith.__version__` is the version, `{tfsmith.__version__}`.\n\n"]
    pieces += [
        "## Functions\n\n",
        _table(("function", "what it does"), [_row(*item) for item in functions.items()]),
        "\n",
    ]
    pieces += [_function(f"tfsmith.{name}", thing, 3) for name, thing in functions.items()]
    pieces += ["## Classes\n\n", *(_class(f"tfsmith.{name}", thing) for name, thing in classes.items())]
    pieces += ["## Types that come back\n\nThey have no name in `tfsmith` itself: functions take or give them.\n\n"]
    pieces += [_class(f"{thing.__module__}.{name}", thing) for name, thing in others.items()]
    pieces += ["## Errors\n\n", _class("tfsmith.TfsmithError", errors.TfsmithError)]
    tree = [(f"`{name}`", _first(getattr(errors, name))) for name in errors.__all__ if name != "TfsmithError"]
    pieces += ["All others are its subclasses, in `tfsmith.errors`:\n\n", _table(("error", "when"), tree)]
    return "".join(pieces)


def _is_error(thing: type) -> bool:
    return issubclass(thing, Exception)


def _types_in(functions: Any, known: set[str]) -> dict[str, type]:
    """Types of ours that the signatures of functions name, and that `tfsmith` has no name for."""
    found: dict[str, type] = {}
    for function in functions:
        for word in set(_WORD.findall(str(inspect.signature(function)))) - known:
            thing = getattr(inspect.getmodule(function), word, None)
            if inspect.isclass(thing) and thing.__module__.startswith("tfsmith."):
                found[word] = thing
    return dict(sorted(found.items()))


def _row(name: str, thing: Callable[..., Any]) -> tuple[str, str]:
    return f"[`{name}`](#tfsmith{name.lower()})", _first(thing)


def _first(thing: Any) -> str:
    """The first sentence of what is said about something."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return _plain(re.split(r"(?<=[.]) (?=[A-Z`])", text)[0])


def _class(name: str, thing: type) -> str:
    shown = name.rpartition(".")[2]
    pieces = [f"### {name}\n\n{_prose(thing)}"]
    if _is_made_by_callers(thing):
        pieces.append(f"```text\n{_signature(shown, thing)}\n```\n\n")
    fields = [(f"`{key}`", f"`{kind}`") for key, kind in _fields(thing).items()]
    pieces.append(_table(("field", "type"), fields) + "\n" if fields else "")
    members = list(_members(thing))
    facts = [(f"`{key}`", _first(member)) for key, member in members if isinstance(member, _FACTS)]
    pieces.append(_table(("property", "what it is"), facts) + "\n" if facts else "")
    pieces += [_function(f"{shown}.{key}", member, 4) for key, member in members if not isinstance(member, _FACTS)]
    return "".join(pieces)


def _is_made_by_callers(thing: type) -> bool:
    """Whether a caller has a reason to make one: a node, an error; not a protocol, and not what has a table."""
    return not getattr(thing, "_is_protocol", False) and not _fields(thing) and "__init__" in vars(thing)


def _fields(thing: type) -> dict[str, str]:
    """The public fields of a record, with their types as they are written."""
    fields = {field.name: field.kind for field in getattr(thing, "__record_fields__", ())}
    fields |= {name: str(field.type) for name, field in getattr(thing, "__dataclass_fields__", {}).items()}
    return {name: kind for name, kind in fields.items() if not name.startswith("_")}


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that say what they do, inherited ones of ours too; each once."""
    seen: set[str] = set()
    for one in thing.__mro__:
        if not one.__module__.startswith("tfsmith"):
            continue
        for name, member in vars(one).items():
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            is_wanted = isinstance(plain, _FACTS) or inspect.isfunction(plain)
            if name.startswith("_") or name in seen or not is_wanted or not inspect.getdoc(plain):
                continue
            seen.add(name)
            yield name, plain


def _function(name: str, function: Callable[..., Any], level: int) -> str:
    shown = name.removeprefix("tfsmith.")
    return f"{'#' * level} {name}\n\n```text\n{_signature(shown, function)}\n```\n\n{_prose(function)}"


def _signature(name: str, function: Callable[..., Any]) -> str:
    """A signature as it is written in the source; on several lines if it is long."""
    signature = inspect.signature(function)
    written = [_parameter(parameter) for parameter in signature.parameters.values() if parameter.name != "self"]
    kinds = [parameter.kind for parameter in signature.parameters.values() if parameter.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        written.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    given = signature.return_annotation
    result = "" if inspect.isclass(function) or given is inspect.Signature.empty else f" -> {_written(given)}"
    line = f"{name}({', '.join(written)}){result}"
    return line if len(line) <= WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in written) + f"){result}"


def _parameter(parameter: inspect.Parameter) -> str:
    is_rest, is_named_rest = (parameter.kind == kind for kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD))
    text = "*" * is_rest + "**" * is_named_rest + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_written(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    default = repr(parameter.default)
    return f"{text} = {'...' if ' at 0x' in default or '<' in default else default}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else str(getattr(annotation, "__name__", annotation))


def _prose(thing: Any) -> str:
    """A Google docstring as Markdown: paragraphs as they are, sections as lists."""
    out: list[str] = []
    section = ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        head, entry = _SECTION.match(line), _ENTRY.match(line)
        if head:
            section = head[1]
            out += [f"**{section}**", ""]
        elif section and entry and section not in ("Returns", "Yields"):
            out.append(f"- `{entry[1]}`: {_plain(entry[2])}")
        elif section and line.strip():
            out.append(("  " if section not in ("Returns", "Yields") else "") + _plain(line.strip()))
        else:
            out.append(_plain(line))
    return "\n".join(out).strip() + "\n\n"


def _plain(text: str) -> str:
    """Text for Markdown: outside of code, what would be taken for HTML or for emphasis is escaped."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else re.sub(r"([<*_\[])", r"\\\1", one) for one in pieces)


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    for row in rows:
        first, second = (cell.replace("|", "\\|") for cell in row)
        lines.append(f"| {first} | {second} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "commands.md").write_text(commands_page())
    (folder / "api.md").write_text(api_page())


if __name__ == "__main__":
    main()
