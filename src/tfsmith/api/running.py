"""F4: Running models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.api.feeding import bind_feeds, find_input
from tfsmith.api.program import ModelProgram, make_program
from tfsmith.engines.protocol import ENGINES, Compiled, Lack, LackError, Options, Port, engine_named
from tfsmith.errors import EngineError, TfsmithError
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.verbs.files import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Runner", "run", "compile", "interface", "has_tensor", "blocks", "engine_lacks", "not_a_number"]

AUTO = "auto"
_BLOCK = 1 << 20


def run(
    model: Model | str | os.PathLike[str],
    feeds: Mapping[str, Any],
    fetches: Sequence[str] | None = None,
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
        fetches: What to answer: keys of the signature's outputs, or names of any tensors; its outputs by default.
        signature: Which signature; `serving_default`, or the only one, by default. A model without any is asked for
            its collections `inputs` and `outputs`, and else for what is likely.
        engine: "openvino", "tensorflow", or "auto" for the first that is installed and has all that the model needs.
        op_libraries: Shared libraries with custom ops, for TensorFlow.

    Returns:
        The answers by key. A warning tells of answers that are not numbers.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    opened = model if isinstance(model, Model) else load(model)
    inner = _inner_feeds(opened, feeds, fetches, signature)
    with compile(
        opened, fetches, signature=signature, inputs=inner, engine=engine, op_libraries=op_libraries
    ) as runner:
        return runner.run(feeds)


def _inner_feeds(
    model: Model, feeds: Mapping[str, Any], fetches: Sequence[str] | None, signature: str | None
) -> list[str]:
    """The feeds that are no inputs of the model, but tensors of its graph."""
    known = make_program(model, fetches, signature=signature).inputs
    unknown = [name for name in feeds if find_input(known, name) is None]
    return [name for name in unknown if parse_input(name).node in model.graph]


def compile(
    model: Model | str | os.PathLike[str],
    fetches: Sequence[str] | None = None,
    *,
    signature: str | None = None,
    inputs: Sequence[str] = (),
    engine: str = AUTO,
    op_libraries: Sequence[str | os.PathLike[str]] = (),
) -> Runner:
    """Makes a model ready to run, as often as wanted. The arguments are those of `run`.

    Args:
        model: A model, or its path.
        fetches: What to answer.
        signature: Which signature.
        inputs: Names of inner tensors that are to be fed besides.
        engine: Which engine.
        op_libraries: Shared libraries with custom ops, for TensorFlow.
    """
    opened = model if isinstance(model, Model) else load(model)
    program = make_program(opened, fetches, signature=signature, inputs=inputs)
    options = Options(tuple(map(Path, op_libraries)))
    names = ENGINES if engine == AUTO else (engine,)
    if engine == AUTO and options.op_libraries:
        names = ("tensorflow",)  # the only one that can load them
    refusals: list[str] = []
    error: TfsmithError | None = None
    for name in names:
        found = engine_named(name)
        try:
            missing = found.available()
            if missing is not None and len(names) > 1:
                refusals.append(missing)
                continue
            return Runner(program, name, found.compile(program, options), tuple(refusals))
        except LackError as refused:
            error = refused
            refusals.append(refused.what)
        except TfsmithError as refused:
            if name == names[-1]:
                raise
            error = refused
            refusals.append(str(refused))
    if error is not None and len(refusals) == 1:
        raise error
    told = "; ".join(refusals)
    remedy = None if error is None or "pip install" in told else error.remedy  # that of the last, which can most
    raise EngineError(f"no engine can run it: {told}", path=opened.path, remedy=remedy)


def interface(
    model: Model, fetches: Sequence[str] | None = None, *, signature: str | None = None, inputs: Sequence[str] = ()
) -> tuple[Mapping[str, Port], Mapping[str, Port]]:
    """A model's inputs and outputs by key, as `run` finds them. No I/O, and no engine."""
    program = make_program(model, fetches, signature=signature, inputs=inputs)
    return program.inputs, program.outputs


def has_tensor(model: Model, name: str) -> bool:
    """Whether the graph has a node for this name of a tensor."""
    return parse_input(name).node in model.graph


def engine_lacks(
    model: Model, engine: str, fetches: Sequence[str] | None = None, *, signature: str | None = None
) -> tuple[Lack, ...]:
    """What a model needs and an engine has not: ops with their nodes and the reason. Runs nothing.

    Raises:
        EngineError: The engine is not installed.
    """
    return engine_named(engine).lacks(make_program(model, fetches, signature=signature))


class Runner:
    """A model that is ready to run. Close it, or use it as a context, to let go of the engine.

    Attributes:
        inputs: What it takes, by key: tensor, dtype, shape, and whether it is required.
        outputs: What it answers, by key.
        engine: The engine's name.
        version: The engine's version.
        refusals: Why engines before this one were passed over.
        notes: What to know of how the engine computes.
    """

    def __init__(self, program: ModelProgram, engine: str, compiled: Compiled, refusals: tuple[str, ...] = ()) -> None:
        self.inputs: Mapping[str, Port] = program.inputs
        self.outputs: Mapping[str, Port] = program.outputs
        self.engine = engine
        self.version = compiled.version
        self.refusals = refusals
        self.notes = compiled.notes
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"<Runner {self.engine} {self.version}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def run(self, feeds: Mapping[str, Any], *, warn: bool = True) -> dict[str, NDArray[Any]]:
        """Runs once.

        Args:
            feeds: Arrays, numbers, texts or lists of them, by key, or by names of tensors or nodes.
            warn: Whether to warn of answers that are not numbers.

        Raises:
            NotFoundInModelError: There is no such input.
            UsageError: An input is missing, or of another type or shape than the model wants.
            EngineError: The engine failed.
        """
        answers = self._compiled.run(bind_feeds(self.inputs, feeds))
        for note in not_a_number(answers) if warn else ():
            warnings.warn(note, RuntimeWarning, stacklevel=2)
        return answers

    def close(self) -> None:
        """Lets go of the engine; may be called again."""
        self._compiled.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values of an array, so many at a time: it may be a mapped file that is larger than memory."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]


def not_a_number(answers: Mapping[str, NDArray[Any]]) -> list[str]:
    """What to say of answers that have values that are no numbers, or infinite."""
    import numpy

    notes: list[str] = []
    for key, values in answers.items():
        if values.dtype.kind not in "fc" and "float" not in values.dtype.name:
            continue
        count = nans = 0
        for block in blocks(values):
            plain = block if block.dtype.kind in "fc" else block.astype(numpy.float32)
            count += int(plain.size - numpy.count_nonzero(numpy.isfinite(plain)))
            nans += int(numpy.count_nonzero(numpy.isnan(plain)))
        if count:
            notes.append(f"output {key!r}: {nans} of {values.size} values are NaN, and {count - nans} are infinite")
    return notes
