"""What names tell: which is nearly right, and whether a variable belongs to the model or to its training."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

__all__ = [
    "NODE_NAME",
    "FreeNames",
    "free_name",
    "nearest",
    "shortened",
    "OBJECT_GRAPH_KEY",
    "is_optimizer_slot",
    "training_names",
]

NODE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""What TensorFlow takes as the name of a node."""
_MOST_WORK = 4_000_000
"""Comparing two names takes time by the product of their lengths; this much is about a second at worst."""


def free_name(wanted: str, taken: Container[str], *also: Container[str]) -> str:
    """The name itself if nothing has it, else the first of `wanted_1`, `wanted_2` and so on that is free.

    Args:
        wanted: The name.
        taken: Names that something has.
        also: More of them.
    """
    free, number = wanted, 0
    while free in taken or any(free in more for more in also):
        number += 1
        free = f"{wanted}_{number}"
    return free


class FreeNames(set[str]):
    """Names that are taken; `take` hands out another one each time.

    Args:
        taken: Names that something has already.
        first: The number of the second that asks for a name: 1 for `add` and `add_1`.
    """

    def __init__(self, taken: Iterable[str] = (), first: int = 1) -> None:
        super().__init__(taken)
        self._before_first = first - 1
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """The name itself if it is free, else with the first number that makes it so; it is taken from then on."""
        free, number = wanted, self._numbers.get(wanted, self._before_first)
        while free in self:
            number += 1
            free = f"{wanted}_{number}"
        self._numbers[wanted] = number
        self.add(free)
        return free


def nearest(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `wanted`, best first; empty if none is near. Bounded work, whatever the names."""
    from difflib import get_close_matches

    tail = wanted.rpartition("/")[2]
    pool = list(names)
    likely = [name for name in pool if tail and tail in name][:500] or pool[:2000]
    return get_close_matches(wanted, list(_affordable(wanted, likely)), count, 0.5)


def shortened(names: Sequence[str], size: int = 120) -> str:
    """The first of some names, joined by commas, and how many more there are: at least one, about `size` characters."""
    shown: list[str] = []
    for name in names:
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(name) > size:
            break
        shown.append(name)
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def _affordable(wanted: str, names: Iterable[str]) -> Iterator[str]:
    left = _MOST_WORK
    for name in names:
        cost = len(wanted) * len(name)
        if cost <= left:
            left -= cost
            yield name


OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Under this key TensorFlow 2 stores which Python object each tensor belongs to."""

_SLOT = (
    r"/(Adam|Adam_1|adam_m|adam_v|Momentum|RMSProp|RMSProp_1|Adagrad|Adadelta|Adadelta_1|Ftrl|Ftrl_1|AdamWeightDecay\w*|"
    r"LAMB\w*|m|v)$|\.OPTIMIZER_SLOT/|/_optimizer/|^optimizer_weights/|^optimizer/vars/"
)
_SHORT = r"/[mv]$"
_IN_OPTIMIZER = r"(^|/)(Adam\w*|Nadam\w*|LAMB\w*|Lamb\w*|RMSprop|SGD|Adagrad|Adamax)/"
_OTHERS = (
    r"(^|/)(global_step|beta[12]_power(_\d+)?)$|(^|/)_?optimizer/|^optimizer_weights/|^keras_api/metrics/"
    r"|(^|/)seed_generator(_state$|/vars/\d+$)|^metrics/.+/vars/\d+$|^save_counter/\.ATTRIBUTES/VARIABLE_VALUE$"
)


def is_optimizer_slot(name: str) -> bool:
    """Whether a variable, by its name, belongs to an optimizer and not to the model."""
    return re.search(_SLOT, name) is not None


def training_names(names: Collection[str]) -> set[str]:
    """Those of a checkpoint's names that only training needs: slots of optimizers, the global step, powers of betas.

    Moving averages are not among them, for they are what a model is best used with. A variable `x/m` or `x/v` counts
    only if there is an `x`, or an optimizer in its path: a layer may well have a weight called `v`.
    """
    known = frozenset(names)
    return {name for name in known if re.search(_OTHERS, name) or (is_optimizer_slot(name) and _is_sure(name, known))}


def _is_sure(name: str, known: frozenset[str]) -> bool:
    return re.search(_SHORT, name) is None or name[:-2] in known or re.search(_IN_OPTIMIZER, name) is not None
