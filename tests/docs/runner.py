"""Runs the documents: every command and every piece of Python in them, and compares what comes out with what they say.

The rules, which `docs/index.md` tells the reader too:

- A block ` ```console ` holds commands, each on a line that begins with `$ ` (a `\\` at the end continues it), and
  under each what it prints: first the lines of stderr that begin with `error:` or `warning:`, then stdout. Other lines
  of stderr (such as timings) are not compared. `# exit 2` at the end of a command is the code that it ends with, 0 if
  nothing is said.
- A block ` ```python ` is executed. With `>>>` it is a doctest; without, it must print nothing.
- `...` stands for anything, inside of a line or, on a line of its own, for any number of lines.
- A block ` ```text ` is only shown. There are no other blocks.
- All blocks of a document run in one new folder, in their order. `<!-- files: NAME ... -->` puts models of
  `tests/docs/files` there first. `<!-- needs: tensorflow -->` says that TensorFlow is needed, and
  `<!-- needs: bert-op -->` the op of `native/bert_op` too; where that cannot be built, the document is skipped.

`python -m tests.docs.runner FILE.md ...` runs documents and puts what was printed into them where it differs.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "ROOT",
    "LANGUAGES",
    "Block",
    "Command",
    "Problem",
    "blocks",
    "chdir",
    "commands",
    "documents",
    "matches",
    "run_document",
]

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("console", "python", "text")
_FILES = Path(__file__).resolve().with_name("files")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(\S*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_WANTED_FILES = re.compile(r"^<!-- files: ([^>]*?) -->$", re.MULTILINE)
_EXIT = re.compile(r"\s+# exit (\d+)$")
_SHELL = re.compile(r"[|&;<>$`]")
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and where the text begins."""

    language: str
    text: str
    line: int
    start: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command, what the document says it prints, how it ends, and where what it prints stands in the block."""

    text: str
    expected: str
    code: int
    line: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as the document says: where, and what came out instead."""

    document: Path
    line: int
    what: str
    actual: str = ""
    start: int = 0
    stop: int = 0

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}: {self.what}"


def documents() -> list[Path]:
    """All documents of the project."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document, in their order."""
    for found in _FENCE.finditer(text):
        start = found.start(4)
        yield Block(found[3], found[4], text.count("\n", 0, start) + 1, start)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with what is to come out.

    Raises:
        ValueError: The block does not begin with a command.
    """
    lines = block.text.splitlines(keepends=True)
    if lines and not lines[0].startswith("$ "):
        raise ValueError(f"line {block.line}: a console block begins with a command")
    number = 0
    while number < len(lines):
        first = number
        text = lines[number][2:].rstrip("\n")
        while text.endswith("\\") and number + 1 < len(lines):
            number += 1
            text = text[:-1] + lines[number].strip()
        number += 1
        begin = number
        while number < len(lines) and not lines[number].startswith("$ "):
            number += 1
        code = _EXIT.search(text)
        start = block.start + len("".join(lines[:begin]))
        expected = "".join(lines[begin:number])
        yield Command(text, expected, int(code[1]) if code else 0, block.line + first, start, start + len(expected))


def matches(expected: str, actual: str) -> bool:
    """Whether a text is as expected; `...` stands for anything, and space at the ends of lines does not count."""
    wanted, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") for text in (expected, actual))
    pieces = [re.escape(piece) for piece in wanted.split("...")]
    return re.fullmatch(".*?".join(pieces), got, re.DOTALL) is not None


def run_document(path: Path, folder: Path) -> list[Problem]:
    """Runs a document in a folder, and gives everything that is not as it says. Changes the working directory."""
    text = path.read_text()
    for names in _WANTED_FILES.findall(text):
        for name in names.split():
            shutil.copytree(_FILES / name, folder / name)
    found: list[Problem] = []
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with chdir(folder):
        for block in blocks(text):
            if block.language == "console":
                for command in commands(block):
                    found += _run_command(path, command, folder)
            elif block.language == "python":
                found += _run_python(path, block, namespace)
    return found


@contextlib.contextmanager
def chdir(folder: Path) -> Iterator[None]:
    """Works in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_command(path: Path, command: Command, folder: Path) -> Iterator[Problem]:
    code, out, err = _run(_EXIT.sub("", command.text), folder)
    told = [line for line in err.splitlines(keepends=True) if line.startswith(("error: ", "warning: "))]
    actual = "".join(told) + out
    if code != command.code:
        yield Problem(path, command.line, f"`{command.text}` ends with {code}, not {command.code}:\n{out}{err}")
    elif not matches(command.expected, actual):
        what = f"`{command.text}` does not print what is shown, but:\n{actual}"
        yield Problem(path, command.line, what, actual, command.start, command.stop)


def _run(text: str, folder: Path) -> tuple[int, str, str]:
    """Runs a command: exit code, stdout, stderr. Plain calls of tfsmith stay in this process, which is much faster."""
    if text.startswith("tfsmith ") and not _SHELL.search(text):
        from tfsmith.cli.main import main

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(text)[1:])
        return code, out.getvalue(), err.getvalue()
    tools = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": tools + os.pathsep + os.environ.get("PATH", ""), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        text, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _run_python(path: Path, block: Block, namespace: dict[str, Any]) -> Iterator[Problem]:
    if ">>> " in block.text:
        yield from _run_doctest(path, block, namespace)
        return
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, namespace)
        except Exception as error:
            yield Problem(path, block.line, f"the block raises {type(error).__name__}: {error}")
    if printed.getvalue():
        yield Problem(path, block.line, f"the block prints, but a block without >>> must not:\n{printed.getvalue()}")


def _run_doctest(path: Path, block: Block, namespace: dict[str, Any]) -> Iterator[Problem]:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, namespace, path.name, str(path), block.line - 1)
    runner = _Collector(path, block)
    runner.run(test, out=lambda _: None, clear_globs=False)
    namespace.update(test.globs)
    yield from runner.problems


class _Collector(doctest.DocTestRunner):
    """Keeps what went wrong, in place of printing it."""

    def __init__(self, path: Path, block: Block) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS, verbose=False)
        self._path = path
        self._block = block
        self.problems: list[Problem] = []

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        what = f"{example.source.rstrip()!r} gives:\n{got}"
        lines = self._block.text.splitlines(keepends=True)
        first = example.lineno + example.source.count("\n")
        start = self._block.start + len("".join(lines[:first]))
        self.problems.append(
            Problem(self._path, self._block.line + example.lineno, what, got, start, start + len(example.want))
        )

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        what = f"{example.source.rstrip()!r} raises {exc_info[0].__name__}: {exc_info[1]}"
        self.problems.append(Problem(self._path, self._block.line + example.lineno, what))


def _rewrite(path: Path) -> None:
    """Runs a document, and puts what was printed in place of what it says where that differs."""
    with tempfile.TemporaryDirectory() as folder:
        problems = run_document(path, Path(folder))
    text = path.read_text()
    for problem in sorted(problems, key=lambda problem: -problem.start):
        sys.stderr.write(f"{problem}\n")
        if problem.stop or problem.actual:
            actual = problem.actual.strip("\n")
            text = text[: problem.start] + (actual + "\n" if actual else "") + text[problem.stop :]
    path.write_text(text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _rewrite(Path(name).resolve())
