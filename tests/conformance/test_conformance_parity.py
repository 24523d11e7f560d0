"""The packed answers are those of the installed TensorFlow, within the stated tolerance: every 25th case is asked."""

from __future__ import annotations

import pytest
from tests.support.helpers import python

pytestmark = pytest.mark.tensorflow


def test_packed_answers_are_tensorflows() -> None:
    done = python("-m", "tools.make_conformance", "--check", "--every", "25")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
