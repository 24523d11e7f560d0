"""`python -m tfsmith.compat.saved_model_cli show ...`: what TensorFlow's `saved_model_cli show` prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from tfsmith.cli.common import BAD, DONE, LineParser, emit, run
from tfsmith.compat.signature_text import (
    all_text,
    find_meta_graph,
    ops_text,
    signature_keys_text,
    signature_text,
    tag_sets_text,
)
from tfsmith.errors import WrongFileError
from tfsmith.ir.model import Model
from tfsmith.verbs._files import load

__all__ = ["main"]


def _parser() -> LineParser:
    """The flags of the original, which takes them before the word `show` and after it."""
    what = "saved_model_cli show, without TensorFlow."
    parser = LineParser(prog="saved_model_cli", description=what, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version="0.1.0")
    commands = parser.add_subparsers(dest="command", metavar="show", required=True, parser_class=LineParser)
    show = commands.add_parser("show", description="Shows what is in a SavedModel.", allow_abbrev=False)
    for target, default in ((parser, None), (show, argparse.SUPPRESS)):
        target.add_argument("--dir", default=default, help="directory containing the SavedModel")
        target.add_argument("--tag_set", default=default, help="comma-separated tags of one MetaGraph")
        target.add_argument("--signature_def", default=default, help="key of one SignatureDef; needs --tag_set")
        for name, what in (("all", "everything"), ("list_ops", "the ops of the MetaGraph; needs --tag_set")):
            target.add_argument(f"--{name}", action="store_true", default=default, help=f"show {what}")
            target.add_argument(f"--no{name}", action="store_false", dest=name, default=default, help=argparse.SUPPRESS)
    return parser


def _show(flags: argparse.Namespace) -> int:
    model = load(flags.dir)
    if model.kind != "saved_model":
        remedy = "pass a folder with saved_model.pb; `tfsmith show` takes every kind of model"
        raise WrongFileError("this is no SavedModel", path=flags.dir, remedy=remedy)
    tags = None if flags.tag_set is None else [tag.strip() for tag in flags.tag_set.split(",") if tag.strip()]
    pieces = _text(model, tags, signature=flags.signature_def, everything=flags.all, list_ops=flags.list_ops)
    for piece in pieces:
        emit(piece, exact=True)  # it is made of backspaces too
    return DONE


def _text(
    model: Model,
    tags: Iterable[str] | None = None,
    *,
    signature: str | None = None,
    everything: bool = False,
    list_ops: bool = False,
) -> Iterator[str]:
    if everything:
        yield all_text(model)
        return
    if tags is None:
        if list_ops:
            yield "--list_ops must be paired with a tag-set or with --all.\n"
        yield tag_sets_text(model)
        return
    meta = find_meta_graph(model, list(tags))
    if list_ops:
        yield ops_text(meta)
    yield signature_keys_text(meta) if signature is None else signature_text(meta, signature)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    parser = _parser()
    try:
        flags = parser.parse_args(argv)
        if flags.dir is None:
            parser.error("the flag --dir is missing")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD
    return run(lambda: _show(flags))


if __name__ == "__main__":
    sys.exit(main())
