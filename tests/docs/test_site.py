"""The site: it builds, strictly; the reference has all that the code has; what is linked and shown is there."""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.docs.runner import ROOT
from tools.make_reference import api_page, commands_page
from tools.make_site import gather, story_pages
from tools.site_headings import slug

import tfsmith
from tfsmith.cli.main import main, parser_of
from tfsmith.verbs import VERBS

COMPAT = sorted(
    path.stem for path in (ROOT / "src/tfsmith/compat").glob("[a-z]*.py") if not path.stem.endswith("_text")
)


class Page(HTMLParser):
    """What a page of the site has: anchors, links, what it loads to be shown, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif "src" in values or (tag == "link" and "href" in values):
            self.loaded.append(values.get("src") or values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "tools.make_site", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_document_and_every_story_has_a_page(site: Path) -> None:
    docs = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    stories = [Path(page).with_suffix(".html") for page in story_pages().values()]
    others = [Path("reference/commands.html"), Path("reference/api.html"), Path("project/readme.html")]
    assert len(stories) >= 2
    assert [str(page) for page in (*docs, *stories, *others) if not (site / page).is_file()] == []
    menu = re.findall(r'<a href="([^"#]+)" class="md-nav__link', (site / "index.html").read_text())
    assert [str(page) for page in (*docs, *stories, *others) if page.as_posix() not in menu] == []
    assert len(set(menu)) == len(menu), "a page is listed twice"


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    wrong = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (parts.fragment and target in pages and parts.fragment not in pages[target].ids):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert not wrong


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    loaded = {one for path in site.rglob("*.html") for one in Page(path).loaded}
    assert [one for one in loaded if urlsplit(one).netloc] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(?:https?:)?//", styles)


def test_the_site_has_search_from_the_disk_and_a_dark_mode(site: Path) -> None:
    text = (site / "guides/freeze.html").read_text()
    assert re.findall(r'data-md-color-scheme="(\w+)"', text)[-2:] == ["default", "slate"]
    assert "../theme/iframe-worker.js" in Page(site / "guides/freeze.html").loaded
    index = (site / "search/search_index.js").read_text()
    assert index.startswith("var __index = ")
    assert "guides/freeze.html#" in index


def test_pictures_are_shown(site: Path) -> None:
    shown = Page(site / "guides/patterns.html").loaded
    assert "../images/bert-recipe.svg" in shown
    assert (site / "images/bert-recipe.svg").read_bytes() == (ROOT / "docs/images/bert-recipe.svg").read_bytes()


def test_markdown_becomes_html(site: Path) -> None:
    """What GitHub takes for a list, a table or a block of code, Python's Markdown might not."""
    wrong = []
    for path in site.rglob("*.html"):
        text = re.sub(r"<pre>.*?</pre>|<code>.*?</code>|<script.*?</script>", "", path.read_text(), flags=re.DOTALL)
        signs = re.findall(r"^(?:<p>)?(?:```|[-*] \S|\|[ -]|#+ ).*", text, re.MULTILINE)
        signs += re.findall(r"<td>.*\\\|.*</td>", path.read_text())
        wrong += [f"{path.relative_to(site)}: {sign[:80]}" for sign in signs]
    assert not wrong


def _sections(page: str) -> dict[str, str]:
    """What stands below each heading, deeper headings and what is below them included."""
    found: dict[str, str] = {}
    marks = list(re.finditer(r"^(#+) (.+)$", page, re.MULTILINE))
    for number, mark in enumerate(marks):
        ends = (later.start() for later in marks[number + 1 :] if len(later[1]) <= len(mark[1]))
        found[mark[2]] = page[mark.end() : next(ends, len(page))]
    return found


@pytest.fixture(scope="module")
def commands() -> dict[str, str]:
    return _sections(commands_page())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_there_with_all_its_options(
    verb: str, commands: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), "--help"]) == 0
    printed = capsys.readouterr().out
    inner = [action for action in parser_of(verb)._actions if isinstance(action, argparse._SubParsersAction)]
    for name in (name for action in inner for name in action.choices):
        assert main([verb, name, "--help"]) == 0
        printed += capsys.readouterr().out
        assert f"tfsmith {verb} {name}" in commands
    for name in (name for name in VERBS if " --" in name):  # a command of its own, not an option
        printed = printed.replace(name, "")
    printed = re.sub(r"(?m)^ *curl .*$", "", printed)  # another program, in an example
    options = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", printed)) - {"-h", "--help"}
    assert "--debug" in options
    listed = set(re.findall(r"`(--?[a-zA-Z][a-z-]*)", commands[f"tfsmith {verb}"]))
    assert options <= listed


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_a_section_in_the_site(verb: str, site: Path) -> None:
    page = site / "reference/commands.html"
    assert slug(f"tfsmith {verb}") in Page(page).ids
    assert html.escape(VERBS[verb][1], quote=False) in page.read_text()


@pytest.mark.parametrize("name", COMPAT)
def test_a_command_line_of_another_tool_is_there(name: str, commands: dict[str, str]) -> None:
    section = commands[f"python -m tfsmith.compat.{name}"]
    source = (ROOT / f"src/tfsmith/compat/{name}.py").read_text()
    assert set(re.findall(r'add_argument\((?:"-\w", )?"(--[a-z_-]+)"', source)) <= set(
        re.findall(r"`(--[\w-]+)", section)
    )


@pytest.mark.parametrize("name", tfsmith.__all__)
def test_a_public_name_is_there(name: str) -> None:
    page = api_page()
    if name.startswith("__"):
        assert f"`tfsmith.{name}`" in page
        return
    section = _sections(page)[f"tfsmith.{name}"]
    first = (getattr(tfsmith, name).__doc__ or "").strip().splitlines()[0]
    assert first.split("`")[0][:40].strip() in section.replace("\\", "")


@pytest.mark.parametrize("name", [name for name in tfsmith.__all__ if not name.startswith("__")])
def test_a_public_name_has_a_section_in_the_site(name: str, site: Path) -> None:
    assert slug(f"tfsmith.{name}") in Page(site / "reference/api.html").ids


def test_methods_and_fields_are_there() -> None:
    sections = _sections(api_page())
    assert "Graph.consumers" in sections
    assert "| `signatures` |" in sections["tfsmith.Model"]
    assert "| `variables` |" in sections["tfsmith.Model"]
    assert "ChecksumError" in sections["Errors"]
    assert "tfsmith.verbs.check.Checked" in sections
    assert "tfsmith.Verified" in sections


# The site itself: it must be able to fail.


def test_links_are_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    texts = {
        "docs/index.md": "# Start\n\n## Guides\n\n- [One](guides/one.md)\n\n"
        "## Stories\n\n- [All](../examples/README.md)\n- [The `a` story](../examples/a/README.md)\n",
        "docs/guides/one.md": "# One\n\n[`r`](../../README.md#a) ![p](../p.svg) `[x](y.md)` [f](../../src)"
        " [l](../../LICENSE) [no](../no.md) [out](https://example.org)\n\n"
        "```text\n[x](../../README.md)\n```\n\n```python\n>>> 1\n1\n```\n",
        "docs/p.svg": "<svg/>",
        "examples/README.md": "# Stories\n\n[a](a/README.md) [folder](a)\n",
        "examples/a/README.md": "# The `a` story\n\n[guide](../../docs/guides/one.md) ![picture](boxes.png)\n",
        "examples/a/boxes.png": "PNG",
        "src/code.py": "",
        "README.md": "# Read me\n\n[one](docs/guides/one.md) [start](docs/index.md)\n",
        "LICENSE": "free",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr("tools.make_site.ROOT", root)
    folder = tmp_path / "pages"
    menu = gather(folder)
    assert (folder / "guides/one.md").read_text() == (
        "# One\n\n[`r`](../project/readme.md#a) ![p](../p.svg) `[x](y.md)` f [l](../files/LICENSE)"
        " [no](../no.md) [out](https://example.org)\n\n```text\n[x](../../README.md)\n```\n\n```pycon\n>>> 1\n1\n```\n"
    )
    assert (folder / "stories/index.md").read_text() == "# Stories\n\n[a](a.md) [folder](a.md)\n"
    story = (folder / "stories/a.md").read_text()
    assert story == "# The `a` story\n\n[guide](../guides/one.md) ![picture](../files/examples/a/boxes.png)\n"
    assert (folder / "files/examples/a/boxes.png").read_text() == "PNG"
    assert (folder / "project/readme.md").read_text().endswith("[one](../guides/one.md) [start](../index.md)\n")
    assert menu == [
        {"Guides": [{"tfsmith": "index.md"}, {"One": "guides/one.md"}]},
        {"Stories": [{"All": "stories/index.md"}, {"The a story": "stories/a.md"}]},
        {"The project": [{"Read me": "project/readme.md"}]},
    ]


def test_a_page_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "docs/index.md": "# Start\n\n## Guides\n\n- [One](one.md)\n- [Two](one.md)\n",
        "docs/one.md": "# One\n",
        "examples/README.md": "# Stories\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("tools.make_site.ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"lists a page twice: \['one.md'\]"):
        gather(tmp_path / "pages")


@pytest.mark.parametrize("link", ["no/such/page.md", "guides/show.md#no-such-heading"])
def test_a_broken_link_fails(
    link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tools import make_site

    text = make_site._text
    monkeypatch.setattr(
        make_site, "_text", lambda path: text(path) + (f"\n[broken]({link})\n" if path.name == "index.md" else "")
    )
    assert make_site.build(tmp_path, tmp_path / "site") != 0
    assert link in capfd.readouterr().err
