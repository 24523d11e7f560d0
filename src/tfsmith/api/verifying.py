"""F4: Whether two models answer the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.api.bisecting import Parted, Twins, first_difference
from tfsmith.api.files import load
from tfsmith.api.pairing import Pair, Sampler, pair_inputs, pair_outputs
from tfsmith.api.program import ModelProgram, make_program
from tfsmith.api.running import AUTO, Runner, compile, has_tensor, not_a_number
from tfsmith.api.tolerance import Difference, Tolerance, difference, tolerance_for
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.records import record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OutputCheck", "Verified", "join_verified", "verify"]

_BATCHES = (1, 3)


@record
class OutputCheck:
    """One output of both models, compared over all samples.

    Attributes:
        key: What it is called in A, or in both.
        tensor_a: The tensor in A.
        tensor_b: The tensor in B.
        dtype: The type of A's answers.
        max_abs: The largest difference.
        max_rel: The largest difference relative to the value of A.
        tolerance: How far apart they may be.
        reason: What is wrong; "" where the output is the same.
    """

    key: str
    tensor_a: str
    tensor_b: str
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: Tolerance
    reason: str = ""

    @property
    def is_same(self) -> bool:
        """Whether the models agree on it."""
        return not self.reason


@record
class Verified:
    """What verifying found.

    Attributes:
        outputs: The outputs that both models have.
        engines: The engines that A and B ran on, with versions.
        samples: How many runs were compared.
        batches: With which batch sizes, where the models leave them open.
        notes: What was left out, or is strange.
        parted: The first node at which they part, if that was asked for and they do.
    """

    outputs: tuple[OutputCheck, ...]
    engines: tuple[str, str]
    samples: int
    batches: tuple[int, ...]
    notes: tuple[str, ...] = ()
    parted: Parted | None = None

    @property
    def is_same(self) -> bool:
        """Whether the models agree on all outputs that both have."""
        return all(output.is_same for output in self.outputs)


def join_verified(found: Sequence[Verified]) -> Verified:
    """Several verdicts as one; there must be at least one."""
    first = found[0]
    notes = dict.fromkeys(note for one in found for note in one.notes)
    outputs = tuple(output for one in found for output in one.outputs)
    return replace(first, outputs=outputs, samples=sum(one.samples for one in found), notes=tuple(notes))


def verify(
    a: Model | str | os.PathLike[str],
    b: Model | str | os.PathLike[str],
    *,
    samples: int = 1,
    batches: Sequence[int] = _BATCHES,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, str] | None = None,
    signature: str | tuple[str | None, str | None] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    engine: str | tuple[str, str] = AUTO,
    op_libraries: Sequence[str | os.PathLike[str]] = (),
    bisect: bool = False,
) -> Verified:
    """Runs two models on the same inputs and compares what they answer.

    Inputs and outputs are paired by the signatures' keys, else by names of tensors. Made-up inputs are such as the
    models can stand: ids below the vocabulary, masks of 0 and 1, shapes that fit both.

    Args:
        a: A model, or its path.
        b: The model to compare it with.
        samples: How many inputs to make for each batch size.
        batches: The batch sizes, where the models leave them open.
        seed: Of the inputs that are made up.
        inputs: Arrays by key, instead of made-up ones.
        outputs: Which output of B to compare each output of A with, keys or names of tensors; paired by themselves
            by default.
        signature: Which signature, or one for each model.
        rtol: The relative tolerance, instead of what is usual for the dtype.
        atol: The absolute tolerance.
        engine: "auto", "openvino" or "tensorflow", or one for each model.
        op_libraries: Shared libraries with custom ops, for TensorFlow.
        bisect: Whether to look for the first node at which they part, even where no output shows it.

    Raises:
        TfsmithError: They cannot be compared: no output in common, no shape that fits both, no engine.
    """
    models = [one if isinstance(one, Model) else load(one) for one in (a, b)]
    keys = (signature, signature) if isinstance(signature, str) or signature is None else signature
    engines = (engine, engine) if isinstance(engine, str) else engine
    outputs = outputs or _named_by_the_other(models[0], models[1], keys)
    wanted = (list(outputs), list(outputs.values())) if outputs else (None, None)
    first, second = (
        make_program(model, names, signature=key) for model, names, key in zip(models, wanted, keys, strict=True)
    )
    paired = pair_inputs(first, second)
    compared = _outputs(first, second, outputs)
    sampler = Sampler(first, second, paired)
    with (
        compile(models[0], wanted[0], signature=keys[0], engine=engines[0], op_libraries=op_libraries) as run_a,
        compile(models[1], wanted[1], signature=keys[1], engine=engines[1], op_libraries=op_libraries) as run_b,
    ):
        sizes = sampler.batches(batches) if inputs is None else ()
        fed = list(_feeds(sampler, sizes, samples, seed)) if inputs is None else [_given(sampler, inputs)]
        reordered = run_a.engine != run_b.engine or "tensorflow" in (run_a.engine, run_b.engine)
        rule = _Rule(rtol, atol, reordered)
        checks, odd = _compare(run_a, run_b, paired, compared, fed, rule)
        ran = (f"{run_a.engine} {run_a.version}", f"{run_b.engine} {run_b.version}")
    found = Verified(tuple(checks), ran, len(fed), sizes, (*_left_out(paired, compared), *odd))
    if not bisect:
        return found
    parted = first_difference(Twins(first, second, paired, rule.tolerance, engines, tuple(op_libraries)), fed[0])
    return replace(found, parted=parted)


def _named_by_the_other(a: Model, b: Model, keys: tuple[str | None, str | None]) -> dict[str, str] | None:
    """The outputs of a model without signatures, by those of the other one: both have the tensors that it names."""
    if bool(a.signatures) == bool(b.signatures):
        return None
    speaks, mute, key = (a, b, keys[0]) if a.signatures else (b, a, keys[1])
    named = {key: port.tensor for key, port in make_program(speaks, signature=key).outputs.items()}
    there = {key: tensor for key, tensor in named.items() if has_tensor(mute, tensor)}
    if not there:
        return None
    return there if speaks is a else {tensor: key for key, tensor in there.items()}


@record
class _Rule:
    """Which tolerance counts."""

    rtol: float | None
    atol: float | None
    reordered: bool

    def tolerance(self, dtype: str) -> Tolerance:
        """That of a dtype, unless the caller said another."""
        usual = tolerance_for(dtype, reordered=self.reordered)
        return Tolerance(
            usual.relative if self.rtol is None else self.rtol, usual.absolute if self.atol is None else self.atol
        )


def _outputs(a: ModelProgram, b: ModelProgram, named: Mapping[str, str] | None) -> tuple[Pair, ...]:
    if named:
        return tuple(Pair(one, other) for one, other in named.items())
    return pair_outputs(a, b)


def _feeds(sampler: Sampler, batches: Sequence[int], samples: int, seed: int) -> Iterator[dict[str, NDArray[Any]]]:
    import numpy

    generator = numpy.random.default_rng(seed)
    for batch in batches or (1,):
        for _ in range(samples):
            yield sampler.make(batch, generator)


def _given(sampler: Sampler, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """What the caller feeds, by the pairs' keys; names of B and of tensors count too."""
    import numpy

    known: dict[str, str] = {}
    for pair in sampler.pairs:
        ports = [sampler.a.inputs[pair.a]] if pair.a else []
        ports += [sampler.b.inputs[pair.b]] if pair.b else []
        for name in [pair.a, pair.b, *(port.tensor for port in ports), *(port.tensor[:-2] for port in ports)]:
            if name:
                known.setdefault(name, pair.key)
    unknown = [name for name in inputs if name not in known]
    if unknown:
        there = ", ".join(pair.key for pair in sampler.pairs) or "none"
        raise UsageError(f"no model has an input {unknown[0]!r}", remedy=f"the inputs are: {there}")
    return {known[name]: numpy.asarray(value) for name, value in inputs.items()}


def _compare(
    run_a: Runner,
    run_b: Runner,
    inputs: Sequence[Pair],
    outputs: Sequence[Pair],
    fed: Sequence[Mapping[str, NDArray[Any]]],
    rule: _Rule,
) -> tuple[list[OutputCheck], list[str]]:
    """Runs both on everything; the worst difference of each output, and what is strange."""
    worst: dict[Pair, tuple[str, Difference]] = {}
    odd: dict[str, None] = {}
    pairs = [pair for pair in outputs if pair.a and pair.b]
    for feeds in fed:
        one = run_a.run({pair.a: feeds[pair.key] for pair in inputs if pair.a and pair.key in feeds}, warn=False)
        other = run_b.run({pair.b: feeds[pair.key] for pair in inputs if pair.b and pair.key in feeds}, warn=False)
        odd.update({f"A: {note}": None for note in not_a_number(one)})
        odd.update({f"B: {note}": None for note in not_a_number(other)})
        for pair in pairs:
            mine, theirs = one[pair.a or ""], other[pair.b or ""]
            found = difference(mine, theirs, rule.tolerance(mine.dtype.name))
            before = worst.get(pair)
            if before is None or (bool(found.reason), found.max_abs) > (bool(before[1].reason), before[1].max_abs):
                worst[pair] = (mine.dtype.name, found)
    checks = [
        OutputCheck(
            pair.key,
            run_a.outputs[pair.a or ""].tensor,
            run_b.outputs[pair.b or ""].tensor,
            dtype,
            found.max_abs,
            found.max_rel,
            rule.tolerance(dtype),
            found.reason,
        )
        for pair, (dtype, found) in worst.items()
    ]
    return checks, list(odd)


def _left_out(inputs: Sequence[Pair], outputs: Sequence[Pair]) -> Iterator[str]:
    for what, pairs in (("input", inputs), ("output", outputs)):
        for pair in pairs:
            if pair.a is None or pair.b is None:
                side, other = ("A", "B") if pair.b is None else ("B", "A")
                told = "is not compared" if what == "output" else f"is fed to {side} alone, if it needs it"
                yield f"{what} {pair.key!r} is only in {side}, not in {other}; it {told}"
