"""What all verbs share: exit codes, the one-line error, tables that suit a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tfsmith.errors import TfsmithError

__all__ = ["run", "emit", "human_bytes", "human_count", "DONE", "NO", "BAD"]

DONE, NO, BAD = 0, 1, 2
"""Exit codes: done; the work's answer is no; bad usage or bad input."""


def run(work: Callable[[], int], *, debug: bool = False) -> int:
    """Runs a verb; a `TfsmithError` becomes one `error:` line on stderr and exit code 2."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except TfsmithError as error:
        if debug:
            raise
        text = " ".join(str(error).split("\n"))
        sys.stderr.write(f"error: {text}\n")
        return BAD
    except BrokenPipeError:  # the reader has seen enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        sys.stderr.write("error: stopped by the keyboard; nothing was written\n")
        return 130
    except (RecursionError, MemoryError) as error:
        if debug:
            raise
        what = "is nested too deeply" if isinstance(error, RecursionError) else "takes more memory than there is"
        sys.stderr.write(f"error: the model {what}; do not trust the file\n")
        return BAD


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
