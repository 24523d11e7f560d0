"""A hook of MkDocs: headings get the anchors that GitHub gives them, so that a link works in both places."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["on_config", "slug"]


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    """Called by MkDocs once it has read its configuration."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config
