"""F4: the verbs as functions. The one hall where the rooms below meet.

Each verb lies in a file of its own here and is loaded on first use, so that looking at a model does not load what
writes one.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfsmith.api.converting import convert as convert
    from tfsmith.api.exporting import export as export
    from tfsmith.api.exporting import thaw as thaw
    from tfsmith.api.exporting import thaw_report as thaw_report
    from tfsmith.api.files import Format as Format
    from tfsmith.api.files import graph_text as graph_text
    from tfsmith.api.files import load as load
    from tfsmith.api.files import load_with as load_with
    from tfsmith.api.files import save as save
    from tfsmith.api.files import verify_checksums as verify_checksums
    from tfsmith.api.files import with_saver as with_saver
    from tfsmith.api.freezing import freeze as freeze
    from tfsmith.api.freezing import freeze_report as freeze_report
    from tfsmith.api.freezing import save_frozen as save_frozen
    from tfsmith.api.look import likely_inputs as likely_inputs
    from tfsmith.api.look import likely_outputs as likely_outputs
    from tfsmith.api.look import saved_model_text as saved_model_text
    from tfsmith.api.look import show_facts as show_facts
    from tfsmith.api.weighing import compare_weights as compare_weights
    from tfsmith.api.weighing import load_bert as load_bert
    from tfsmith.api.weighing import load_weights as load_weights
    from tfsmith.api.weighing import map_weights as map_weights
    from tfsmith.api.weighing import save_weights as save_weights
    from tfsmith.ir.weights import Weights as Weights
    from tfsmith.passes.convert_options import Converted as Converted
    from tfsmith.passes.convert_options import ConvertOptions as ConvertOptions
    from tfsmith.passes.convert_options import SignatureEdits as SignatureEdits
    from tfsmith.passes.endpoints import Candidate as Candidate
    from tfsmith.passes.export import Exported as Exported
    from tfsmith.passes.export import ExportOptions as ExportOptions
    from tfsmith.passes.freeze import FreezeOptions as FreezeOptions
    from tfsmith.passes.freeze import Frozen as Frozen
    from tfsmith.passes.thaw import Thawed as Thawed
    from tfsmith.passes.thaw import ThawOptions as ThawOptions
    from tfsmith.view.facts import signature_facts as signature_facts
    from tfsmith.view.summary import Summary as Summary
    from tfsmith.view.summary import summarize as summarize
    from tfsmith.weights.compare import Comparison as Comparison
    from tfsmith.weights.map_file import WeightMap as WeightMap
    from tfsmith.weights.map_file import builtin_maps as builtin_maps
    from tfsmith.weights.mapping import Mapped as Mapped
    from tfsmith.weights.table import ScopeRow as ScopeRow
    from tfsmith.weights.table import Stats as Stats
    from tfsmith.weights.table import WeightRow as WeightRow
    from tfsmith.weights.table import require_finite as require_finite
    from tfsmith.weights.table import scope_rows as scope_rows
    from tfsmith.weights.table import weight_rows as weight_rows

__all__ = [
    "load",
    "save",
    "freeze",
    "freeze_report",
    "save_frozen",
    "with_saver",
    "export",
    "thaw",
    "thaw_report",
    "convert",
    "load_weights",
    "save_weights",
    "compare_weights",
    "map_weights",
    "load_bert",
    "builtin_maps",
    "require_finite",
    "weight_rows",
    "scope_rows",
    "summarize",
    "show_facts",
    "signature_facts",
    "saved_model_text",
    "graph_text",
    "likely_inputs",
    "likely_outputs",
    "verify_checksums",
    "Candidate",
    "Comparison",
    "ConvertOptions",
    "Converted",
    "Format",
    "ExportOptions",
    "Exported",
    "FreezeOptions",
    "Frozen",
    "Mapped",
    "ScopeRow",
    "SignatureEdits",
    "Stats",
    "Summary",
    "ThawOptions",
    "Thawed",
    "WeightMap",
    "WeightRow",
    "Weights",
]

_HOMES = MappingProxyType(
    {
        "tfsmith.api.converting": ("convert",),
        "tfsmith.api.exporting": (
            "export",
            "thaw",
            "thaw_report",
        ),
        "tfsmith.api.files": (
            "Format",
            "graph_text",
            "load",
            "load_with",
            "save",
            "verify_checksums",
            "with_saver",
        ),
        "tfsmith.api.freezing": (
            "freeze",
            "freeze_report",
            "save_frozen",
        ),
        "tfsmith.api.look": (
            "likely_inputs",
            "likely_outputs",
            "saved_model_text",
            "show_facts",
        ),
        "tfsmith.api.weighing": (
            "compare_weights",
            "load_bert",
            "load_weights",
            "map_weights",
            "save_weights",
        ),
        "tfsmith.ir.weights": ("Weights",),
        "tfsmith.passes.convert_options": (
            "ConvertOptions",
            "Converted",
            "SignatureEdits",
        ),
        "tfsmith.passes.endpoints": ("Candidate",),
        "tfsmith.passes.export": (
            "ExportOptions",
            "Exported",
        ),
        "tfsmith.passes.freeze": (
            "FreezeOptions",
            "Frozen",
        ),
        "tfsmith.passes.thaw": (
            "ThawOptions",
            "Thawed",
        ),
        "tfsmith.view.facts": ("signature_facts",),
        "tfsmith.view.summary": (
            "Summary",
            "summarize",
        ),
        "tfsmith.weights.compare": ("Comparison",),
        "tfsmith.weights.map_file": (
            "WeightMap",
            "builtin_maps",
        ),
        "tfsmith.weights.mapping": ("Mapped",),
        "tfsmith.weights.table": (
            "ScopeRow",
            "Stats",
            "WeightRow",
            "require_finite",
            "scope_rows",
            "weight_rows",
        ),
    }
)


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'tfsmith.api' has no attribute {name!r}")
