"""`python -m tfsmith.compat.freeze_graph ...`: the flags of TensorFlow's own `freeze_graph`, verbatim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from glob import escape

from tfsmith.cli.common import BAD, DONE, LineParser, emit, run, warn
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.verbs._files import load, save, with_saver
from tfsmith.verbs.freeze import freeze

__all__ = ["main"]


def _bool(text: str) -> bool:
    return text.lower() == "true"


def _parser() -> LineParser:
    parser = LineParser(prog="freeze_graph", description="freeze_graph, without TensorFlow.", allow_abbrev=False)
    parser.add_argument("--input_graph", default="", help="GraphDef file, binary or text")
    parser.add_argument("--input_saver", default="", help="SaverDef file, binary or text")
    parser.add_argument("--input_checkpoint", default="", help="prefix of the checkpoint")
    parser.add_argument(
        "--checkpoint_version", type=int, default=2, choices=(1, 2), help="told by the files themselves"
    )
    parser.add_argument("--output_graph", default="", help="the frozen GraphDef to write")
    parser.add_argument(
        "--input_binary", nargs="?", const=True, type=_bool, default=False, help="told by the file itself"
    )
    parser.add_argument("--output_node_names", default="", help="names of the output nodes, joined by commas")
    parser.add_argument("--restore_op_name", default="save/restore_all", help="unused, as in the original")
    parser.add_argument("--filename_tensor_name", default="save/Const:0", help="unused, as in the original")
    parser.add_argument("--clear_devices", nargs="?", const=True, type=_bool, default=True, help="drop devices")
    parser.add_argument(
        "--initializer_nodes", default="", help="initializers whose constants count where no value is saved"
    )
    parser.add_argument("--variable_names_whitelist", default="", help="convert only these variables")
    parser.add_argument("--variable_names_denylist", default="", help="do not convert these variables")
    parser.add_argument(
        "--variable_names_blacklist", default="", dest="variable_names_denylist", help=argparse.SUPPRESS
    )
    parser.add_argument("--input_meta_graph", default="", help="MetaGraphDef file (.meta), binary or text")
    parser.add_argument("--input_saved_model_dir", default="", help="folder of a SavedModel")
    parser.add_argument("--saved_model_tags", default="serve", help="tags of the SavedModel's meta graph")
    return parser


def _load(flags: argparse.Namespace) -> Model:
    """The model that the flags name, in the original's order of precedence."""
    checkpoint = flags.input_checkpoint or None
    if flags.input_meta_graph:
        return load(flags.input_meta_graph, checkpoint=checkpoint)
    if flags.input_saved_model_dir:
        return load(flags.input_saved_model_dir, tags=_names(flags.saved_model_tags))
    if not flags.input_graph:
        remedy = "pass --input_graph, --input_meta_graph or --input_saved_model_dir"
        raise UsageError("there is no graph to freeze", remedy=remedy)
    if not checkpoint:
        raise UsageError("there is no checkpoint to take the values from", remedy="pass --input_checkpoint")
    model = load(flags.input_graph, checkpoint=checkpoint)
    return with_saver(model, flags.input_saver) if flags.input_saver else model


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.replace(" ", "").split(",") if name)


def _work(flags: argparse.Namespace) -> int:
    outputs = _names(flags.output_node_names)
    if not outputs:
        raise UsageError(
            "You need to supply the name of a node to --output_node_names", remedy="`tfsmith show` finds it"
        )
    if not flags.output_graph:
        raise UsageError("there is no place to write to", remedy="pass --output_graph")
    frozen = freeze(
        _load(flags),
        outputs,
        clear_devices=flags.clear_devices,
        only=tuple(map(escape, _names(flags.variable_names_whitelist))),
        excluded=tuple(map(escape, _names(flags.variable_names_denylist))),
        initializers=_names(flags.initializer_nodes),
        inline=False,
    )
    save(frozen.model, flags.output_graph, format="pb", force=True)
    warn(frozen.notes)
    emit(f"Converted {len(frozen.converted)} variables to const ops.\n")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    try:
        flags = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD
    return run(lambda: _work(flags))


if __name__ == "__main__":
    sys.exit(main())
