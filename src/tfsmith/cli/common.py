"""What all verbs share: exit codes, the one-line error, tables that suit a terminal or a pipe."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tfsmith.errors import TfsmithError, UsageError
from tfsmith.ir.shape import Shape

__all__ = ["LineParser", "run", "emit", "printable", "human_bytes", "human_count", "input_shape", "DONE", "NO", "BAD"]

DONE, NO, BAD = 0, 1, 2
"""Exit codes: done; the work's answer is no; bad usage or bad input."""


class LineParser(argparse.ArgumentParser):
    """Bad usage is one line with a remedy, and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and stops."""
        sys.stderr.write(f"error: {message}; `{self.prog} --help` lists what it takes\n")
        raise SystemExit(BAD)


def run(work: Callable[[], int], *, debug: bool = False) -> int:
    """Runs a verb; a `TfsmithError` becomes one `error:` line on stderr and exit code 2."""
    try:
        with _rare_collections():
            code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        sys.stderr.write("error: stopped by the keyboard; nothing was written\n")
        return 130
    except TfsmithError as error:
        return _fail(str(error), debug=debug)
    except OSError as error:
        place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}; check the path and its permissions", debug=debug)
    except (RecursionError, MemoryError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "takes more memory than there is"
        return _fail(f"the model {what}; do not trust the file", debug=debug)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Has Python look for reference cycles rarely: a large graph is much that lives, and none of it is a cycle.

    It makes `show` of 100,000 nodes a third faster and takes no more memory.
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
    sys.stderr.write(f"error: {printable(text)}\n")
    return BAD


def printable(text: str) -> str:
    """Text from a file, made safe for a terminal: one line, and no control characters that would command it."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def emit(text: str) -> None:
    """Writes data to stdout. Text that the terminal's encoding lacks is escaped, never a crash."""
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


def input_shape(text: str) -> tuple[str, Shape]:
    """Reads "NAME=1,128", where "?" or -1 is an unknown dimension.

    Raises:
        UsageError: It is something else.
    """
    name, equals, dims = text.rpartition("=")
    words = [word.strip() for word in dims.split(",") if word.strip()]
    if not equals or not all(word == "?" or word.removeprefix("-").isdecimal() for word in words):
        raise UsageError(f"--input-shape {text!r} is not understood", remedy="write NAME=1,128 (? for unknown)")
    return name, Shape(tuple(-1 if word == "?" else int(word) for word in words))
