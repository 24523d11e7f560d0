"""`verify`: whether two models compute the same, and where they part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from tfsmith.engines.bisect import FirstDifference, ModelPair, NodeDifference, first_difference, node_differences
from tfsmith.engines.compare import (
    ArrayDifference,
    Tolerance,
    compare_arrays,
    constant_keys,
    non_finite,
    tolerance_for,
)
from tfsmith.engines.feeds import Fill
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.protocol import Options, Port
from tfsmith.engines.runner import AUTO, Runner, check_engine, compile_other, compile_program
from tfsmith.engines.samples import Arrays, InputMaker, PortPair, pair_inputs, pair_outputs
from tfsmith.errors import Hint, TfsmithError, UsageError, data_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.passes.interface import INIT_SIGNATURE, choose_outputs
from tfsmith.records import record, replace
from tfsmith.verbs._declare import checked
from tfsmith.verbs._feed_values import read_feeds
from tfsmith.verbs._onnx import is_onnx, open_onnx
from tfsmith.verbs._shared import Result, check_room, names_of, open_model
from tfsmith.verbs.run import engine_options
from tfsmith.view import Section, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import Feeds, FilePath, Files, Loads, ModelOrPath, NamePairs, Names, Progress, Sizes

__all__ = ["FLAGS", "OutputCheck", "Verified", "join_verified", "verify", "verify_each_node", "verify_on"]

FLAGS = {"outputs": ("--output",), "inputs": ("--inputs",)}
_BATCHES = (1, 3)
_Programs: TypeAlias = "tuple[ModelProgram, ModelProgram, tuple[PortPair, ...]]"
"""Two programs, and which of their outputs are compared."""
_Bisected: TypeAlias = "tuple[FirstDifference | None, tuple[NodeDifference, ...]]"
_Bisect: TypeAlias = "Callable[[ModelPair, Mapping[str, NDArray[Any]]], _Bisected]"
"""Looks for the first node at which two models part; may give all that were compared, too."""
_OTHER_FILLS: tuple[Fill, ...] = ("random", "wide", "pixels")
"""Inputs to try where an output is the same for all others."""
_FAILED = "B does not run"
_NOWHERE = "no node that both have, and that could be run by itself, differs: look at those that only one of them has"


@record
class OutputCheck:
    """One output of both models, compared over all samples.

    Attributes:
        key: Its key in A, or in both.
        tensor_a: The tensor in A.
        tensor_b: The tensor in B.
        dtype: The type of A's results.
        max_abs: The largest difference.
        max_rel: The largest difference relative to the value of A.
        tolerance: How far apart they may be.
        reason: What is wrong; "" where the output is the same.
        constant: Whether A gave the same for every input, so that equal results prove little.
    """

    key: str
    tensor_a: str
    tensor_b: str
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: Tolerance
    reason: str = ""
    constant: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the models agree on it."""
        return not self.reason

    def __bool__(self) -> bool:
        return self.is_same


@record
class Verified(Result):
    """What verifying found. It is true if the models agree.

    Attributes:
        outputs: The outputs that both models have.
        engines: The engines that A and B ran on, with versions.
        samples: How many runs were compared.
        batches: With which batch sizes, where the models leave them open.
        notes: What was left out, or is strange.
        parted: The first node at which they part, if that was asked for and they do.
        arbiter: The engine that was asked as well, and finds a difference, too.
        nodes: How far apart they are at each node that was compared, if that was asked for.
    """

    outputs: tuple[OutputCheck, ...]
    engines: tuple[str, str]
    samples: int
    batches: tuple[int, ...]
    notes: tuple[str, ...] = ()
    parted: FirstDifference | None = None
    arbiter: str = ""
    nodes: tuple[NodeDifference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the models agree on all outputs that both have."""
        return all(output.is_same for output in self.outputs)

    def __bool__(self) -> bool:
        return self.is_same

    @property
    def remarks(self) -> tuple[str, ...]:
        """What ran them, and how often."""
        ran = self.engines[0] if self.engines[0] == self.engines[1] else " against ".join(self.engines)
        sizes = f", batch sizes {', '.join(map(str, self.batches))}" if self.batches else ""
        confirmed = f"; {self.arbiter} finds a difference, too" if self.arbiter else ""
        return (f"engine: {ran}; {plural(self.samples, 'run')}{sizes}{confirmed}",)

    def report(self) -> Iterator[Section | str]:
        """A row for each output, the verdict, and where the models part."""
        rows = [
            (
                one.key,
                one.dtype,
                f"{one.max_abs:.3g}",
                f"{one.max_rel:.3g}",
                one.tolerance.shown(),
                one.reason or ("same, but constant" if one.constant else "same"),
            )
            for one in self.outputs
        ]
        yield Section("", rows, ("output", "dtype", "max abs", "max rel", "allowed", "verdict"))
        yield self._verdict()
        if self.parted is not None:
            place = f"{self.parted.node} ({self.parted.op}), behind {self.parted.checked} nodes that agree"
            yield f"They part at {place}: {self.parted.reason}"

    def brief(self) -> Iterator[str]:
        """The same in few lines, for a verb that verifies what it wrote."""
        yield from (Hint(f"warning: {data_of(note)}") for note in self.notes)
        yield from self.remarks
        for one in self.outputs:
            room = f"the largest difference is {one.max_abs:.3g} (allowed: {one.tolerance.shown()})"
            yield f"output {one.key}: {one.reason or 'same'}; {room}"
        yield self._verdict()

    def _verdict(self) -> str:
        return "The models answer the same." if self.is_same else "The models differ."

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        parted = self.parted
        return {
            "same": self.is_same,
            "outputs": [
                {
                    "key": one.key,
                    "tensor_a": one.tensor_a,
                    "tensor_b": one.tensor_b,
                    "dtype": one.dtype,
                    "max_abs": one.max_abs,
                    "max_rel": one.max_rel,
                    "atol": one.tolerance.absolute,
                    "rtol": one.tolerance.relative,
                    "same": one.is_same,
                    "constant": one.constant,
                    "reason": one.reason,
                }
                for one in self.outputs
            ],
            "engines": list(self.engines),
            "samples": self.samples,
            "batches": list(self.batches),
            "notes": list(self.notes),
            "parted": None
            if parted is None
            else {"node": parted.node, "op": parted.op, "reason": parted.reason, "checked": parted.checked},
            "arbiter": self.arbiter,
        }


def join_verified(found: Sequence[Verified]) -> Verified:
    """Several verdicts as one; there must be at least one."""
    first = found[0]
    notes = dict.fromkeys(note for one in found for note in one.notes)
    outputs = tuple(output for one in found for output in one.outputs)
    return replace(first, outputs=outputs, samples=sum(one.samples for one in found), notes=tuple(notes))


@checked
def verify(
    a: ModelOrPath,
    b: ModelOrPath,
    outputs: NamePairs = (),
    *,
    inputs: Feeds = (),
    samples: int = 1,
    batches: Sizes = _BATCHES,
    seed: int = 0,
    signature: str | None = None,
    other_signature: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    engine: str = AUTO,
    other_engine: str | None = None,
    op_libraries: Files = (),
    bisect: bool = False,
    other_tags: Names | None = None,
    other_checkpoint: FilePath | None = None,
    progress: Progress | None = None,
    **shared: Unpack[Loads],
) -> Verified:
    """Runs two models on the same inputs and compares what they compute.

    Inputs and outputs are paired by the signatures' keys, else by names of tensors; where only one of the models says
    what its outputs are, these are looked for in the other. Made-up inputs are such as the models can stand: ids below
    the vocabulary, masks of 0 and 1, shapes that fit both. Where an output is the same for all of them, others are
    tried.

    Args:
        a: A model: SavedModel folder, .meta, GraphDef, checkpoint prefix or folder.
        b: The model to compare it with.
        outputs: Which outputs of A to compare, keys or names of tensors, with which of B, if they are called otherwise
            there; by default all that both have.
        inputs: Run them on these inputs, not on made-up ones: arrays by key, an .npz, or KEY=VALUE as `run` takes it.
        samples: How many inputs to make for each batch size.
        batches: The batch sizes, where the models leave them open.
        seed: Of the inputs that are made up.
        signature: Which signature, of both.
        other_signature: Which signature of B, if another.
        rtol: The relative tolerance; by default what is usual for the dtype.
        atol: The absolute tolerance; by default what is usual for the dtype.
        engine: openvino, reference, tensorflow, or auto for the first that can.
        other_engine: What to run B on, if on another.
        op_libraries: A library of custom ops, for TensorFlow.
        bisect: Name the first node at which they part, even where no output shows it; where B does not run at all, the
            first at which it fails.
        other_tags: Which meta graph of B, by its tags.
        other_checkpoint: The checkpoint of B, if B is a bare graph.
        progress: Is called with the name of each step that begins.

    Returns:
        Each output with the largest difference. It is true if the models agree.

    Raises:
        TfsmithError: They cannot be compared: no output in common, no shape that fits both, no engine.

    Example:
        tfsmith verify saved_model frozen.pb
        tfsmith verify frozen.pb tampered.pb --bisect
    """
    engines = (engine, other_engine or engine)
    for name in engines:
        check_engine(name)
    _check_numbers(samples, batches, seed, rtol, atol)
    step = progress or (lambda name: None)
    step("opening the models")
    others = {"tags": other_tags, "checkpoint": other_checkpoint}
    signatures = (signature, other_signature or signature)
    if is_onnx(a) or is_onnx(b):
        if bisect:
            raise UsageError("{bisect} compares nodes of TensorFlow, which ONNX has not", remedy="leave it out")
        programs = _onnx_programs((a, shared), (b, others), outputs, signatures)
    else:
        models = (open_model(a, shared, needs_graph="run"), open_model(b, others, needs_graph="run"))
        programs = _programs(*models, outputs, signatures)

    def tried(maker: InputMaker) -> _Tried:
        found = _Tried(maker, () if inputs else maker.batches(batches), seed)
        if inputs:
            found.give(read_feeds(maker.a.inputs, inputs, seed=seed)[0])
        else:
            found.make(samples)
        return found

    rule = _Rule(rtol, atol)
    search = _first_alone if bisect else None
    return _verified(programs, tried, engines, engine_options(op_libraries), rule, step, search)


def verify_each_node(a: Model, b: Model, *, engine: str = AUTO) -> Verified:
    """As `verify` with `bisect`, but `nodes` has every node that both models have and that could be run by itself."""
    check_engine(engine)
    programs = _programs(a, b, (), (None, None))
    return _verified(programs, _made_up, (engine, engine), engine_options(), _Rule(None, None), bisect=node_differences)


def verify_programs(a: ModelProgram, b: ModelProgram, *, engine: str = AUTO) -> Verified:
    """As `verify`, for what is ready to be compiled: all outputs that both have, on inputs that are made up."""
    programs = (a, b, pair_outputs(a, b))
    return _verified(programs, _made_up, (engine, engine), engine_options(), _Rule(None, None))


def _made_up(maker: InputMaker) -> _Tried:
    found = _Tried(maker, maker.batches(_BATCHES), 0)
    found.make(1)
    return found


def _onnx_programs(
    a: tuple[ModelOrPath, Mapping[str, Any]],
    b: tuple[ModelOrPath, Mapping[str, Any]],
    outputs: NamePairs,
    signatures: tuple[str | None, str | None],
) -> _Programs:
    """Two models of which one or both are ONNX; outputs are paired by their names."""
    names = outputs if isinstance(outputs, Mapping) else dict(_split(name) for name in names_of(outputs))
    wanted = (list(names), [other or name for name, other in names.items()])
    found: list[ModelProgram] = []
    for (model, options), asked, signature in zip((a, b), wanted, signatures, strict=True):
        if isinstance(model, (str, os.PathLike)) and is_onnx(model):
            found.append(open_onnx(model, asked))
        else:
            opened = open_model(model, options, needs_graph="run")
            found.append(make_program(opened, asked or None, signature=signature))
    if names:
        return found[0], found[1], tuple(PortPair(one, other) for one, other in zip(*wanted, strict=True))
    return found[0], found[1], pair_outputs(found[0], found[1])


def verify_on(
    a: Model,
    b: Model,
    outputs: NamePairs,
    given: Sequence[Mapping[str, Any]],
    *,
    signature: str | None = None,
    room: Tolerance,
    engine: str = AUTO,
    op_libraries: Files = (),
) -> Verified:
    """As `verify`, on several inputs that may have different sizes. Each model is compiled once.

    Integers must be equal; floats may be as far apart as `room` says.
    """

    def tried(maker: InputMaker) -> _Tried:
        found = _Tried(maker, (), 0)
        for inputs in given:
            found.give(inputs)
        return found

    engines, signatures = (engine, engine), (signature, signature)
    rule = _Rule(room.relative, room.absolute, only_floats=True)
    return _verified(_programs(a, b, outputs, signatures), tried, engines, engine_options(op_libraries), rule)


def _verified(
    programs: _Programs,
    inputs: Callable[[InputMaker], _Tried],
    engines: tuple[str, str],
    options: Options,
    rule: _Rule,
    step: Progress = lambda name: None,
    bisect: _Bisect | None = None,
) -> Verified:
    first, second, compared = programs
    maker = InputMaker(first, second, pair_inputs(first, second))
    left_out = tuple(_left_out(maker.pairs, compared))
    compared = tuple(pair for pair in compared if pair.a and pair.b)
    tried = inputs(maker)
    sizes = tuple(tried.sizes)
    step("running A")
    with compile_program(first, engines[0], options) as runner:
        tried.run_a(runner, [pair.a or "" for pair in compared])
        one = _Results(runner.engine, runner.version, runner.outputs, tuple(tried.runs))
    step("running B")  # one after the other, so that only one of them takes memory
    failure: TfsmithError | None = None
    try:
        with compile_program(second, engines[1], options) as runner:
            runs = tuple(runner.run(feeds, warn=False) for feeds in _fed_to(maker.pairs, "b", tried.feeds))
            other = _Results(runner.engine, runner.version, runner.outputs, runs)
    except TfsmithError as error:
        if bisect is None:
            raise
        failure = error
        other = replace(one, engine=one.engine if engines[1] == AUTO else engines[1], version="")
    rule = replace(rule, reordered=one.engine != other.engine or "tensorflow" in (one.engine, other.engine))
    pair = ModelPair(first, second, maker.pairs, rule.tolerance, (one.engine, other.engine), options)
    ran = (f"{one.engine} {one.version}", f"{other.engine} {other.version}".rstrip())
    count = len(tried.feeds)
    if failure is not None:
        step("looking for the first node that fails")
        where, nodes = _where_it_fails(pair, tried.feeds[0], failure, bisect or _first_alone)
        failed = _failed_outputs(one, compared, rule)
        return Verified(failed, ran, count, sizes, (*left_out, f"{_FAILED}: {failure.what}"), where, nodes=nodes)
    checks, worst, odd = _compare(one, other, compared, rule, tried.constant)
    notes = (*left_out, *odd, *tried.notes)
    found = Verified(tuple(checks), ran, count, sizes, notes)
    if engines == (AUTO, AUTO) and not found.is_same:
        step("asking another engine")
        found = _arbitrated(found, pair, tried, compared, rule)
    if bisect is None:
        return found
    step("looking for the first node that differs")
    parted, nodes = bisect(pair, tried.feeds[worst])
    if parted is None and not found.is_same:
        found = replace(found, notes=(*found.notes, _NOWHERE))
    return replace(found, parted=parted, nodes=nodes)


def _first_alone(models: ModelPair, feeds: Mapping[str, NDArray[Any]]) -> _Bisected:
    return first_difference(models, feeds), ()


def _check_numbers(samples: int, batches: Sequence[int], seed: int, rtol: float | None, atol: float | None) -> None:
    """Refuses numbers that would make the comparison mean nothing.

    Raises:
        UsageError: One of them is too small, or no number.
    """
    for name, value, least in (("samples", samples, 1), *(("batches", size, 1) for size in batches), ("seed", seed, 0)):
        if value < least:
            raise UsageError(f"{{{name}={value}}} makes no sense", remedy=f"pass {least} or more")
    check_room(rtol=rtol, atol=atol)


def _programs(
    a: Model, b: Model, outputs: NamePairs, signatures: tuple[str | None, str | None]
) -> tuple[ModelProgram, ModelProgram, tuple[PortPair, ...]]:
    """Both models with the outputs that are compared, and how these are paired; one that has no pair is left out."""
    if outputs:
        names = outputs if isinstance(outputs, Mapping) else dict(_split(name) for name in names_of(outputs))
        first = make_program(a, list(names), signature=signatures[0])
        given = {
            key: name or _find_output(first, key, b, signatures[1]) or _find_key(first, key, b) or key
            for key, name in names.items()
        }
        second = make_program(b, list(given.values()), signature=signatures[1])
        return first, second, tuple(PortPair(one, other) for one, other in given.items())
    if _has_signature(a) and _has_signature(b):
        first, second = make_program(a, signature=signatures[0]), make_program(b, signature=signatures[1])
        with suppress(UsageError):  # no output in common; B may have the tensors of A's
            return first, second, pair_outputs(first, second)
    swap = _has_signature(b) and not _has_signature(a)
    known = b if swap else a
    keys = signatures[::-1] if swap else signatures
    try:
        speaks = make_program(known, signature=keys[0])
    except UsageError:  # nothing says what its outputs are; the other one may know
        if _has_signature(known):
            raise
        known, swap, keys = b, True, signatures[::-1]
        speaks = make_program(known, signature=keys[0])
    other = a if swap else b
    found = {key: _find_output(speaks, key, other, keys[1]) for key in speaks.outputs}
    there = [name for name in found.values() if name is not None]
    mute = make_program(other, there or None, signature=keys[1])
    if not there:
        first, second = (mute, speaks) if swap else (speaks, mute)
        return first, second, pair_outputs(first, second)
    pairs = tuple(PortPair(name, key) if swap else PortPair(key, name) for key, name in found.items())
    return (mute, speaks, pairs) if swap else (speaks, mute, pairs)


def _has_signature(model: Model) -> bool:
    return any(found.outputs for key, found in model.signatures.items() if key != INIT_SIGNATURE)


def _split(text: str) -> tuple[str, str]:
    """The name of an output of A, and that of B if it is given: "A=B"."""
    one, _, other = text.partition("=")
    return one, other


def _find_output(program: ModelProgram, key: str, other: Model, signature: str | None) -> str | None:
    """What an output of one model is called in another: a key of its signature, a tensor, or a node called so."""
    if _has_signature(other) and key in choose_outputs(other, None, signature):
        return key
    return next((name for name in (program.outputs[key].tensor, key) if _has_tensor(other, name)), None)


def _find_key(program: ModelProgram, key: str, other: Model) -> str | None:
    """The same by the key that the one model's signature has for the tensor."""
    tensor = program.outputs[key].tensor
    known = {} if program.signature is None else program.model.signatures[program.signature].outputs
    names = [name for name, info in known.items() if str(parse_input(info.name)) == tensor]
    return next((name for name in names if _has_tensor(other, name)), None)


def _has_tensor(model: Model, name: str) -> bool:
    return parse_input(name).node in model.graph


class _Tried:
    """The inputs that are tried, and what A gives for them.

    Attributes:
        sizes: The batch sizes that are asked for, where the models leave them open.
        feeds: The inputs, by the pairs' keys.
        runs: What A gives for each.
        constant: The outputs that are the same for all of them.
        notes: What to say of these.
    """

    def __init__(self, maker: InputMaker, sizes: Sequence[int], seed: int) -> None:
        import numpy

        self._maker = maker
        self.sizes = sizes
        self._generator = numpy.random.default_rng(seed)
        self._rows: list[int] = []
        self._is_made = False
        self.feeds: list[Arrays] = []
        self.runs: list[Arrays] = []
        self.constant: list[str] = []
        self.notes: list[str] = []

    def make(self, samples: int) -> None:
        """Makes so many inputs up for each batch size."""
        self._is_made = True
        for batch in self.sizes or (1,):
            for _ in range(samples):
                self._add(self._maker.make(batch, self._generator), batch if self.sizes else 0)

    def give(self, inputs: Mapping[str, Any]) -> None:
        """Takes the caller's inputs; names of B and of tensors count too."""
        feeds = _given(self._maker, inputs)
        rows = {len(value) if value.ndim else 0 for value in feeds.values()}
        self._add(feeds, rows.pop() if len(rows) == 1 else 0)

    def _add(self, feeds: Arrays, rows: int) -> None:
        self.feeds.append(feeds)
        self._rows.append(rows)

    def run_a(self, runner: Runner, keys: Sequence[str]) -> None:
        """Runs A; where an output is the same for all inputs, other inputs are tried, too."""
        self.runs = [runner.run(feeds, warn=False) for feeds in _fed_to(self._maker.pairs, "a", self.feeds)]
        self.constant = constant_keys(self.runs, keys, self._rows)
        for fill in _OTHER_FILLS if self._is_made and any(self.feeds) else ():
            if not self.constant:
                return
            if fill != "random" or self._count() == 1:
                self._try(runner, fill)
                self.constant = constant_keys(self.runs, keys, self._rows)
        if self._count() == 1:
            self.constant = []  # one input says nothing of that
        for key in self.constant:
            what = f"output {key!r} is the same for all {self._count()} inputs that were tried, so equal results"
            self.notes.append(Hint(f"{what} prove little; pass inputs of your own ({{verify(inputs='...')}})"))

    def _count(self) -> int:
        """How many inputs there are: rows count where they are inputs of their own."""
        return sum(rows or 1 for rows in self._rows)

    def _try(self, runner: Runner, fill: Fill) -> None:
        """Runs A on one more input; what it cannot stand, or what gives no numbers, is no input to compare with."""
        batch = 3 if self.sizes else 1
        feeds = self._maker.make(batch, self._generator, fill)
        try:
            results = [runner.run(fed, warn=False) for fed in _fed_to(self._maker.pairs, "a", [feeds])]
        except TfsmithError:
            return
        if not non_finite(results[0]):
            self._add(feeds, batch if self.sizes else 0)
            self.runs += results


@record
class _Results:
    """What one model computes, one run after the other."""

    engine: str
    version: str
    outputs: Mapping[str, Port]
    runs: tuple[Mapping[str, NDArray[Any]], ...]


def _fed_to(pairs: Sequence[PortPair], side: str, fed: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is fed to one of the models, by its own keys."""
    keys = {pair.key: pair.a if side == "a" else pair.b for pair in pairs}
    for feeds in fed:
        yield {key: feeds[name] for name, key in keys.items() if key is not None and name in feeds}


def _arbitrated(
    verified: Verified, models: ModelPair, tried: _Tried, outputs: Sequence[PortPair], rule: _Rule
) -> Verified:
    """What a second engine says of two models that differ; its word counts where it finds them the same.

    Args:
        verified: What the first engine found.
        models: The models, and the engines that they ran on.
        tried: The inputs.
        outputs: How the outputs are paired.
        rule: Which tolerance counts.
    """
    found: list[_Results] = []
    for program, side in ((models.a, "a"), (models.b, "b")):
        runner = compile_other(program, (*models.engines, "openvino"), models.options)
        if runner is None:
            return verified
        with runner:
            try:
                runs = tuple(runner.run(feeds, warn=False) for feeds in _fed_to(models.inputs, side, tried.feeds))
            except TfsmithError as error:
                note = f"{runner.engine} cannot say which of the results is right: {error.what}"
                return replace(verified, notes=(*verified.notes, note))
            found.append(_Results(runner.engine, runner.version, runner.outputs, runs))
    one, other = found
    reordered = one.engine != other.engine or one.engine == "tensorflow"
    checks, _, _ = _compare(one, other, outputs, replace(rule, reordered=reordered), tried.constant)
    asked = " and ".join(dict.fromkeys((one.engine, other.engine)))
    if any(check.reason for check in checks):
        return replace(verified, arbiter=asked)
    before = " and ".join(dict.fromkeys(models.engines))
    note = f"{before} computes them differently, but {asked} the same: the difference is that engine's"
    return replace(verified, outputs=tuple(checks), notes=(*verified.notes, note))


def _where_it_fails(
    models: ModelPair, feeds: Mapping[str, NDArray[Any]], failure: TfsmithError, bisect: _Bisect
) -> _Bisected:
    """The first node at which B fails, and what was compared.

    Raises:
        TfsmithError: The failure itself, where no node can be named for it.
    """
    try:
        parted, nodes = bisect(models, feeds)
    except TfsmithError:
        raise failure from None
    if parted is None:
        raise failure
    return parted, nodes


def _failed_outputs(one: _Results, outputs: Sequence[PortPair], rule: _Rule) -> tuple[OutputCheck, ...]:
    """The outputs that B should have given."""
    worst = float("inf")
    return tuple(
        OutputCheck(pair.key, one.outputs[pair.a].tensor, pair.b, dtype, worst, worst, rule.tolerance(dtype), _FAILED)
        for pair in outputs
        if pair.a and pair.b and (dtype := one.runs[0][pair.a].dtype.name)
    )


@record
class _Rule:
    """Which tolerance counts."""

    rtol: float | None
    atol: float | None
    reordered: bool = False
    only_floats: bool = False

    def tolerance(self, dtype: str) -> Tolerance:
        """That of a dtype, unless the caller said another."""
        usual = tolerance_for(dtype, reordered=self.reordered)
        if self.only_floats and "float" not in dtype:
            return usual
        return Tolerance(
            usual.relative if self.rtol is None else self.rtol, usual.absolute if self.atol is None else self.atol
        )


def _given(maker: InputMaker, inputs: Mapping[str, Any]) -> Arrays:
    """What the caller feeds, by the pairs' keys; names of B and of tensors count too."""
    import numpy

    known: dict[str, str] = {}
    for pair in maker.pairs:
        ports = [maker.a.inputs[pair.a]] if pair.a else []
        ports += [maker.b.inputs[pair.b]] if pair.b else []
        for name in [pair.a, pair.b, *(port.tensor for port in ports), *(port.tensor[:-2] for port in ports)]:
            if name:
                known.setdefault(name, pair.key)
    unknown = [name for name in inputs if name not in known]
    if unknown:
        there = ", ".join(pair.key for pair in maker.pairs) or "none"
        raise UsageError(f"no model has an input {unknown[0]!r}", remedy=f"the inputs are: {there}")
    return {known[name]: numpy.asarray(value) for name, value in inputs.items()}


def _compare(
    one: _Results, other: _Results, outputs: Sequence[PortPair], rule: _Rule, constant: Sequence[str]
) -> tuple[list[OutputCheck], int, list[str]]:
    """The worst difference of each output over all runs, the first run that differs, and what is strange."""
    worst: dict[PortPair, tuple[str, ArrayDifference]] = {}
    odd: dict[str, None] = {}
    differs: int | None = None
    for number, (run_a, run_b) in enumerate(zip(one.runs, other.runs, strict=True)):
        odd.update({f"A: {note}": None for note in non_finite(run_a)})
        odd.update({f"B: {note}": None for note in non_finite(run_b)})
        for pair in outputs:
            mine, theirs = run_a[pair.a or ""], run_b[pair.b or ""]
            found = compare_arrays(mine, theirs, rule.tolerance(mine.dtype.name))
            before = worst.get(pair)
            if found.reason and differs is None:
                differs = number
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
            pair.a in constant,
        )
        for pair, (dtype, found) in worst.items()
    ]
    return checks, differs or 0, list(odd)


def _left_out(inputs: Sequence[PortPair], outputs: Sequence[PortPair]) -> Iterator[str]:
    for what, pairs in (("input", inputs), ("output", outputs)):
        for pair in pairs:
            if pair.a is None or pair.b is None:
                side, other = ("A", "B") if pair.b is None else ("B", "A")
                told = "is not compared" if what == "output" else f"is fed to {side} alone, if it needs it"
                yield f"{what} {pair.key!r} is only in {side}, not in {other}; it {told}"
