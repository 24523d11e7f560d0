"""F4: Whether two models answer the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.api.bisecting import Parted, Twins, first_difference
from tfsmith.api.pairing import Pair, Sampler, pair_inputs, pair_outputs
from tfsmith.api.program import ModelProgram, make_program
from tfsmith.api.running import AUTO, compile, has_tensor, not_a_number
from tfsmith.api.tolerance import Difference, Tolerance, difference, tolerance_for
from tfsmith.engines.protocol import Port
from tfsmith.errors import TfsmithError, UsageError
from tfsmith.ir.model import Model
from tfsmith.records import record, replace
from tfsmith.verbs.files import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OutputCheck", "Verified", "join_verified", "verify"]

_BATCHES = (1, 3)
_SILENT = "B does not run"
_NOWHERE = "no node that both have, and that could be run by itself, differs: look at those that only one of them has"


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
        bisect: Whether to look for the first node at which they part, even where no output shows it; where B does not
            run at all, for the first at which it fails.

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
    sizes = sampler.batches(batches) if inputs is None else ()
    fed = list(_feeds(sampler, sizes, samples, seed)) if inputs is None else [_given(sampler, inputs)]
    one = _answers(models[0], wanted[0], keys[0], engines[0], op_libraries, _fed_to(paired, "a", fed))
    try:  # one after the other, so that only one of them takes memory
        other = _answers(models[1], wanted[1], keys[1], engines[1], op_libraries, _fed_to(paired, "b", fed))
    except TfsmithError as error:
        failure: TfsmithError | None = error
        other = replace(one, engine=one.engine if engines[1] == AUTO else engines[1], version="")
        if not bisect:
            raise
    else:
        failure = None
    rule = _Rule(rtol, atol, reordered=one.engine != other.engine or "tensorflow" in (one.engine, other.engine))
    twins = Twins(first, second, paired, rule.tolerance, (one.engine, other.engine), tuple(op_libraries))
    ran = (f"{one.engine} {one.version}", f"{other.engine} {other.version}".rstrip())
    left_out = tuple(_left_out(paired, compared))
    if failure is not None:
        where = _where_it_fails(twins, fed[0], failure)
        failed = _failed_outputs(one, compared, rule)
        return Verified(failed, ran, len(fed), sizes, (*left_out, f"{_SILENT}: {failure.what}"), where)
    checks, odd = _compare(one, other, compared, rule)
    found = Verified(tuple(checks), ran, len(fed), sizes, (*left_out, *odd))
    if not bisect:
        return found
    parted = first_difference(twins, fed[0])
    if parted is None and not found.is_same:
        found = replace(found, notes=(*found.notes, _NOWHERE))
    return replace(found, parted=parted)


@record
class _Answers:
    """What one model answers, one run after the other."""

    engine: str
    version: str
    outputs: Mapping[str, Port]
    runs: tuple[Mapping[str, NDArray[Any]], ...]


def _fed_to(pairs: Sequence[Pair], side: str, fed: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is fed to one of the models, by its own keys."""
    keys = {pair.key: pair.a if side == "a" else pair.b for pair in pairs}
    for feeds in fed:
        yield {key: feeds[name] for name, key in keys.items() if key is not None and name in feeds}


def _answers(
    model: Model,
    fetches: Sequence[str] | None,
    signature: str | None,
    engine: str,
    op_libraries: Sequence[str | os.PathLike[str]],
    fed: Iterable[Mapping[str, Any]],
) -> _Answers:
    with compile(model, fetches, signature=signature, engine=engine, op_libraries=op_libraries) as runner:
        runs = tuple(runner.run(feeds, warn=False) for feeds in fed)
        return _Answers(runner.engine, runner.version, runner.outputs, runs)


def _where_it_fails(twins: Twins, feeds: Mapping[str, NDArray[Any]], failure: TfsmithError) -> Parted:
    """The first node at which B fails.

    Raises:
        TfsmithError: The failure itself, where no node can be named for it.
    """
    try:
        parted = first_difference(twins, feeds)
    except TfsmithError:
        parted = None
    if parted is None:
        raise failure
    return parted


def _failed_outputs(one: _Answers, outputs: Sequence[Pair], rule: _Rule) -> tuple[OutputCheck, ...]:
    """The outputs that B should have given."""
    worst = float("inf")
    return tuple(
        OutputCheck(pair.key, one.outputs[pair.a].tensor, pair.b, dtype, worst, worst, rule.tolerance(dtype), _SILENT)
        for pair in outputs
        if pair.a and pair.b and (dtype := one.runs[0][pair.a].dtype.name)
    )


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
    one: _Answers, other: _Answers, outputs: Sequence[Pair], rule: _Rule
) -> tuple[list[OutputCheck], list[str]]:
    """The worst difference of each output over all runs, and what is strange."""
    worst: dict[Pair, tuple[str, Difference]] = {}
    odd: dict[str, None] = {}
    pairs = [pair for pair in outputs if pair.a and pair.b]
    for run_a, run_b in zip(one.runs, other.runs, strict=True):
        odd.update({f"A: {note}": None for note in not_a_number(run_a)})
        odd.update({f"B: {note}": None for note in not_a_number(run_b)})
        for pair in pairs:
            mine, theirs = run_a[pair.a or ""], run_b[pair.b or ""]
            found = difference(mine, theirs, rule.tolerance(mine.dtype.name))
            before = worst.get(pair)
            if before is None or (bool(found.reason), found.max_abs) > (bool(before[1].reason), before[1].max_abs):
                worst[pair] = (mine.dtype.name, found)
    checks = [
        OutputCheck(
            pair.key,
            one.outputs[pair.a or ""].tensor,
            other.outputs[pair.b or ""].tensor,
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
