"""F4: the verbs as functions. The one hall where the rooms below meet.

Each verb lies in a file of its own here and is loaded on first use, so that looking at a model does not load what
writes one.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfsmith.ir.model import Model as Model
    from tfsmith.passes.convert import ConvertOptions as ConvertOptions
    from tfsmith.passes.convert import SignatureEdits as SignatureEdits
    from tfsmith.passes.export import ExportOptions as ExportOptions
    from tfsmith.passes.freeze import FreezeOptions as FreezeOptions
    from tfsmith.passes.interface import Candidate as Candidate
    from tfsmith.passes.thaw import ThawOptions as ThawOptions
    from tfsmith.verbs.files import Format as Format
    from tfsmith.verbs.files import graph_text as graph_text
    from tfsmith.verbs.files import load as load
    from tfsmith.verbs.files import load_with as load_with
    from tfsmith.verbs.files import refuse_taken as refuse_taken
    from tfsmith.verbs.files import save as save
    from tfsmith.verbs.files import select_meta_graph as select_meta_graph
    from tfsmith.verbs.files import verify_checksums as verify_checksums
    from tfsmith.verbs.files import with_saver as with_saver
    from tfsmith.verbs.show import likely_inputs as likely_inputs
    from tfsmith.verbs.show import likely_outputs as likely_outputs
    from tfsmith.verbs.show import show_facts as show_facts
    from tfsmith.verbs.verify import OutputCheck as OutputCheck
    from tfsmith.verbs.verify import Verified as Verified
    from tfsmith.view.summary import Summary as Summary
    from tfsmith.view.summary import signature_facts as signature_facts
    from tfsmith.view.summary import summarize as summarize

__all__ = [
    "Model",
    "ConvertOptions",
    "SignatureEdits",
    "ExportOptions",
    "FreezeOptions",
    "Candidate",
    "ThawOptions",
    "Format",
    "graph_text",
    "load",
    "load_with",
    "refuse_taken",
    "save",
    "select_meta_graph",
    "verify_checksums",
    "with_saver",
    "likely_inputs",
    "likely_outputs",
    "show_facts",
    "OutputCheck",
    "Verified",
    "Summary",
    "signature_facts",
    "summarize",
]

_HOMES = MappingProxyType(
    {
        "tfsmith.ir.model": ("Model",),
        "tfsmith.passes.convert": ("ConvertOptions", "SignatureEdits"),
        "tfsmith.passes.export": ("ExportOptions",),
        "tfsmith.passes.freeze": ("FreezeOptions",),
        "tfsmith.passes.interface": ("Candidate",),
        "tfsmith.passes.thaw": ("ThawOptions",),
        "tfsmith.verbs.files": (
            "Format",
            "graph_text",
            "load",
            "load_with",
            "refuse_taken",
            "save",
            "select_meta_graph",
            "verify_checksums",
            "with_saver",
        ),
        "tfsmith.verbs.show": ("likely_inputs", "likely_outputs", "show_facts"),
        "tfsmith.verbs.verify": ("OutputCheck", "Verified"),
        "tfsmith.view.summary": ("Summary", "signature_facts", "summarize"),
    }
)


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'tfsmith.api' has no attribute {name!r}")
