"""The pytest plugin behind `pytest --pyargs tfsmith.testing.bert`: its options.

It is a module of its own because pytest loads it in every run where tfsmith is installed: it imports nothing, and adds
its options only to a run of these tests, so that nobody else's `--config-path` is in its way.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["OPTIONS", "pytest_load_initial_conftests"]

OPTIONS = MappingProxyType(
    {
        "--config-path": "the bert_config.json of the weights",
        "--chkpt-path": "a checkpoint: its prefix, or its folder",
        "--frozen-path": "the graph frozen from that checkpoint",
        "--bert-task": "PRETRAINING, SQUAD, CLASSIFIER or ENCODER (by default, whose head is there)",
    }
)


def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Adds the options; the first three have the names that Graphcore's loader test gave them."""
    if not any(argument.startswith("tfsmith.testing.bert") for argument in args):
        return
    group = parser.getgroup("bert", "the weights of a BERT (tfsmith.testing.bert)")
    for option, what in OPTIONS.items():
        group.addoption(option, metavar="PATH" if option.endswith("path") else "TASK", help=what)
