"""`--verify` of the verbs that write a model: what does not answer as the original did is not left in place."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfsmith import api
from tfsmith.cli.common import DONE, NO, complain, spelled
from tfsmith.errors import worded
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input

if TYPE_CHECKING:
    from tfsmith.verbs.verify import Verified

__all__ = ["Proof", "add_verify_arguments", "check_outputs", "write_verified"]

Proof = Callable[[Path], "Verified"]
"""Looks at what was written, and compares it with the original."""


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether and how to verify."""
    parser.add_argument(
        "--verify", action="store_true", help="run the original and the result, and write nothing if they differ"
    )
    parser.add_argument("--verify-engine", default="auto", metavar="E", help="openvino, tensorflow or auto")
    parser.add_argument(
        "--op-library", metavar="SO", action="append", default=[], help="a library of custom ops, to verify with"
    )


def write_verified(
    arguments: argparse.Namespace,
    model: Model,
    path: str | Path,
    write: Callable[[Path], None],
    proof: Proof,
    *,
    force: bool,
    overwrite: bool = False,
) -> int:
    """Writes, with `--verify` only what answers as the original does; the exit code.

    Args:
        arguments: Those of the verb.
        model: The original.
        path: The output.
        write: Writes it.
        proof: Compares it with the original.
        force: Whether what is there may be replaced.
        overwrite: Whether files that are there may be.
    """
    if not arguments.verify:
        write(Path(path))
        return DONE

    def prove(there: Path) -> tuple[bool, Verified]:
        found = proof(there)
        return found.is_same, found

    found = api.place_if(model, path, write, prove, force=force, overwrite=overwrite)
    for line in found.brief():
        complain(worded(line, spelled))
    if found.is_same:
        return DONE
    complain(f"error: the result does not answer as the original does; {path} was not written")
    return NO


def check_signatures(arguments: argparse.Namespace, a: Model, b: Model, *, dtype: str | None = None) -> Verified:
    """Holds every signature of the result against the tensors of the original that it names.

    Args:
        arguments: Those of the verb.
        a: The original.
        b: The result.
        dtype: What its weights were rounded to, if they were.
    """
    from tfsmith.verbs.verify import join_verified  # loads what runs models, which others do not need

    found: list[Verified] = []
    for key, signature in b.signatures.items():
        outputs = {info.name: name for name, info in signature.outputs.items() if info.encoding == "dense"}
        named = {name: own for name, own in outputs.items() if parse_input(name).node in a.graph}
        if named:
            found.append(check_outputs(arguments, a, b, named, (None, key), dtype=dtype))
    return join_verified(found) if found else check_outputs(arguments, a, b, dtype=dtype)


def check_outputs(
    arguments: argparse.Namespace,
    a: Model,
    b: Model,
    outputs: Mapping[str, str] | None = None,
    signature: tuple[str | None, str | None] = (None, None),
    *,
    dtype: str | None = None,
) -> Verified:
    """Runs both, as the arguments of `--verify` say; weights that were rounded to a dtype leave its tolerance."""
    from tfsmith.engines.compare import tolerance_for
    from tfsmith.verbs.verify import verify

    room = None if dtype is None else tolerance_for(dtype, reordered=False)
    return verify(
        a,
        b,
        outputs=outputs or (),
        signature=signature[0],
        other_signature=signature[1],
        engine=arguments.verify_engine,
        op_libraries=arguments.op_library,
        rtol=None if room is None else room.relative,
        atol=None if room is None else room.absolute,
    )
