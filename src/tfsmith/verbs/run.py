"""`run`: computes what a model gives for an input; `compile` keeps it ready for more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.api.files import load, save
from tfsmith.engines.program import make_program
from tfsmith.engines.protocol import Lack, Options, engine_named
from tfsmith.engines.runner import AUTO, Runner, check_engine, compile_program
from tfsmith.ir.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["compile", "engine_lacks", "engine_options", "run"]


def run(
    model: Model | str | os.PathLike[str],
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    *,
    signature: str | None = None,
    engine: str = AUTO,
    op_libraries: Sequence[str | os.PathLike[str]] = (),
) -> dict[str, NDArray[Any]]:
    """Runs a model once. To run it again and again, `compile` it.

    Args:
        model: A model, or its path.
        feeds: Arrays, numbers, texts or lists of them, by the signature's keys, or by names of tensors or nodes.
            An inner tensor that is fed replaces what would give it.
        outputs: What to compute: keys of the signature's outputs, or names of any tensors; its outputs by default.
        signature: Which signature; `serving_default`, or the only one, by default. A model without any is asked for
            its collections `inputs` and `outputs`, and else for what is likely.
        engine: "openvino", "tensorflow", or "auto" for the first that is installed and has all that the model needs.
        op_libraries: Shared libraries with custom ops, for TensorFlow.

    Returns:
        The results by key. A warning tells of those that are NaN or infinite.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    with compile(
        model, outputs, signature=signature, inputs=tuple(feeds), engine=engine, op_libraries=op_libraries
    ) as runner:
        return runner.run(feeds)


def compile(
    model: Model | str | os.PathLike[str],
    outputs: Sequence[str] | None = None,
    *,
    signature: str | None = None,
    inputs: Sequence[str] = (),
    engine: str = AUTO,
    op_libraries: Sequence[str | os.PathLike[str]] = (),
) -> Runner:
    """Makes a model ready to run, as often as wanted and from many threads. The arguments are those of `run`.

    Args:
        model: A model, or its path.
        outputs: What to compute.
        signature: Which signature.
        inputs: Names of inner tensors that are to be fed besides.
        engine: Which engine.
        op_libraries: Shared libraries with custom ops, for TensorFlow.
    """
    check_engine(engine)
    opened = model if isinstance(model, Model) else load(model)
    program = make_program(opened, outputs, signature=signature, inputs=inputs)
    return compile_program(program, engine, engine_options(op_libraries))


def engine_options(op_libraries: Sequence[str | os.PathLike[str]] = ()) -> Options:
    """How engines are to run a program: with these libraries of custom ops."""
    return Options(_write, tuple(map(Path, op_libraries)))


def _write(model: Model, path: Path, kind: Literal["pb", "saved_model"]) -> None:
    save(model, path, format=kind)


def engine_lacks(
    model: Model, engine: str, outputs: Sequence[str] | None = None, *, signature: str | None = None
) -> tuple[Lack, ...]:
    """What a model needs and an engine has not: ops with their nodes and the reason. Runs nothing.

    Raises:
        EngineError: The engine is not installed.
    """
    return engine_named(engine).lacks(make_program(model, outputs, signature=signature))
