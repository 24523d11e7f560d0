"""A BERT's files are what they should be: every weight there, shapes right, values finite, frozen equals checkpoint."""

from __future__ import annotations

from tfsmith.ir.tensor import Weights
from tfsmith.verbs.weights import compare_weights
from tfsmith.weights.table import measure


def test_checkpoint_has_every_weight_in_the_shape_that_the_config_says(checkpoint: Weights) -> None:
    """Opening it has checked that already; what fails there names the weight, both shapes and the config's field."""
    assert checkpoint


def test_checkpoint_is_finite(checkpoint: Weights) -> None:
    """No NaN, no infinity; checksums fit."""
    assert _not_finite(checkpoint) == {}


def test_frozen_graph_has_every_weight_in_the_shape_that_the_config_says(frozen: Weights) -> None:
    """As for the checkpoint."""
    assert frozen


def test_frozen_graph_is_finite(frozen: Weights) -> None:
    """No NaN, no infinity."""
    assert _not_finite(frozen) == {}


def test_frozen_graph_equals_checkpoint_bit_for_bit(checkpoint: Weights, frozen: Weights) -> None:
    """The frozen graph must be of this very checkpoint."""
    found = compare_weights(checkpoint, frozen)
    different = {one.name: (one.verdict, one.max_difference) for one in found if not one.is_equal()}
    assert different == {}


def _not_finite(weights: Weights) -> dict[str, str]:
    found = {}
    for name, tensor in weights.items():
        stats = measure(tensor)
        if stats is not None and (stats.nan or stats.inf):
            found[name] = f"{stats.nan} NaN, {stats.inf} infinite"
    return found
