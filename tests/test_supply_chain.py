"""The wheel is the same whoever builds it, its bill of materials is complete, and pins have hashes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.make_pins import roots
from tools.make_sbom import bill

ROOT = Path(__file__).parents[1]


def build(target: Path, root: Path, **environment: str) -> Path:
    code = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return target / done.stdout.split()[-1]


@pytest.mark.slow
def test_the_wheel_is_reproducible(tmp_path: Path) -> None:
    """Another folder, another moment, other times of the files: the same bytes."""
    copy = tmp_path / "elsewhere"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for path in sorted((ROOT / "src").rglob("*"), reverse=True):
        if path.is_file() and path.suffix != ".pyc":
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            os.utime(target, (1, 1_000_000_000))
    first = build(tmp_path / "a", ROOT, SOURCE_DATE_EPOCH="1700000000")
    second = build(tmp_path / "b", copy, SOURCE_DATE_EPOCH="1700000000", TZ="Asia/Tokyo")
    names = [zipfile.ZipFile(wheel).namelist() for wheel in (first, second)]
    assert names[0] == names[1]
    assert first.read_bytes() == second.read_bytes()


def test_the_bill_of_materials() -> None:
    found = bill()
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    names = {part["name"] for part in found["components"]}
    assert {"numpy", "protobuf", "google-crc32c", "ml-dtypes", "rich"} <= names
    assert "tensorflow" not in names
    references = {part["bom-ref"] for part in (*found["components"], found["metadata"]["component"])}
    assert {one["ref"] for one in found["dependencies"]} == references
    assert all(set(one["dependsOn"]) <= references for one in found["dependencies"])
    assert json.dumps(found) == json.dumps(bill())


def test_pins_have_hashes_and_cover_what_is_needed() -> None:
    text = (ROOT / "tools" / "check-requirements.txt").read_text()
    assert "://" not in text
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    assert len(entries) == len(re.findall(r"==", text))  # each has a hash
    pinned = {name for name, _, _ in entries}
    assert {canonicalize_name(name) for name in roots()} - {"tomli"} <= pinned  # which newer Pythons have
    for name, number, _ in entries:
        assert Requirement(f"{name}=={number}")
