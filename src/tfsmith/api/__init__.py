"""F4: the verbs as functions. The one hall where the rooms below meet.

Each verb lies in a file of its own here and is loaded on first use, so that looking at a model does not load what
writes one.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfsmith.api.answers import batch_rows as batch_rows
    from tfsmith.api.answers import chunk_rows as chunk_rows
    from tfsmith.api.answers import mixed_output as mixed_output
    from tfsmith.api.answers import run_in_chunks as run_in_chunks
    from tfsmith.api.answers import save_answers as save_answers
    from tfsmith.api.calibrating import Accuracy as Accuracy
    from tfsmith.api.checking import check as check
    from tfsmith.api.checking import targets as targets
    from tfsmith.api.comparing import SECTIONS as SECTIONS
    from tfsmith.api.comparing import Difference as Difference
    from tfsmith.api.comparing import diff as diff
    from tfsmith.api.converting import convert as convert
    from tfsmith.api.drafting import Drafted as Drafted
    from tfsmith.api.drafting import DraftedInput as DraftedInput
    from tfsmith.api.drafting import draft_recipe as draft_recipe
    from tfsmith.api.drafting import draft_text as draft_text
    from tfsmith.api.drafting import save_draft as save_draft
    from tfsmith.api.drawing import draw_recipe as draw_recipe
    from tfsmith.api.exporting import export as export
    from tfsmith.api.exporting import thaw as thaw
    from tfsmith.api.exporting import thaw_report as thaw_report
    from tfsmith.api.feeding import Made as Made
    from tfsmith.api.feeding import as_fed as as_fed
    from tfsmith.api.feeding import bind_feeds as bind_feeds
    from tfsmith.api.feeding import check_names as check_names
    from tfsmith.api.feeding import find_input as find_input
    from tfsmith.api.feeding import make_input as make_input
    from tfsmith.api.feeding import unknown_input as unknown_input
    from tfsmith.api.files import graph_text as graph_text
    from tfsmith.api.files import load as load
    from tfsmith.api.files import load_with as load_with
    from tfsmith.api.files import verify_checksums as verify_checksums
    from tfsmith.api.files import with_saver as with_saver
    from tfsmith.api.freezing import freeze as freeze
    from tfsmith.api.freezing import freeze_report as freeze_report
    from tfsmith.api.freezing import frozen_kind as frozen_kind
    from tfsmith.api.freezing import save_frozen as save_frozen
    from tfsmith.api.look import likely_inputs as likely_inputs
    from tfsmith.api.look import likely_outputs as likely_outputs
    from tfsmith.api.look import show_facts as show_facts
    from tfsmith.api.optimizing import Optimized as Optimized
    from tfsmith.api.optimizing import Speed as Speed
    from tfsmith.api.optimizing import optimize as optimize
    from tfsmith.api.output import place_model as place_model
    from tfsmith.api.output import save as save
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
    from tfsmith.api.patterning import save_main_file as save_main_file
    from tfsmith.api.patterning import save_pattern as save_pattern
    from tfsmith.api.patterning import save_recipe as save_recipe
    from tfsmith.api.patterning import save_replaced as save_replaced
    from tfsmith.api.patterning import select_meta_graph as select_meta_graph
    from tfsmith.api.running import Runner as Runner
    from tfsmith.api.running import blocks as blocks
    from tfsmith.api.running import compile as compile
    from tfsmith.api.running import engine_lacks as engine_lacks
    from tfsmith.api.running import has_tensor as has_tensor
    from tfsmith.api.running import interface as interface
    from tfsmith.api.running import not_a_number as not_a_number
    from tfsmith.api.running import run as run
    from tfsmith.api.tolerance import Tolerance as Tolerance
    from tfsmith.api.tolerance import tolerance_for as tolerance_for
    from tfsmith.api.verifying import OutputCheck as OutputCheck
    from tfsmith.api.verifying import Verified as Verified
    from tfsmith.api.verifying import join_verified as join_verified
    from tfsmith.api.verifying import verify as verify
    from tfsmith.api.weighing import compare_weights as compare_weights
    from tfsmith.api.weighing import load_bert as load_bert
    from tfsmith.api.weighing import load_weights as load_weights
    from tfsmith.api.weighing import map_weights as map_weights
    from tfsmith.api.weighing import save_weights as save_weights
    from tfsmith.engines.protocol import ENGINES as ENGINES
    from tfsmith.engines.protocol import Lack as Lack
    from tfsmith.engines.protocol import LackError as LackError
    from tfsmith.engines.protocol import Port as Port
    from tfsmith.formats.kinds import FileKind as FileKind
    from tfsmith.formats.kinds import kind_of as kind_of
    from tfsmith.formats.write import inputs_of as inputs_of
    from tfsmith.ir.model import Model as Model
    from tfsmith.ir.recipe import Match as Match
    from tfsmith.ir.recipe import Miss as Miss
    from tfsmith.ir.recipe import Pattern as Pattern
    from tfsmith.ir.recipe import Recipe as Recipe
    from tfsmith.ir.weights import Weights as Weights
    from tfsmith.passes.check_target import Checked as Checked
    from tfsmith.passes.check_target import Obstacle as Obstacle
    from tfsmith.passes.configure import Configured as Configured
    from tfsmith.passes.convert import Converted as Converted
    from tfsmith.passes.convert import ConvertOptions as ConvertOptions
    from tfsmith.passes.convert import SignatureEdits as SignatureEdits
    from tfsmith.passes.export import Exported as Exported
    from tfsmith.passes.export import ExportOptions as ExportOptions
    from tfsmith.passes.freeze import FreezeOptions as FreezeOptions
    from tfsmith.passes.freeze import Frozen as Frozen
    from tfsmith.passes.interface import Candidate as Candidate
    from tfsmith.passes.thaw import Thawed as Thawed
    from tfsmith.passes.thaw import ThawOptions as ThawOptions
    from tfsmith.patterns.replace import Replaced as Replaced
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
    "place_model",
    "FileKind",
    "kind_of",
    "inputs_of",
    "freeze",
    "freeze_report",
    "frozen_kind",
    "save_frozen",
    "with_saver",
    "export",
    "thaw",
    "thaw_report",
    "convert",
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
    "verify",
    "Verified",
    "OutputCheck",
    "join_verified",
    "Tolerance",
    "tolerance_for",
    "draw_recipe",
    "replace",
    "save_replaced",
    "configure",
    "optimize",
    "Optimized",
    "Speed",
    "Accuracy",
    "save_in_place",
    "save_main_file",
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
    "likely_inputs",
    "likely_outputs",
    "verify_checksums",
    "SECTIONS",
    "run",
    "compile",
    "interface",
    "has_tensor",
    "engine_lacks",
    "not_a_number",
    "blocks",
    "find_input",
    "bind_feeds",
    "check_names",
    "as_fed",
    "make_input",
    "unknown_input",
    "save_answers",
    "run_in_chunks",
    "batch_rows",
    "chunk_rows",
    "mixed_output",
    "ENGINES",
    "Candidate",
    "Checked",
    "Comparison",
    "Configured",
    "ConvertOptions",
    "Converted",
    "Difference",
    "ExportOptions",
    "Exported",
    "FreezeOptions",
    "Frozen",
    "Lack",
    "LackError",
    "Made",
    "Mapped",
    "Match",
    "Miss",
    "Model",
    "Obstacle",
    "Pattern",
    "Port",
    "Recipe",
    "Replaced",
    "Runner",
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
        "tfsmith.api.checking": (
            "check",
            "targets",
        ),
        "tfsmith.api.comparing": (
            "SECTIONS",
            "Difference",
            "diff",
        ),
        "tfsmith.api.converting": ("convert",),
        "tfsmith.api.exporting": (
            "export",
            "thaw",
            "thaw_report",
        ),
        "tfsmith.api.answers": ("batch_rows", "chunk_rows", "mixed_output", "run_in_chunks", "save_answers"),
        "tfsmith.api.feeding": (
            "Made",
            "as_fed",
            "bind_feeds",
            "check_names",
            "find_input",
            "make_input",
            "unknown_input",
        ),
        "tfsmith.api.running": (
            "Runner",
            "blocks",
            "compile",
            "engine_lacks",
            "has_tensor",
            "interface",
            "not_a_number",
            "run",
        ),
        "tfsmith.engines.protocol": ("ENGINES", "Lack", "LackError", "Port"),
        "tfsmith.api.drawing": ("draw_recipe",),
        "tfsmith.api.files": (
            "graph_text",
            "load",
            "load_with",
            "verify_checksums",
            "with_saver",
        ),
        "tfsmith.api.freezing": (
            "freeze",
            "freeze_report",
            "frozen_kind",
            "save_frozen",
        ),
        "tfsmith.api.look": (
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
            "save_main_file",
            "save_pattern",
            "save_recipe",
            "save_replaced",
            "select_meta_graph",
        ),
        "tfsmith.api.calibrating": ("Accuracy",),
        "tfsmith.api.optimizing": ("Optimized", "Speed", "optimize"),
        "tfsmith.api.output": ("place_model", "save"),
        "tfsmith.formats.kinds": ("FileKind", "kind_of"),
        "tfsmith.formats.write": ("inputs_of",),
        "tfsmith.api.tolerance": ("Tolerance", "tolerance_for"),
        "tfsmith.api.verifying": ("OutputCheck", "Verified", "join_verified", "verify"),
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
            "Converted",
            "SignatureEdits",
        ),
        "tfsmith.passes.interface": ("Candidate",),
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
        "tfsmith.patterns.replace": ("Replaced",),
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
