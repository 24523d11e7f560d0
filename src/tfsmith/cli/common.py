"""What all verbs share: exit codes, the one-line error, tables that suit a terminal or a pipe."""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tfsmith.errors import TfsmithError, UsageError
from tfsmith.ir.shape import Shape

__all__ = [
    "LineParser",
    "run",
    "emit",
    "complain",
    "warn",
    "open_closed_streams",
    "rare_collections",
    "printable",
    "human_bytes",
    "human_count",
    "plural",
    "input_shape",
    "DONE",
    "NO",
    "BAD",
]

DONE, NO, BAD = 0, 1, 2
"""Exit codes: done; the work's answer is no; bad usage or bad input."""

_LONGEST = 2000
"""A line on stderr: names in files may be megabytes long."""
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters, but for tabs and new lines, and those that turn the direction of writing."""


class LineParser(argparse.ArgumentParser):
    """Bad usage is one line with a remedy, and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and stops."""
        complain(f"error: {message}; `{self.prog} --help` lists what it takes")
        raise SystemExit(BAD)


def run(work: Callable[[], int], *, debug: bool = False) -> int:
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
        return _fail(str(error), debug=debug)
    except OSError as error:
        if not error.filename:  # not about a file that was named, so about what we print
            return _fail(f"stdout: {error.strerror or error}; print to another place", debug=debug)
        what = f"{os.fsdecode(error.filename)}: {error.strerror or error}"
        return _fail(f"{what}; check the path and its permissions", debug=debug)
    except (RecursionError, MemoryError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "takes more memory than there is"
        return _fail(f"the model {what}; do not trust the file", debug=debug)


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
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 2 :]}"
    with suppress(OSError):  # nobody can be told that nobody can be told
        sys.stderr.write(f"{printable(text)}\n")


def warn(notes: Iterable[object]) -> None:
    """Writes one line to stderr for each thing that the user should know."""
    for note in notes:
        complain(f"warning: {note}")


def open_closed_streams() -> None:
    """Opens what the caller closed (`>&-`): a file of ours would take its place, and get what is meant for people."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def printable(text: str) -> str:
    """Text from a file, made safe for a terminal: one line, and no control characters that would command it."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def emit(text: str, *, exact: bool = False) -> None:
    """Writes data to stdout. What would command a terminal, or what its encoding lacks, is escaped.

    Args:
        text: What to write.
        exact: Whether a pipe or file gets every character as it is.
    """
    if not exact or sys.stdout.isatty():
        text = _COMMANDS.sub(lambda found: _escape(found[0]), text)
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def human_bytes(size: int) -> str:
    """A size as people read it: 438.0 MB."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:.1f} {unit}"
    raise AssertionError("unreachable")


def human_count(count: int) -> str:
    """A count with thin groups: 109,483,778."""
    return f"{count:,}"


def plural(count: int, word: str) -> str:
    """A number of things: 1 node, 2 nodes."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def input_shape(text: str) -> tuple[str, Shape]:
    """Reads "NAME=1,128", where "?" or -1 is an unknown dimension.

    Raises:
        UsageError: It is something else.
    """
    name, equals, dims = text.rpartition("=")
    words = [word.strip() for word in dims.split(",") if word.strip()]
    if not (name and equals) or not all(word in ("?", "-1") or _is_size(word) for word in words):
        raise UsageError(f"--input-shape {text!r} is not understood", remedy="write NAME=1,128 (? for unknown)")
    return name, Shape(tuple(-1 if word == "?" else int(word) for word in words))


def _is_size(word: str) -> bool:
    """Whether this is a dimension: a number that 64 bits can hold."""
    return word.isascii() and word.isdecimal() and len(word) < 19
