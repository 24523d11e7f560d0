"""`tfsmith show`: against `saved_model_cli show --all`, on a frozen graph, and on a model of a few nodes."""

from __future__ import annotations

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, faster, under, within
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "show"


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    return [row for kind in ("ref", "resource") for row in _bert(setup, kind)] + _start_up(setup)


def _bert(setup: Setup, kind: str) -> list[Row]:
    saved_model, frozen = setup.models.saved_model(kind), setup.models.frozen(kind)
    compat = ["-m", "tfsmith.compat.saved_model_cli", "show", "--all", "--dir", str(saved_model)]
    found = setup.compare(
        {
            "saved_model": Command(script("tfsmith", "show", saved_model), turns=5),
            "frozen": Command(script("tfsmith", "show", frozen), turns=5),
            "compat": Command([python("")[0], *compat], turns=3),
            "peer": Command(script("saved_model_cli", "show", "--all", "--dir", saved_model)),
        }
    )
    ours, of_frozen, compat_cli, peer = found["saved_model"], found["frozen"], found["compat"], found["peer"]
    name = "saved_model_cli show --all"
    return [
        Row(_TOPIC, f"show, SavedModel, {kind} variables", ours, name, peer, [faster(15, ours, peer), under(80, ours)]),
        Row(_TOPIC, f"compat.saved_model_cli show --all, {kind}", compat_cli, name, peer),
        Row(
            _TOPIC,
            f"show, frozen graph, {kind}",
            of_frozen,
            "show of the SavedModel",
            ours,
            [at_most(1.5, of_frozen, ours, "that of the SavedModel"), under(100, of_frozen)],
        ),
    ]


def _start_up(setup: Setup) -> list[Row]:
    small = setup.models.small()
    found = setup.compare(
        {
            "python": Command(python("pass"), turns=5),
            "import": Command(python("import tfsmith"), turns=5),
            "load": Command(python("from tfsmith import load"), turns=5),
            "show": Command(script("tfsmith", "show", small), turns=5),
            "tensorflow": Command(python("import tensorflow")),
        }
    )
    bare, peer, show = found["python"], found["tensorflow"], found["show"]
    goal = within(0.15, found["import"])
    return [
        Row(_TOPIC, "import tfsmith", found["import"], "import tensorflow", peer, [goal]),
        Row(_TOPIC, "from tfsmith import load", found["load"], "import tensorflow", peer),
        Row(_TOPIC, "show, a model of a few nodes", show, "python -c pass", bare, [within(0.3, show)]),
    ]
