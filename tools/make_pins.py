"""Writes `tools/check-requirements.txt`: the tools of `make check` and what tfsmith needs, with hashes of their files.

    python -m tools.make_pins

Versions are those that are installed, which the tests have passed with. Hashes are of the wheels for Linux on x86-64,
for some versions of Python; pip itself fetches them, from wherever it is set to. `make check PINNED=1` installs
nothing else.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).with_name("check-requirements.txt")
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
BUILD = ("hatchling", "editables")
"""What builds the package; with them here, no build fetches anything else."""


def closure(names: list[str]) -> dict[str, str]:
    """All that these need, by name, with the versions that are installed."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # for another Python
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return found


def roots() -> list[str]:
    """What tfsmith and its extra `check` name."""
    found = [Requirement(text) for text in distribution("tfsmith").requires or ()]
    wanted = [one for one in found if one.marker is None or one.marker.evaluate({"extra": "check"})]
    return [*(one.name for one in wanted), *BUILD]


def hashes(pins: dict[str, str]) -> dict[str, set[str]]:
    """The hashes of all wheels of these versions, for all Pythons."""
    found: dict[str, set[str]] = {name: set() for name in pins}
    with tempfile.TemporaryDirectory() as home:
        for python in PYTHONS:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            command += ["--python-version", python, "--dest", home]
            command += [part for platform in PLATFORMS for part in ("--platform", platform)]
            subprocess.run([*command, *(f"{name}=={number}" for name, number in pins.items())], check=True)
        for wheel in Path(home).glob("*.whl"):
            name = canonicalize_name(wheel.name.split("-")[0])
            found[name].add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    return found


def main() -> None:
    pins = dict(sorted(closure(roots()).items()))
    known = hashes(pins)
    lines = ["# Made by tools/make_pins.py: what `make check PINNED=1` installs, and nothing else.\n"]
    for name, number in pins.items():
        parts = [f"{name}=={number}", *(f"    --hash=sha256:{one}" for one in sorted(known[name]))]
        lines.append(" \\\n".join(parts) + "\n")
    TARGET.write_text("".join(lines))


if __name__ == "__main__":
    main()
