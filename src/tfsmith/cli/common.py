"""What all verbs share: exit codes, the one-line error, tables that suit a terminal or a pipe."""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NoReturn

from tfsmith.errors import BRACES, Note, Speller, TfsmithError, worded
from tfsmith.storage import spelled as with_urls
from tfsmith.verbs._declare import SPELLINGS
from tfsmith.view import escaped, human_bytes, human_count, plural, printable

__all__ = [
    "LineParser",
    "run",
    "run_tool",
    "emit",
    "complain",
    "said",
    "warn",
    "spelled",
    "similar",
    "open_closed_streams",
    "progress",
    "rare_collections",
    "printable",
    "human_bytes",
    "human_count",
    "plural",
    "DONE",
    "NO",
    "BAD",
]

DONE, NO, BAD = 0, 1, 2
"""Exit codes: done; the work's answer is no; bad usage or bad input."""

_LONGEST = 2000
"""A line on stderr: names in files may be megabytes long."""
_COMMANDS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
"""Control characters, but for tabs and new lines, and those that turn the direction of writing."""


class LineParser(argparse.ArgumentParser):
    """Bad usage is one line with a remedy, and exit code 2."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        """As its base, with the terminal's width asked of the system: argparse loads `shutil` for it, each time."""
        try:
            width = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(1).columns
        except (OSError, ValueError):
            width = 80
        return self.formatter_class(self.prog, width=max(width, 40) - 2)  # type: ignore[call-arg]

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and stops."""
        complain(f"error: {message}; `{self.prog} --help` lists what it takes")
        raise SystemExit(BAD)

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """As its base; an option that is not known is named first of all, with the one that is like it."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        args = list(sys.argv[1:] if args is None else args)
        for word in () if self._subparsers is not None else args:
            option = word.partition("=")[0]
            if len(option) > 2 and option.startswith("--") and not any(flag.startswith(option) for flag in flags):
                self.error(f"there is no option {option}{similar(option, flags)}")
        return argparse.ArgumentParser.parse_args(self, args, namespace)


def similar(word: str, words: Sequence[str]) -> str:
    """The word that may be meant, as a question; empty if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, words, 1, 0.65)
    return f" (did you mean {near[0]}?)" if near else ""


def spelled(name: str, value: str | None, flags: Mapping[str, str] = MappingProxyType({})) -> str:
    """An option that an error names, as a command takes it: `--force`, `--checkpoint`, `--min-elements 0`.

    Args:
        name: Its name in Python.
        value: The value that is spoken of, if there is one.
        flags: The flags of the verb that runs, by these names.
    """
    if name.endswith(")"):
        return f"`{_command(name)}`"
    flag = flags.get(name) or (SPELLINGS[name][-1] if name in SPELLINGS else f"--{name.replace('_', '-')}")
    if value == "False":
        return flag if flag.startswith("--no-") else f"--no-{flag[2:]}"
    plain = None if value is None else value.strip("'\"")
    return flag if plain in (None, "", "True") else f"{flag} {plain}"


def _sizes(dims: str | Iterable[int | None]) -> str:
    """The value of a pair: a text, or the sizes of a shape."""
    return dims if isinstance(dims, str) else ",".join("?" if one is None else str(one) for one in dims)


def _command(text: str) -> str:
    """A call of a verb in Python, as `tfsmith.errors.call` writes it, as a command."""
    import ast
    import shlex

    from tfsmith.verbs import VERBS
    from tfsmith.verbs._declare import LISTED, read_verb

    found = ast.parse(text.translate(BRACES), mode="eval").body
    assert isinstance(found, ast.Call), text
    function = ast.unparse(found.func)
    name = next(name for name, (home, _) in VERBS.items() if home.endswith(f".{function}"))
    options = {option.name: option for option in read_verb(name, VERBS[name][0]).options}
    words = ["tfsmith", name]
    given = dict(zip(options, found.args, strict=False)) | {one.arg or "": one.value for one in found.keywords}
    for key, node in given.items():
        option = options[key]
        if isinstance(node, ast.Name):
            words += [node.id] if node.id == "MODEL" else []
            continue
        value = ast.literal_eval(node)
        flag = next((one for one in option.flags if one.startswith("--") or key in ("out", "recipe")), None)
        if isinstance(value, bool):
            words.append(str(flag))
            continue
        if isinstance(value, dict):
            texts = [f"{name}={_sizes(dims)}" for name, dims in value.items()]
        elif isinstance(value, list):
            texts = [",".join(map(str, value))] if option.kind in LISTED else [str(one) for one in value]
        else:
            texts = [str(value)]
        for one in texts:
            words += ([] if flag is None else [flag]) + [shlex.quote(one)]
    return " ".join(words)


def run(work: Callable[[], int], *, debug: bool = False, spell: Speller = spelled) -> int:
    """Runs a verb; a `TfsmithError` becomes one `error:` line on stderr and exit code 2."""
    try:
        with rare_collections(), _orderly_end():
            code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, _Terminated) else signal.SIGINT
        who = "the keyboard" if number == signal.SIGINT else "another program"
        complain(f"error: stopped by {who}; nothing was written")
        return 128 + number
    except TfsmithError as error:
        return _fail(error.worded(spell), debug=debug)
    except OSError as error:
        if not error.filename:  # not about a file that was named, so about what we print
            return _fail(f"stdout: {error.strerror or error}; print to another place", debug=debug)
        what = f"{os.fsdecode(error.filename)}: {error.strerror or error}"
        return _fail(f"{what}; check the path and its permissions", debug=debug)
    except (RecursionError, MemoryError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "takes more memory than there is"
        return _fail(f"the model {what}; do not trust the file", debug=debug)


def run_tool(parser: LineParser, work: Callable[[argparse.Namespace], int], argv: Sequence[str] | None) -> int:
    """Parses a command line and runs what it asks for, as `run` does; gives the exit code."""
    try:
        flags = parser.parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD
    return run(lambda: work(flags))


class _Terminated(KeyboardInterrupt):
    """A signal came: the end is as orderly as with Ctrl-C, so that no half-written file stays behind."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Has SIGTERM and SIGHUP unwind what runs; only in the main thread, where Python can take signals."""

    def stop(number: int, frame: object) -> NoReturn:
        raise _Terminated(number)

    usual: dict[int, Any] = {}
    with suppress(ValueError):
        for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as with `nohup`
                usual[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Has Python look for reference cycles rarely: a large graph is much that lives, and none of it is a cycle.

    It makes `show` of 100,000 nodes a third faster, imports a tenth, and takes no more memory.
    """
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _fail(text: str, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    complain(f"error: {text}")
    return BAD


def complain(text: str) -> None:
    """Writes one line to stderr; what is longer than anybody reads is cut in its middle."""
    text = with_urls(text)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 2 :]}"
    with suppress(OSError):  # nobody can be told that nobody can be told
        sys.stderr.write(f"{printable(text)}\n")


def warn(notes: Iterable[object], spell: Speller = spelled) -> None:
    """Writes one line to stderr for each thing that the user should know."""
    for note in notes:
        complain(f"warning: {said(note, spell)}")


def said(note: object, spell: Speller = spelled) -> str:
    """A note as a line, with its options as a command takes them."""
    if isinstance(note, Note):
        return note.worded(spell)
    return worded(note if isinstance(note, str) else str(note), spell)


@contextmanager
def progress(first: str = "") -> Iterator[Callable[[str], None]]:
    """Gives what a verb calls when a step begins: on a terminal, a step of more than a second is shown on stderr.

    What is shown has the bytes that were written since the step began, where some were.

    Args:
        first: The step that begins at once; "" for none.
    """
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from threading import Event, Thread
    from time import monotonic

    from tfsmith.storage import FileSink
    from tfsmith.view import human_bytes

    steps = [(first, monotonic(), FileSink.total)]
    done, shown_any = Event(), Event()

    def step(name: str) -> None:
        steps[0] = (name, monotonic(), FileSink.total)

    def show() -> None:
        while not done.wait(0.25):
            name, begun, before = steps[0]
            seconds, written = int(monotonic() - begun), FileSink.total - before
            if name and seconds:
                shown_any.set()
                size = f", {human_bytes(written)} written" if written else ""
                sys.stderr.write(f"\r\x1b[K{printable(name)} ({seconds} s{size})")
                sys.stderr.flush()

    shown = Thread(target=show, daemon=True)
    shown.start()
    try:
        yield step
    finally:
        done.set()
        shown.join()
        if shown_any.is_set():
            sys.stderr.write("\r\x1b[K")


def open_closed_streams() -> None:
    """Opens what the caller closed (`>&-`): a file of ours would take its place, and get what is meant for people."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def emit(text: str, *, exact: bool = False) -> None:
    """Writes data to stdout. What would command a terminal, or what its encoding lacks, is escaped.

    Args:
        text: What to write.
        exact: Whether a pipe or file gets every character as it is.
    """
    text = with_urls(text)
    if not exact or sys.stdout.isatty():
        text = re.sub(_COMMANDS, lambda found: escaped(found[0]), text)
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
