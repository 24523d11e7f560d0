"""The documents are true: what they show is what comes out, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.runner import LANGUAGES, ROOT, Block, blocks, commands, documents, matches, run_document
from tests.support.bert_library import bert_library

from tfsmith.cli.main import main
from tfsmith.verbs import VERBS


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


DOCUMENTS = documents()
RUN = [path for path in DOCUMENTS if any(block.language != "text" for block in blocks(path.read_text()))]
NEEDS_TENSORFLOW = [
    path for path in RUN if re.search(r"^<!-- needs: (tensorflow|bert-op) -->$", path.read_text(), re.M)
]
MARKED = [
    pytest.param(path, marks=[pytest.mark.tensorflow] * (path in NEEDS_TENSORFLOW), id=name(path)) for path in RUN
]
GUIDES = [verb for verb in VERBS if (ROOT / "docs" / "guides" / f"{verb}.md").is_file()]
_CODE = re.compile(r"```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


@pytest.mark.parametrize("path", MARKED)
def test_what_a_document_shows_is_what_comes_out(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "<!-- needs: bert-op -->" in path.read_text():
        package = bert_library(request.config).parent  # skips where there is no compiler
        monkeypatch.syspath_prepend(str(package.parent))
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
    problems = run_document(path, tmp_path)
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_block_escapes(path: Path) -> None:
    text = path.read_text()
    found = list(blocks(text))
    wrong = [f"line {block.line}: ```{block.language}" for block in found if block.language not in LANGUAGES]
    assert not wrong
    fences = len(re.findall(r"^ *(?:`{3,}|~{3,})", text, re.MULTILINE))
    assert fences == 2 * len(found), "a block is not closed"
    for block in found:
        if block.language == "console":
            assert list(commands(block)), f"line {block.line}: no command"


def slugs(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in _HEADING.findall(plain):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        slug = base = words.replace(" ", "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    wrong = []
    for link in _LINK.findall(_CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and anchor not in slugs(file.read_text())):
            wrong.append(link)
    assert not wrong


def test_the_readme_has_every_verb() -> None:
    listed = re.findall(r"^\| `tfsmith (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(name for name in VERBS if " " not in name)


@pytest.mark.parametrize("verb", GUIDES)
def test_a_guide_has_every_option(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help", "--debug"}
    text = (ROOT / "docs" / "guides" / f"{verb}.md").read_text()
    assert options <= set(re.findall(r"--[a-z][a-z-]+", text))


def test_every_guide_is_linked() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    folder = ROOT / "docs"
    missing = [name(path) for path in folder.rglob("*.md") if f"({path.relative_to(folder).as_posix()}" not in index]
    assert missing == ["docs/index.md"]


# The runner itself: it must be able to fail.


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a  \nb", "a\nb   \n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a ... d\n", "a b c d\n", True),
        ("a ... d\n", "a b c\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_matching(expected: str, actual: str, fits: bool) -> None:
    assert matches(expected, actual) is fits


def test_commands_of_a_block() -> None:
    text = "$ one \\\n    two  # exit 2\nout\nmore\n$ three\n"
    first, second = commands(Block("console", text, 10, 0))
    assert (first.text, first.expected, first.code, first.line) == ("one two  # exit 2", "out\nmore\n", 2, 10)
    assert (second.text, second.expected, second.code, second.line) == ("three", "", 0, 14)
    with pytest.raises(ValueError, match="begins with a command"):
        list(commands(Block("console", "out\n", 1, 0)))


WRONG = """\
```console
$ python -c "print(1)"
2
$ python -c "raise SystemExit(3)"
$ python -c "import sys; sys.stderr.write('error: no\\n' + 'noise\\n'); sys.exit(2)"  # exit 2
error: no
```
```python
>>> 1 + 1
3
>>> nothing
```
```python
number = 1
print(number)
```
```python
>>> number
1
```
```python
number / 0
```
"""


def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.runner.ROOT", tmp_path)
    document = tmp_path / "wrong.md"
    document.write_text(WRONG)
    found = [str(problem).splitlines()[0] for problem in run_document(document, tmp_path)]
    assert found == [
        'wrong.md:2: `python -c "print(1)"` does not print what is shown, but:',
        'wrong.md:4: `python -c "raise SystemExit(3)"` ends with 3, not 0:',
        "wrong.md:9: '1 + 1' gives:",
        "wrong.md:11: 'nothing' raises NameError: name 'nothing' is not defined",
        "wrong.md:14: the block prints, but a block without >>> must not:",
        "wrong.md:22: the block raises ZeroDivisionError: division by zero",
    ]
