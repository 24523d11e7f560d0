"""The op, built once and loaded into this process's TensorFlow; and the options of its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import bert_library as libraries


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of `pytest tests/native`."""
    group = parser.getgroup("bert-op", "the op Bert (tests/native)")
    group.addoption("--bert-op", metavar="LIBRARY", type=Path, help="test this library, and build none")
    group.addoption("--java-bert-op", metavar="LIBRARY", type=Path, help="a build for the TensorFlow of Java, to test")
    group.addoption("--sanitizers", action="store_true", help="also build and test the op with sanitizers (minutes)")


@pytest.fixture(scope="session")
def bert_library(request: pytest.FixtureRequest) -> Path:
    """The library that was asked for, or the one that all tests use: TensorFlow takes each op from one library only."""
    given: Path | None = request.config.getoption("--bert-op", None)
    return given or libraries.bert_library(request.config)


@pytest.fixture(scope="session")
def bert_op(bert_library: Path) -> Any:
    """The op as a function."""
    import tensorflow as tf

    return tf.load_op_library(str(bert_library)).bert
