"""Properties are tried with the same cases in every run, so that a change is judged by what it changed.

New cases are for `make fuzz`, and for `pytest --hypothesis-profile=default`, which draws others each time.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kills`: at how many moments of each writing verb `tests/storage/test_kills.py` kills it."""
    parser.addoption("--kills", type=int, default=9, help="moments at which each writing verb is killed (9)")
