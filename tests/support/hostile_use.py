"""Asks a model for everything that it has, so that no damage stays hidden."""

from __future__ import annotations

from pathlib import Path

from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.ir.tensor import Tensor


def use(tensor: Tensor) -> None:
    """Asks a tensor for everything."""
    assert tensor.shape.is_static
    assert tensor.nbytes >= 0
    tensor.numpy()
    for _ in tensor.parts():
        pass


def use_bundle(prefix: Path) -> None:
    """Opens a checkpoint and asks for everything in it."""
    bundle = open_bundle(prefix)
    for name in bundle:
        use(bundle[name])
    assert len(bundle.entries) == len(bundle)
    bundle.stored_order()
    bundle.verify()
