"""`tfsmith show MODEL`: what is inside a model."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.errors import Hint, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.graph import count_ops
from tfsmith.ir.model import Model
from tfsmith.ir.tensor import Weights
from tfsmith.records import record
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import body_of, graph_text, verify_checksums
from tfsmith.verbs._shared import Result, open_model
from tfsmith.view import Section, human_bytes, human_count
from tfsmith.view.summary import (
    collection_facts,
    function_facts,
    node_facts,
    op_facts,
    scope_facts,
    shape_facts,
    signature_facts,
    summary_facts,
    variable_facts,
)
from tfsmith.view.summary import summarize as summary_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.passes.interface import Candidate
    from tfsmith.patterns.networks import Network
    from tfsmith.verbs._shared import Loads, ModelOrPath
    from tfsmith.view.summary import Summary

__all__ = ["FLAGS", "Shown", "likely_inputs", "likely_outputs", "show", "show_facts", "summarize"]

FLAGS = {"checksums": ("--verify",)}
_PARTS = ("variables", "ops", "nodes", "collections", "functions", "outputs")
_TOP_OPS = 8
_MOST_CODE = 10
_MOST_WEIGHTS = 6
_BAR = 40
"""The width of the longest bar."""


@record
class Shown(Result):
    """What is inside a model.

    Attributes:
        model: The model.
        facts: All that was asked for, as plain data.
        text: The GraphDef as text, if that was asked for.
        notes: None.
    """

    model: Model
    facts: Mapping[str, Any]
    text: str | None = None
    notes: tuple[str, ...] = ()

    def report(self) -> Iterator[Section]:
        """All sections that the facts allow, in reading order."""
        facts = self.facts
        if "onnx" in facts:
            yield from _onnx_sections(facts["onnx"])
        if "kind" in facts:
            yield _summary(facts)
            yield from (_signature(key, signature) for key, signature in facts.get("signatures", {}).items())
        yield from (_signature(key, signature) for key, signature in facts.get("signature", {}).items())
        if "likely" in facts:
            yield from _likely(facts["likely"])
        if "keras" in facts:
            yield from _keras(facts["keras"])
        if "variable_list" in facts:
            yield _variables(facts["variable_list"])
        if "architecture" in facts:
            yield _architecture(facts["architecture"])
        if "scopes" in facts:
            yield _scopes(facts["scopes"])
        if "op_list" in facts:
            rows = [(op, human_count(count)) for op, count in facts["op_list"].items()]
            yield Section("ops", rows, right=frozenset({1}))
        if "collections" in facts:
            yield from _collections(facts["collections"])
        if "function_list" in facts:
            yield _functions(facts["function_list"])
        if "node_list" in facts:
            nodes = [(row["name"], row["op"], ", ".join(row["inputs"])) for row in facts["node_list"]]
            yield Section("nodes", nodes, ("name", "op", "inputs"))
        if "verified" in facts:
            words = f"{human_count(facts['verified'])} tensors read, all as they were written"
            yield Section("", [("checksums", words)])

    def to_json(self) -> dict[str, Any]:
        """The facts."""
        return dict(self.facts) if self.text is None else {**self.facts, "text": self.text}

    @property
    def architecture(self) -> tuple[Network, ...]:
        """What the model is, from what it computes; looked for when it is asked for, in every node.

        Raises:
            NotFoundInModelError: There is no graph.
        """
        return _networks(self.model)


@checked
def show(
    model: ModelOrPath,
    *,
    signature: str | None = None,
    variables: bool = False,
    ops: bool = False,
    nodes: bool = False,
    function: str | None = None,
    collections: bool = False,
    functions: bool = False,
    outputs: bool = False,
    architecture: bool = False,
    layers: bool = False,
    parameters: bool = False,
    all: bool = False,
    text: bool = False,
    checksums: bool = False,
    **shared: Unpack[Loads],
) -> Shown:
    """Shows what is inside a model.

    Reads structure only: weights stay in their file, unless their checksums are asked for.

    Args:
        model: SavedModel folder, .meta, GraphDef .pb or .pbtxt, checkpoint prefix or folder, Keras file; or an .onnx
            file.
        signature: Only this signature.
        variables: Every variable with dtype, shape and size.
        ops: How often each op is used.
        nodes: Every node of the graph with op and inputs.
        function: Only this function of the library: what it takes and gives; nodes and ops are then its own.
        collections: Collections, with messages in them decoded.
        functions: The functions of the graph's library.
        outputs: Likely inputs and outputs, with the reason.
        architecture: What the network is, from what it computes: transformers with their sizes and heads, convolutional
            nets, LSTMs and GRUs.
        layers: The layers of a Keras file, or of a SavedModel that Keras 2 wrote, with their weights, and what runs
            code. A Keras file shows them anyway.
        parameters: Parameters by scope, as bars: where the weights are.
        all: All of these but architecture, layers and parameters.
        text: The GraphDef as text, as TensorFlow writes it. Reads the weights in it.
        checksums: Read every tensor and check its checksum.

    Returns:
        The facts that were asked for; the summary if none was.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith show saved_model
        tfsmith show saved_model --function __inference_serve_371 --nodes
        tfsmith show model.ckpt-1603 --variables --json
    """
    if isinstance(model, (str, os.PathLike)) and Path(model).suffix == ".onnx":
        wants = (signature, nodes, function, collections, functions, outputs, architecture, text, checksums)
        if any(wants):
            what = "of an ONNX file, inputs, outputs, ops and weights are shown"
            raise UsageError(what, path=model, remedy="pass {variables=True} or {ops=True}, or nothing")
        return _shown_onnx(Path(model), variables=variables or all, ops=ops or all)
    found = open_model(model, shared)
    if text:
        if function:
            raise UsageError("{text} is the whole graph's", remedy="pass {nodes=True} for the nodes of a function")
        return Shown(found, {}, graph_text(found))
    wanted = zip(_PARTS, (variables, ops, nodes, collections, functions, outputs), strict=True)
    parts = {part for part, is_wanted in wanted if all or is_wanted}
    parts |= {"functions"} if function else set()
    is_summary = all or not (parts or signature or architecture or layers or parameters)
    facts = show_facts(found, parts=parts, summary=is_summary, function=function)
    if layers or (is_summary and found.keras is not None):
        facts["keras"] = _keras_facts(found)
    if architecture:
        facts["architecture"] = [network.facts() for network in _networks(found)]
    if parameters:
        facts["scopes"] = scope_facts(found)
    if signature:
        facts["signature"] = {signature: _signature_facts(found, signature)}
    if checksums:
        facts["verified"] = verify_checksums(found)
    return Shown(found, facts)


def _keras_facts(model: Model) -> dict[str, Any]:
    """What Keras knows of a model: who wrote it, how it was trained, its layers, what of it runs code."""
    from tfsmith.formats.keras.files import keras_of, with_variables  # of Keras' files alone, like all imported here
    from tfsmith.ir.keras import layer_rows
    from tfsmith.passes.variables import variable_names
    from tfsmith.verbs.scan import keras_code

    keras = keras_of(model)
    if keras is None:
        what = "Keras did not write this, or did not say of which layers it is"
        raise NotFoundInModelError(what, path=model.path, remedy="{show(model, variables=True)} lists its variables")
    names = dict(model.variables.names) if isinstance(model.variables, Weights) else variable_names(model)
    if keras.form == "saved_model":
        keras = with_variables(keras, names)
    rows = [
        {
            "depth": row.depth,
            "name": row.name,
            "class": row.class_name,
            "trainable": row.trainable,
            "parameters": row.parameters,
            "weights": [
                {"key": key, "name": name, "dtype": dtype, "shape": list(shape)}
                for key, (name, dtype, shape) in zip(row.keys, row.weights, strict=False)
            ],
        }
        for row in layer_rows(keras.layers, model.variables, names)
    ]
    return {
        "form": keras.form,
        "title": keras.title,
        "keras_version": keras.keras_version,
        "backend": keras.backend,
        "saved": keras.saved,
        "writer": keras.writer,
        "model_class": keras.model_class,
        "model_name": keras.model_name,
        "training": None if keras.training is None else dict(keras.training),
        "optimizer_weights": len(keras.optimizer),
        "runs_code": list(dict.fromkeys(one.what for one in keras_code(model))),
        "layers": rows,
    }


def _shown_onnx(path: Path, *, variables: bool, ops: bool) -> Shown:
    """What is inside an ONNX file."""
    from tfsmith.formats.onnx.reader import read_onnx  # few files are

    found = read_onnx(path)

    def row(one: Any) -> dict[str, Any]:
        shape = None if one.shape is None else list(one.shape)
        return {"name": one.name, "dtype": one.dtype, "shape": shape}

    facts: dict[str, Any] = {
        "onnx": {
            "ir_version": found.ir_version,
            "opsets": found.opsets,
            "producer": found.producer,
            "inputs": [row(one) for one in found.inputs],
            "outputs": [row(one) for one in found.outputs],
            "nodes": sum(found.ops.values()),
            "weights": len(found.weights),
            "bytes": sum(one.nbytes for one in found.weights),
            "external": list(found.external),
        }
    }
    shown = dict(list(found.ops.items())[:_TOP_OPS])
    facts["op_list"] = found.ops if ops else shown
    if variables:
        facts["onnx"]["weight_list"] = [{**row(one), "bytes": one.nbytes} for one in found.weights]
    return Shown(Model("graphdef", ()), facts)


def _onnx_sections(facts: Mapping[str, Any]) -> Iterator[Section]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in facts["opsets"].items())
    beside = f", in {', '.join(facts['external'])}" if facts["external"] else ""
    rows = [
        ("kind", f"ONNX, opset {opsets}"),
        ("written by", facts["producer"] or "?"),
        ("nodes", human_count(facts["nodes"])),
        ("weights", f"{human_count(facts['weights'])} ({human_bytes(facts['bytes'])}{beside})"),
    ]
    yield Section("", rows)
    for title in ("inputs", "outputs"):
        yield Section(title, [(one["name"], one["dtype"], _onnx_shape(one["shape"])) for one in facts[title]])
    if "weight_list" in facts:
        listed = [
            (one["name"], one["dtype"], _onnx_shape(one["shape"]), human_bytes(one["bytes"]))
            for one in facts["weight_list"]
        ]
        yield Section("weights", listed, ("name", "dtype", "shape", "size"))


def _onnx_shape(shape: Sequence[object] | None) -> str:
    return "?" if shape is None else f"[{', '.join(map(str, shape))}]"


def _networks(model: Model) -> tuple[Network, ...]:
    """What was recognised."""
    from tfsmith.patterns.networks import find_networks  # looks at every node; `show` alone does not

    if not model.has_graph:
        raise model.no_graph()
    return find_networks(model)


def _signature_facts(model: Model, key: str) -> dict[str, Any]:
    found = signature_facts(model.signatures).get(key)
    if found is None:
        near = nearest(key, model.signatures) or list(model.signatures)
        remedy = f"the signatures are: {', '.join(near)}" if near else "it has none; {outputs=True} shows likely ones"
        raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
    return dict(found)


def show_facts(
    model: Model, *, parts: Collection[str] = (), summary: bool = True, function: str | None = None
) -> dict[str, Any]:
    """What `tfsmith show` tells, as plain data ready for JSON. Reads structure only.

    Args:
        model: The model.
        parts: Any of "variables", "ops", "nodes", "collections", "functions", "outputs".
        summary: Whether to begin with the summary; it has the likely outputs where there is no signature.
        function: The one function to list; "ops" and "nodes" are then its own.

    Raises:
        NotFoundInModelError: There is no graph, or no such function.
    """
    facts: dict[str, Any] = summary_facts(model) if summary else {}
    if "variables" in parts:
        facts["variable_list"] = variable_facts(model)
    if not model.has_graph:
        if function or (not summary and set(parts) - {"variables"}):
            raise model.no_graph()
        return facts
    body = body_of(model, function)
    is_whole = "missing" not in facts.get("graph", {})
    if "outputs" in parts or (summary and is_whole and not model.signatures):
        facts["likely"] = {
            "inputs": [_candidate_facts(found) for found in likely_inputs(model)],
            "outputs": [_candidate_facts(found) for found in likely_outputs(model)],
        }
    if "ops" in parts:
        facts["op_list"] = op_facts(model) if function is None else count_ops(body.nodes)
    if "collections" in parts:
        facts["collections"] = collection_facts(model)
    if "functions" in parts:
        facts["function_list"] = function_facts(model, function)
    if "nodes" in parts:
        facts["node_list"] = node_facts(body.nodes)
    return facts


@checked
def summarize(model: ModelOrPath) -> Summary:
    """What is inside of a model, as a record. Reads structure only."""
    return summary_of(open_model(model, {}))


@checked
def likely_inputs(model: ModelOrPath) -> tuple[Candidate, ...]:
    """What most likely feeds the model: what its signatures or its collection `inputs` name, else its placeholders."""
    from tfsmith.passes.interface import collected, guess_inputs, signed  # most shows need no guess

    opened = open_model(model, {})
    found = signed(opened, "inputs") or collected(opened, "inputs") or guess_inputs(opened.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(opened))


@checked
def likely_outputs(model: ModelOrPath) -> tuple[Candidate, ...]:
    """What most likely are the model's answers: what its signatures or its collection `outputs` name, else guessed."""
    from tfsmith.passes.interface import collected, guess_outputs, signed

    opened = open_model(model, {})
    found = signed(opened, "outputs") or collected(opened, "outputs") or guess_outputs(opened.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(opened))


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


def _keras(facts: Mapping[str, Any]) -> Iterable[Section]:
    """Who wrote a Keras model and how it was trained; and its layers, those inside of others indented."""
    backend = f", backend {facts['backend']}" if facts["backend"] else ""
    version = f"Keras {facts['keras_version']}{backend}" if facts["keras_version"] else ""
    named = f" {facts['model_name']!r}" if facts["model_name"] else ""
    count = human_count(sum(row["depth"] == 0 for row in facts["layers"]))
    rows = [
        ("written by", ", in the layout of ".join(one for one in (facts["writer"], version) if one)),
        ("saved", facts["saved"]),
        ("model", f"{facts['model_class']}{named}, {count} layers" if facts["model_class"] else ""),
        ("training", _training(facts["training"])),
        *(("runs code", one) for one in facts["runs_code"][:_MOST_CODE]),
        ("", f"and {len(facts['runs_code']) - _MOST_CODE} more" if len(facts["runs_code"]) > _MOST_CODE else ""),
    ]
    if any(row[1] for row in rows):
        yield Section("Keras", [row for row in rows if row[1]])
    table = [
        (
            "  " * row["depth"] + row["name"],
            row["class"],
            _layer_weights(row["weights"]),
            human_count(row["parameters"]) if row["parameters"] else "",
        )
        for row in facts["layers"]
    ]
    yield Section("layers", table, ("name", "class", "weights", "parameters"), right=frozenset({3}))


def _layer_weights(weights: Sequence[Mapping[str, Any]]) -> str:
    shown = ", ".join(f"{one['name']} {_shape(one['shape'])}" for one in weights[:_MOST_WEIGHTS])
    more = len(weights) - _MOST_WEIGHTS
    return f"{shown} and {human_count(more)} more" if more > 0 else shown


def _training(training: Mapping[str, Any] | None) -> str:
    """The optimizer and the loss, in a few words."""
    if training is None:
        return ""
    optimizer = training.get("optimizer_config") or training.get("optimizer")
    name = optimizer.get("class_name") if isinstance(optimizer, dict) else optimizer
    settings = optimizer.get("config") if isinstance(optimizer, dict) else None
    rate = settings.get("learning_rate", settings.get("lr")) if isinstance(settings, dict) else None
    loss = training.get("loss")
    loss = loss.get("class_name") if isinstance(loss, dict) and "class_name" in loss else loss
    words = [f"optimizer {name}" if name else "", f"learning rate {rate:g}" if isinstance(rate, float) else ""]
    words += [f"loss {loss}" if loss else ""]
    return ", ".join(word for word in words if word)[:200]


def _summary(facts: Mapping[str, Any]) -> Section:
    rows: list[tuple[str, ...]] = [("kind", facts["title"])]
    if facts["tensorflow_version"]:
        rows.append(("written by", f"TensorFlow {facts['tensorflow_version']}"))
    if facts["kind"] == "saved_model":
        others = " | ".join(_tags(tags) for tags in facts["tag_sets"])
        rows.append(
            ("tag sets", others if len(facts["tag_sets"]) == 1 else f"{others}  (shown: {_tags(facts['tag_set'])})")
        )
    rows += _variable_rows(facts)
    graph = facts.get("graph")
    if graph is not None:
        rows += _graph_rows(graph, facts)
    title = facts["path"] or "<memory>"
    return Section(title, rows)


def _tags(tags: Sequence[str]) -> str:
    return ",".join(tags) or "(empty)"


def _amount(totals: Mapping[str, Any]) -> str:
    kinds = totals["dtypes"]
    dtypes = ", ".join(f"{name} x{count}" if len(kinds) > 1 else name for name, count in kinds.items())
    size = f"{human_count(totals['parameters'])} parameters, {human_bytes(totals['bytes'])}"
    return f"{human_count(totals['count'])}  ({size}{'; ' + dtypes if dtypes else ''})"


def _variable_rows(facts: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    variables = facts["variables"]
    if variables["from"]:
        note = "" if variables["from"] == "checkpoint" else "  values not here"
        yield ("variables", _amount(variables) + note)
    if facts["optimizer_slots"]["count"]:
        yield ("of these", f"{_amount(facts['optimizer_slots'])} are an optimizer's")
    checkpoint = facts["checkpoint"]
    if checkpoint is not None:
        size = sum(file["bytes"] for file in checkpoint["files"])
        step = "" if checkpoint["step"] is None else f", step {checkpoint['step']}"
        count = len(checkpoint["files"])
        yield ("checkpoint", f"V{checkpoint['version']}{step}, {count} file{'s' * (count != 1)}, {human_bytes(size)}")
        if checkpoint["missing"]:
            yield ("missing", f"{', '.join(checkpoint['missing'])}: without it no value can be read")


def _graph_rows(graph: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    nodes = human_count(graph["nodes"])
    if graph["functions"]:
        nodes += f"  and {human_count(graph['function_nodes'])} in {human_count(graph['functions'])} functions"
    yield ("nodes", nodes)
    if "warning" in graph:
        yield ("warning", graph["warning"])
    ops = list(graph["ops"].items())
    more = f", and {len(ops) - _TOP_OPS} more" if len(ops) > _TOP_OPS else ""
    yield ("ops", f"{len(ops)}: " + ", ".join(f"{op} x{count}" for op, count in ops[:_TOP_OPS]) + more)
    if facts["constants"]["count"]:
        yield ("constants", _amount(facts["constants"]))
    if graph["custom_ops"]:
        yield ("custom ops", ", ".join(graph["custom_ops"]))
    if facts["assets"]:
        yield ("assets", ", ".join(facts["assets"]))
    beside = [name for name in facts["side_files"] if not name.startswith("assets/")]
    if beside:
        yield ("other files", ", ".join(beside[:10]) + (" ..." if len(beside) > 10 else ""))


def _shape(shape: Sequence[int] | None) -> str:
    return "?" if shape is None else "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"


def _signature(key: str, signature: Mapping[str, Any]) -> Section:
    rows: list[tuple[str, ...]] = []
    for role in ("input", "output"):
        for name, info in signature[f"{role}s"].items():
            tensor = info["name"] or f"({info.get('encoding', 'none')})"
            is_tensor = info["dtype"] != "invalid"  # else an operation to run, or made of components
            kind, shape = (info["dtype"], _shape(info["shape"])) if is_tensor else ("-", "-")
            rows.append((role, name, kind, shape, tensor))
            rows += [
                ("", f"  {part}", inner["dtype"], _shape(inner["shape"]), inner["name"])
                for part, inner in info.get("components", {}).items()
            ]
    method = f"  ({signature['method_name']})" if signature["method_name"] else ""
    notes = () if rows else ("it takes and gives nothing",)
    return Section(f"signature {key}{method}", rows, notes=notes)


def _likely(likely: Mapping[str, Any]) -> Iterable[Section]:
    for role in ("inputs", "outputs"):
        rows = [
            (row["tensor"], row["op"], row["dtype"] or "?", _shape(row["shape"]), row["reason"]) for row in likely[role]
        ]
        notes = () if rows else (Hint("none found; {show(model, nodes=True)} lists all nodes"),)
        yield Section(f"likely {role}", rows, notes=notes)


def _variables(rows: Sequence[Mapping[str, Any]]) -> Section:
    table = [(row["name"], row["dtype"], _shape(row["shape"]), human_bytes(row["bytes"])) for row in rows]
    notes = () if rows else ("there are none: no checkpoint, and no variables in the graph",)
    if any("variable" in row for row in rows):
        named = [(*cells, row.get("variable", "")) for cells, row in zip(table, rows, strict=True)]
        header = ("name", "dtype", "shape", "size", "variable")
        return Section("variables", named, header, notes, right=frozenset({3}), drop=(3, 1, 2))
    return Section("variables", table, ("name", "dtype", "shape", "size"), notes, right=frozenset({3}))


def _architecture(networks: Sequence[Mapping[str, Any]]) -> Section:
    rows = [(", ".join(one["signatures"]) or one["function"] or "the graph", one["text"]) for one in networks]
    return Section("architecture", rows, notes=() if rows else ("nothing was recognised",))


def _bar(row: Mapping[str, Any], most: int) -> str:
    full = "\N{FULL BLOCK}" * round(_BAR * row["parameters"] / most)
    return full or "\N{LEFT ONE QUARTER BLOCK}" * bool(row["parameters"])


def _scopes(rows: Sequence[Mapping[str, Any]]) -> Section:
    most = max((row["parameters"] for row in rows), default=0) or 1
    total = sum(row["parameters"] for row in rows) or 1
    table = [
        (row["scope"], human_count(row["parameters"]), f"{100 * row['parameters'] / total:.1f}%", _bar(row, most))
        for row in rows
    ]
    notes = () if rows else ("there are no variables: a frozen graph has its weights in constants",)
    return Section("parameters by scope", table, notes=notes, right=frozenset({1, 2}))


def _collections(collections: Mapping[str, Any]) -> Iterable[Section]:
    if not collections:
        yield Section("collections", notes=("there are none",))
    for key, collection in collections.items():
        values = collection["values"]
        rows = [(_collection_value(value),) for value in values]
        yield Section(f"collection {key}  ({collection['kind']}, {len(values)})", rows)


def _collection_value(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if set(value) == {"name", "op"}:
        return f"{value['name']}  {value['op'] or '(not in the graph)'}"
    return ", ".join(f"{key}={inner}" for key, inner in value.items())


def _functions(rows: Sequence[Mapping[str, Any]]) -> Section:
    table = [
        (
            row["name"],
            human_count(row["nodes"]),
            ", ".join(f"{arg['name']}: {arg['dtype']}" for arg in row["inputs"]),
            ", ".join(f"{arg['name']}: {arg['dtype']}" for arg in row["outputs"]),
        )
        for row in rows
    ]
    notes = () if rows else ("there are none",)
    return Section("functions", table, ("name", "nodes", "takes", "gives"), notes, right=frozenset({1}))
