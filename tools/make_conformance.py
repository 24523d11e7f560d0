"""Asks the installed TensorFlow for the answers to conformance cases and packs them. Run it when cases change.

    python -m tools.make_conformance                      all cases that have no answer; answers to others stay
    python -m tools.make_conformance elementwise TopKV2   those of a family or of an op
    python -m tools.make_conformance --all elementwise    asks again for what has an answer
    python -m tools.make_conformance --check --every 20   asks for every 20th case and compares with what is packed

TensorFlow runs without its graph optimizer and without oneDNN, on one thread. Answers to cases that are no longer
there are dropped. A case may end the process: `--verbose` names each one before it is asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from tfsmith.engines.tensorflow_child import plain_array
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ops.samples import Case, Samples, samples_of
from tfsmith.storage import Span
from tfsmith.testing.conformance.answers import FOLDER, Answer, Answers, digest, load_answers, pack_answers
from tfsmith.testing.conformance.equality import difference

_MOST = 64
_NO_KERNEL = ("No OpKernel was registered", "No registered '", "not registered for", "could not find registered")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="families and ops; all by default")
    parser.add_argument("--all", action="store_true", help="ask again for what has an answer")
    parser.add_argument("--check", action="store_true", help="compare with what is packed; write nothing")
    parser.add_argument("--every", type=int, default=1, help="with --check: only every so many cases")
    parser.add_argument("--verbose", action="store_true", help="name each case before it is asked")
    arguments = parser.parse_args()
    chosen = samples_of(*arguments.names)
    if not chosen:
        sys.exit(f"there are no samples of {', '.join(arguments.names) or 'anything'}")
    tensorflow = TensorFlow(verbose=arguments.verbose)
    if arguments.check:
        sys.exit(_check(tensorflow, chosen, arguments.every))
    families = {one.family for one in chosen}
    wanted = {(one.family, one.op) for one in chosen}
    for family, group in groupby(samples_of(*families), lambda one: one.family):
        if family in families:
            _pack(tensorflow, family, list(group), wanted if arguments.all else set())


def _pack(tensorflow: TensorFlow, family: str, samples: Iterable[Samples], again: set[tuple[str, str]]) -> None:
    """Writes the answers of a family: the old ones that still have a case, and those that are asked now."""
    old = load_answers(family)
    kept: dict[str, Answer] = {}
    asked = 0
    for one in samples:
        for case in one.cases():
            _check_size(case)
            key = digest(case)
            if key in kept:
                continue
            packed = old.by_digest.get(key) if old.version == tensorflow.version else None
            if packed is None or (family, one.op) in again:
                packed = tensorflow.ask(case)
                asked += 1
            kept[key] = packed
    path = FOLDER / f"{family}.zlib"
    data = pack_answers(Answers(tensorflow.version, kept))
    path.write_bytes(data)
    kinds = [answer.kind for answer in kept.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("values", "refused", "lacks"))
    print(f"{family}: {len(kept)} cases ({counts}), {asked} asked, {len(data)} bytes")


def _check(tensorflow: TensorFlow, samples: Iterable[Samples], every: int) -> int:
    """Compares every so many cases with what is packed; the exit code is 1 where one differs."""
    wrong: list[str] = []
    count = number = 0
    for one in samples:
        answers = load_answers(one.family)
        if answers.version != tensorflow.version:
            wrong.append(
                f"{one.family}: answers of TensorFlow {answers.version or '(none)'}, here is {tensorflow.version}"
            )
            continue
        for case in one.cases():
            number += 1
            if number % every:
                continue
            count += 1
            packed = answers.by_digest.get(digest(case))
            reason = "has no answer" if packed is None else _differs(tensorflow.ask(case), packed, one)
            if reason is not None:
                wrong.append(f"{case}: {reason}")
    for line in dict.fromkeys(wrong):
        print(line)
    print(f"{count} cases asked, {len(wrong)} differ")
    if wrong:
        print("regenerate by: python -m tools.make_conformance")
    return 1 if wrong else 0


def _differs(now: Answer, packed: Answer, samples: Samples) -> str | None:
    if now.kind != packed.kind:
        return f"{now.kind}, packed is {packed.kind}"
    reasons = (difference(*pair, samples.tolerance) for pair in zip(now.values, packed.values, strict=True))
    return next((reason for reason in reasons if reason is not None), None)


def _check_size(case: Case) -> None:
    sizes = [array.size for array in case.feeds.values()]
    sizes += [node.tensor("value").numpy().size for node in case.nodes if node.op == "Const"]
    if max(sizes, default=0) > _MOST:
        sys.exit(f"{case}: a tensor has more than {_MOST} elements")


class TensorFlow:
    """The installed TensorFlow, in this process.

    Attributes:
        version: Its version.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        os.environ |= {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        import tensorflow as tf

        self.version = str(tf.__version__)
        self._tf = tf
        self._verbose = verbose
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        self._config = config

    def ask(self, case: Case) -> Answer:
        """What TensorFlow says to a case."""
        if self._verbose:
            print(case, file=sys.stderr, flush=True)
        tf, v1 = self._tf, self._tf.compat.v1
        graph = tf.Graph()
        try:
            with graph.as_default():
                tf.import_graph_def(v1.GraphDef.FromString(b"".join(_bytes(case))), name="")
            with v1.Session(graph=graph, config=self._config) as session:
                found = session.run(list(case.fetches), {f"{key}:0": self._fed(case, key) for key in case.feeds})
        except (tf.errors.OpError, ValueError, TypeError) as error:
            lacks = isinstance(error, tf.errors.UnimplementedError) or any(words in str(error) for words in _NO_KERNEL)
            return Answer("lacks" if lacks else "refused")
        return Answer("values", tuple(plain_array(values) for values in found))

    def _fed(self, case: Case, key: str) -> Any:
        kind = case.types[key]
        if not kind.name.startswith("q"):
            return case.feeds[key]
        return case.feeds[key].astype(self._tf.as_dtype(kind.number).as_numpy_dtype)


def _bytes(case: Case) -> Iterator[bytes]:
    plan = plan_graph(case.graph())
    assert not isinstance(plan, Span)
    for part in plan.parts():
        if isinstance(part, bytes):
            yield part
        elif isinstance(part, Span):
            yield part.tobytes()
        else:
            raise AssertionError("a small graph has no streams")


if __name__ == "__main__":
    main()
