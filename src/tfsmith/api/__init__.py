"""F4: the verbs as functions. The one hall where the rooms below meet.

Each verb lies in a file of its own here and is loaded on first use, so that looking at a model does not load what
writes one.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfsmith.api.checking import check as check
    from tfsmith.api.checking import targets as targets
    from tfsmith.api.comparing import SECTIONS as SECTIONS
    from tfsmith.api.comparing import Difference as Difference
    from tfsmith.api.comparing import diff as diff
    from tfsmith.api.drafting import Drafted as Drafted
    from tfsmith.api.drafting import DraftedInput as DraftedInput
    from tfsmith.api.drafting import draft_recipe as draft_recipe
    from tfsmith.api.drafting import draft_text as draft_text
    from tfsmith.api.drafting import save_draft as save_draft
    from tfsmith.api.drawing import draw_recipe as draw_recipe
    from tfsmith.api.patterning import configure as configure
    from tfsmith.api.patterning import extract as extract
    from tfsmith.api.patterning import known_barriers as known_barriers
    from tfsmith.api.patterning import list_recipes as list_recipes
    from tfsmith.api.patterning import load_node as load_node
    from tfsmith.api.patterning import load_pattern as load_pattern
    from tfsmith.api.patterning import load_recipe as load_recipe
    from tfsmith.api.patterning import make_recipe as make_recipe
    from tfsmith.api.patterning import replace as replace
    from tfsmith.api.patterning import save_in_place as save_in_place
    from tfsmith.api.patterning import save_pattern as save_pattern
    from tfsmith.api.patterning import save_recipe as save_recipe
    from tfsmith.api.patterning import save_replaced as save_replaced
    from tfsmith.api.placing import place_if as place_if
    from tfsmith.api.weighing import compare_weights as compare_weights
    from tfsmith.api.weighing import load_bert as load_bert
    from tfsmith.api.weighing import load_weights as load_weights
    from tfsmith.api.weighing import map_weights as map_weights
    from tfsmith.api.weighing import save_weights as save_weights
    from tfsmith.ir.model import Model as Model
    from tfsmith.ir.recipe import Match as Match
    from tfsmith.ir.recipe import Miss as Miss
    from tfsmith.ir.recipe import Pattern as Pattern
    from tfsmith.ir.recipe import Recipe as Recipe
    from tfsmith.ir.weights import Weights as Weights
    from tfsmith.passes.check_target import Checked as Checked
    from tfsmith.passes.check_target import Obstacle as Obstacle
    from tfsmith.passes.configure import Configured as Configured
    from tfsmith.passes.convert import ConvertOptions as ConvertOptions
    from tfsmith.passes.convert import SignatureEdits as SignatureEdits
    from tfsmith.passes.export import ExportOptions as ExportOptions
    from tfsmith.passes.freeze import FreezeOptions as FreezeOptions
    from tfsmith.passes.interface import Candidate as Candidate
    from tfsmith.passes.thaw import ThawOptions as ThawOptions
    from tfsmith.patterns.replace import Replaced as Replaced
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
    from tfsmith.verbs.verify import Verified as Verified
    from tfsmith.view.summary import Summary as Summary
    from tfsmith.view.summary import signature_facts as signature_facts
    from tfsmith.view.summary import summarize as summarize
    from tfsmith.weights.compare import Comparison as Comparison
    from tfsmith.weights.mapping import Mapped as Mapped
    from tfsmith.weights.maps import WeightMap as WeightMap
    from tfsmith.weights.maps import builtin_maps as builtin_maps
    from tfsmith.weights.table import ScopeRow as ScopeRow
    from tfsmith.weights.table import Stats as Stats
    from tfsmith.weights.table import WeightRow as WeightRow
    from tfsmith.weights.table import require_finite as require_finite
    from tfsmith.weights.table import scope_rows as scope_rows
    from tfsmith.weights.table import weight_rows as weight_rows

__all__ = [
    "load",
    "save",
    "with_saver",
    "diff",
    "check",
    "targets",
    "extract",
    "save_pattern",
    "load_pattern",
    "load_node",
    "make_recipe",
    "load_recipe",
    "save_recipe",
    "known_barriers",
    "list_recipes",
    "Drafted",
    "DraftedInput",
    "draft_recipe",
    "draft_text",
    "save_draft",
    "place_if",
    "draw_recipe",
    "replace",
    "save_replaced",
    "configure",
    "save_in_place",
    "select_meta_graph",
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
    "graph_text",
    "refuse_taken",
    "likely_inputs",
    "likely_outputs",
    "verify_checksums",
    "SECTIONS",
    "Candidate",
    "Checked",
    "Comparison",
    "Configured",
    "ConvertOptions",
    "Difference",
    "Format",
    "ExportOptions",
    "FreezeOptions",
    "Mapped",
    "Match",
    "Miss",
    "Model",
    "Obstacle",
    "Pattern",
    "Recipe",
    "Replaced",
    "ScopeRow",
    "SignatureEdits",
    "Stats",
    "Summary",
    "ThawOptions",
    "WeightMap",
    "WeightRow",
    "Weights",
]

_HOMES = MappingProxyType(
    {
        "tfsmith.api.checking": (
            "check",
            "targets",
        ),
        "tfsmith.api.comparing": (
            "SECTIONS",
            "Difference",
            "diff",
        ),
        "tfsmith.api.drawing": ("draw_recipe",),
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
        "tfsmith.verbs.show": (
            "likely_inputs",
            "likely_outputs",
            "show_facts",
        ),
        "tfsmith.api.drafting": ("Drafted", "DraftedInput", "draft_recipe", "draft_text", "save_draft"),
        "tfsmith.api.patterning": (
            "configure",
            "extract",
            "known_barriers",
            "list_recipes",
            "load_node",
            "load_pattern",
            "load_recipe",
            "make_recipe",
            "replace",
            "save_in_place",
            "save_pattern",
            "save_recipe",
            "save_replaced",
        ),
        "tfsmith.api.placing": ("place_if",),
        "tfsmith.api.weighing": (
            "compare_weights",
            "load_bert",
            "load_weights",
            "map_weights",
            "save_weights",
        ),
        "tfsmith.ir.model": ("Model",),
        "tfsmith.ir.recipe": ("Match", "Miss", "Pattern", "Recipe"),
        "tfsmith.ir.weights": ("Weights",),
        "tfsmith.passes.configure": ("Configured",),
        "tfsmith.passes.check_target": (
            "Checked",
            "Obstacle",
        ),
        "tfsmith.passes.convert": (
            "ConvertOptions",
            "SignatureEdits",
        ),
        "tfsmith.passes.interface": ("Candidate",),
        "tfsmith.passes.export": ("ExportOptions",),
        "tfsmith.passes.freeze": ("FreezeOptions",),
        "tfsmith.passes.thaw": ("ThawOptions",),
        "tfsmith.patterns.replace": ("Replaced",),
        "tfsmith.verbs.verify": ("Verified",),
        "tfsmith.view.summary": (
            "Summary",
            "signature_facts",
            "summarize",
        ),
        "tfsmith.weights.compare": ("Comparison",),
        "tfsmith.weights.maps": (
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
