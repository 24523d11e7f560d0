"""`docs/ops.md` is what the code and the tables say."""

from __future__ import annotations

from tools.make_ops_page import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tools.make_ops_page"
