"""`--verify` of the verbs that write a model: what does not answer as the original did is not left in place."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, NO, complain
from tfsmith.ir.model import Model
from tfsmith.passes.interface import INIT_SIGNATURE

__all__ = ["Proof", "add_verify_arguments", "check_outputs", "check_signatures"]


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether and how to verify."""
    parser.add_argument(
        "--verify", action="store_true", help="run the original and the result, and write nothing if they differ"
    )
    parser.add_argument("--verify-engine", default="auto", metavar="E", help="openvino, tensorflow or auto")
    parser.add_argument(
        "--op-library", metavar="SO", action="append", default=[], help="a library of custom ops, to verify with"
    )


class Proof:
    """What `--verify` asks for: compares what was written with the original, and remembers what it found.

    Args:
        check: Compares what lies at a path with the original.
    """

    def __init__(self, check: Callable[[Path], api.Verified]) -> None:
        self._check = check
        self._found: api.Verified | None = None

    def __call__(self, path: Path) -> bool:
        """Whether what lies there answers as the original does."""
        self._found = self._check(path)
        return self._found.is_same

    def tell(self, path: str | Path) -> int:
        """Says what was found, if anything was; returns the exit code."""
        if self._found is None:
            return DONE
        from tfsmith.cli.verify import tell  # loads what runs models, which others do not need

        tell(self._found, to_stderr=True)
        if self._found.is_same:
            return DONE
        complain(f"error: the result does not answer as the original does; {path} was not written")
        return NO


def check_signatures(arguments: argparse.Namespace, a: Model, b: Model, *, dtype: str | None = None) -> api.Verified:
    """Holds every signature of the result against the tensors of the original that it names.

    Args:
        arguments: Those of the verb.
        a: The original.
        b: The result.
        dtype: What its weights were rounded to, if they were.
    """
    found: list[api.Verified] = []
    for key, signature in b.signatures.items():
        if key == INIT_SIGNATURE:  # it fills the model when it is loaded, and gives no tensor
            continue
        outputs = {info.name: name for name, info in signature.outputs.items() if info.encoding == "dense"}
        named = {name: own for name, own in outputs.items() if api.has_tensor(a, name)}
        if named:
            same = key if key in a.signatures else None  # so that inputs are paired by their keys
            found.append(check_outputs(arguments, a, b, named, (same, key), dtype=dtype))
    return api.join_verified(found) if found else check_outputs(arguments, a, b, dtype=dtype)


def check_outputs(
    arguments: argparse.Namespace,
    a: Model,
    b: Model,
    outputs: Mapping[str, str] | None = None,
    signature: tuple[str | None, str | None] = (None, None),
    *,
    dtype: str | None = None,
) -> api.Verified:
    """Runs both, as the arguments of `--verify` say; weights that were rounded to a dtype leave its tolerance."""
    room = None if dtype is None else api.tolerance_for(dtype, reordered=False)
    return api.verify(
        a,
        b,
        outputs=outputs or None,
        signature=signature,
        engine=arguments.verify_engine,
        op_libraries=arguments.op_library,
        rtol=None if room is None else room.relative,
        atol=None if room is None else room.absolute,
    )
