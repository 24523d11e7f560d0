"""`tfsmith VERB ...`: finds the verb, loads only its file, and runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType

from tfsmith._version import __version__
from tfsmith.cli.common import BAD, LineParser, open_closed_streams, rare_collections, run

__all__ = ["main", "VERBS"]

VERBS = MappingProxyType(
    {
        "show": "what is inside a model",
        "freeze": "turns variables into constants: one self-contained graph",
        "export": "writes a SavedModel with real variables, ready for serving",
        "thaw": "turns the constants of a frozen graph back into variables, to train it further",
        "weights": "the weights alone: as a table, as safetensors or npz, renamed for other frameworks, compared",
        "convert": "changes the file format, and on the way names, types and signatures",
        "run": "asks a model, on an embedded engine or on TensorFlow",
        "diff": "what changed between two models",
        "check": "which ops of a model another program cannot import, and what to do",
        "extract": "cuts a pattern out of a graph: from seed nodes back to barriers",
        "recipe": "makes, checks and lists recipes: what to find in a graph, and what to put in its place",
        "replace": "finds what a recipe describes, and puts the recipe's nodes in its place",
        "configure": "sets attributes of nodes, in place or in a copy",
        "optimize": "makes a BERT faster: its encoder becomes one optimized op, proven and timed",
        "verify": "whether two models answer the same, and where they part",
        "demo": "the whole story on a small BERT made on the spot",
    }
)


@rare_collections()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit code."""
    open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = LineParser(prog="tfsmith", description="The workshop for TensorFlow model files that needs no TensorFlow.")
    parser.add_argument("--version", action="version", version=f"tfsmith {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=LineParser)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    modules = {}
    for name, what in VERBS.items():
        verb = verbs.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        if name == wanted:  # only the verb that runs is imported
            modules[name] = import_module(f"tfsmith.cli.{name}")
            modules[name].add_arguments(verb)
        verb.add_argument("--debug", action="store_true", help="show the traceback of an error")
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD
    return run(lambda: int(modules[parsed.verb].work(parsed)), debug=parsed.debug)
