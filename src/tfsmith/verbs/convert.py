"""`tfsmith convert MODEL -o OUT`: another kind of file, other names, types and signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith import records
from tfsmith.errors import UnreadableFileError, UsageError
from tfsmith.formats import KINDS, destination_of, kind_of
from tfsmith.formats.savedmodel import rename_tracked
from tfsmith.ir.model import PREDICT, Model
from tfsmith.passes.convert import ConvertOptions, ReworkedModel, SignatureEdits, rework
from tfsmith.passes.interface import INIT_SIGNATURE
from tfsmith.passes.kinds import repack
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import require_graph, with_assets
from tfsmith.verbs._shared import ModelResult, asked_signatures, open_model, output_name, signature_lines, sized
from tfsmith.view import plural
from tfsmith.view.summary import signature_facts
from tfsmith.weights.source import weights_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.formats import Destination
    from tfsmith.verbs._onnx import ConvertedOnnx
    from tfsmith.verbs._prove import Checks, Verified
    from tfsmith.verbs._shared import (
        FilePath,
        Globs,
        Many,
        ModelOrPath,
        Names,
        Out,
        Pairs,
        Proves,
        Renames,
        Shapes,
        Signatures,
    )

__all__ = ["FLAGS", "Converted", "convert"]

FLAGS = {"out": ("--output-path",), "cut_at": ("--inputs",)}
_KINDS = {"graphdef": "graph", "metagraph": "graph", "saved_model": "SavedModel", "checkpoint": "checkpoint"}
_WEIGHTS = (".h5", ".keras", ".npz", ".safetensors")
"""How files of weights alone end that are no checkpoint."""


@records.record
class Converted(ReworkedModel, ModelResult):
    """What converting gave.

    Attributes:
        source: The model that was converted.
        options: What was asked for.
        read: The files of names that were read.
        shards: How many data files the checkpoint is to have.
        link: Whether weight files that do not change are linked.
        out: Where it was written.
        verified: How it compares with the original.
    """

    source: Model
    options: ConvertOptions
    read: tuple[FilePath, ...] = ()
    shards: int | None = None
    link: bool = False
    out: Path | None = None
    verified: Verified | None = None

    def report(self) -> Iterator[str]:
        """What was written, and how many tensors have other names or types."""
        count = len(self.model.variables)
        is_file = self.model.kind == "checkpoint" and self.out is not None and self.out.is_file()  # no prefix of files
        is_weights = is_file or (self.out is not None and self.out.suffix in _WEIGHTS)
        facts = ("weights" if is_weights else _KINDS[self.model.kind], *((plural(count, "tensor"),) if count else ()))
        yield (
            f"Nothing was written yet ({', '.join(facts)})" if self.out is None else f"Wrote {sized(self.out, *facts)}"
        )
        renamed = sum(new is not None for new in self.names.values())
        done: tuple[tuple[int, str], ...] = ((len(self.names) - renamed, "dropped"), (renamed, "renamed"))
        done = (*done, (len(self.cast), f"cast to {self.options.dtype}"))
        yield from (f"{count} {what}" for count, what in done if count)
        if self.options.signatures:
            yield from signature_lines(self._signatures())

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "kind": self.model.kind,
            "tensors": len(self.model.variables),
            "bytes": self._bytes(),
            "renamed": {old: new for old, new in self.names.items() if new is not None},
            "dropped": sorted(old for old, new in self.names.items() if new is None),
            "cast": list(self.cast),
            "signatures": signature_facts(self._signatures()),
            "warnings": [str(note) for note in self.notes],
        }

    def _bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.model.variables.values())

    def _signatures(self) -> dict[str, Any]:
        return {key: found for key, found in self.model.signatures.items() if key != INIT_SIGNATURE}

    def made_for(self, destination: Destination) -> Converted:
        """Of the kind that is written, with the names that its objects have now."""
        holds, done = destination.holds, self
        if holds == "checkpoint" and self.model.has_graph:
            again = records.values(_reworked(self.source, self.options, holds))
            done = records.replace(self, **again)
        packed = repack(done.model, holds)
        result = rename_tracked(with_assets(packed.model, packed.assets, self.source), done.names)
        return records.replace(done, model=result, notes=(*done.notes, *packed.notes))

    def prove(self, written: Model, checks: Checks) -> Verified:
        """Compares every signature, as close as the type of the weights allows."""
        if not (self.source.has_graph and written.has_graph):
            remedy = "compare the weights of checkpoints instead"
            raise UsageError("only a model with a graph can be run", path=self.source.path, remedy=remedy)
        return records.replace(checks, dtype=self.options.dtype).signatures(self.source, written)


@checked
def convert(
    model: ModelOrPath,
    out: Out = None,
    *,
    inference_only: bool = False,
    rename: Renames = (),
    drop: Globs = (),
    dtype: Literal["float16", "bfloat16"] | None = None,
    only: Globs = (),
    saturate: bool = False,
    add_signatures: Signatures | None = None,
    method_name: str = PREDICT,
    rename_signatures: Pairs | None = None,
    remove_signatures: Many = (),
    set_tags: Names = (),
    shards: int | None = None,
    link: bool = False,
    like: FilePath | None = None,
    opset: int | None = None,
    signature: str | None = None,
    cut_at: Names = (),
    outputs: Names = (),
    input_shapes: Shapes | None = None,
    batch_size: int | None = None,
    external_data: Literal["auto", "always", "never"] = "auto",
    keep_names: bool = False,
    map_ops: Pairs | None = None,
    **shared: Unpack[Proves],
) -> Any:
    """Changes the file format, and on the way names, types and signatures.

    What is not named is written back byte for byte. Weights are streamed.

    Args:
        model: SavedModel folder, .meta, GraphDef, checkpoint prefix or folder; in Python also a message or bytes.
        out: Its ending decides: .pb, .pbtxt, .meta, .ckpt, .npz, .safetensors, .h5, .keras, .onnx; without one a
            SavedModel folder.
        inference_only: Leave out what only training needs.
        rename: Other names in the checkpoint: OLD=NEW, re:PATTERN=REPLACEMENT for many, or a file of names. In Python
            also pairs.
        drop: Leave these tensors out.
        dtype: Store the weights as this type.
        only: Change the type of only these weights.
        saturate: Clip values that are too large for the type; else they are an error.
        add_signatures: A new signature; the inputs and outputs after it are its own.
        method_name: The method of new signatures; predict by default.
        rename_signatures: Another name for a signature.
        remove_signatures: A signature to leave out.
        set_tags: The tags that it gets.
        shards: Split or merge the checkpoint into so many data files; by default as many as it had.
        link: Hard-link weight files that do not change.
        like: For .keras, .h5 and .weights.h5: a Keras file of the same model, whose config and places the weights get.
        opset: For .onnx: the version of ONNX' ops, from 18 to 23; 18 by default, which runtimes of 2023 and later take.
        signature: For .onnx: which signature; serving_default, or the only one, by default.
        cut_at: For .onnx: names of inner tensors that are to be inputs; what only they need is cut off.
        outputs: For .onnx: keys of the signature's outputs, or names of tensors; its outputs by default.
        input_shapes: For .onnx: the shape of an input, by its key.
        batch_size: For .onnx: the size of first dimensions that are open.
        external_data: For .onnx: weights in a file beside it: where it would be over 2 GiB, always, or never.
        keep_names: For .onnx: call inputs and outputs as their tensors, not by the signature's keys.
        map_ops: For .onnx: an op that ONNX lacks becomes a node of another domain, as MyOp=domain:Op.

    Returns:
        What was written, which tensors have other names or types, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.

    Example:
        tfsmith convert saved_model -o graph.pbtxt
        tfsmith convert model.ckpt-1603 -o small.ckpt --inference-only --dtype float16
        tfsmith convert saved_model -o model.onnx --verify
        tfsmith convert trained.safetensors --like model.keras -o trained.keras
    """
    asked: dict[str, Any] = {
        "opset": opset, "signature": signature, "cut_at": tuple(cut_at), "outputs": tuple(outputs),
        "input_shapes": dict(input_shapes or {}), "batch_size": batch_size, "external_data": external_data,
        "keep_names": keep_names, "map_ops": dict(map_ops or {}),
    }  # fmt: skip
    if out is not None and Path(out).suffix == ".onnx" and shared.get("as_") is None:
        changes: dict[str, Any] = {
            "inference_only": inference_only, "rename": rename, "drop": drop, "dtype": dtype, "only": only,
            "saturate": saturate, "add_signatures": add_signatures, "rename_signatures": rename_signatures,
            "remove_signatures": remove_signatures, "set_tags": set_tags, "shards": shards, "link": link, "like": like,
        }  # fmt: skip
        return _to_onnx(model, out, asked, changes, shared)
    for name, value in asked.items():
        if value and value != "auto":
            raise UsageError(f"{{{name}}} is for ONNX", remedy="write NAME.onnx, or leave it out")
    source = open_model(model, shared)
    source = source if shared.get("tags") is None else source.alone()
    if like is not None:
        found = weights_of(source)
        files_read = (*source.origins, *found.files)
        source = Model("checkpoint", (), found, path=source.path, origins=files_read)
    edits = SignatureEdits(
        asked_signatures(add_signatures, None, None, ""),
        dict(rename_signatures or {}),
        tuple(remove_signatures),
        method_name,
    )
    options = ConvertOptions(
        inference_only, tuple(drop), tuple(_rules(rename)), dtype, tuple(only), saturate, edits, tuple(set_tags)
    )
    as_ = shared.get("as_")
    if (
        source.keras is not None
        and out is not None
        and as_ != "keep"
        and KINDS[kind_of(out, as_)].holds != "checkpoint"
    ):
        require_graph(source, "convert")
    holds = None if out is None else destination_of(out, as_, source.kind, was=source.path).holds
    reworked = _reworked(source, options, holds)
    files: tuple[FilePath, ...] = (
        () if isinstance(rename, Mapping) else tuple(one for one in rename if isinstance(one, str) and "=" not in one)
    )
    if like is not None:
        reworked = records.replace(reworked, model=_put_like(reworked.model, like))
        files = (*files, like)
    changed = records.values(reworked)
    converted = Converted(**changed, source=source, options=options, read=files, shards=shards, link=link)
    return converted.placed(out, shared)


def _put_like(model: Model, like: FilePath) -> Model:
    """Weights alone, as a Keras file has them."""
    from tfsmith.weights.compare import put_like  # loads what compares

    other = open_model(like, {})
    if other.keras is None:
        raise UsageError("{like} is no Keras file", path=like, remedy="pass a .keras or .h5 of the same model")
    made = put_like(weights_of(model), weights_of(other))
    return records.replace(model, variables=made, keras=made.keras)


def _to_onnx(
    model: ModelOrPath, out: Out, asked: Mapping[str, Any], changes: Mapping[str, Any], shared: Mapping[str, Any]
) -> ConvertedOnnx:
    """Writes ONNX; what else converting can change must be changed before."""
    from tfsmith.verbs._onnx import OnnxOptions, convert_to_onnx  # loads what runs models

    for name, value in changes.items():
        if value:
            raise UsageError(f"{{{name}}} does not go with ONNX", remedy="convert to a TensorFlow file first")
    assert out is not None
    source = open_model(model, shared, needs_graph="convert")
    engine = shared.get("verify_engine", "auto")
    verify = bool(shared.get("verify"))
    return convert_to_onnx(
        source, out, OnnxOptions(**asked), force=bool(shared.get("force")), verify=verify, engine=engine
    )


def _reworked(source: Model, options: ConvertOptions, kind: str | None) -> ReworkedModel:
    """A checkpoint alone is made first, for then no graph is in the way of the changes."""
    return rework(repack(source, "checkpoint").model if kind == "checkpoint" else source, options)


def _rules(texts: Renames) -> Iterator[tuple[str, str]]:
    """The rules of renaming: pairs, pairs as text, or files of pairs."""
    for rule in texts.items() if isinstance(texts, Mapping) else texts:
        if not isinstance(rule, str):
            yield rule
        elif "=" in rule:
            yield _pair(rule)
        else:
            yield from _file_rules(Path(rule))


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.rpartition("=") if text.startswith("re:") else text.partition("=")
    if not (old and equals and new):
        raise UsageError(f"{{rename}} {text!r} is not understood", remedy="write OLD=NEW")
    return old, new


def _file_rules(path: Path) -> Iterator[tuple[str, str]]:
    """A file of rules: a JSON object, or lines with the old and the new name."""
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read ({error.strerror})"
        remedy = "pass a file of names, or OLD=NEW"
        raise UnreadableFileError(f"the file of names {reason}", path=path, remedy=remedy) from error
    if content.lstrip().startswith("{"):
        yield from _json_rules(content, path)
        return
    for number, line in enumerate(content.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        if len(words) == 1 and words[0].startswith("re:") and "=" in words[0]:
            words = list(_pair(words[0]))
        if len(words) != 2:
            what, remedy = f"line {number} is no pair of names", "write the old name, a space, and the new name"
            raise UsageError(what, path=path, remedy=remedy)
        yield words[0], words[1]


def _json_rules(content: str, path: Path) -> Iterator[tuple[str, str]]:
    remedy = 'write {"old": "new"}'
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON ({error})", path=path, remedy=remedy) from error
    if not all(isinstance(new, str) for new in found.values()):
        raise UsageError("the new names must be text", path=path, remedy=remedy)
    yield from found.items()
