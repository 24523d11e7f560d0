"""The drawing as a page of its own, with every input listed below it."""

from __future__ import annotations

from collections.abc import Sequence

from tfsmith.ir.match import Match
from tfsmith.ir.recipe import Recipe, Variant
from tfsmith.view.drawing.canvas import escape
from tfsmith.view.drawing.recipe_drawing import draw_recipe
from tfsmith.view.drawing.remap import list_inputs

__all__ = ["recipe_page"]

_STYLE = """
body { font: 14px/1.45 "DejaVu Sans", Helvetica, Arial, sans-serif; color: #1c2733; margin: 24px; }
table { border-collapse: collapse; margin: 8px 0 20px; }
td, th { text-align: left; padding: 2px 14px 2px 0; font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; }
th { border-bottom: 1px solid #8aa0b8; }
.drawing { overflow: auto; border: 1px solid #d5dde6; }
summary { cursor: pointer; margin-top: 12px; }
"""


def recipe_page(recipe: Recipe, drawn: Sequence[tuple[Variant, Sequence[Match]]]) -> str:
    """A self-contained page; it fetches nothing and runs no script.

    Args:
        recipe: The recipe.
        drawn: Its variants, with the matches of each in the model, if there is one.
    """
    parts = [f"<h1>Recipe {escape(recipe.name)}</h1><p>{escape(recipe.description)}</p>"]
    for variant, matches in drawn:
        first = matches[0] if matches else None
        parts.append(f"<h2>Variant {escape(variant.name)}</h2>")
        parts.append(f'<div class="drawing">{draw_recipe(recipe, variant, first, len(matches))}</div>')
        parts += [_tables(variant, match) for match in matches] or [_tables(variant, None)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Recipe {escape(recipe.name)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _tables(variant: Variant, match: Match | None) -> str:
    parts = []
    for target in variant.targets:
        place = "" if match is None else f" at {next(iter(match.units[-1].nodes.values()), '')}"
        where = f" in function {match.body}" if match is not None and match.body else ""
        rows = "".join(
            f"<tr><td>{number}</td><td>{escape(name)}</td><td>{escape(tensor)}</td></tr>"
            for number, name, tensor in list_inputs(variant, target, match)
        )
        summary = f"All inputs of {escape(target.name)} ({escape(target.op)}){escape(place)}{escape(where)}"
        head = "<tr><th>input</th><th>in the recipe</th><th>in the model</th></tr>"
        parts.append(f"<details><summary>{summary}</summary><table>{head}{rows}</table></details>")
    return "\n".join(parts)
