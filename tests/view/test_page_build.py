"""The page that is part of the wheel is what its sources give."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "src" / "tfsmith" / "view" / "page.html"
_MOST_BYTES = 1_500_000


def test_the_page_is_small_and_asks_for_nothing() -> None:
    text = PAGE.read_text("utf-8")
    assert len(text.encode()) < _MOST_BYTES
    assert text.count("/*DATA*/") == 1
    assert "default-src 'none'" in text
    assert "<script src" not in text
    assert '<link rel="stylesheet"' not in text


def test_the_lock_file_names_no_registry_and_pins_all() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    package = json.loads((WEB / "package.json").read_text())
    assert "://" not in "".join(one.get("resolved", "") for one in lock["packages"].values())
    assert all("integrity" in one for name, one in lock["packages"].items() if name)
    for name, version in package["devDependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


def test_the_page_is_what_the_sources_give(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no node, with which the page is built")
    if not (WEB / "node_modules" / "esbuild").is_dir():
        pytest.skip("web/node_modules is not there: `npm ci` in web/ installs it")
    built = tmp_path / "page.html"
    subprocess.run(["node", "build.mjs", str(built)], cwd=WEB, check=True, timeout=120)
    assert built.read_bytes() == PAGE.read_bytes(), "run `npm run build` in web/, and commit page.html"
