"""Networks of images: channels come first inside, with a transpose at the door; and a detector with NMS."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

import onnx
import tfsmith

MODELS = Path(__file__).parents[1] / "data/images"


@pytest.mark.parametrize("name", ["resnet50", "mobilenet", "efficientnet", "detector"])
def test_networks(name: str, tmp_path: Path) -> None:
    """Valid, with all shapes, the same answers; at most two transposes are left."""
    path, out = tmp_path / f"{name}.pb", tmp_path / "model.onnx"
    path.write_bytes(lzma.decompress((MODELS / f"{name}.pb.xz").read_bytes()))
    done = tfsmith.convert(path, out, verify=True)
    assert done.verified is not None
    assert max(one.max_abs for one in done.verified.outputs) < 1e-4
    onnx.checker.check_model(out, full_check=True)
    assert done.ops.get("Transpose", 0) <= 2
    if name == "detector":
        assert done.ops["NonMaxSuppression"] == 1
