"""`tfsmith recipe draft MODEL`: the block that a model repeats becomes a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, plural, printable
from tfsmith.cli.models import add_model_arguments, open_model
from tfsmith.errors import UsageError

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the action."""
    add_model_arguments(parser)
    parser.add_argument("-o", "--output", metavar="RECIPE.toml", help="the file to write; to stdout without it")
    parser.add_argument(
        "--scope", metavar="GLOB", help="only blocks whose output's name fits, such as 'bert/encoder/*'"
    )
    parser.add_argument("-s", "--seeds", metavar="A,B", default="", help="the output of the last block")
    parser.add_argument("-b", "--barriers", metavar="A,B", default="", help="nodes that are outside of any block")
    parser.add_argument("--op", metavar="OP", default="Fused", help="the op of the new node (Fused)")
    parser.add_argument("--name", metavar="NAME", help="the recipe's name (as the file is called)")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    target = None if arguments.output is None else Path(arguments.output)
    if target is not None and target.suffix != ".toml":
        raise UsageError("a drafted recipe is written as TOML", path=target, remedy="give it a name that ends in .toml")
    model = open_model(arguments)
    drafted = api.draft_recipe(
        model,
        scope=arguments.scope,
        seeds=_names(arguments.seeds),
        barriers=_names(arguments.barriers),
        op=arguments.op,
        name=arguments.name or ("draft" if target is None else target.stem),
    )
    if target is None:
        emit(api.draft_text(drafted))
        return DONE
    api.save_draft(drafted, target, model=model, force=arguments.force)
    weights = plural(sum(one.kind == "weight" for one in drafted.inputs), "weight")
    blocks = f"{drafted.units} blocks of {plural(drafted.nodes, 'node')} and {weights}"
    emit(printable(f"Wrote {target} ({blocks} become one {arguments.op})") + "\n")
    return DONE


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
