"""SavedModel folders, read and written: `saved_model.pb` (`.pbtxt`, `.cpb`), `variables/`, `assets/`.

Also the two object graphs of TensorFlow 2, edited in their bytes: all that is not edited stays as it is.
`SavedObjectGraph` is part of a SavedModel's meta graph: the Python objects, and what their attributes are called.
`TrackableObjectGraph` is a string in the checkpoint: which tensor belongs to which object.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from tfsmith.errors import CorruptFileError, InvalidModelError, LimitError, UnreadableFileError, UsageError
from tfsmith.formats import MAIN_FILES, refuse_foreign, sniff
from tfsmith.formats.checkpoint import open_checkpoint
from tfsmith.formats.graph.graphdef import check_size
from tfsmith.formats.graph.metagraph import plan_meta_graph, read_meta_graph
from tfsmith.ir.model import OBJECT_GRAPH_KEY, Model, ObjectGraph, SideFile
from tfsmith.ir.tensor import StringTensor
from tfsmith.limits import MAX_META_GRAPHS
from tfsmith.records import replace
from tfsmith.storage import FileSink, Span, explained, from_bytes, open_file, real_path
from tfsmith.wire import BYTES, VARINT, RawField, WritePlan, encode_varint, fields, parse, tag

__all__ = [
    "META_GRAPHS",
    "SCHEMA_VERSION",
    "open_saved_model",
    "read_saved_model",
    "plan_saved_model",
    "write_saved_model",
    "plan_objects",
    "rename_tensors",
    "rename_tracked",
]

SCHEMA_VERSION, META_GRAPHS = 1, 2
_MAX_SIDE_FILES = 100_000


def open_saved_model(folder: Path, main: Path) -> Model:
    """Opens a SavedModel folder. The shell of the main file and the checkpoint's index are read, nothing else."""
    span = open_file(main)
    refuse_foreign(sniff(span), str(main))
    if main.suffix == ".pbtxt":
        from tfsmith.wire.text_reader import read_text

        span = read_text(span, "SavedModel")
    elif main.suffix == ".cpb":
        from tfsmith.formats.cpb.chunked import read_chunked  # rare, so only loaded when it is needed

        span = read_chunked(span)
    model = replace(read_saved_model(span), path=folder)
    prefix = folder / "variables" / "variables"
    if not prefix.with_name("variables.index").is_file():
        return replace(model, side_files=_side_files(folder, main, frozenset()))
    checkpoint, variables = open_checkpoint(prefix)
    side_files = _side_files(folder, main, frozenset(checkpoint.files if variables else ()))
    return replace(model, checkpoint=checkpoint, variables=variables, side_files=side_files)


def read_saved_model(span: Span) -> Model:
    """The message SavedModel, without what is beside it.

    Raises:
        InvalidModelError: It has no meta graph.
        CorruptFileError: It is no SavedModel.
    """
    metas = []
    extras = []
    for field in fields(span, MAX_META_GRAPHS):
        if field.number == META_GRAPHS and field.wire_type == BYTES:
            metas.append(read_meta_graph(Span(span.source, field.start, field.stop)))
            continue
        if field.number == SCHEMA_VERSION and field.wire_type != VARINT:
            remedy = "pass a SavedModel; {show(model)} says what a file is"
            raise CorruptFileError("this is no SavedModel", path=span.name, offset=field.tag_start, remedy=remedy)
        extras.append(Span(span.source, field.tag_start, field.stop))
    if not metas:
        remedy = "the file is cut off, or the export failed; export it again"
        raise InvalidModelError("the SavedModel has no meta graph", path=span.name, remedy=remedy)
    return Model("saved_model", tuple(metas), raw=span, extras=tuple(extras))


def _side_files(folder: Path, main: Path, others: frozenset[Path]) -> tuple[SideFile, ...]:
    """All files of the folder but the main file and those of the checkpoint.

    A link counts as a file of the model if it leads to a file in the folder, or beside the real main file: that is how
    caches keep models.
    """
    found: list[SideFile] = []
    for root, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        links = [name for name in folders if (Path(root) / name).is_symlink()]  # not walked into
        for name in sorted([*names, *links]):
            path = Path(root) / name
            relative = path.relative_to(folder).as_posix()
            if relative in MAIN_FILES or path in others:
                continue
            leads_out = path.is_symlink() and (name in links or not _is_own(path, folder, main))
            found.append(SideFile(relative, path, leads_out))
            if len(found) > _MAX_SIDE_FILES:
                remedy = "pass the SavedModel's own folder"
                raise LimitError(f"the folder holds over {_MAX_SIDE_FILES} files", path=folder, remedy=remedy)
    return tuple(found)


def _is_own(link: Path, folder: Path, main: Path) -> bool:
    real = real_path(link)
    return real.is_relative_to(real_path(folder)) or real.parent == real_path(main).parent


def _refuse(error: OSError) -> NoReturn:
    """A folder that cannot be listed would be left out of every copy without a word."""
    raise error


def plan_saved_model(model: Model) -> Span | WritePlan:
    """The bytes of the main file: its own while nobody edited it; each untouched part verbatim otherwise."""
    if model.raw is not None and model.kind == "saved_model":
        return model.raw
    plan = WritePlan()
    if model.extras and model.kind == "saved_model":
        for extra in model.extras:
            plan.add(extra)
    else:
        plan.add(tag(SCHEMA_VERSION, VARINT) + encode_varint(1))
    for meta in model.meta_graphs:
        plan.add_field(META_GRAPHS, plan_meta_graph(meta))
    return plan


def write_saved_model(model: Model, folder: Path, *, text: bool = False, shards: int = 1, link: bool = False) -> None:
    """Writes a SavedModel folder, which must not exist. Weights and assets are copied inside the kernel.

    Raises:
        OutputError: The disk refuses.
        LimitError: The main file would be over 2 GiB.
    """
    with explained(folder):
        folder.mkdir()
    _write_variables(model, folder / "variables", shards, link=link)  # first, for the disk is slower than we are
    plan = plan_saved_model(model)
    check_size(plan, folder)
    if text:
        from tfsmith.wire.text_writer import write_text_file

        write_text_file(folder / "saved_model.pbtxt", "SavedModel", plan)
    else:
        with FileSink(folder / "saved_model.pb") as sink:
            sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
    for side in model.side_files:
        if side.leads_out:
            what = "this link leads out of the model, so it is not copied"
            remedy = "replace it by what it leads to, if you trust it (cp -rL copies a folder so), or remove it"
            raise UnreadableFileError(what, path=side.path, remedy=remedy)
        target = folder / side.name
        with explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with FileSink(target) as sink:
            sink.write_span(open_file(side.path))


def _write_variables(model: Model, folder: Path, shards: int, *, link: bool) -> None:
    if not model.variables:
        return
    from tfsmith.formats.checkpoint.writer import write_variables

    with explained(folder):
        folder.mkdir()
    write_variables(model, folder / "variables", shards=shards, link=link)


_NODES = 1  # of both graphs
_CHILDREN, _DEPENDENCIES = 1, 15  # of SavedObject
_ATTRIBUTES, _SLOTS = 2, 3  # of TrackableObject
_REFERENCE = "TrackableObjectGraph.TrackableObject.ObjectReference"
_TENSOR = "TrackableObjectGraph.TrackableObject.SerializedTensor"
_SLOT = "TrackableObjectGraph.TrackableObject.SlotVariableReference"


def plan_objects(objects: ObjectGraph) -> Span | WritePlan:
    """The bytes of a SavedObjectGraph: those that it was read from, with some children renamed or removed.

    Raises:
        UsageError: It was made in memory.
    """
    if objects.base is None:
        raise UsageError("an object graph cannot be made, only changed", remedy="take it from a SavedModel")
    if not objects.edits:
        return objects.base
    plan, number = WritePlan(), -1
    for field, whole, payload in _each(objects.base):
        number += _is(field, _NODES)
        names = objects.edits.get(number) if _is(field, _NODES) else None
        if names is None:
            plan.add(whole)
        else:
            plan.add_field(_NODES, _with_children(payload, names))
    return plan


def _with_children(node: Span, names: Mapping[str, str | None]) -> WritePlan:
    plan = WritePlan()
    for field, whole, payload in _each(node):
        if field.number not in (_CHILDREN, _DEPENDENCIES) or field.wire_type != BYTES:
            plan.add(whole)
            continue
        reference = parse(_REFERENCE, payload)
        name = names.get(reference.local_name, reference.local_name)
        if name == reference.local_name:
            plan.add(whole)
        elif name is not None:
            reference.local_name = name
            plan.add_field(field.number, reference.SerializeToString())
    return plan


def rename_tracked(model: Model, names: Mapping[str, str | None]) -> Model:
    """The model with a checkpoint that knows its tensors' objects, when tensors were renamed or (None) dropped."""
    tensor = model.variables.get(OBJECT_GRAPH_KEY)
    if tensor is None or not names:
        return model
    if tensor.dtype.name != "string" or tensor.shape.elements != 1:
        what = f"the tensor {OBJECT_GRAPH_KEY!r} is {tensor.dtype} {tensor.shape}, not a string"
        raise CorruptFileError(what, path=model.path, remedy="the file is damaged; fetch it again")
    data = rename_tensors(bytes(tensor.numpy().reshape(-1)[0]), names)
    variables = {**model.variables, OBJECT_GRAPH_KEY: StringTensor(tensor.shape, [data])}
    return replace(model, variables=variables, checkpoint=None)


def rename_tensors(data: bytes, names: Mapping[str, str | None]) -> bytes:
    """The bytes of a TrackableObjectGraph for a checkpoint in which tensors have other names, or (None) are gone.

    An object that lost its tensor stays without one; if it was a slot of an optimizer, it is no slot any more.
    """
    span, plan = from_bytes(data), WritePlan()
    empty = {number for number, node in enumerate(_nodes(span)) if _is_emptied(node, names)}
    for field, whole, payload in _each(span):
        if _is(field, _NODES):
            plan.add_field(_NODES, _with_tensors(payload, names, empty))
        else:
            plan.add(whole)
    return plan.tobytes()


def _nodes(span: Span) -> Iterator[Span]:
    return (payload for field, _, payload in _each(span) if _is(field, _NODES))


def _is_emptied(node: Span, names: Mapping[str, str | None]) -> bool:
    keys = [parse(_TENSOR, payload).checkpoint_key for field, _, payload in _each(node) if _is(field, _ATTRIBUTES)]
    return bool(keys) and all(key in names and names[key] is None for key in keys)


def _with_tensors(node: Span, names: Mapping[str, str | None], empty: set[int]) -> WritePlan:
    plan = WritePlan()
    for field, whole, payload in _each(node):
        if _is(field, _SLOTS) and parse(_SLOT, payload).slot_variable_node_id in empty:
            continue
        tensor = parse(_TENSOR, payload) if _is(field, _ATTRIBUTES) else None
        if tensor is None or tensor.checkpoint_key not in names:
            plan.add(whole)
            continue
        name = names[tensor.checkpoint_key]
        if name is not None:
            tensor.checkpoint_key = name
            plan.add_field(_ATTRIBUTES, tensor.SerializeToString())
    return plan


def _is(field: RawField, number: int) -> bool:
    return field.number == number and field.wire_type == BYTES


def _each(span: Span) -> Iterator[tuple[RawField, Span, Span]]:
    """The fields of a message: each with all of its bytes, and with what it holds."""
    for field in fields(span):
        yield field, Span(span.source, field.tag_start, field.stop), Span(span.source, field.start, field.stop)
