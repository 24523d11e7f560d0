"""Adds, renames and removes the signatures of a model; nothing else of it changes.

TensorFlow 2 keeps them twice: in `signature_def`, which Serving, the C++ loader and TF1's loader read, and as children
of the object `signatures`, which `tf.saved_model.load` reads. Renaming and removing change both. A new signature would
need a new traced function for the second, so it is there for all but `tf.saved_model.load`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.metagraph import MetaGraph, ObjectGraph
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.part import Part
from tfsmith.ir.signature import Signature
from tfsmith.passes.convert_options import SignatureEdits
from tfsmith.passes.interface import INIT_SIGNATURE
from tfsmith.passes.signatures import make_signatures
from tfsmith.passes.training import Note
from tfsmith.records import replace

__all__ = ["edit_signatures"]


def edit_signatures(model: Model, edits: SignatureEdits) -> tuple[MetaGraph, list[Note]]:
    """The selected meta graph with other signatures.

    Raises:
        NotFoundInModelError: A signature or a tensor is not there; the remedy has the nearest names.
        UsageError: Two signatures would have one name.
    """
    there = {key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE}
    for key in (*edits.remove, *edits.rename):
        if key not in there:
            near = nearest(key, there) or sorted(there)
            remedy = f"the signatures are: {', '.join(near)}" if near else "it has none; add one (--add-signature)"
            raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
    names: dict[str, str | None] = {**edits.rename, **dict.fromkeys(edits.remove)}
    signatures = _renamed(model, names)
    added = make_signatures(model, model.graph, edits.add, edits.method_name) if edits.add else {}
    taken = next((key for key in added if key in signatures), None)
    if taken is not None:
        remedy = f"remove or rename it first (--remove-signature {taken})"
        raise UsageError(f"there is a signature {taken!r} already", path=model.path, remedy=remedy)
    meta = replace(model.meta, signatures_part=Part.of({**signatures, **added}), raw=None)
    objects = meta.objects
    if objects is None:
        return meta, []
    changed = _rename_objects(objects, names)
    if changed is not None:
        meta = replace(meta, objects_part=Part[ObjectGraph | None].of(changed))
    return meta, [_unseen(added)] if added else []


def _unseen(added: Collection[str]) -> Note:
    what = (
        "tf.saved_model.load does not see a new signature of a TensorFlow 2 model, though Serving and TF1's loader do"
    )
    return Note(what, tuple(added), "it takes them from the Python objects")


def _renamed(model: Model, names: Mapping[str, str | None]) -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for key, signature in model.signatures.items():
        new = names.get(key, key)
        if new is None:
            continue
        if new in found or not new:
            what = f"two signatures would be called {new!r}" if new else "a signature must have a name"
            raise UsageError(what, path=model.path, remedy="choose another name (--rename-signature OLD=NEW)")
        found[new] = signature
    return found


def _rename_objects(objects: ObjectGraph, names: Mapping[str, str | None]) -> ObjectGraph | None:
    """The object graph with the same done to its signatures; None if it has none of them."""
    number = objects.nodes[0].children.get("signatures") if objects.nodes else None
    if number is None or not 0 <= number < len(objects.nodes):
        return None
    known = {key: new for key, new in names.items() if key in objects.nodes[number].children}
    return objects.rename_children(number, known) if known else None
