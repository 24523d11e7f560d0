"""How a verb is declared: its function's signature and docstring, read as options.

Annotations are read as the words that they are written with; none is evaluated, and `inspect` is not imported:

| annotation | in the command | as a value |
|---|---|---|
| `ModelOrPath`, also `| None` | positional | a path |
| `str`, `int`, `float`, each also `| None` | `--name TEXT` | as it is |
| `bool` | `--name`, or `--no-name` if it is True by default | True or False |
| `bool | None` | `--name` and `--no-name` | True, False, or None |
| `Literal["a", "b"]`, also `| None` | `--name {a,b}` | one of them |
| `Names` | `--name A,B`, also several times | a tuple |
| `NamePairs` | `--name A,B=C`, also several times: names of A, or of A and of B | a tuple, or a dict in Python |
| `Sizes` | `--name 1,3` | a tuple of numbers |
| `Many`, `Globs`, `Files` | `--name X`, several times | a tuple |
| `Words` | `--name X Y` or `--name X,Y`, several times | a tuple |
| `Pairs` | `--name KEY=TEXT`, several times | a dict |
| `Feeds` | `--name KEY=VALUE`, several times: files, JSON, text, random | a tuple of texts, or a dict in Python |
| `Renames` | `--name FILE|OLD=NEW`, several times | a tuple of such texts |
| `Shapes` | `--name NAME=1,128`, several times | a dict of tuples, unknown sizes None |
| `Signatures` | `--signature NAME`, `--input` and `--output KEY=TENSOR`, in order | a dict of pairs of dicts |
| `Progress` | no flag: the command shows on a terminal what a long step does | |
| `Serves` | no flag: the command serves what Python only makes | |
| `Entries`, `SignatureName` | no flags: the short form of `Signatures` in Python | |
| `Out`, `Out | None` | `-o`, `--out`: required, or not | a path |
| `FilePath`, also `| None` | `--name FILE` | a path |
| `Unpack[Group]` | the options of a group of `verbs._shared` | |

An option with many values is named in the plural in Python and in the singular in the command (`input_shapes`,
`--input-shape`). `SPELLINGS` has what is called otherwise. A module's own `FLAGS` adds flags to those of an option;
an argument without a default that has some there is no longer told by its place, and has only these. Its `IN_COMMAND`
has defaults of the command that differ from Python's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from tfsmith.records import record, replace

__all__ = ["SPELLINGS", "Docstring", "Option", "Verb", "flag_of", "read_docstring", "read_verb"]

SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "out": ("-o", "--out"),
        "as_": ("--as",),
        "excluded": ("--except",),
        "tags": ("--tag-set",),
        "meta_graph": ("-m", "--meta-graph"),
        "seeds": ("-s", "--seeds", "--seed-nodes"),
        "barriers": ("-b", "--barriers", "--barrier-nodes"),
        "barrier_ops": ("-B", "--barrier-ops"),
        "inputs": ("-i", "--input"),
        "other_tags": ("--other-tag-set",),
        "op_libraries": ("--op-library",),
        "allow_file": ("--allow",),
    }
)
"""Words that Python reserves, short forms, and names that differ."""
METAVARS: Mapping[str, str] = MappingProxyType(
    {
        "checkpoint": "PREFIX",
        "tags": "T",
        "signature": "K",
        "function": "NAME",
        "verify_engine": "E",
        "engine": "E",
        "other_engine": "E",
        "other_checkpoint": "PREFIX",
        "other_tags": "T",
        "other_signature": "K",
        "calibrate": "DATA.npz",
        "keep": "DIR",
        "op_libraries": "SO",
        "out": "OUT",
        "as_": "KIND",
        "rename_signatures": "OLD=NEW",
    }
)
"""How the value of an option is shown, where its kind does not say it."""
_KIND_METAVARS = MappingProxyType(
    {
        "str": "TEXT",
        "int": "N",
        "float": "X",
        "Names": "A,B",
        "NamePairs": "A[=B]",
        "Sizes": "N,M",
        "Feeds": "KEY=VALUE",
        "Many": "NAME",
        "Words": "NAME",
        "Globs": "GLOB",
        "Files": "FILE",
        "Pairs": "KEY=TEXT",
        "Renames": "FILE|OLD=NEW",
        "Shapes": "NAME=1,128",
        "Signatures": "NAME",
        "FilePath": "FILE",
        "Out": "OUT",
        "ModelOrPath": "MODEL",
    }
)
REPEATED = frozenset({"Many", "Words", "Globs", "Files", "Pairs", "Feeds", "Renames", "Shapes", "Signatures"})
LISTED = frozenset({"Names", "NamePairs", "Sizes"})
"""Several in one text, joined by commas."""
WITHOUT_FLAG = frozenset({"Entries", "SignatureName", "Progress", "Serves"})
_OPTIONAL_PLACE = "ModelOrPath | None"
"""What is told by its place and may be left out."""
_SECTIONS = frozenset({"Args:", "Attributes:", "Returns:", "Raises:", "Example:", "Examples:"})


@record
class Option:
    """An argument of a verb, in Python and in the command.

    Attributes:
        name: Its name in Python.
        flags: Its flags; none for what is told by its place.
        kind: The word of the vocabulary, without `| None`.
        is_optional: Whether it may be None.
        choices: What it may be, if that is a short list.
        metavar: How its value is shown.
        default: Its default in Python.
        is_required: Whether the command needs it.
        help: What it means.
        group: The group that it belongs to; empty for the verb's own.
    """

    name: str
    flags: tuple[str, ...]
    kind: str
    is_optional: bool
    choices: tuple[str, ...]
    metavar: str
    default: Any
    is_required: bool
    help: str
    group: str = ""


@record
class Docstring:
    """A Google docstring: its first line, what follows it, what is said of each argument, and the example's lines."""

    summary: str
    text: str
    arguments: Mapping[str, str]
    returns: str
    example: str


@record
class Verb:
    """A verb as its function declares it; `in_command` has what the command passes by default."""

    name: str
    function: Callable[..., Any]
    doc: Docstring
    options: tuple[Option, ...]
    in_command: Mapping[str, Any]


def read_verb(name: str, home: str) -> Verb:
    """Imports a verb's module and reads its function.

    Args:
        name: The command.
        home: The module and the function, below `tfsmith.verbs`.
    """
    module_name, _, function_name = home.rpartition(".")
    module = import_module(f"tfsmith.verbs.{module_name}")
    function = getattr(module, function_name)
    doc = read_docstring(function.__doc__ or "")
    more = getattr(module, "FLAGS", {})
    return Verb(name, function, doc, tuple(_options(function, doc, more)), getattr(module, "IN_COMMAND", {}))


def read_docstring(text: str) -> Docstring:
    """Takes a Google docstring apart."""
    lines = [line.removeprefix("    ") for line in text.strip().splitlines()]
    parts: dict[str, list[str]] = {"": []}
    section = ""
    for line in lines:
        if line.rstrip() in _SECTIONS:
            section = line.rstrip().removesuffix(":")
            parts.setdefault(section, [])
        else:
            parts[section].append(line)
    arguments: dict[str, str] = {}
    name = ""
    for line in parts.get("Args", parts.get("Attributes", [])):
        word, colon, text = line.removeprefix("    ").partition(":")
        if colon and line.startswith("    ") and word.isidentifier():
            name = word
            arguments[name] = text.lstrip(" ")
        elif name and line.strip():
            arguments[name] += f" {line.strip()}"
    example = parts.get("Example", parts.get("Examples", []))
    return Docstring(
        summary=parts[""][0] if parts[""] else "",
        text="\n".join(parts[""][1:]).strip(),
        arguments=arguments,
        returns=" ".join(line.strip() for line in parts.get("Returns", [])).strip(),
        example="\n".join(line.removeprefix("    ") for line in example).strip(),
    )


def flag_of(name: str, kind: str = "") -> str:
    """The long flag of an argument's name: the last of its declared spellings, else the name itself."""
    if name in SPELLINGS:
        return SPELLINGS[name][-1]
    word = name.rstrip("_")
    if kind in REPEATED:
        word = f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
    return "--" + word.replace("_", "-")


def _options(function: Callable[..., Any], doc: Docstring, more: Mapping[str, tuple[str, ...]]) -> Iterator[Option]:
    function = getattr(function, "__wrapped__", function)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    defaults.update(function.__kwdefaults__ or {})
    for name in (*positional, *named):
        annotation = function.__annotations__[name]
        is_needed = name in positional and name not in defaults
        text = doc.arguments.get(name, "")
        by_place = is_needed or (name in positional and annotation in ("Out", _OPTIONAL_PLACE))
        by_place = by_place and name not in more
        found = _option(name, annotation, defaults.get(name), text, more, by_place=by_place, is_needed=is_needed)
        yield found if name in positional or name in defaults else replace(found, is_required=True)
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    if code.co_flags & 0x08:  # CO_VARKEYWORDS
        group = function.__annotations__[rest[0]].removeprefix("Unpack[").removesuffix("]")
        yield from _group_options(group, more)


def _group_options(group: str, more: Mapping[str, tuple[str, ...]]) -> Iterator[Option]:
    """The options of a group of `verbs._shared`, which says what they mean for all verbs."""
    from tfsmith.verbs import _shared

    help_of = read_docstring(_shared.Shared.__doc__ or "").arguments
    for name, annotation in getattr(_shared, group).__annotations__.items():
        default, title = _shared.DEFAULTS.get(name), _shared.GROUP_OF[name]
        yield _option(name, annotation, default, help_of[name], more, by_place=False, group=title)


def _option(
    name: str,
    annotation: str,
    default: Any,
    text: str,
    more: Mapping[str, tuple[str, ...]],
    *,
    by_place: bool,
    is_needed: bool = False,
    group: str = "",
) -> Option:
    kind = annotation.removesuffix(" | None")
    choices: tuple[str, ...] = ()
    if kind.startswith("Literal["):
        kind, choices = "str", tuple(re.findall(r"""["']([^"']*)["']""", kind))
    flags: tuple[str, ...] = ()
    if kind not in WITHOUT_FLAG and not by_place:
        long = flag_of(name, kind)
        usual = SPELLINGS.get(name, (long,))
        flags = (*(SPELLINGS.get(name, ()) if is_needed else usual), *more.get(name, ()))
        if kind == "bool" and default is True:
            flags = (f"--no-{long[2:]}", *more.get(name, ()))
    metavar = METAVARS.get(name) or ("" if choices else _KIND_METAVARS.get(kind, ""))
    if by_place:
        metavar = metavar if kind == "ModelOrPath" and name == "model" else name.upper()
    return Option(
        name,
        flags,
        kind,
        annotation.endswith("| None"),
        choices,
        metavar,
        default,
        (by_place and annotation != _OPTIONAL_PLACE)
        or is_needed
        or (kind == "Out" and not annotation.endswith("| None")),
        text,
        group,
    )
