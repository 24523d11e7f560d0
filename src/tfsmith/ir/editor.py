"""`Editor`: the one way to change a graph. It collects changes, and checks them when its `with` block ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.body import Part
from tfsmith.ir.body_editor import BodyEditor, Operand, renamed
from tfsmith.ir.check import tensor_type
from tfsmith.ir.graph import Function
from tfsmith.ir.model import PREDICT, Collection, MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import CONTROL, Endpoint, parse_input
from tfsmith.ir.types import as_dtype
from tfsmith.records import replace

__all__ = ["Editor", "FunctionEditor"]


class FunctionEditor(BodyEditor):
    """Changes the body of a function: as the `Editor` of the graph, with arguments as inputs too."""

    _before: Function

    def __init__(self, function: Function, owner: Editor) -> None:
        self._ret = dict(function.ret)
        self._control_ret = dict(function.control_ret)
        super().__init__(function, owner)

    @property
    def args(self) -> tuple[str, ...]:
        """The names of its arguments, which can be inputs."""
        return self._before.args

    @property
    def results(self) -> Mapping[str, str]:
        """For each result, the tensor that gives it."""
        return dict(self._ret)

    def _look_at_nodes(self) -> None:
        view = self._before.replace_nodes(())
        view.__dict__["by_name"] = self._nodes  # the index of what the nodes are now
        self._body = view

    def _text(self, endpoint: Endpoint) -> str:
        name, output = endpoint
        if output == CONTROL or name in self._body.args or name not in self._nodes:
            return f"^{name}" if output == CONTROL else name if output == 0 else f"{name}:{output}"
        definition = self._body.op_def(self._nodes[name].op)
        found = None if definition is None else definition.output_name(output, self._nodes[name].attrs)
        if found is None:
            what = f"node {name!r} has no output {output} that a function can name"
            raise UsageError(what, where=self._before.title, remedy="check its op")
        return f"{name}:{found}"

    def _rename_ends(self, old: str, new: str) -> None:
        self._ret = {key: renamed(text, old, new) for key, text in self._ret.items()}
        self._control_ret = {key: renamed(text, old, new) for key, text in self._control_ret.items()}

    def _rewire_ends(self, source: Endpoint, target: Endpoint) -> int:
        if source.output == CONTROL:
            hits = [key for key, name in self._control_ret.items() if name == source.node]
            self._control_ret |= dict.fromkeys(hits, target.node)
        else:
            hits = [key for key, text in self._ret.items() if self._is(text, source)]
            self._ret |= dict.fromkeys(hits, self._text(target))
        return len(hits)

    def _library(self) -> Mapping[str, Function]:
        assert self._owner is not None
        return self._owner._library()

    @property
    def _is_changed(self) -> bool:
        ends = (self._ret, self._control_ret) != (self._before.ret, self._before.control_ret)
        return ends or super()._is_changed

    def _check(self) -> None:
        super()._check()
        kinds = {arg.name: arg.type for arg in self._before.signature.outputs}
        for key, text in [*self._ret.items(), *((key, f"^{name}") for key, name in self._control_ret.items())]:
            source = self._body.source(text)
            if source not in self._nodes and source not in self._body.args:
                what = f"its result {key!r} is {text!r}, which is not in it"
                raise InvalidModelError(what, where=self._before.title, remedy="rewire it with signatures=True")
            found, wanted = tensor_type(self._body, text), kinds.get(key)
            if found is not None and wanted is not None and found.base != wanted.base:
                what = f"its result {key!r} is {found}, not {wanted}"
                raise InvalidModelError(
                    what, where=self._before.title, remedy="let a tensor of that type be the result"
                )

    def finish(self) -> Function:
        """The function with all changes; itself if there are none."""
        self._finish()
        if not self._is_changed:
            return self._before
        return self._before.replace_nodes(self.nodes, ret=self._ret, control_ret=self._control_ret)


class Editor(BodyEditor):
    """Changes the graph of a model: `with model.edit() as g:`. Afterwards `g.model` is the new model.

    The old model stays as it was. What is not changed keeps its bytes. If anything raises in the block, or the
    changes do not fit together, there is no new model.
    """

    def __init__(self, model: Model) -> None:
        self._source = model
        self._model: Model | None = None
        self._state = "new"
        self._functions: dict[str, FunctionEditor] = {}
        self._signatures = dict(model.meta.signatures)
        super().__init__(model.graph, None)

    def __enter__(self) -> Editor:
        if self._state != "new":
            raise UsageError("an edit has one with block", remedy="call model.edit() again")
        self._state = "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = "given up"
        if kind is None:
            self._model = self._finished()
            self._state = "closed"

    @property
    def model(self) -> Model:
        """The model with all changes, once the block has ended.

        Raises:
            UsageError: The block has not ended, or was left by an error.
        """
        if self._model is None:
            raise UsageError(f"the edit is {self._state}", remedy="read g.model after the with block")
        return self._model

    # Functions and signatures

    def function(self, name: str) -> FunctionEditor:
        """Changes a function of the library.

        Raises:
            NotFoundInModelError: There is no such function.
        """
        self._check_open()
        if name not in self._functions:
            library = self._library()
            if name not in library:
                near = nearest(name, library) or list(library)[:3]
                remedy = f"the functions are: {', '.join(near)}" if near else "the graph has none"
                raise NotFoundInModelError(f"there is no function {name!r}", remedy=remedy)
            self._functions[name] = FunctionEditor(library[name], self)
        return self._functions[name]

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures as they are now."""
        return dict(self._signatures)

    def signature(
        self,
        key: str,
        *,
        inputs: Mapping[str, Operand | TensorInfo] | None = None,
        outputs: Mapping[str, Operand | TensorInfo] | None = None,
        method_name: str | None = None,
    ) -> None:
        """Adds a signature or changes one.

        Args:
            key: Its key, such as "serving_default".
            inputs: The tensors that it takes, by key; those that it had if None. The graph says their dtypes, and
                as far as it can their shapes; pass a `TensorInfo` to say more.
            outputs: The tensors that it gives, by key; those that it had if None.
            method_name: Its method.

        Raises:
            UsageError: The key is empty, or a new signature has no outputs.
        """
        self._check_open()
        old = self._signatures.get(key)
        if not key or not isinstance(key, str):
            raise UsageError(f"{key!r} is no key of a signature", remedy="use a name such as serving_default")
        if old is None and not outputs:
            remedy = 'pass outputs={"y": "y:0"}, and inputs likewise'
            raise UsageError(f"there is no signature {key!r}, and a new one needs outputs", remedy=remedy)
        self._signatures[key] = Signature(
            old.inputs if old is not None and inputs is None else self._infos(inputs or {}),
            old.outputs if old is not None and outputs is None else self._infos(outputs or {}),
            method_name or (PREDICT if old is None else old.method_name),
            {}
            if old is None
            else {name: one for name, one in old.defaults.items() if inputs is None or name in inputs},
        )

    def remove_signature(self, key: str) -> None:
        """Removes a signature.

        Raises:
            NotFoundInModelError: There is no such signature.
        """
        self._check_open()
        if key not in self._signatures:
            there = ", ".join(self._signatures) or "none"
            raise NotFoundInModelError(f"there is no signature {key!r}", remedy=f"the signatures are: {there}")
        del self._signatures[key]

    def _infos(self, tensors: Mapping[str, Operand | TensorInfo]) -> dict[str, TensorInfo]:
        return {
            key: one if isinstance(one, TensorInfo) else self._info(self._endpoint(one)) for key, one in tensors.items()
        }

    def _info(self, endpoint: Endpoint) -> TensorInfo:
        kind = tensor_type(self._body, str(endpoint)) if self._node(endpoint.node) else None
        return TensorInfo(str(endpoint), as_dtype("invalid") if kind is None else kind.base, self._shape(endpoint))

    # Below

    def _check_open(self) -> None:
        if self._state != "open":
            remedy = "use it inside of `with model.edit() as g:`"
            raise UsageError(f"this edit is {'not open' if self._state == 'new' else self._state}", remedy=remedy)

    def _look_at_nodes(self) -> None:
        view = self._source.graph.replace(nodes=())
        view.__dict__["by_name"] = self._nodes  # the index of what the nodes are now
        self._body = view

    def _library(self) -> Mapping[str, Function]:
        return self._source.graph.library

    def _rename_ends(self, old: str, new: str) -> None:
        self._signatures = {
            key: _map_signature(signature, lambda name: renamed(name, old, new))
            for key, signature in self._signatures.items()
        }

    def _rewire_ends(self, source: Endpoint, target: Endpoint) -> int:
        """Results are the outputs of signatures."""
        changed = 0
        for key, signature in self._signatures.items():
            hits = {name: info for name, info in signature.outputs.items() if info.name and self._is(info.name, source)}
            if hits:
                outputs = {**signature.outputs, **dict.fromkeys(hits, self._info(target))}
                self._signatures[key] = replace(signature, outputs=outputs)
                changed += len(hits)
        return changed

    def _finished(self) -> Model:
        functions = {name: editor.finish() for name, editor in self._functions.items()}
        functions = {name: one for name, one in functions.items() if one is not self._source.graph.library[name]}
        for name in functions:
            self._reshaped |= self._callers(name) if self._functions[name]._reshaped else set()
        self._finish()
        self._check_signatures()
        meta, graph = self._source.meta, self._source.graph
        if self._is_changed or functions:
            library = graph.library.replace({**graph.library, **functions}) if functions else None
            graph = graph.replace(nodes=self.nodes if self._is_changed else None, library=library)
            meta = meta.replace_graph(graph)
        meta = self._with_names(meta)
        if self._signatures != dict(meta.signatures):
            meta = self._with_signatures(meta)
        if meta is self._source.meta:
            return self._source
        metas = list(self._source.meta_graphs)
        metas[self._source.selected] = meta
        return replace(self._source, meta_graphs=tuple(metas), raw=None)

    def _callers(self, function: str) -> set[str]:
        """The nodes of the graph that call a function, by its name as their op or in an attribute."""
        found = {node.name for node in self._nodes.values() if node.op == function}
        for node in self._nodes.values():
            definition = self._body.op_def(node.op)
            keys = () if definition is None else [one.name for one in definition.attrs if "func" in one.kind]
            if any(func.name == function for key in keys if key in node.attrs for func in node.attrs[key].funcs):
                found.add(node.name)
        return found

    def _check_signatures(self) -> None:
        for key, signature in self._signatures.items():
            for word, infos in (("input", signature.inputs), ("output", signature.outputs)):
                for name, info in infos.items():
                    for part in info.components.values() if info.components else (info,):
                        self._check_entry(part, f"signature {key!r}, {word} {name!r}")

    def _check_entry(self, info: TensorInfo, where: str) -> None:
        source, output = parse_input(info.name)
        is_new = source in self._touched or source not in self._before
        if not info.name or (source in self._nodes and not is_new and self._is_known(info)):
            return
        if source not in self._nodes:
            near = [] if source in self._before else nearest(source, self._nodes)
            hint = f"the nearest names are {', '.join(near)}" if near else "give it another tensor with g.signature"
            raise InvalidModelError(f"there is no node {source!r}", where=where, remedy=hint)
        node = self._nodes[source]
        definition = self._body.op_def(node.op)
        total = None if definition is None else definition.output_count(node.attrs)
        if output < 0 or (total is not None and output >= total):
            what = f"{info.name!r} does not exist: op {node.op} has {total} output{'s' * (total != 1)}"
            raise InvalidModelError(what, where=where, remedy="the outputs of a node are numbered from 0")
        found = tensor_type(self._body, info.name)
        if found is not None and found.base != info.dtype.base:
            what = f"{info.name!r} is {found.base}, but the signature says {info.dtype}"
            raise InvalidModelError(what, where=where, remedy="set it again with g.signature")

    def _is_known(self, info: TensorInfo) -> bool:
        """Whether a signature of the file says exactly this, so that nothing about it changed."""
        signatures = self._source.meta.signatures.values()
        return any(info in (*one.inputs.values(), *one.outputs.values()) for one in signatures)

    def _with_signatures(self, meta: MetaGraph) -> MetaGraph:
        """TensorFlow 2 keeps the keys in its object graph too, from which those that are gone are taken out."""
        gone = dict.fromkeys(key for key in meta.signatures if key not in self._signatures)
        objects = meta.objects if gone else None
        number = objects.nodes[0].children.get("signatures") if objects is not None and objects.nodes else None
        if objects is not None and number is not None and 0 <= number < len(objects.nodes):
            known = {key: None for key in gone if key in objects.nodes[number].children}
            meta = replace(meta, objects_part=Part.of(objects.rename_children(number, known))) if known else meta
        return replace(meta, signatures_part=Part.of(self._signatures), raw=None)

    def _with_names(self, meta: MetaGraph) -> MetaGraph:
        """Lets collections, saver and assets follow the names of nodes, and leaves out what is gone."""
        now: dict[str, str | None] = {before: name for name, before in self._names.items() if name in self._nodes}
        names = {name: now.get(name) for name in self._before.by_name if name not in self._nodes or name in now}
        if not names:
            return meta

        def new(text: str) -> str | None:
            name = parse_input(text).node
            return (
                text if name not in names else None if names[name] is None else renamed(text, name, names[name] or "")
            )

        collections = {key: _map_collection(one, new) for key, one in meta.collections.items()}
        if any(collections[key] is not one for key, one in meta.collections.items()):
            meta = replace(meta, collections_part=Part.of(collections), raw=None)
        saver = meta.saver
        if saver is not None:
            fields = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
            texts = {name: new(getattr(saver, name)) for name in fields}
            if any(texts[name] != getattr(saver, name) for name in fields):
                changed = None if None in texts.values() else replace(saver, **texts)
                meta = replace(meta, saver_part=Part.of(changed), raw=None)
        assets = [(asset, new(asset.tensor_name)) for asset in meta.assets]
        for asset, name in assets:
            if name is None:
                what = f"it is fed to {asset.tensor_name!r}, which is gone"
                raise InvalidModelError(what, where=f"asset {asset.filename!r}", remedy="leave that node where it is")
        if any(name != asset.tensor_name for asset, name in assets):
            told = tuple(replace(asset, tensor_name=name) for asset, name in assets)
            meta = replace(meta, assets_part=Part.of(told), raw=None)
        return meta


def _map_signature(signature: Signature, new: Callable[[str], str]) -> Signature:
    inputs = {key: _map_info(info, new) for key, info in signature.inputs.items()}
    outputs = {key: _map_info(info, new) for key, info in signature.outputs.items()}
    return replace(signature, inputs=inputs, outputs=outputs)


def _map_info(info: TensorInfo, new: Callable[[str], str]) -> TensorInfo:
    components = {role: _map_info(one, new) for role, one in info.components.items()}
    return replace(info, name=new(info.name), components=components)


def _map_collection(collection: Collection, new: Callable[[str], str | None]) -> Collection:
    """A collection with other names in it; itself if there are none. What names a node that is gone is left out."""
    if collection.kind == "node":
        values = tuple(name for text in collection.values if (name := new(text)) is not None)
        return collection if values == collection.values else Collection("node", values)
    messages = collection.messages if collection.kind == "bytes" else ()
    if collection.kind != "bytes" or len(messages) != len(collection.values):
        return collection
    mapped = [_map_strings(message, new) for message in messages]
    if list(messages) == mapped:
        return collection
    return Collection.of_messages([message for message in mapped if message is not None])


def _map_strings(value: Any, new: Callable[[str], str | None]) -> Any:
    """Plain data with other names in it; None where one of them is gone."""
    if isinstance(value, str):
        return new(value)
    if isinstance(value, Mapping):
        pairs = {key: _map_strings(item, new) for key, item in value.items()}
        return None if any(item is None and value[key] is not None for key, item in pairs.items()) else pairs
    if isinstance(value, (list, tuple)):
        items = [_map_strings(item, new) for item in value]
        return None if any(item is None for item in items) else type(value)(items)
    return value
