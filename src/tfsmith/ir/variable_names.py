"""What the name of a variable in a checkpoint says of it: whether it belongs to the model or to its training."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["OBJECT_GRAPH_KEY", "is_optimizer_slot", "training_names"]

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Under this key TensorFlow 2 stores which Python object each tensor belongs to."""

_SLOT = re.compile(
    r"/(Adam|Adam_1|adam_m|adam_v|Momentum|RMSProp|RMSProp_1|Adagrad|Adadelta|Adadelta_1|Ftrl|Ftrl_1|AdamWeightDecay\w*|"
    r"LAMB\w*|m|v)$|\.OPTIMIZER_SLOT/|/_optimizer/"
)
_SHORT = re.compile(r"/[mv]$")
_IN_OPTIMIZER = re.compile(r"(^|/)(Adam\w*|Nadam\w*|LAMB\w*|Lamb\w*|RMSprop|SGD|Adagrad|Adamax)/")
_OTHERS = re.compile(
    r"(^|/)(global_step|beta[12]_power(_\d+)?)$|(^|/)_?optimizer/|^save_counter/\.ATTRIBUTES/VARIABLE_VALUE$"
)


def is_optimizer_slot(name: str) -> bool:
    """Whether a variable, by its name, belongs to an optimizer and not to the model."""
    return _SLOT.search(name) is not None


def training_names(names: Collection[str]) -> set[str]:
    """Those of a checkpoint's names that only training needs: slots of optimizers, the global step, powers of betas.

    Moving averages are not among them, for they are what a model is best used with. A variable `x/m` or `x/v` counts
    only if there is an `x`, or an optimizer in its path: a layer may well have a weight called `v`.
    """
    known = frozenset(names)
    return {name for name in known if _OTHERS.search(name) or (is_optimizer_slot(name) and _is_sure(name, known))}


def _is_sure(name: str, known: frozenset[str]) -> bool:
    return _SHORT.search(name) is None or name[:-2] in known or _IN_OPTIMIZER.search(name) is not None
