"""F6: the verbs. A verb is one function, whose signature and docstring are the Python call, the command and its page.

`VERBS` is the one table of them: the command's name, where its function lies, and a line about it. It is read without
importing any verb, so that `tfsmith --help` and `tfsmith show` load only what they need.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["VERBS"]

VERBS = MappingProxyType(
    {
        "show": ("show.show", "what is inside a model"),
        "view": ("view.view_model", "a page that shows a model, in a browser and without network"),
        "freeze": ("freeze.freeze", "turns variables into constants: one self-contained graph"),
        "export": ("export.export", "writes a SavedModel with real variables, ready for serving"),
        "thaw": ("thaw.thaw", "turns the constants of a frozen graph back into variables, to train it further"),
        "weights": (
            "weights.weights",
            "the weights alone: as a table, as safetensors or npz, renamed for other frameworks, compared",
        ),
        "convert": ("convert.convert", "changes the file format, and on the way names, types and signatures"),
        "run": ("run.run", "runs a model, on an embedded engine or on TensorFlow"),
        "serve": ("serve.serve", "answers as TensorFlow Serving does, REST and gRPC, on the embedded engines"),
        "fleet": ("fleet.fleet", "one verb over thousands of models, a line of JSON for each"),
        "diff": ("diff.diff", "what changed between two models"),
        "check": ("check.check", "which ops of a model another program cannot import, and what to do"),
        "check --list": ("check.list_targets", "the programs that check knows, with the versions of their tables"),
        "scan": ("scan.scan", "what a model can do to the machine that runs it; nothing is run"),
        "extract": ("extract.extract", "cuts a pattern out of a graph: from seed nodes back to barriers"),
        "recipe": ("", "makes, checks and lists recipes: what to find in a graph, and what to put in its place"),
        "recipe make": ("recipe.make_recipe", "a pattern and a node become a recipe"),
        "recipe draft": (
            "recipe.draft_recipe",
            "the block that a model repeats, such as the layer of an encoder, becomes a recipe",
        ),
        "recipe check": (
            "recipe.check_recipe",
            "where a recipe fits a model, and what would change; nothing is written",
        ),
        "recipe draw": (
            "recipe.draw_recipe",
            "what it looks for, what takes its place, and how each input is remapped, as a picture",
        ),
        "recipe list": ("recipe.list_recipes", "the recipes that come with tfsmith"),
        "replace": ("replace.replace", "finds what a recipe describes, and puts the recipe's nodes in its place"),
        "configure": ("configure.configure", "sets attributes of nodes, in place or in a copy"),
        "optimize": (
            "optimize.optimize",
            "makes a BERT faster: its encoder becomes one optimized op, proven and timed",
        ),
        "verify": ("verify.verify", "whether two models compute the same, and where they part"),
        "completion": ("completion.completion", "prints what makes bash, zsh or fish complete commands"),
        "demo": ("demo.demo", "the whole story on a small BERT made on the spot"),
    }
)
"""Command: module and function below `tfsmith.verbs`, and one line. Of two words, it is an action: "recipe list"."""
