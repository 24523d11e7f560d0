"""The files of a BERT, as the options name them; `tfsmith.testing.bert_options` has the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfsmith.ir.tensor import Weights
from tfsmith.testing.bert_options import OPTIONS
from tfsmith.verbs.weights import load_bert

__all__ = ["config", "checkpoint", "frozen"]


def _path(request: pytest.FixtureRequest, option: str) -> Path:
    """An option's path; a test without it is skipped, and says which one is missing."""
    found = request.config.getoption(option, None)
    if found is None:
        pytest.skip(f"{option} was not given: {OPTIONS[option]}")
    return Path(found)


@pytest.fixture(scope="session")
def config(request: pytest.FixtureRequest) -> Path:
    """The config's path."""
    return _path(request, "--config-path")


@pytest.fixture(scope="session")
def checkpoint(request: pytest.FixtureRequest, config: Path) -> Weights:
    """The weights of the checkpoint, checked against the config; a mistake in them is told by one test."""
    return _load(_path(request, "--chkpt-path"), config, request.config.getoption("--bert-task", None))


@pytest.fixture(scope="session")
def frozen(request: pytest.FixtureRequest, config: Path) -> Weights:
    """The weights of the frozen graph."""
    return _load(_path(request, "--frozen-path"), config, request.config.getoption("--bert-task", None))


def _load(path: Path, config: Path, task: Any) -> Weights:
    return load_bert(path, config, task)
