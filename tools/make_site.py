"""Builds the site of the documents: `python -m tools.make_site [SITE]`. `make docs` calls it.

The pages lie in several places of the repository: `docs`, the READMEs of the stories, the README and its neighbours.
Two more are made from the code (`tools/make_reference.py`). They are gathered in one folder, links between them are
turned, and MkDocs with the Material theme makes HTML of it, strictly: a broken link or anchor is an error. Nothing is
fetched, now or by the reader's browser: fonts are the system's, and search works from the disk.

What is a page, where it goes and in which order follows from rules, not from a list of pages:

- `docs/index.md` is the start page. Its headings are the parts of the menu, and the links of their lists the pages. A
  page that it does not list, or lists twice, is an error.
- `examples/NAME/README.md` is the story NAME.
- `*.md` at the root is a page about the project.
- Another file that a page links to or shows is copied. A folder cannot be shown, so a link to one is only its text.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from tools.make_reference import api_page, commands_page

__all__ = ["build", "gather", "main", "story_pages"]

ROOT = Path(__file__).resolve().parents[1]
HOOK = Path(__file__).resolve().with_name("site_headings.py")
REFERENCE = {"reference/commands.md": commands_page, "reference/api.md": api_page}
REFERENCE_HERE = "<!-- reference -->"
_FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_TITLE = re.compile(r"^# +(.+?) *$", re.MULTILINE)
_PART = re.compile(r"^## +(.+?)$", re.MULTILINE)
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)\)", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the site of the documents.")
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "site", help="the folder to write (site)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        return build(Path(work), arguments.site.resolve())


def build(work: Path, site: Path) -> int:
    """Gathers the pages in a folder, has MkDocs make a site of them, and gives its exit code."""
    menu = gather(work / "pages")
    config = work / "mkdocs.yml"
    config.write_text(json.dumps(_config(menu, work / "pages", site), indent=1))  # JSON is YAML
    # not --quiet: it hides warnings from --strict, too
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's advertisement
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


def gather(folder: Path) -> list[Any]:
    """Puts all pages into a folder, with links that fit there, and gives the menu."""
    pages = _pages()
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.md"))
    for source, page in pages.items():
        _write(folder, page, _turned(_text(source), source, pages, folder))
    for page, make in REFERENCE.items():
        _write(folder, page, _turned(make(), ROOT / PurePosixPath(page).name, pages, folder, at=page))
    return _menu(pages)


def story_pages() -> dict[Path, str]:
    """The stories, by the files that tell them."""
    found = sorted((ROOT / "examples").glob("*/README.md"))
    return {ROOT / "examples/README.md": "stories/index.md"} | {one: f"stories/{one.parent.name}.md" for one in found}


def _pages() -> dict[Path, str]:
    """Where each document goes."""
    docs = ROOT / "docs"
    found = {one: one.relative_to(docs).as_posix() for one in sorted(docs.rglob("*.md"))}
    return found | story_pages() | {one: f"project/{one.stem.lower()}.md" for one in sorted(ROOT.glob("*.md"))}


def _text(source: Path) -> str:
    links = "- [All commands](reference/commands.md), with every option\n- [The Python API](reference/api.md)"
    return source.read_text().replace(REFERENCE_HERE, links)


def _write(folder: Path, page: str, text: str) -> None:
    path = folder / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _turned(text: str, source: Path, pages: dict[Path, str], folder: Path, *, at: str | None = None) -> str:
    """The text of a page with links as they must be in the site. Code is left alone, but for its language.

    Args:
        text: The page.
        source: The file that its links are relative to.
        pages: Where each document goes.
        folder: Where files that are linked are copied to.
        at: The page; by default what `pages` says.
    """
    here = PurePosixPath(at or pages[source]).parent.as_posix()

    def turn(found: re.Match[str]) -> str:
        mark, words, link = found.groups()
        target, hash_, anchor = link.partition("#")
        if not target or re.match(r"[a-z]+:", target) or target in REFERENCE:
            return found[0]
        file = (source.parent / target).resolve()
        file = file / "README.md" if file.is_dir() and file / "README.md" in pages else file
        if file.is_dir():
            return words
        page = pages.get(file) or _copied(file, folder)
        return found[0] if page is None else f"{mark}[{words}]({relpath(page, here)}{hash_}{anchor})"

    pieces: list[str] = []
    last = 0
    for fence in _FENCE.finditer(text):
        pieces += [_outside_code(text[last : fence.start()], turn), _coloured(fence[0])]
        last = fence.end()
    return "".join([*pieces, _outside_code(text[last:], turn)])


def _outside_code(text: str, turn: Any) -> str:
    """Turns the links of a text; what stands in backticks is none, but a link's words may have some."""
    hidden: list[str] = []

    def hide(found: re.Match[str]) -> str:
        is_in_table = text.startswith("|", text.rfind("\n", 0, found.start()) + 1)
        hidden.append(found[0].replace("\\|", "|") if is_in_table else found[0])  # only GitHub wants them escaped there
        return f"\0{len(hidden) - 1}\0"

    return re.sub(r"\0(\d+)\0", lambda found: hidden[int(found[1])], _LINK.sub(turn, _INLINE.sub(hide, text)))


def _coloured(fence: str) -> str:
    """A block of Python with prompts is a session, which has a colouring of its own."""
    return re.sub(r"^( *`{3,})python$", r"\1pycon", fence, count=1, flags=re.MULTILINE) if ">>> " in fence else fence


def _copied(file: Path, folder: Path) -> str | None:
    """Copies a file that is no page into the site; None if there is no such file, which MkDocs then tells."""
    if not file.is_file() or not file.is_relative_to(ROOT):
        return None
    if file.is_relative_to(ROOT / "docs"):
        return file.relative_to(ROOT / "docs").as_posix()
    page = f"files/{file.relative_to(ROOT).as_posix()}"
    (folder / page).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, folder / page)
    return page


def _menu(pages: dict[Path, str]) -> list[Any]:
    """The parts of the start page, each with the pages of its list; then the project's pages that it does not list."""
    start = ROOT / "docs/index.md"
    pieces = _PART.split(start.read_text())
    menu: list[Any] = []
    for part, text in zip(pieces[1::2], pieces[2::2], strict=True):
        entries: list[dict[str, str]] = [] if menu else [{"tfsmith": "index.md"}]
        for title, link in _ENTRY.findall(text):
            file = (start.parent / link).resolve()
            entries.append({_plain(title): pages[file]})
        if REFERENCE_HERE in text:
            entries += [{"Commands": "reference/commands.md"}, {"Python API": "reference/api.md"}]
        if entries:
            menu.append({part: entries})
    listed = [page for part in menu for entries in part.values() for entry in entries for page in entry.values()]
    if len(set(listed)) < len(listed):
        raise ValueError(
            f"docs/index.md lists a page twice: {sorted({one for one in listed if listed.count(one) > 1})}"
        )
    rest = [{_title(one): page} for one, page in pages.items() if page not in listed and page.startswith("project/")]
    return [*menu, {"The project": rest}] if rest else menu


def _title(source: Path) -> str:
    found = _TITLE.search(source.read_text())
    return _plain(found[1]) if found else source.parent.name


def _plain(text: str) -> str:
    return text.replace("`", "")


def _config(menu: list[Any], pages: Path, site: Path) -> dict[str, Any]:
    schemes = [
        {"media": f"(prefers-color-scheme: {media})", "scheme": scheme, "primary": primary, "accent": "deep orange"}
        | {"toggle": {"icon": f"material/weather-{icon}", "name": f"Switch to {other} mode"}}
        for media, scheme, primary, icon, other in (
            ("light", "default", "blue grey", "sunny", "dark"),
            ("dark", "slate", "black", "night", "light"),
        )
    ]
    return {
        "site_name": "tfsmith",
        "site_description": "The workshop for TensorFlow model files that needs no TensorFlow",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,  # the pages can be read from the disk, without a server
        "theme": {
            "name": "material",
            "font": False,
            "icon": {"logo": "material/anvil"},
            "palette": schemes,
            "features": [
                "navigation.tabs",
                "navigation.tabs.sticky",
                "navigation.top",
                "navigation.footer",
                "toc.follow",
                "search.suggest",
                "search.highlight",
                "content.code.copy",
            ],
        },
        "extra": {"polyfills": ["theme/iframe-worker.js"]},
        "extra_css": ["theme/site.css"],
        "hooks": [str(HOOK)],
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "tables",
            "attr_list",
            "pymdownx.superfences",
            {"pymdownx.highlight": {"guess_lang": False}},
            {"toc": {"permalink": "#"}},
        ],
        "validation": {
            "nav": {"omitted_files": "warn", "not_found": "warn", "absolute_links": "warn"},
            "links": dict.fromkeys(("not_found", "anchors", "absolute_links", "unrecognized_links"), "warn"),
        },
        "nav": menu,
    }


if __name__ == "__main__":
    sys.exit(main())
