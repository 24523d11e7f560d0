"""How to measure: which models, how often, and where outputs go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Command, Figures, compare
from benchmarks.models import Models

__all__ = ["Setup"]


@dataclass(frozen=True, slots=True)
class Setup:
    """How to measure.

    Attributes:
        models: Where the models are.
        rounds: How often the commands that are compared take turns.
        quick: Whether small models and a single run will do.
    """

    models: Models
    rounds: int
    quick: bool

    def output(self, name: str) -> Path:
        """A place for what a command writes, on the same disk as the models."""
        folder = self.models.folder / "outputs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def compare(
        self, commands: dict[str, Command], rounds: int | None = None, *, warm: bool = True
    ) -> dict[str, Figures]:
        """Runs commands in turns; see `compare`."""
        return compare(commands, 1 if self.quick else rounds or self.rounds, warm=warm and not self.quick)
