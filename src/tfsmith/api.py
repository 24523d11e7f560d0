"""F4: the verbs as functions. The one hall where the rooms below meet."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfsmith.errors import NotFoundInModelError, OutputError, UnreadableFileError, UsageError, WrongFileError
from tfsmith.formats.opener import attach_checkpoint, open_bytes, open_model
from tfsmith.ir.metagraph import Saver
from tfsmith.ir.model import Checkpoint, Model, SideFile
from tfsmith.ir.part import Part
from tfsmith.ir.shape import Shape
from tfsmith.ir.signature import SERVING_DEFAULT
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.weights import Weights
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.passes.convert_options import Converted, ConvertOptions, SignatureEdits
from tfsmith.passes.endpoints import Candidate, collected, guess_inputs, guess_outputs
from tfsmith.passes.export import Exported, ExportOptions
from tfsmith.passes.export import export as export_pass
from tfsmith.passes.freeze import FreezeOptions, Frozen
from tfsmith.passes.freeze import freeze as freeze_pass
from tfsmith.passes.tables import AssetFile
from tfsmith.passes.thaw import Thawed, ThawOptions
from tfsmith.passes.thaw import thaw as thaw_pass
from tfsmith.passes.training import Note
from tfsmith.storage.sink import explained
from tfsmith.storage.source import open_file, real_path
from tfsmith.view.facts import (
    collection_facts,
    function_facts,
    node_facts,
    op_facts,
    shape_facts,
    signature_facts,
    summary_facts,
    variable_facts,
)
from tfsmith.view.summary import Summary, summarize
from tfsmith.weights.compare import Comparison
from tfsmith.weights.compare import compare_weights as compare
from tfsmith.weights.config import check_shapes, parse_config
from tfsmith.weights.map_file import WeightMap, builtin_map, builtin_maps, parse_map
from tfsmith.weights.mapping import Mapped, apply_map
from tfsmith.weights.select import select_weights
from tfsmith.weights.source import weights_of
from tfsmith.weights.table import ScopeRow, Stats, WeightRow, require_finite, scope_rows, weight_rows

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

Format = Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint"]
_SET_ENDING = re.compile(r"\.(meta|index|data-\d{5}-of-\d{5})$")


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    tags: Iterable[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
) -> Model:
    """Opens any TensorFlow model. Its structure is found; weights stay in the file until they are asked for.

    Args:
        source: A path (SavedModel folder, `.meta`, GraphDef as `.pb` or `.pbtxt`, checkpoint prefix, folder with
            checkpoints), or a GraphDef, MetaGraphDef or SavedModel as bytes or as a protobuf message.
        tags: Which meta graph of a SavedModel, by its tag set; the first by default.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        model = open_model(_path(source), checkpoint=None if checkpoint is None else _path(checkpoint), step=step)
    else:
        model = open_bytes(source) if isinstance(source, bytes) else open_bytes(*_serialized(source))
    return model if tags is None else model.select(tags)


def _path(path: str | os.PathLike[str]) -> Path:
    """A path that the user gave. Python takes an empty one for the current folder, which nobody means."""
    if not os.fspath(path):
        raise UsageError("the path is empty", remedy="pass the path of a file, a folder, or a checkpoint prefix")
    return Path(path)


def _serialized(source: Any) -> tuple[bytes, str]:
    """The bytes of a message, and its name."""
    serialize = getattr(source, "SerializeToString", None)
    if serialize is None:
        what = f"a {type(source).__name__} is no model"
        raise UsageError(what, remedy="pass a path, bytes, or a GraphDef, MetaGraphDef or SavedModel message")
    return bytes(serialize()), str(source.DESCRIPTOR.name)


def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    shards: int = 1,
    force: bool = False,
) -> None:
    """Writes a model, whole or not at all. What nobody edited is written back byte for byte.

    Args:
        model: The model.
        path: A file, a SavedModel folder, or a checkpoint prefix, as the format wants it.
        format: "pb", "pbtxt", "meta", "saved_model" or "checkpoint"; by default what the model was opened as, and text
            if the path ends in `.pbtxt`.
        shards: Into how many data files to split a checkpoint that is written afresh.
        force: Whether an existing SavedModel folder may be replaced.

    Raises:
        OutputError: It cannot be written there; what was there before is untouched.
        LimitError: A message would be over 2 GiB.
    """
    from tfsmith.formats.saver import save_model  # looking at a model should not load what writes one

    target = _path(path)
    if "\0" in str(target):
        raise OutputError("no file can have this name", path=target, remedy="leave the zero byte out")
    with explained(target):
        _refuse_own_files(model, target)
        save_model(model, target, format=format, shards=shards, force=force)


def _refuse_own_files(model: Model, target: Path) -> None:
    """An input is never overwritten, however its path is spelled."""
    own = [path for path in (model.path, *(model.checkpoint.files if model.checkpoint else ())) if path is not None]
    output = real_path(target)
    prefix = output.name.removesuffix(".meta")
    prefix = prefix.removesuffix(".pbtxt") if model.kind == "metagraph" else prefix
    for path in own:
        source = real_path(path)
        is_same = output == source or (target.exists() and path.exists() and target.samefile(path))
        is_inside = output in source.parents or (source in output.parents and output.exists())
        if is_same or is_inside or _is_of_set(source, output.parent / prefix):
            raise OutputError("the output is also the input", path=target, remedy="choose another name")


def _is_of_set(source: Path, prefix: Path) -> bool:
    """Whether a checkpoint with this prefix, and its `.meta`, would have `source` among their files."""
    stem, count = _SET_ENDING.subn("", source.name)
    return bool(count) and source.parent == prefix.parent and stem == prefix.name


def show_facts(model: Model, *, parts: Collection[str] = (), summary: bool = True) -> dict[str, Any]:
    """What `tfsmith show` tells, as plain data ready for JSON. Reads structure only.

    Args:
        model: The model.
        parts: Any of "variables", "ops", "nodes", "collections", "functions", "outputs".
        summary: Whether to begin with the summary; it has the likely outputs where there is no signature.
    """
    facts: dict[str, Any] = summary_facts(model) if summary else {}
    if "variables" in parts:
        facts["variable_list"] = variable_facts(model)
    if not model.has_graph:
        if not summary and set(parts) - {"variables"}:
            raise model.no_graph()
        return facts
    if "outputs" in parts or (summary and not model.signatures):
        facts["likely"] = {
            "inputs": [_candidate_facts(found) for found in likely_inputs(model)],
            "outputs": [_candidate_facts(found) for found in likely_outputs(model)],
        }
    if "ops" in parts:
        facts["op_list"] = op_facts(model)
    if "collections" in parts:
        facts["collections"] = collection_facts(model)
    if "functions" in parts:
        facts["function_list"] = function_facts(model)
    if "nodes" in parts:
        facts["node_list"] = node_facts(model.graph.nodes)
    return facts


def likely_inputs(model: Model) -> tuple[Candidate, ...]:
    """What most likely feeds the model: its collection `inputs` where it has one, else its placeholders."""
    found = collected(model, "inputs") or guess_inputs(model.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(model))


def likely_outputs(model: Model) -> tuple[Candidate, ...]:
    """What most likely are the model's answers, best first: its collection `outputs`, else judged node by node."""
    found = collected(model, "outputs") or guess_outputs(model.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(model))


def _saver_tensors(model: Model) -> set[str]:
    """The tensors through which the model is saved and restored: nobody's inputs and outputs."""
    saver = model.meta.saver
    if saver is None:
        return set()
    return {saver.filename_tensor_name, saver.save_tensor_name, f"{saver.restore_op_name}:0"}


def _candidate_facts(found: Candidate) -> dict[str, Any]:
    return {
        "tensor": found.tensor,
        "op": found.op,
        "dtype": None if found.dtype is None else found.dtype.name,
        "shape": shape_facts(found.shape),
        "reason": found.reason,
    }


def freeze(
    model: Model,
    outputs: Sequence[str] = (),
    *,
    signature: str | None = None,
    clear_devices: bool = False,
    only: Sequence[str] = (),
    excluded: Sequence[str] = (),
    ema: bool = False,
    batch_size: int | None = None,
    input_shapes: Mapping[str, Sequence[int | None]] | None = None,
    keep_init: bool = False,
) -> Model:
    """Turns variables into constants. Reads no value: saving the result streams them from the checkpoint.

    Args:
        model: A model with its checkpoint.
        outputs: Names of the outputs; by default those of the signature, else the likely one if it is clear.
        signature: Which signature.
        clear_devices: Whether to drop the devices of all nodes.
        only: Globs of variables to freeze; all others stay variables.
        excluded: Globs of variables to leave as they are.
        ema: Whether to take moving averages where the checkpoint has them.
        batch_size: Fixes the first dimension of every placeholder.
        input_shapes: New shapes of placeholders, by name.
        keep_init: Whether to keep signatures' tables with what fills them, for saving as a SavedModel.

    Returns:
        The frozen model; `freeze_report` also tells what was done.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    options = FreezeOptions(
        tuple(outputs),
        signature,
        clear_devices,
        tuple(only),
        tuple(excluded),
        ema,
        batch_size,
        {name: Shape.of(dims) for name, dims in (input_shapes or {}).items()},
        keep_init=keep_init,
    )
    return freeze_report(model, options).model


def save_frozen(
    model: Model, frozen: Frozen, path: str | os.PathLike[str], *, format: Format | None = None, force: bool = False
) -> Frozen:
    """Writes what freezing gave. As a SavedModel it may be of any size: over 2 GiB the weights stay in `variables/`.

    Args:
        model: The model that was frozen.
        frozen: What `freeze_report` gave for it.
        path: The file or folder to write.
        format: "pb", "pbtxt" or "saved_model"; by default as the path says.
        force: Whether an existing SavedModel folder may be replaced.

    Returns:
        `frozen`, with a note if the weights stayed variables.
    """
    size = sum(model.variables[key].nbytes for key in set(frozen.converted.values()) if key in model.variables)
    if format != "saved_model" or size <= MAX_PROTO_BYTES:
        save(frozen.model, path, format=format, force=force)
        return frozen
    found = model.signatures if frozen.model.signatures else {}
    named = {
        key: (
            {name: info.name for name, info in old.inputs.items()},
            {name: info.name for name, info in old.outputs.items()},
        )
        for key, old in found.items()
        if key in frozen.model.signatures
    }
    inputs = {found.tensor.rpartition(":")[0]: found.tensor for found in likely_inputs(frozen.model)}
    outputs = {key.rpartition("/")[2].partition(":")[0]: tensor for key, tensor in frozen.outputs.items()}
    signatures = named or {SERVING_DEFAULT: (inputs, outputs)}
    exported = export(
        model, path, options=ExportOptions(signatures, tags=model.meta.tags or ("serve",), prune=True), force=force
    )
    note = Note("the weights are over 2 GiB, so they stay variables", exported.variables, "a SavedModel reads them so")
    return dataclasses.replace(frozen, model=exported.model, converted={}, notes=(*frozen.notes, note))


def with_saver(model: Model, path: str | os.PathLike[str]) -> Model:
    """The model with the SaverDef of a file (binary or text), which says which variable is restored from which key."""
    from tfsmith.formats.saver_file import read_saver_file

    saver: Part[Saver | None] = Part.of(read_saver_file(Path(path)))
    metas = tuple(dataclasses.replace(meta, saver_part=saver, raw=None) for meta in model.meta_graphs)
    return dataclasses.replace(model, meta_graphs=metas)


def freeze_report(model: Model, options: FreezeOptions) -> Frozen:
    """As `freeze`, and also says which variables were frozen, what the outputs are called, and what to beware of."""
    return freeze_pass(model, options)


def export(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    signature: str = SERVING_DEFAULT,
    options: ExportOptions | None = None,
    shards: int = 1,
    force: bool = False,
) -> Exported:
    """Writes a SavedModel with real `variables/`, ready for TensorFlow Serving. Streams; reads no value.

    Args:
        source: A model, a path, or a GraphDef or MetaGraphDef as bytes or as a message (`graph.as_graph_def()`).
        path: The folder to write.
        inputs: The signature's inputs, keys to tensor names.
        outputs: The signature's outputs, keys to tensor names. Without both, the model's own signatures or its
            collections `inputs` and `outputs` count.
        checkpoint: The checkpoint of the graph (prefix or folder), when it does not come with the source.
        signature: The signature's key.
        options: Everything else that can be told; `inputs` and `outputs` are added to its signatures.
        shards: Into how many data files to split variables that are written afresh.
        force: Whether an existing folder may be replaced.

    Returns:
        What was written, the variables that it has, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.
    """
    model = source if isinstance(source, Model) and checkpoint is None else load_with(source, checkpoint)
    told = ExportOptions() if options is None else options
    if inputs or outputs:
        added = {**told.signatures, signature: (dict(inputs or {}), dict(outputs or {}))}
        told = dataclasses.replace(told, signatures=added)
    exported = export_pass(model, told)
    result = _with_assets(exported.model, exported.assets, model)
    save(result, path, shards=shards, force=force)
    notes = (*exported.notes, *_foreign_assets(result, model))
    return dataclasses.replace(exported, model=result, notes=notes)


def _with_assets(result: Model, assets: Iterable[AssetFile], source: Model) -> Model:
    """A model that is to be a SavedModel, with the files that its tables are filled from."""
    found = [SideFile(f"assets/{Path(asset.path).name}", _asset_file(asset, source)) for asset in assets]
    known = {side.name for side in found}
    beside = tuple(side for side in result.side_files if side.name not in known)
    return dataclasses.replace(result, side_files=(*beside, *found))


def _foreign_assets(result: Model, source: Model) -> list[Note]:
    """Tells of files that a graph named and that lie elsewhere: a hostile one may name any file of the user's."""
    home = real_path(_home(source))
    known = {side.path for side in source.side_files}
    sides = [side.path for side in result.side_files if side.path not in known]
    foreign = tuple(str(path) for path in sides if not real_path(path).is_relative_to(home))
    if not foreign:
        return []
    remedy = "the graph names them; see that they hold nothing private before you pass the model on"
    return [Note("files from outside of the model are copied into it", foreign, remedy)]


def thaw(
    model: Model,
    *,
    min_elements: int | None = None,
    only: Sequence[str] = (),
    excluded: Sequence[str] = (),
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    signature: str = SERVING_DEFAULT,
    kind: Literal["saved_model", "metagraph"] = "saved_model",
) -> Model:
    """Turns the constants of a frozen graph back into variables. Reads no value: saving the result streams them.

    Freezing the result gives back an equal graph.

    Args:
        model: A frozen graph, or a SavedModel without variables.
        min_elements: Thaw the constants with so many elements or more, and no others. By default those with 1024, and
            smaller ones whose readers show that they were variables.
        only: Globs of constants to thaw; integers count too. A name in full counts whatever its size.
        excluded: Globs of constants to leave as they are.
        inputs: The signature's inputs, keys to tensor names.
        outputs: The signature's outputs, keys to tensor names. Without both, the model's own signatures count, else
            the likely inputs and outputs if they are clear.
        signature: The signature's key.
        kind: What to save it as by default: a SavedModel, or a `.meta` with its checkpoint, which needs no signature.

    Returns:
        The model with variables; `thaw_report` also tells what was done.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    asked = {signature: (dict(inputs or {}), dict(outputs or {}))} if inputs or outputs else {}
    options = ThawOptions(min_elements, tuple(only), tuple(excluded), asked, kind=kind)
    return thaw_report(model, options).model


def thaw_report(model: Model, options: ThawOptions) -> Thawed:
    """As `thaw`, and also says which variables there are now, which of them to train, and what to beware of."""
    thawed = thaw_pass(model, options)
    result = _with_assets(thawed.model, thawed.assets, model)
    return dataclasses.replace(thawed, model=result, notes=(*thawed.notes, *_foreign_assets(result, model)))


def convert(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    options: ConvertOptions | None = None,
    tags: Iterable[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
    shards: int | None = None,
    link: bool = False,
    force: bool = False,
) -> Converted:
    """Writes a model as another kind of file, or changed: fewer, renamed or smaller variables, other signatures.

    What the options do not name is written back byte for byte. Weights are streamed.

    Args:
        source: A model, or what `load` takes.
        path: Its ending says what to write: `.pb` and `.pbtxt` a graph, `.meta` a graph and the checkpoint beside it,
            `.ckpt` both too, anything else a SavedModel; if `source` is the path of a checkpoint, another of these.
        format: What to write, whatever the path says.
        options: What to change.
        tags: Which meta graph of a SavedModel; only it is written. By default all.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.
        shards: How many data files the checkpoint is to have; by default as many as it had.
        link: Whether to make hard links of weight files that did not change, in place of copies.
        force: Whether to replace what is there.

    Returns:
        What was written, which tensors have other names or types, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.
    """
    from tfsmith.formats.object_graph import rename_tracked
    from tfsmith.formats.target import choose_target, write_target
    from tfsmith.passes.repack import repack
    from tfsmith.passes.rework import rework

    as_set = False
    if isinstance(source, (str, os.PathLike)):
        model = load(source, checkpoint=checkpoint, step=step)
        as_set = model.kind == "metagraph" and model.path != Path(source)  # by its prefix or folder, not by the .meta
    else:
        model = load_with(source, checkpoint)
    model = model if tags is None else model.select(tags).alone()
    target = choose_target(_path(path), format, model.kind, as_set=as_set, has_variables=bool(model.variables))
    _refuse_own_files(dataclasses.replace(model, kind=target.kind), target.path)
    if not force:
        target.refuse_existing()
    alone = repack(model, target.kind).model if target.kind == "checkpoint" else model  # then no graph is in the way
    converted = rework(alone, ConvertOptions() if options is None else options)
    packed = repack(converted.model, target.kind)
    result = rename_tracked(_with_assets(packed.model, packed.assets, model), converted.names)
    written = write_target(result, model, target, shards=shards, link=link, force=force)
    notes = [*converted.notes, *packed.notes, *_foreign_assets(result, model)]
    if link and len(written.linked) < len(written.files):
        copied = tuple(file.name for file in written.files if file not in written.linked)
        notes.append(Note("not linked", copied, "they changed, or lie on a disk that cannot link to the other"))
    if written.fingerprint:
        notes.append(Note("fingerprint.pb is left out", (), "it is of the model as it was"))
    return dataclasses.replace(converted, model=result, path=target.path, notes=tuple(notes))


def load_weights(
    source: Model | str | os.PathLike[str] | bytes | Any,
    *,
    match: Sequence[str] = (),
    excluded: Sequence[str] = (),
    training: bool = True,
    constants: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
) -> Weights:
    """The weights of any model, as a mapping from names to tensors that are read when asked for. Needs no graph.

    Args:
        source: A model, or what `load` takes: a checkpoint, a SavedModel, a `.meta` with its checkpoint, a frozen graph
            (whose constants that were variables count), a `.safetensors` file or its index, an `.npz`.
        match: Globs of names to take; all by default.
        excluded: Globs of names to leave out.
        training: Whether to keep what only training needs: slots of optimizers, the global step.
        constants: Whether to take all constants of a graph, whatever they were.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        model = load(source, checkpoint=checkpoint, step=step)
    else:
        model = load_with(source, checkpoint)
    found = weights_of(model, constants=constants)
    return select_weights(found, match, excluded, training=training)


def save_weights(
    weights: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int | None = None,
) -> tuple[Path, ...]:
    """Writes weights, whole or not at all. Streams: memory does not grow with them.

    Args:
        weights: Tensors by name; `load_weights` gives them.
        path: `NAME.safetensors`, `NAME.npz`, or else the prefix of a checkpoint that TensorFlow restores by names.
        metadata: What to store beside them, as text by key, on top of what their own file said. Not in checkpoints.
        max_shard_bytes: For safetensors: begin another file where one would hold more; an index names them all.

    Returns:
        The files that were written.

    Raises:
        UnsupportedError: A tensor has no place in the format.
        OutputError: It cannot be written there; what was there before is untouched.
    """
    target = Path(path)
    if not weights:
        raise OutputError("there are no weights to write", path=target, remedy="check --match and --except")
    told = {**(weights.metadata if isinstance(weights, Weights) else {}), **(metadata or {})}
    _refuse_own_weights(weights, target)
    if max_shard_bytes is not None and target.suffix != ".safetensors":
        raise UsageError("only safetensors are split by size", path=target, remedy="write NAME.safetensors")
    if target.suffix == ".safetensors":
        from tfsmith.formats.safetensors_writer import write_safetensors  # looking should not load what writes

        return write_safetensors(target, weights, told, max_shard_bytes=max_shard_bytes)
    if target.suffix == ".npz":
        from tfsmith.formats.npz import write_npz

        write_npz(target, weights, told)
        return (target,)
    from tfsmith.formats.saver import save_model
    from tfsmith.ir.tensor_ops import verify_tensor

    for tensor in weights.values():
        verify_tensor(tensor)
    save_model(Model("checkpoint", (), dict(weights)), target, format="checkpoint")
    return tuple(target.with_name(target.name + ending) for ending in (".data-00000-of-00001", ".index"))


def _refuse_own_weights(weights: Mapping[str, Tensor], target: Path) -> None:
    """An input is never overwritten, neither by a file nor by one of several."""
    if not isinstance(weights, Weights) or not weights.files:
        return
    _refuse_own_files(Model("checkpoint", path=weights.path, checkpoint=Checkpoint(target, 2, weights.files)), target)
    shard = re.compile(re.escape(target.stem) + r"(-\d{5}-of-\d{5}\.safetensors|\.safetensors\.index\.json)")
    for path in weights.files:
        if (
            target.suffix == ".safetensors"
            and shard.fullmatch(path.name)
            and real_path(path).parent.samefile(real_path(target).parent)
        ):
            raise OutputError("the output is also the input", path=target, remedy="choose another name")


def compare_weights(
    first: Mapping[str, Tensor] | str | os.PathLike[str],
    second: Mapping[str, Tensor] | str | os.PathLike[str],
    *,
    tolerance: float = 0.0,
) -> list[Comparison]:
    """Compares weights by name: shapes, dtypes, values. Reads both in pieces: memory does not grow with them.

    Args:
        first: Weights, or what `load_weights` takes.
        second: Others.
        tolerance: How far values may differ and still count as close.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    one, other = (found if isinstance(found, Mapping) else load_weights(found) for found in (first, second))
    return list(compare(one, other, tolerance=tolerance))


def map_weights(
    weights: Weights | Mapping[str, Tensor],
    map: str | os.PathLike[str] | WeightMap,
    *,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    task: str | None = None,
    reverse: bool = False,
    strict: bool = False,
) -> Mapped:
    """Renames and reshapes weights by a map. Reads no value: the result's tensors do when theirs are asked for.

    Args:
        weights: Tensors by name; `load_weights` gives them.
        map: The name of a map that comes with tfsmith (`builtin_maps` lists them), or a file of your own.
        config: The model's sizes (`bert_config.json`): shapes are checked against it, and rules that resize need it.
        task: Which of the map's tasks; by default the one whose head is there.
        reverse: Whether to go from the map's target names to its source names.
        strict: Whether a weight that no rule takes is an error.

    Raises:
        NotFoundInModelError: Weights are missing, or, if `strict`, left over.
        InvalidModelError: A shape is not what the config says; names the weight, both shapes and the field.
    """
    found = map if isinstance(map, WeightMap) else _find_map(map)
    sizes = config if config is None or isinstance(config, Mapping) else _read_config(Path(config))
    given = weights if isinstance(weights, Weights) else Weights(weights)
    checks = builtin_map(found.checks) if found.checks else found
    resized = {rule.rows for rule in found.rules if rule.rows}
    if sizes is not None and not reverse:
        check_shapes(given, checks, sizes, resized)
    mapped = apply_map(given, found, sizes, task, reverse=reverse)
    if sizes is not None and reverse:
        check_shapes(mapped.weights, checks, sizes)
    if strict and mapped.left_over:
        names = ", ".join(mapped.left_over[:5])
        more = f" and {len(mapped.left_over) - 5} more" if len(mapped.left_over) > 5 else ""
        what = f"{len(mapped.left_over)} weights are left over: {names}{more}"
        remedy = "leave them out (--except GLOB), or choose another task or map"
        raise NotFoundInModelError(what, path=given.path, remedy=remedy)
    return mapped


def load_bert(
    path: Model | str | os.PathLike[str],
    config: str | os.PathLike[str] | Mapping[str, Any] = "bert_config.json",
    task: str | None = None,
    *,
    map: str | os.PathLike[str] = "bert",
) -> Weights:
    """The weights of a BERT, complete and with every shape checked against its config. Reads no value.

    Args:
        path: A checkpoint, a frozen graph, or anything else that `load_weights` takes.
        config: Its `bert_config.json`; one that is not there is looked for beside the weights.
        task: Whose head must be there: "PRETRAINING", "SQUAD", "CLASSIFIER", "ENCODER" (none), or a task of `map`; by
            default, the one that is.
        map: The names to give them: by default those of Google's checkpoints.

    Raises:
        NotFoundInModelError: Weights are missing; they are named.
        InvalidModelError: A shape is not what the config says; names the weight, both shapes and the field.
    """
    weights = load_weights(path)
    sizes = config
    if not isinstance(config, Mapping) and not Path(config).exists() and weights.path is not None:
        beside = (weights.path if weights.path.is_dir() else weights.path.parent) / Path(config).name
        sizes = beside if beside.exists() else config
    return map_weights(weights, map, config=sizes, task=task).weights


def _find_map(name: str | os.PathLike[str]) -> WeightMap:
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        return builtin_map(os.fspath(name))
    return parse_map(_read_text(path), str(path))


def _read_config(path: Path) -> dict[str, Any]:
    return parse_config(_read_text(path), str(path))


def _read_text(path: Path) -> str:
    try:
        return open_file(path).tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongFileError("this is no text", path=path, remedy="pass a text file in UTF-8") from error


def load_with(source: Any, checkpoint: str | os.PathLike[str] | None) -> Model:
    """As `load`; a source in memory, or a model, takes its variables from the checkpoint given."""
    if isinstance(source, (str, os.PathLike)):
        return load(source, checkpoint=checkpoint)
    model = source if isinstance(source, Model) else load(source)
    return model if checkpoint is None else attach_checkpoint(model, Path(checkpoint))


def _asset_file(asset: AssetFile, model: Model) -> Path:
    """Where the file that a table is filled from lies: as the graph says, or beside the model."""
    name = Path(asset.path.replace("\\", "/")).name
    folder = _home(model)
    for candidate in (folder / "assets" / name, folder / name, Path(asset.path)):
        if name and candidate.is_file():
            return candidate
    what = f"the file {asset.path!r}, which fills a table, is not there"
    raise UnreadableFileError(
        what, where=f"tensor {asset.tensor_name!r}", remedy=f"put {name or 'it'} beside the model"
    )


def _home(model: Model) -> Path:
    """The folder that a model lies in."""
    if model.path is None:
        return Path()
    return model.path if model.path.is_dir() else model.path.parent


def saved_model_text(
    model: Model,
    tags: Iterable[str] | None = None,
    *,
    signature: str | None = None,
    everything: bool = False,
    list_ops: bool = False,
) -> Iterator[str]:
    """What TensorFlow's `saved_model_cli show` prints of a SavedModel, piece by piece.

    Args:
        model: The SavedModel.
        tags: Which meta graph; without it, the tag sets are listed.
        signature: Which signature of it; without it, their keys are listed.
        everything: All of it, concrete functions too.
        list_ops: Also the ops of the meta graph.
    """
    from tfsmith.view import signature_text as text  # only the compatible command needs it

    if everything:
        yield text.all_text(model)
        return
    if tags is None:
        if list_ops:
            yield "--list_ops must be paired with a tag-set or with --all.\n"
        yield text.tag_sets_text(model)
        return
    meta = text.find_meta_graph(model, list(tags))
    if list_ops:
        yield text.ops_text(meta)
    yield text.signature_keys_text(meta) if signature is None else text.signature_text(meta, signature)


def graph_text(model: Model) -> str:
    """The GraphDef of the selected meta graph as text, exactly as TensorFlow writes it. Reads the weights in it."""
    from tfsmith.formats.saver import graph_to_text

    return graph_to_text(model.graph)


def verify_checksums(model: Model) -> int:
    """Reads every tensor of the model's checkpoint and checks its checksum, in constant memory.

    Returns:
        How many tensors were checked.

    Raises:
        ChecksumError: The first tensor that does not fit.
    """
    if not model.variables:
        remedy = "a graph has no checksums; pass a model with its checkpoint"
        raise UsageError("there is no checkpoint to check", path=model.path, remedy=remedy)
    check = getattr(model.variables, "verify", None)
    if check is not None:
        check()
    return len(model.variables)
