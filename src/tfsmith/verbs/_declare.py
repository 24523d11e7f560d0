"""How a verb is declared: its function's signature and docstring, read as options, and its arguments, checked.

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

What a public function takes is checked by the same words before it runs (`checked`). A value of another kind is refused
with what to pass; one that only lacks its form gets it: a name alone becomes a list of one, a numpy number a number,
arrays become tensors. None is as if the argument were not given, where it may be left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from importlib import import_module
from operator import index
from types import MappingProxyType
from typing import Any, TypeVar, cast

from tfsmith.errors import UsageError
from tfsmith.records import record, replace

__all__ = [
    "SPELLINGS",
    "Docstring",
    "Option",
    "Verb",
    "flag_of",
    "read_docstring",
    "read_verb",
    "checked",
    "shown",
    "words_of",
]

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


_Function = TypeVar("_Function", bound=Callable[..., Any])
_LITERAL = r"Literal\[(.+)\]"
_SHOWN = 40
_WITHOUT_NAMES = frozenset({"tags", "other_tags"})
"""Of tags there may be none."""


_LATER = frozenset({"step"})
"""What is refused by who looks for it, with the folder's name."""
_FORMATS = frozenset({"as_", "format"})
"""Formats, of which the writer knows more than the list of those that it writes."""


class _Refused(Exception):
    """A value, or one of its items, is of another kind."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


@record
class _Word:
    """What an annotation takes.

    Attributes:
        take: Gives the value in the form that the function wants, or raises `_Refused`.
        what: What it takes, for people.
        example: What to pass, such as `1`; empty where `remedy` says it.
        remedy: What to do, where no example says it.
    """

    take: Callable[[Any], Any]
    what: str
    example: str = ""
    remedy: str = ""


def checked(function: _Function) -> _Function:
    """A public function that refuses arguments of another kind than its annotations name, and unknown ones.

    Raises:
        UsageError: From the function, before it does anything: which argument, what it takes, and what to pass.
    """
    code = function.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    defaults.update(function.__kwdefaults__ or {})

    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        annotations = words_of(function)
        arguments = [_taken(name, value, annotations, defaults) for name, value in zip(positional, given, strict=False)]
        for name in options:
            if name not in annotations and name not in named:
                raise _unknown(function.__name__, name, annotations)
        found = {name: _taken(name, value, annotations, defaults) for name, value in options.items()}
        if found.get("force"):
            _check_force(dict(zip(positional, arguments, strict=False)) | found, annotations)
        return function(*arguments, *given[len(positional) :], **found)

    return cast(_Function, call)


def words_of(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations of a public function, as they are written; those of its group of shared options among them."""
    plain = getattr(function, "__wrapped__", function)
    code = plain.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    notes = plain.__annotations__
    found = {name: notes[name] for name in code.co_varnames[:count] if name in notes and name != "self"}
    if not code.co_flags & 0x08:  # CO_VARKEYWORDS
        return found
    from tfsmith.verbs import _shared

    group = notes[code.co_varnames[count]].removeprefix("Unpack[").removesuffix("]")
    kinds: dict[str, str] = getattr(_shared, group).__annotations__
    return found | kinds


def _check_force(found: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
    """Refuses to replace what is there where nothing is written."""
    outs = [name for name, kind in annotations.items() if kind.removesuffix(" | None") == "Out"]
    if outs and all(found.get(name) is None for name in outs):
        raise UsageError(f"{{force}} goes with {{{outs[0]}}}", remedy=f"add {{{outs[0]}}}, or leave it out")


def _unknown(function: str, name: str, known: Iterable[str]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, 0.6)
    remedy = f"did you mean {near[0]}=?" if near else f"help(tfsmith.{function}) lists what it takes"
    return UsageError(f"{function}() has no argument {name!r}", remedy=remedy)


def _taken(name: str, value: Any, annotations: Mapping[str, str], defaults: Mapping[str, Any]) -> Any:
    """An argument as the function wants it."""
    annotation = annotations.get(name)
    if annotation is None or name in _LATER:  # `self`
        return value
    kind = annotation.removesuffix(" | None")
    if value is None and (kind != annotation or kind == "Out" or name in defaults or name not in annotations):
        return defaults.get(name)
    literal = re.fullmatch(_LITERAL, kind)
    word = (_Word(_text, "a text", "'pb'") if name in _FORMATS else _choices(literal[1])) if literal else WORDS[kind]
    try:
        found = word.take(value)
    except _Refused as refused:
        raise _refusal(name, value, refused.value, word) from None
    if isinstance(found, tuple) and "" in found and name not in _WITHOUT_NAMES:
        raise UsageError(f"{{{name}}} names nothing", remedy="leave it out, or pass names")
    return found


def _refusal(name: str, value: Any, item: Any, word: _Word) -> UsageError:
    got = f"not {shown(value)}" if item is value else f"but {shown(item)} is in it"
    if isinstance(value, str) and word.what == "a whole number" and value.strip().lstrip("-").isdecimal():
        return UsageError(f"{{{name}}} takes {word.what}, {got}", remedy=f"pass {{{name}={int(value)}}}")
    return UsageError(f"{{{name}}} takes {word.what}, {got}", remedy=word.remedy or f"pass {{{name}={word.example}}}")


def shown(value: object) -> str:
    """A value in a sentence, however long it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str):
        return f"the text {value[:_SHOWN]!r}{'...' * (len(value) > _SHOWN)}"
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**18):
        return repr(value)
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _choices(text: str) -> _Word:
    """One of a few texts."""
    choices = re.findall(r"""["']([^"']*)["']""", text)
    listed = ", ".join(map(repr, choices))

    def take(value: Any) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise _Refused(value)

    return _Word(take, f"one of {listed}", repr(choices[0]))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise _Refused(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise _Refused(value)


def _whole(value: Any) -> int:
    """A whole number, of numpy too. An array of one is none."""
    if isinstance(value, (bool, type)) or hasattr(value, "__len__") or not hasattr(value, "__index__"):
        raise _Refused(value)
    return index(value)


def _number(value: Any) -> float:
    if isinstance(value, (bool, type)) or hasattr(value, "__len__") or not hasattr(value, "__float__"):
        raise _Refused(value)
    return value if isinstance(value, int) else float(value)


def _path(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str)):
        return value
    raise _Refused(value)


def _listed(take: Callable[[Any], Any], alone: tuple[type, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Several, in any collection that has an order or needs none; one alone may be given as it is."""

    def take_all(value: Any) -> tuple[Any, ...]:
        if isinstance(value, alone) and not isinstance(value, bool):
            return (take(value),)
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable) or isinstance(value, type):
            raise _Refused(value)
        try:
            return tuple(take(item) for item in value)
        except TypeError:  # an array of no dimensions
            raise _Refused(value) from None

    return take_all


def _keyed(take: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """Values by name."""

    def take_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _Refused(value)
        return {_text(name): take(item) for name, item in value.items()}

    return take_all


def _either(*takes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The first form that fits."""

    def take_one(value: Any) -> Any:
        refused = _Refused(value)
        for take in takes:
            try:
                return take(value)
            except _Refused as error:
                refused = error if refused.value is value else refused
        raise refused

    return take_one


def _anything(value: Any) -> Any:
    return value


def _size(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _sizes(value: Any) -> tuple[int | None, ...]:
    from tfsmith.ir.types import Shape

    if isinstance(value, Shape):
        return tuple(value)
    return _listed(_size, ())(value)


def _entries(value: Any) -> tuple[dict[str, str], dict[str, str]]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise _Refused(value)
    return _keyed(_text)(value[0]), _keyed(_text)(value[1])


def _rename(value: Any) -> str | tuple[str, str]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return _text(value[0]), _text(value[1])
    return _text(value)


def _callback(value: Any) -> Any:
    if callable(value):
        return value
    raise _Refused(value)


def _of(module: str, *names: str) -> Callable[[Any], Any]:
    """An object of one of these classes."""

    def take(value: Any) -> Any:
        from importlib import import_module

        home = import_module(f"tfsmith.{module}")
        if isinstance(value, tuple(getattr(home, name) for name in names)):
            return value
        raise _Refused(value)

    return take


def _tensor(value: Any) -> Any:
    """A tensor, or an array."""
    if isinstance(value, type) or not (hasattr(value, "write_to") or hasattr(value, "__array__")):
        raise _Refused(value)
    return value


def _tensors(value: Any) -> Any:
    """Tensors by name; those that were read from a file stay as they are, for it is known what file that was."""
    from tfsmith.ir.tensor import Weights

    return value if isinstance(value, Weights) else Weights.of(_keyed(_tensor)(value))


_names = _listed(_text, (str,))
_files = _listed(_path, (str, os.PathLike))
_recipe = _of("ir.recipe", "Recipe")
_A_MODEL = "a path, a Model or what a verb returned"

WORDS: Mapping[str, _Word] = MappingProxyType(
    {
        "ModelOrPath": _Word(_anything, _A_MODEL),  # `load` refuses, for it knows all that may be opened
        "ModelOrResult": _Word(
            _either(_of("ir.model", "Model"), _of("verbs._shared", "ModelResult")),
            "a Model or what a verb returned",
            remedy="open a path with tfsmith.load first",
        ),
        "str": _Word(_text, "a text", "'...'"),
        "SignatureName": _Word(_text, "the name of a signature", "'serving_default'"),
        "int": _Word(_whole, "a whole number", "1"),
        "float": _Word(_number, "a number", "0.1"),
        "bool": _Word(_truth, "True or False", "True"),
        "Serves": _Word(_truth, "True or False", "True"),
        "FilePath": _Word(_path, "a path", "'...'"),
        "Out": _Word(_path, "a path", "'...'"),
        "Names": _Word(_names, "names", "['a', 'b']"),
        "Many": _Word(_names, "names", "['a', 'b']"),
        "Words": _Word(_names, "names", "['a', 'b']"),
        "Globs": _Word(_names, "names, or globs of names", "['a', 'b/*']"),
        "Files": _Word(_files, "paths", "['...']"),
        "Sizes": _Word(_listed(_whole, (int,)), "whole numbers", "[1, 8]"),
        "NamePairs": _Word(
            _either(_keyed(_text), _names), "names, or names of A with those of B", remedy="pass a list or a dict"
        ),
        "Feeds": _Word(_either(_keyed(_anything), _names), "arrays by name", remedy="pass a dict of arrays"),
        "Pairs": _Word(_keyed(_anything), "values by name", remedy="pass a dict"),
        "Texts": _Word(_keyed(_text), "texts by name", remedy="pass a dict of texts"),
        "Entries": _Word(_keyed(_text), "tensors by key", remedy="pass a dict of texts, such as {'x': 'input:0'}"),
        "Renames": _Word(
            _either(_keyed(_text), _listed(_rename, (str,))), "new names by old ones", remedy="pass a dict of texts"
        ),
        "Shapes": _Word(_keyed(_sizes), "sizes by name", remedy="pass a dict, such as {'x': [1, None]}"),
        "Signatures": _Word(
            _keyed(_entries), "inputs and outputs by name", remedy="pass {'key': ({'x': 'a:0'}, {'y': 'b:0'})}"
        ),
        "Progress": _Word(_callback, "a function", "print"),
        "Tensors": _Word(_tensors, "tensors by name", remedy="pass what load_weights gives, or a dict of arrays"),
        "TensorsOrPath": _Word(
            _either(_path, _of("ir.model", "Model"), _of("verbs._shared", "ModelResult"), _tensors),
            "a path, or tensors by name",
            remedy="pass what load_weights takes or gives, or a dict of arrays",
        ),
        "Config": _Word(_either(_path, _keyed(_anything)), "a path, or sizes by name", "'bert_config.json'"),
        "MapOrPath": _Word(_either(_path, _of("weights.maps", "WeightMap")), "a map, its name or its path", "'bert'"),
        "RecipeOrPath": _Word(_either(_path, _recipe), "a recipe, its name or its path", "'layer-norm'"),
        "Recipe": _Word(_recipe, "a recipe", remedy="pass what load_recipe or make_recipe gives"),
        "PatternOrPath": _Word(
            _either(_path, _of("ir.recipe", "Pattern")), "a pattern or its path", remedy="pass what extract gives"
        ),
        "Pattern": _Word(_of("ir.recipe", "Pattern"), "a pattern", remedy="pass what extract or load_pattern gives"),
        "Model": _Word(_of("ir.model", "Model"), "a Model", remedy="open a path with tfsmith.load first"),
        "NodeOrPath": _Word(_either(_path, _of("ir.node", "Node")), "a node or its path", "'node.pbtxt'"),
    }
)
"""What each word of an annotation takes."""
