"""Random graphs, the same in every run: the reference engine and `auto` give what TensorFlow gives."""

from __future__ import annotations

import pytest
from tests.support.helpers import python

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def test_random_graphs() -> None:
    pytest.importorskip("openvino")
    done = python("-m", "tools.random_graphs", "--start", "5000", "--count", "60")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "60 graphs against TensorFlow" in done.stdout
