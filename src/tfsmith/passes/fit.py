"""Whether a graph and a checkpoint belong together: are the graph's variables there, with their dtypes and shapes?"""

from __future__ import annotations

from tfsmith.errors import TfsmithError
from tfsmith.ir.model import Model
from tfsmith.passes.variables import VARIABLE_OPS, find_value, restore_sources
from tfsmith.records import record

__all__ = ["Fit", "fit_checkpoint"]


@record
class Fit:
    """How a graph fits the checkpoint that was attached to it.

    Attributes:
        found: How many of the graph's variables the checkpoint has, as they must be.
        missing: The names of the others.
    """

    found: int
    missing: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every variable has its value, and there is one."""
        return self.found > 0 and not self.missing


def fit_checkpoint(model: Model) -> Fit:
    """Looks up every variable of the graph in the model's checkpoint; linear, reads no values."""
    sources = restore_sources(model.meta)
    missing: list[str] = []
    found = 0
    for node in model.graph:
        if node.op not in VARIABLE_OPS:
            continue
        try:
            find_value(model, node, sources)
            found += 1
        except TfsmithError:
            missing.append(node.name)
    return Fit(found, tuple(missing))
