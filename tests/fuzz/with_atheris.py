"""`python -m tests.fuzz.with_atheris TARGET [SECONDS]`: one target under atheris, which looks for new paths in code.

The mutations are ours, so that what comes out is well-formed; atheris keeps what reaches new code, and mutates that
again.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["tfsmith"]):
    from tests.fuzz.targets import TARGETS, attempt, no_sync

    import tfsmith  # noqa: F401


def main(name: str, seconds: str = "60") -> None:
    target = TARGETS[name]
    no_sync()
    with tempfile.TemporaryDirectory() as home:
        corpus, seeds, used = (Path(home) / part for part in ("corpus", "seeds", "m"))
        for folder in (corpus, seeds):
            folder.mkdir()
        for number, seed in enumerate(target.seeds(seeds)):
            (corpus / str(number)).write_bytes(seed)

        def use(data: bytes) -> None:
            used.mkdir(exist_ok=True)
            for left in used.iterdir():
                if left.is_file():
                    left.unlink()
            attempt(lambda: target.use(data, used))

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            return target.mutant([data or b"\0"], Random(seed))[:most]

        limits = ["-max_len=1048576", "-rss_limit_mb=1000", "-timeout=20", f"-max_total_time={seconds}"]
        atheris.Setup([sys.argv[0], str(corpus), *limits], use, custom_mutator=mutate)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
