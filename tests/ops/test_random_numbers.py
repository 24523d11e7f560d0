"""Random ops from run to run, against numbers of TensorFlow 2.21; conformance cases run once only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.ir.node import Attr, attr
from tfsmith.ir.types import as_dtype
from tfsmith.ops.values import OpFunction, State, bind, compute
from tfsmith.ops.values.random_numbers import Generator


def bound(op: str, kept: dict[tuple[str, str], Any], name: str = "n", **attrs: Any) -> OpFunction:
    whole = {key: given if isinstance(given, Attr) else attr(given) for key, given in attrs.items()}
    return bind(op, whole, state=State(name, kept, lambda file: Path(file.decode()), lambda line: None))


def ints(*values: Any) -> NDArray[Any]:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("op", "inputs", "wanted"),
    [
        (
            "RandomUniformInt",
            [ints(6), ints(0)[0], ints(100)[0]],
            [[61, 60, 41, 94, 59, 0], [60, 23, 17, 83, 25, 78], [24, 74, 48, 80, 51, 42]],
        ),
        (
            "RandomShuffle",
            [np.arange(9)],
            [[6, 5, 0, 1, 8, 3, 7, 4, 2], [3, 6, 5, 8, 2, 4, 0, 1, 7], [8, 2, 5, 3, 6, 7, 4, 1, 0]],
        ),
        (
            "Multinomial",
            [np.array([[0, 1, 2, 3], [3, 0, 0, 0]], np.float32), ints(5)[0]],
            [
                [[3, 3, 2, 3, 1], [0, 0, 0, 0, 0]],
                [[1, 1, 2, 2, 3], [0, 0, 0, 0, 1]],
                [[3, 3, 3, 2, 3], [0, 0, 0, 0, 0]],
            ],
        ),
    ],
)
def test_each_run_goes_on(op: str, inputs: list[NDArray[Any]], wanted: list[Any]) -> None:
    function = bound(op, {}, seed=3, seed2=4)
    assert [function(inputs)[0].tolist() for _ in wanted] == wanted


def test_each_program_starts_anew() -> None:
    kind = Attr("type", as_dtype("float16"))
    wanted = [
        [0.2509765625, 0.56640625, 0.6416015625, 0.275390625],
        [0.5146484375, 0.8701171875, 0.923828125, 0.177734375],
    ]
    for _ in range(2):
        function = bound("RandomUniform", {}, dtype=kind, seed=3, seed2=4)
        assert [function([ints(4)])[0].tolist() for _ in wanted] == wanted


def test_nodes_of_equal_seeds_do_not_share() -> None:
    kept: dict[tuple[str, str], Any] = {}
    kind = Attr("type", as_dtype("float32"))
    one, two = (bound("RandomUniform", kept, name, dtype=kind, seed=3, seed2=4) for name in "ab")
    assert one([ints(4)])[0].tolist() == two([ints(4)])[0].tolist()


def test_without_seeds_numbers_differ_and_are_spread() -> None:
    kind = Attr("type", as_dtype("float32"))
    one, two = (bound("RandomUniform", {}, dtype=kind)([ints(10000)])[0] for _ in range(2))
    assert one.tolist() != two.tolist()
    assert all(part.min() >= 0 and part.max() < 1 and abs(part.mean() - 0.5) < 0.02 for part in (one, two))


def test_normal_numbers_have_their_distribution() -> None:
    shape, seed = ints(20000), ints(5, 6)
    normal = compute("StatelessRandomNormal", [shape, seed])[0]
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    truncated = compute("StatelessTruncatedNormal", [shape, seed])[0]
    assert np.abs(truncated).max() < 2
    assert abs(truncated.std() - 0.88) < 0.03


def test_the_counter_carries() -> None:
    generator = Generator(7, (1 << 64) - 1)
    assert generator.words(2)[1].tolist() == Generator(7, 1 << 64).words(1)[0].tolist()
    assert generator.skip(1).counter == 1 << 64
