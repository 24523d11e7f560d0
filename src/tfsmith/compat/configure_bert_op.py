"""`python -m tfsmith.compat.configure_bert_op ...`: the flags of light-model-transformer's own script, verbatim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith.cli.common import DONE, NO, LineParser, complain, emit, run_tool, warn
from tfsmith.ir.node import Attr
from tfsmith.ir.types import dtype_named
from tfsmith.verbs.configure import configure, save_main_file

__all__ = ["main"]

_OP = "Bert"


def _parser() -> LineParser:
    parser = LineParser(prog="configure_bert_op", description="Set attributes of Bert nodes.", add_help=False)
    parser.add_argument("--help", action="help", help="show this, and end")  # -h is the hidden size
    parser.add_argument("model", help="folder of a SavedModel, or a frozen .pb")
    _add_switch(parser, "-q", "-Q", "quantization", "use int8")
    _add_switch(parser, "-b", "-B", "bfloat16", "use bfloat16")
    parser.add_argument("-h", "--hidden-size", type=int, help="hidden size of the model")
    parser.add_argument("-a", "--num-attention-heads", type=int, help="number of attention heads")
    parser.add_argument("-i", "--intermediate-size", type=int, help="intermediate size of the model")
    parser.add_argument("-s", "--max-seq-len", type=int, help="longest sequence of tokens")
    _add_switch(parser, "-c", "-C", "calibrate", "find out the factors of int8")
    parser.add_argument("-p", "--quant-factors-path", help="file of the factors of int8")
    parser.add_argument("-o", "--output", help="the .pb to write; by default the model is changed in place")
    return parser


def _add_switch(parser: LineParser, on: str, off: str, name: str, what: str) -> None:
    parser.add_argument(on, f"--{name}", dest=name, action="store_true", default=None, help=what)
    parser.add_argument(off, f"--no-{name}", dest=name, action="store_false", default=None, help=f"do not {what}")


def _settings(flags: argparse.Namespace) -> dict[str, Attr]:
    found: dict[str, Attr] = {}
    for name, attribute, on in (
        ("quantization", "QuantizableDataType", "qint8"),
        ("bfloat16", "NonQuantizableDataType", "bfloat16"),
    ):
        value = getattr(flags, name)
        if value is not None:
            found[attribute] = Attr("type", dtype_named(on if value else "float32"))
    for name, attribute in (
        ("hidden_size", "HiddenSize"),
        ("num_attention_heads", "NumAttentionHeads"),
        ("intermediate_size", "IntermediateSize"),
        ("max_seq_len", "MaxSequenceLength"),
    ):
        if getattr(flags, name) is not None:
            found[attribute] = Attr("int", getattr(flags, name))
    if flags.calibrate is not None:
        found["CalibrateQuantFactors"] = Attr("bool", flags.calibrate)
    if flags.quant_factors_path is not None:
        found["QuantizationFactorsPath"] = Attr("string", flags.quant_factors_path.encode("utf-8", "surrogateescape"))
    return found


def _work(flags: argparse.Namespace) -> int:
    done = configure(flags.model, _settings(flags), ops=[_OP])
    names = [one.node for one in (*done.changed, *done.unchanged)]
    if not names:
        complain("ERROR: the model has no Bert node; replace a part of it by one first (replace_pattern)")
        return NO
    emit(f"Following Bert nodes will be updated: {names}\n")
    if flags.output is not None:
        if done.source.kind == "saved_model" and flags.output.endswith((".pb", ".pbtxt")):
            save_main_file(done.model, flags.output, force=True)
        else:
            warn(done.save(flags.output, as_="keep", force=True).notes)
    else:
        done.save_in_place()
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    return run_tool(_parser(), _work, argv)


if __name__ == "__main__":
    sys.exit(main())
