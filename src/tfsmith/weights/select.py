"""Chooses weights by globs of their names, and leaves out what only training needs."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.names import nearest
from tfsmith.ir.variable_names import training_names
from tfsmith.ir.weights import Weights
from tfsmith.records import replace

__all__ = ["select_weights"]


def select_weights(
    weights: Weights, only: Sequence[str] = (), excluded: Sequence[str] = (), *, training: bool = True
) -> Weights:
    """Those whose names fit a glob of `only` (all, if there is none) and none of `excluded`. No I/O.

    Args:
        weights: The weights.
        only: Globs of names to take.
        excluded: Globs of names to leave out.
        training: Whether to keep what only training needs: slots of optimizers, the global step.

    Raises:
        NotFoundInModelError: A glob of `only` fits nothing.
    """
    for glob in only:
        if not any(fnmatchcase(name, glob) for name in weights):
            near = nearest(glob, weights)
            remedy = f"the nearest names are {', '.join(near)}" if near else "leave --match out to see all names"
            raise NotFoundInModelError(f"no weight is called {glob!r}", path=weights.path, remedy=remedy)
    dropped = set() if training else training_names(weights)
    kept = {
        name: tensor
        for name, tensor in weights.items()
        if name not in dropped
        and (not only or any(fnmatchcase(name, glob) for glob in only))
        and not any(fnmatchcase(name, glob) for glob in excluded)
    }
    return replace(weights, tensors=kept)
