"""Writes the recipes in src/tfsmith/patterns/recipes that have many variants, from `recipe_folding`.

    python -m tools.make_recipes

The files are what counts, and anybody may read them; this keeps their variants alike. Recipes of a few nodes
(remove-identity, remove-no-ops) are written by hand.
"""

from __future__ import annotations

from pathlib import Path

from tools.recipe_folding import dropout_removal, fold_batch_norm

FOLDER = Path(__file__).resolve().parents[1] / "src" / "tfsmith" / "patterns" / "recipes"


def texts() -> dict[str, str]:
    """The texts of the files, by name."""
    return {
        "dropout-removal": dropout_removal(),
        "fold-batch-norm": fold_batch_norm(),
    }


def main() -> None:
    """Writes the files."""
    for name, text in texts().items():
        (FOLDER / f"{name}.toml").write_text(text)


if __name__ == "__main__":
    main()
