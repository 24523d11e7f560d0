"""`tfsmith weights MODEL`: the weights alone, as a table or a file, compared, renamed."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, human_bytes, human_count, printable
from tfsmith.cli.render import print_sections
from tfsmith.cli.weights_text import comparison_sections, table_sections
from tfsmith.errors import UsageError
from tfsmith.weights.source import select_weights
from tfsmith.weights.table import plain_number

__all__ = ["add_arguments", "work"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kKMGT]?)B?")
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="checkpoint prefix or folder, SavedModel folder, .meta, frozen graph, .safetensors or its index, .npz",
    )
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument("--match", metavar="GLOB", action="append", default=[], help="only weights with such names")
    parser.add_argument(
        "--except", metavar="GLOB", action="append", default=[], dest="excluded", help="leave out such names"
    )
    parser.add_argument(
        "--model-only", action="store_true", help="leave out what only training needs: optimizer slots, global step"
    )
    parser.add_argument(
        "--constants", action="store_true", help="all constants of a graph, not only those that were variables"
    )
    parser.add_argument("--stats", action="store_true", help="read the values: least, largest, mean, NaNs, infinities")
    parser.add_argument(
        "--sort", choices=("name", "bytes", "dtype", "shape", "file"), default="name", help="the order of the table"
    )
    parser.add_argument("--scopes", type=int, metavar="N", help="totals per scope of N words, in place of every weight")
    parser.add_argument(
        "--map", metavar="NAME|FILE", help=f"rename and reshape: {', '.join(api.builtin_maps())}, or a file of your own"
    )
    parser.add_argument("--config", metavar="FILE", help="bert_config.json: the sizes that shapes are checked against")
    parser.add_argument("--task", metavar="T", help="which of the map's tasks (by default, whose head is there)")
    parser.add_argument("--reverse", action="store_true", help="from the map's target names to its source names")
    parser.add_argument("--strict", action="store_true", help="a weight that the map leaves over is an error")
    parser.add_argument("--finite", action="store_true", help="NaNs and infinities are an error; reads all values")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write NAME.safetensors, NAME.npz, or NAME.ckpt: a checkpoint"
    )
    parser.add_argument("--max-shard-size", metavar="SIZE", help="several safetensors files of at most 5GB or so each")
    parser.add_argument(
        "--metadata", metavar="KEY=TEXT", action="append", default=[], help="store this beside the weights"
    )
    parser.add_argument("--compare", metavar="OTHER", help="compare with another MODEL; exit 1 if they differ")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, metavar="T", help="how far values may differ (0 by default)"
    )
    parser.add_argument("--force", action="store_true", help="with -o: replace what is there")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    weights = _mapped(arguments, _load(arguments, arguments.model))
    if arguments.finite:
        api.require_finite(weights)
    if arguments.compare is not None:
        if arguments.output is not None:
            raise UsageError("--compare writes nothing", remedy="leave -o out")
        return _compare(arguments, weights)
    if arguments.output is not None:
        return _write(arguments, weights)
    rows = api.weight_rows(weights, stats=arguments.stats, sort=arguments.sort)
    if arguments.scopes is not None and arguments.scopes < 1:
        raise UsageError(f"a scope of {arguments.scopes} words holds nothing", remedy="pass 1 or more")
    scopes = None if arguments.scopes is None else api.scope_rows(rows, arguments.scopes)
    if arguments.json:
        emit(json.dumps(_table_facts(arguments, weights, rows, scopes), indent=2, allow_nan=False) + "\n")
    else:
        print_sections(table_sections(rows, scopes, stats=arguments.stats))
    return DONE


def _load(arguments: argparse.Namespace, source: str, *, first: bool = True) -> api.Weights:
    found = api.load_weights(
        source,
        constants=arguments.constants,
        checkpoint=arguments.checkpoint if first else None,
        step=arguments.step if first else None,
    )
    training = not arguments.model_only
    return select_weights(found, arguments.match, arguments.excluded, training=training, strict=first)


def _mapped(arguments: argparse.Namespace, weights: api.Weights) -> api.Weights:
    """The weights under the map's names, if there is a map."""
    if arguments.map is None:
        for option in ("config", "task", "reverse", "strict"):
            if getattr(arguments, option):
                raise UsageError(f"--{option} goes with --map", remedy="add --map NAME, such as --map bert")
        return weights
    mapped = api.map_weights(
        weights,
        arguments.map,
        config=arguments.config,
        task=arguments.task,
        reverse=arguments.reverse,
        strict=arguments.strict,
    )
    if mapped.left_over:
        names = ", ".join(mapped.left_over[:5]) + (" ..." if len(mapped.left_over) > 5 else "")
        sys.stderr.write(printable(f"warning: {len(mapped.left_over)} weights are left over: {names}") + "\n")
    return mapped.weights


def _write(arguments: argparse.Namespace, weights: api.Weights) -> int:
    size = None if arguments.max_shard_size is None else _bytes(arguments.max_shard_size)
    metadata = dict(_pair(text) for text in arguments.metadata)
    files = api.save_weights(
        weights,
        arguments.output,
        metadata=metadata,
        max_shard_bytes=size,
        inputs=[name for name in (arguments.map, arguments.config) if name is not None],
        force=arguments.force,
    )
    total = sum(tensor.nbytes for tensor in weights.values())
    if arguments.json:
        facts = {"output": [str(path) for path in files], "weights": list(weights), "bytes": total}
        emit(json.dumps(facts, indent=2) + "\n")
        return DONE
    names = ", ".join(str(path) for path in files)
    emit(f"Wrote {human_count(len(weights))} weights, {human_bytes(total)}: {names}\n")
    return DONE


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--max-shard-size {text!r} is not understood", remedy="write a size such as 5GB or 200MB")
    return int(float(found[1]) * _UNITS[found[2]])


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--metadata {text!r} is not understood", remedy="write KEY=TEXT")
    return key, value


def _table_facts(
    arguments: argparse.Namespace,
    weights: api.Weights,
    rows: list[api.WeightRow],
    scopes: list[api.ScopeRow] | None,
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "path": arguments.model,
        "metadata": dict(weights.metadata),
        "count": len(rows),
        "parameters": sum(row.parameters for row in rows),
        "bytes": sum(row.bytes for row in rows),
    }
    if scopes is None:
        facts["weights"] = [_row_facts(row) for row in rows]
    else:
        facts["scopes"] = [
            {"name": row.name, "count": row.count, "parameters": row.parameters, "bytes": row.bytes} for row in scopes
        ]
    return facts


def _row_facts(row: api.WeightRow) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": row.name,
        "dtype": row.dtype.name,
        "shape": list(row.shape.dims or ()),
        "bytes": row.bytes,
        **({} if row.variable is None else {"variable": row.variable}),
    }
    if row.stats is not None:
        for key in ("min", "max", "mean", "nan", "inf"):
            facts[key] = plain_number(getattr(row.stats, key))
    return facts


def _compare(arguments: argparse.Namespace, weights: api.Weights) -> int:
    other = _load(arguments, arguments.compare, first=False)
    found = api.compare_weights(weights, other, tolerance=arguments.tolerance)
    loose = arguments.tolerance > 0
    is_equal = all(one.is_equal(any_dtype=loose) for one in found)
    if arguments.json:
        rows = [
            {
                "name": one.name,
                "verdict": one.verdict,
                "equal": one.is_equal(any_dtype=loose),
                "first": None if one.first is None else [one.first.dtype.name, list(one.first.shape.dims or ())],
                "second": None if one.second is None else [one.second.dtype.name, list(one.second.shape.dims or ())],
                "max_difference": plain_number(one.max_difference),
                "unequal": one.unequal,
            }
            for one in found
        ]
        facts = {"first": arguments.model, "second": arguments.compare, "equal": is_equal, "weights": rows}
        emit(json.dumps(facts, indent=2, allow_nan=False) + "\n")
    else:
        print_sections(comparison_sections(found, loose=loose))
    return DONE if is_equal else NO
