"""The page: one HTML file that holds the model's data, and asks nobody for anything else.

`page.html` is built from `web/` (`npm run build` there); the data goes into it packed and in base64, so that no name of
a model can be read as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfsmith.records import field, record

__all__ = ["Mark", "Overlay", "page_html", "page_frame"]

_DATA = "/*DATA*/"


@record
class Mark:
    """A node that an overlay marks.

    Attributes:
        kind: One of the overlay's kinds.
        node: The node; empty for what concerns no node.
        sheet: The function that it is in; empty for the graph.
        text: What there is to say about it.
        value: What was measured there; None if nothing was.
    """

    kind: str
    node: str = ""
    sheet: str = ""
    text: str = ""
    value: float | None = None


@record
class Overlay:
    """Marks on nodes, with a list of them: matches, differences, findings.

    Attributes:
        name: What the page calls it.
        title: The title of its tab.
        kinds: For each kind of mark its label, its sign and its color, the gravest first. White text must be readable
            on the color.
        marks: The marks, in the order of the list.
        notes: Sentences above the list.
        side: Which of two models it belongs to, 0 or 1; -1 for both.
        measure: What the values are: "seconds", which add up in a scope, or "difference", of which a scope has the
            largest; empty where there are none.
    """

    name: str
    title: str
    kinds: Mapping[str, tuple[str, str, str]]
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    side: int = 0
    measure: str = ""

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        kinds = {
            key: {"label": label, "sign": sign, "color": color} for key, (label, sign, color) in self.kinds.items()
        }
        marks = [
            {"kind": one.kind, "node": one.node, "sheet": one.sheet, "text": one.text}
            | ({} if one.value is None else {"value": one.value})
            for one in self.marks
        ]
        return {
            "name": self.name,
            "title": self.title,
            "side": self.side,
            "measure": self.measure,
            "kinds": kinds,
            "marks": marks,
            "notes": [str(note) for note in self.notes],
        }


def page_html(
    models: Sequence[Mapping[str, Any]],
    *,
    overlays: Sequence[Overlay] = (),
    weights: Mapping[str, Any] | None = None,
    command: str = "MODEL",
    server: str = "",
) -> str:
    """The whole page as HTML.

    Args:
        models: What `page_data` gave for the model, or for two models that are shown side by side.
        overlays: What is painted on them.
        weights: Statistics of weights, as `tensor_facts` has them, by key; None if none are in the page.
        command: What the model is called on a command line; empty where no pattern can be picked.
        server: Where a local server gives statistics on demand; empty for a page that stands alone.
    """
    from base64 import b64encode
    from gzip import compress

    from tfsmith import __version__

    facts = {
        "models": list(models),
        "overlays": [one.facts() for one in overlays],
        "weights": weights,
        "command": command,
        "server": server,
        "version": __version__,
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    data = b64encode(compress(text.encode(), 6, mtime=0)).decode()
    before, _, after = Path(__file__).with_name("page.html").read_text("utf-8").partition(_DATA)
    return f"{before}{data}{after}"


def page_frame(html: str, height: int = 640) -> str:
    """The page in a frame of its own, for notebooks."""
    from html import escape

    style = f"width:100%;height:{height}px;border:1px solid #8b95a5;border-radius:6px"
    allow = "allow-scripts allow-downloads allow-modals"
    return f'<iframe title="tfsmith view" sandbox="{allow}" style="{style}" srcdoc="{escape(html)}"></iframe>'
