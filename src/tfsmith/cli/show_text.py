"""The facts of `tfsmith show` as sections of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfsmith.cli.common import human_bytes, human_count
from tfsmith.cli.render import Section

__all__ = ["sections"]

_TOP_OPS = 8


def sections(facts: Mapping[str, Any], *, summary: bool) -> list[Section]:
    """All sections that the facts allow, in reading order."""
    found: list[Section] = []
    if summary:
        found.append(_summary(facts))
        found += [_signature(key, signature) for key, signature in facts.get("signatures", {}).items()]
    elif "signature" in facts:
        found += [_signature(key, signature) for key, signature in facts["signature"].items()]
    if "likely" in facts:
        found += _likely(facts["likely"])
    if "variable_list" in facts:
        found.append(_variables(facts["variable_list"]))
    if "op_list" in facts:
        rows = [(op, human_count(count)) for op, count in facts["op_list"].items()]
        found.append(Section("ops", rows, right=frozenset({1})))
    if "collections" in facts:
        found += _collections(facts["collections"])
    if "function_list" in facts:
        found.append(_functions(facts["function_list"]))
    if "node_list" in facts:
        nodes = [(row["name"], row["op"], ", ".join(row["inputs"])) for row in facts["node_list"]]
        found.append(Section("nodes", nodes, ("name", "op", "inputs")))
    if "verified" in facts:
        found.append(
            Section("", [("checksums", f"{human_count(facts['verified'])} tensors read, all as they were written")])
        )
    return found


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
    missing = graph.get("missing", ())
    if missing:
        first = f"{missing[0]['node']} takes {missing[0]['takes']!r}, which is not there"
        more = f", and {human_count(len(missing) - 1)} more inputs are missing" if len(missing) > 1 else ""
        yield ("warning", f"the graph is cut off: {first}{more}")
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
        notes = () if rows else ("none found; `tfsmith show --nodes` lists all nodes",)
        yield Section(f"likely {role}", rows, notes=notes)


def _variables(rows: Sequence[Mapping[str, Any]]) -> Section:
    table = [(row["name"], row["dtype"], _shape(row["shape"]), human_bytes(row["bytes"])) for row in rows]
    notes = () if rows else ("there are none: no checkpoint, and no variables in the graph",)
    if any("variable" in row for row in rows):
        named = [(*cells, row.get("variable", "")) for cells, row in zip(table, rows, strict=True)]
        header = ("name", "dtype", "shape", "size", "variable")
        return Section("variables", named, header, notes, right=frozenset({3}))
    return Section("variables", table, ("name", "dtype", "shape", "size"), notes, right=frozenset({3}))


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
