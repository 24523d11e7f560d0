"""`python -m tests.fuzz`: mutants of every format, each within limits of time and memory. `make fuzz` runs it.

Every mutant has a number, and a number always gives the same mutant. What fails is kept in a folder, and becomes a test
as soon as it lies in `tests/hostile/found/`.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

from tests.fuzz.targets import TARGETS, Target, attempt, no_sync

FOUND = Path(__file__).parents[1] / "hostile" / "found"


class TooSlow(BaseException):
    """A mutant took more time than it may; no `except Exception` hides it."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise TooSlow


def bound_memory(more: int) -> None:
    """Gives this process at most so many bytes more than it has: what asks for the whole machine fails early."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is not None:
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def peak() -> int:
    """The most memory that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def problem(target: Target, data: bytes, folder: Path, seconds: float) -> str:
    """Uses a file in a fresh folder; what is wrong with how that went, or an empty text."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        attempt(lambda: target.use(data, folder))
    except TooSlow:
        return f"over {seconds:g} s\n{traceback.format_exc()}"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def run(name: str, first: int, count: int, arguments: argparse.Namespace) -> int:
    """Runs mutants `first` and following of one target; returns how many failed."""
    target, failed = TARGETS[name], 0
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "seeds").mkdir()
        seeds = list(target.seeds(Path(home) / "seeds"))
        for seed in seeds:
            assert not (said := problem(target, seed, Path(home) / "m", arguments.seconds)), said
        before = peak()
        slowest = 0.0
        for number in range(first, first + count):
            data = target.mutant(seeds, Random(f"{name} {number}"))
            start = time.process_time()
            said = problem(target, data, Path(home) / "m", arguments.seconds)
            slowest = max(slowest, time.process_time() - start)
            if not said and peak() > max(arguments.memory << 20, before + (64 << 20)):
                said = f"{peak() >> 20} MB"
                before = peak()
            if said:
                failed += 1
                kept = arguments.found / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(data)
                print(f"{name} {number}: kept as {kept}\n{said}", flush=True)
            if failed >= arguments.most:
                break
    print(f"{name}: {count} mutants, {failed} failed, slowest {slowest:.2f} s, peak {peak() >> 20} MB", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(TARGETS), metavar="NAME")
    parser.add_argument("--mutants", type=int, default=2000, help="how many in all (2000)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one (0)")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds that one may take (2)")
    parser.add_argument("--memory", type=int, default=300, help="MB that the process may have (300)")
    parser.add_argument("--most", type=int, default=20, help="failures of one target after which it is left (20)")
    parser.add_argument("--found", type=Path, default=FOUND, help="where files that fail are kept")
    arguments = parser.parse_args()
    no_sync()
    bound_memory(1 << 30)
    signal.signal(signal.SIGPROF, _stop)
    each = -(-arguments.mutants // len(arguments.targets))
    failed = sum(run(name, arguments.first, each, arguments) for name in arguments.targets)
    print(f"{each * len(arguments.targets)} mutants, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
