"""Writes the software bill of materials of the wheel, as CycloneDX 1.5 JSON: tfsmith and all that it needs to run.

    python -m tools.make_sbom dist/tfsmith.cdx.json

Versions and licences are those of what is installed here. The same installation always gives the same bytes: the time
is `SOURCE_DATE_EPOCH` if that is set, and is left out if not.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import datetime, timezone
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed_by(name: str) -> list[str]:
    """What a package needs here, extras left out."""
    found = (Requirement(text) for text in distribution(name).requires or ())
    return sorted({canonicalize_name(one.name) for one in found
                   if one.marker is None or one.marker.evaluate({"extra": ""})})  # fmt: skip


def component(name: str, kind: str = "library") -> dict[str, Any]:
    facts = distribution(name)
    number = facts.version
    found: dict[str, Any] = {
        "type": kind,
        "bom-ref": f"pkg:pypi/{name}@{number}",
        "name": name,
        "version": number,
        "purl": f"pkg:pypi/{name}@{number}",
    }
    expression, licence = (
        next(iter(facts.metadata.get_all(key) or ()), "") for key in ("License-Expression", "License")
    )
    if expression:
        found["licenses"] = [{"expression": expression}]
    elif licence and len(licence) < 100:  # some put the whole text there
        found["licenses"] = [{"license": {"name": licence}}]
    return found


def bill(root: str = "tfsmith") -> dict[str, Any]:
    """The whole bill."""
    edges: dict[str, list[str]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name not in edges:
            edges[name] = needed_by(name)
            waiting += edges[name]
    parts = {name: component(name, "application" if name == root else "library") for name in sorted(edges)}
    references = {name: part["bom-ref"] for name, part in parts.items()}
    metadata: dict[str, Any] = {"component": parts[root]}
    if "SOURCE_DATE_EPOCH" in os.environ:
        moment = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
        metadata["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(sorted(references.values())))}",
        "version": 1,
        "metadata": metadata,
        "components": [part for name, part in parts.items() if name != root],
        "dependencies": [
            {"ref": references[name], "dependsOn": [references[other] for other in edges[name]]}
            for name in sorted(edges)
        ],
    }


def main(path: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
