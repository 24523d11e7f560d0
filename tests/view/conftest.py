"""A real browser for the tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium: `apt-get install chromium` brings it")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `check-all`)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page; at the end no error was on its console, and it asked nobody but this machine for anything."""
    contexts, wrong = [], []

    def look(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:")):
            wrong.append(f"asked for {url}")

    def open_it(where: str | Path, ready: str = "html[data-ready]", **options: Any) -> Page:
        settings = {
            "viewport": {"width": 1280, "height": 800},
            "color_scheme": "light",
            "accept_downloads": True,
            **options,
        }
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: look(request.url))
        page.goto(where.as_uri() if isinstance(where, Path) else where)
        page.wait_for_selector(ready, timeout=60_000)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert wrong == []
