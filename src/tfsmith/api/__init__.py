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
    from tfsmith.api.feeding import Made as Made
    from tfsmith.api.feeding import as_fed as as_fed
    from tfsmith.api.feeding import bind_feeds as bind_feeds
    from tfsmith.api.feeding import check_names as check_names
    from tfsmith.api.feeding import find_input as find_input
    from tfsmith.api.feeding import make_input as make_input
    from tfsmith.api.feeding import unknown_input as unknown_input
    from tfsmith.api.optimizing import Optimized as Optimized
    from tfsmith.api.optimizing import Speed as Speed
    from tfsmith.api.optimizing import optimize as optimize
    from tfsmith.api.placing import place_if as place_if
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
    from tfsmith.engines.protocol import ENGINES as ENGINES
    from tfsmith.engines.protocol import Lack as Lack
    from tfsmith.engines.protocol import LackError as LackError
    from tfsmith.engines.protocol import Port as Port
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
    from tfsmith.view.summary import Summary as Summary
    from tfsmith.view.summary import signature_facts as signature_facts
    from tfsmith.view.summary import summarize as summarize

__all__ = [
    "load",
    "save",
    "with_saver",
    "verify",
    "Verified",
    "OutputCheck",
    "join_verified",
    "place_if",
    "Tolerance",
    "tolerance_for",
    "optimize",
    "Optimized",
    "Speed",
    "Accuracy",
    "select_meta_graph",
    "summarize",
    "show_facts",
    "signature_facts",
    "graph_text",
    "refuse_taken",
    "likely_inputs",
    "likely_outputs",
    "verify_checksums",
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
    "ConvertOptions",
    "Format",
    "ExportOptions",
    "FreezeOptions",
    "Lack",
    "LackError",
    "Made",
    "Model",
    "Port",
    "Runner",
    "SignatureEdits",
    "Summary",
    "ThawOptions",
]

_HOMES = MappingProxyType(
    {
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
        "tfsmith.api.calibrating": ("Accuracy",),
        "tfsmith.api.optimizing": ("Optimized", "Speed", "optimize"),
        "tfsmith.api.placing": ("place_if",),
        "tfsmith.api.tolerance": ("Tolerance", "tolerance_for"),
        "tfsmith.api.verifying": ("OutputCheck", "Verified", "join_verified", "verify"),
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
