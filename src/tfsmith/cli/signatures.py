"""`--signature`, `--input` and `--output`, as the verbs that write SavedModels take them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tfsmith.cli.common import printable
from tfsmith.errors import UsageError
from tfsmith.ir.metagraph import PREDICT, SERVING_DEFAULT

__all__ = ["add_signature_arguments", "asked_signatures", "signature_lines"]


class _Ordered(argparse.Action):
    """Keeps --signature, --input and --output in the order given: each input belongs to the signature before it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Adds one to the list."""
        namespace.words = [*(getattr(namespace, "words", None) or []), (self.dest, values)]


def add_signature_arguments(parser: argparse.ArgumentParser, flag: str = "--signature") -> None:
    """Adds the arguments, of which the first may have another name."""
    what = "the inputs and outputs after it are this one's"
    parser.add_argument(flag, dest="signature", metavar="NAME", action=_Ordered, help=what)
    parser.add_argument("--input", metavar="KEY=TENSOR", action=_Ordered, help="an input of the signature")
    parser.add_argument("--output", metavar="KEY=TENSOR", action=_Ordered, help="an output of the signature")
    parser.add_argument("--method-name", default=PREDICT, help="the signature's method (predict by default)")


def asked_signatures(arguments: argparse.Namespace) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """What the user asked for: for each signature its inputs and outputs, keys to tensor names.

    Raises:
        UsageError: An input or output is not understood, or a signature has no output.
    """
    words: Sequence[tuple[str, str]] = getattr(arguments, "words", None) or []
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
        found.setdefault(name, ({}, {}))[what == "output"][key] = tensor
    for key, (_, outputs) in found.items():
        if not outputs:
            raise UsageError(f"signature {key!r} has no output", remedy="add --output KEY=TENSOR")
    return found


def signature_lines(signatures: dict[str, Any]) -> str:
    """A line for each signature, of the facts about it: its keys."""
    return "".join(
        printable(f"signature {key}: {', '.join(found['inputs'])} -> {', '.join(found['outputs'])}") + "\n"
        for key, found in signatures.items()
    )
