"""tfsmith: the workshop for TensorFlow model files that needs no TensorFlow.

    import tfsmith
    m = tfsmith.load("model.ckpt-1603")
    m.graph, m.signatures, m.collections, m.variables["bert/pooler/dense/kernel"].numpy()
    tfsmith.freeze(m, outputs=["loss/output"]).save("frozen.pb")

Names are loaded on first use, so that `import tfsmith` takes a few milliseconds. `__init__.pyi` says which there are
and where each lies; type checkers read it too, so every name is written once.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """Where each public name lies, as the table says."""
    table = __loader__.get_data(__file__.removesuffix("c") + "i").decode()  # type: ignore[name-defined]
    lines = [line.split() for line in table.splitlines() if line.startswith("from ")]
    return {words[-1]: words[1] for words in lines}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name.startswith("__") and name != "__all__":  # asked for by Python itself
        raise AttributeError(f"module 'tfsmith' has no attribute {name!r}")
    homes = _homes()
    if name == "__all__":
        return [known for known in homes if known != "bert_op"]
    if name not in homes:
        raise AttributeError(f"module 'tfsmith' has no attribute {name!r}")
    if homes[name] == "tfsmith":
        return import_module(f"tfsmith.{name}")
    found = getattr(import_module(homes[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_homes())
