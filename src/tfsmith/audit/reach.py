"""Where things lie in a model and when they act: at load, at call or never; where a text comes from, where data goes.

Everything here takes graphs as they are, cut off or not: an input that leads nowhere is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

from tfsmith.audit.findings import When
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import MetaGraph, ObjectGraph
from tfsmith.ir.node import Attr, Func, Node, parse_input
from tfsmith.ir.tensor import flat_texts
from tfsmith.ops import CALLS, INITIAL_WRITES, INPUTS, VARIABLES
from tfsmith.ops.traits import Trait, traits
from tfsmith.passes.interface import INIT_SIGNATURE, init_nodes

__all__ = ["Origin", "Place", "Reach"]

_MOST_ORIGINS = 1000
"""So many nodes are followed to find where a text comes from."""
_MOST_HANDLES = 20
_KEEPS = Trait.VARIABLE | Trait.TABLE | Trait.STATE
_AT_LOAD = ("_initialize", "_create_resource", "_restore_from_tensors")
"""The functions of an object of TensorFlow 2 that loading the model runs."""


_IMPLEMENTS = "api_implements"
"""The attribute of functions that do the same on different devices; one takes the place of another."""
_ASSETS = "asset_filepaths"
"""The collection in which TensorFlow 1 keeps the tensors that are paths of assets."""


class Place(NamedTuple):
    """A node in a body: the graph (""), or a function by its name."""

    body: str
    node: Node


class Origin(NamedTuple):
    """Where a text comes from: a constant, an asset, what is fed, the saver's file name, or something computed."""

    kind: Literal["constant", "asset", "input", "saver", "computed"]
    text: str
    stored: str = ""
    """What the file holds in place of an asset's path: the loader replaces it for its own run, and for no other."""


class _CallSite(NamedTuple):
    place: Place
    first: int | None
    """The input that is the function's first argument; None if arguments and inputs do not pair."""


class Reach:
    """What leads where in one meta graph. Reads structure and the texts of constants that are asked for.

    Attributes:
        meta: The meta graph.
        bodies: The graph under "", and all functions by name.
    """

    def __init__(self, meta: MetaGraph) -> None:
        self.meta = meta
        self.bodies: Mapping[str, Body] = {"": meta.graph, **meta.graph.library}
        self._assets = {parse_input(asset.tensor_name).node: asset.filename for asset in meta.assets}
        kept = meta.collections.get(_ASSETS)
        for name in kept.values if kept is not None and kept.kind == "node" else ():
            self._assets.setdefault(parse_input(name).node, parse_input(name).node)
        saver = meta.saver
        self._saver_file = "" if saver is None else parse_input(saver.filename_tensor_name or "-").node
        self._reached: dict[tuple[str, str], When] = {}
        self._trails: dict[str, str] = {"": ""}
        self._follow()

    @property
    def has_entries(self) -> bool:
        """Whether anything says what of the model is called: a signature, or a function of TensorFlow 2."""
        named = any(key != INIT_SIGNATURE for key in self.meta.signatures)
        return named or (self.meta.objects is not None and bool(self.meta.objects.concrete_functions))

    def places(self) -> Iterator[Place]:
        """Every node of the graph and of all functions, reached or not."""
        for name, body in self.bodies.items():
            for node in body.nodes:
                yield Place(name, node)

    def when(self, place: Place) -> When:
        """When a node acts."""
        return self._reached.get((place.body, place.node.name), "never reached")

    def trail(self, body: str) -> str:
        """The functions that lead to a body, outermost first, joined by " > "; the function alone if none does."""
        return self._trails.get(body, body)

    def in_saver(self, place: Place) -> bool:
        """Whether a node is part of what saves and restores the model's variables, and of nothing else."""
        return (place.body, place.node.name) in self._saver_places

    # Reachability

    @cached_property
    def _calls(self) -> Mapping[str, list[tuple[Node, str, int | None]]]:
        """For each body, the nodes that refer to functions: the node, the function, the input of its first argument."""
        library = self.meta.graph.library
        found: dict[str, list[tuple[Node, str, int | None]]] = {}
        for name, body in self.bodies.items():
            here = found.setdefault(name, [])
            for node in body.nodes:
                if node.op in library:
                    here.append((node, node.op, 0))
                if node.op == "Const" or not library:
                    continue
                call = CALLS.get(node.op)
                for function in _functions(node.attrs.values()):
                    for one in (function, library.gradients.get(function, "")):  # a gradient is run by its name, too
                        if one in library:
                            here.append((node, one, None if call is None else call.first))
        return found

    @cached_property
    def _call_sites(self) -> Mapping[str, list[_CallSite]]:
        found: dict[str, list[_CallSite]] = {}
        for body, calls in self._calls.items():
            for node, function, first in calls:
                found.setdefault(function, []).append(_CallSite(Place(body, node), first))
        return found

    def _follow(self) -> None:
        """Marks what loading the model runs, then what calling it runs."""
        meta = self.meta
        saver = meta.saver
        restore = [] if saver is None else [saver.restore_op_name]
        functions = set(_functions_at_load(meta.objects)) if meta.objects is not None else set()
        self._mark([*init_nodes(meta), *restore], functions, "at load")
        named = [info for key, one in meta.signatures.items() if key != INIT_SIGNATURE for info in one.outputs.values()]
        names = [name for info in named for name in (info.name, *(part.name for part in info.components.values()))]
        callable_functions = () if meta.objects is None else meta.objects.concrete_functions
        roots = [name for name in names if name] if self.has_entries else [node.name for node in meta.graph.nodes]
        self._mark(roots, callable_functions, "at call")

    def _mark(self, roots: Iterable[str], functions: Iterable[str], when: When) -> None:
        calls = self._calls
        waiting = deque((name, "") for name in functions if name in self.bodies)
        reached = self._ancestors(roots)
        for name in reached:
            self._reached.setdefault(("", name), when)
        waiting.extend((function, "") for node, function, _ in calls[""] if node.name in reached)
        seen: set[str] = set()
        while waiting:
            name, trail = waiting.popleft()
            if name in seen:
                continue
            seen.add(name)
            self._trails.setdefault(name, f"{trail} > {name}" if trail else name)
            for node in self.bodies[name].nodes:  # what has an effect runs, whether or not a result needs it
                self._reached.setdefault((name, node.name), when)
            waiting.extend((function, self._trails[name]) for _, function, _ in calls[name])
            waiting.extend((function, self._trails[name]) for function in self._twins(name))

    def _twins(self, name: str) -> Iterable[str]:
        """The functions that TensorFlow's optimizer may put in place of this one: they implement the same."""
        shared = self._implements.get(name)
        return () if shared is None else self._implementations[shared]

    @cached_property
    def _implements(self) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for name, function in self.meta.graph.library.items():
            attr = function.attrs.get(_IMPLEMENTS)
            if attr is not None and isinstance(attr.value, bytes):
                found[name] = attr.value
        return found

    @cached_property
    def _implementations(self) -> Mapping[bytes, list[str]]:
        found: dict[bytes, list[str]] = {}
        for name, shared in self._implements.items():
            found.setdefault(shared, []).append(name)
        return found

    def recursive(self) -> Iterator[str]:
        """A function of each group that calls itself, by whatever way."""
        calls = {name: {function for _, function, _ in found} for name, found in self._calls.items()}
        done: set[str] = set()
        for first in self.meta.graph.library:
            open_now: dict[str, Iterator[str]] = {} if first in done else {first: iter(calls[first])}
            while open_now:
                name, rest = next(reversed(open_now.items()))
                following = next(rest, None)
                if following is None:
                    done.add(name)
                    del open_now[name]
                elif following in open_now:
                    yield following
                    done.update(open_now)
                    break
                elif following not in done:
                    open_now[following] = iter(calls[following])

    def _ancestors(self, roots: Iterable[str]) -> set[str]:
        nodes = self.meta.graph.by_name
        found: set[str] = set()
        waiting = [parse_input(root).node for root in roots]
        while waiting:
            name = waiting.pop()
            if name in found or name not in nodes:
                continue
            found.add(name)
            waiting.extend(text.removeprefix("^").partition(":")[0] for text in nodes[name].inputs)
        return found

    @cached_property
    def _saver_places(self) -> set[tuple[str, str]]:
        saver = self.meta.saver
        if saver is None:
            return set()
        found = {("", name) for name in self._ancestors([saver.save_tensor_name or "-", saver.restore_op_name or "-"])}
        waiting = [function for node, function, _ in self._calls[""] if ("", node.name) in found]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            found.update((name, node.name) for node in self.bodies[name].nodes)
            waiting.extend(function for _, function, _ in self._calls[name])
        return found

    # Texts

    def origins(self, place: Place, index: int) -> list[Origin]:
        """Where the text of an input comes from, through functions and whatever joins or chooses texts."""
        inputs = place.node.data_inputs
        return self._origins_of([(place.body, inputs[index])]) if index < len(inputs) else []

    def _origins_of(self, start: list[tuple[str, str]]) -> list[Origin]:
        waiting = deque(start)
        seen: set[tuple[str, str]] = set()
        found: dict[Origin, None] = {}
        while waiting and len(seen) < _MOST_ORIGINS:
            body, text = waiting.popleft()
            name = text.partition(":")[0]
            if (body, name) in seen:
                continue
            seen.add((body, name))
            node = self.bodies[body].by_name.get(name)
            if node is None:
                waiting.extend(self._given(body, name, found))
            elif not body and name in self._assets:
                text = next((one.text for one in _texts(node)), "")
                found[Origin("asset", (text if self._assets[name] == name else "") or self._assets[name], text)] = None
            elif not body and name == self._saver_file:
                found[Origin("saver", name)] = None
                waiting.extend((body, one) for one in node.data_inputs)
                if node.op == "Const":
                    found.update(dict.fromkeys(_texts(node)))
            elif node.op == "Const":
                found.update(dict.fromkeys(_texts(node)))
            elif node.op in VARIABLES:
                writers = [user for user in self._users[body].get(name, ()) if user.op in INITIAL_WRITES]
                waiting.extend((body, writer.data_inputs[1]) for writer in writers if len(writer.data_inputs) > 1)
                if not writers:
                    found[Origin("computed", f"variable {name}")] = None
            elif node.op in INPUTS:
                found[Origin("input", name)] = None
                waiting.extend((body, one) for one in node.data_inputs)
            else:
                results = [(function, text) for function in self._functions_of(body, node)
                           for text in self._returns(function)]  # fmt: skip
                waiting.extend(results or [(body, one) for one in node.data_inputs])
                if not results and not node.data_inputs:
                    found[Origin("computed", node.op)] = None
        return list(found)

    def _functions_of(self, body: str, node: Node) -> list[str]:
        return self._called.get((body, node.name), [])

    @cached_property
    def _called(self) -> Mapping[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for body, calls in self._calls.items():
            for node, function, _ in calls:
                found.setdefault((body, node.name), []).append(function)
        return found

    def _returns(self, function: str) -> tuple[str, ...]:
        body = self.bodies[function]
        return tuple(body.ret.values()) if isinstance(body, Function) else ()

    def _given(self, body: str, arg: str, found: dict[Origin, None]) -> list[tuple[str, str]]:
        """What callers give for an argument of a function."""
        names = self.bodies[body].args
        sites = self._call_sites.get(body, ())
        if arg not in names:
            return []
        given: list[tuple[str, str]] = []
        for site in sites:
            inputs = site.place.node.data_inputs
            position = None if site.first is None else site.first + names.index(arg)
            if position is not None and position < len(inputs):
                given.append((site.place.body, inputs[position]))
                continue
            found[Origin("computed", f"an argument of {body}")] = None
            given.extend((site.place.body, text) for text in inputs)  # elements of a dataset: whatever it is made of
        if not sites:
            found[Origin("input", arg)] = None
        return given

    # Flow

    def flows(self, sources: Iterable[Place], sinks: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
        """The sinks that data of a source reaches, each with one of its sources.

        Data is followed through functions, and through what keeps it: variables, tables, queues. All sources are
        followed at once, so that many of them take no longer than one.
        """
        targets = {(place.body, place.node.name): place for place in sinks}
        seen: set[tuple[str, str]] = set()
        waiting = deque(((place.body, place.node.name), place) for place in sources)
        while waiting:
            (body, name), source = waiting.popleft()
            for user in self._users[body].get(name, ()):
                key = (body, user.name)
                if key in seen:
                    continue
                seen.add(key)
                if key in targets:
                    yield source, targets[key]
                for function in self._functions_of(body, user):
                    waiting.extend(((function, arg), source) for arg in self.bodies[function].args)
                waiting.append((key, source))
                waiting.extend((kept, source) for kept in self._kept_in(body, user) if kept not in seen)
                seen.update(self._kept_in(body, user))
            if (body, name) in self._returned:
                waiting.extend(((site.place.body, site.place.node.name), source)
                               for site in self._call_sites.get(body, ()))  # fmt: skip

    def _kept_in(self, body: str, node: Node) -> list[tuple[str, str]]:
        """The variable, table or queue that a node writes to: what makes its handle, wherever that is."""
        inputs = node.data_inputs
        if len(inputs) < 2 or not (traits(node.op) or Trait(0)) & _KEEPS:
            return []
        waiting = [(body, inputs[0].partition(":")[0])]
        found: list[tuple[str, str]] = []
        for _ in range(_MOST_HANDLES):
            if not waiting:
                break
            here, name = waiting.pop()
            maker = self.bodies[here].by_name.get(name)
            if maker is None:
                waiting += [(one, text.partition(":")[0]) for one, text in self._given(here, name, {})]
            else:
                found += self._shared.get(_shared_name(maker), ())
            found.append((here, name))
        return found

    @cached_property
    def _shared(self) -> Mapping[bytes, list[tuple[str, str]]]:
        """The nodes that make one and the same variable, table or queue, by its shared name."""
        found: dict[bytes, list[tuple[str, str]]] = {}
        for body, node in self.places():
            if node.op != "Const" and (traits(node.op) or Trait(0)) & _KEEPS and _shared_name(node):
                found.setdefault(_shared_name(node), []).append((body, node.name))
        return found

    @cached_property
    def _users(self) -> Mapping[str, Mapping[str, list[Node]]]:
        found: dict[str, dict[str, list[Node]]] = {}
        for name, body in self.bodies.items():
            here = found.setdefault(name, {})
            for node in body.nodes:
                for text in node.data_inputs:
                    here.setdefault(text.partition(":")[0], []).append(node)
        return found

    @cached_property
    def _returned(self) -> set[tuple[str, str]]:
        return {(name, text.partition(":")[0]) for name in self.meta.graph.library for text in self._returns(name)}


def _functions(attrs: Iterable[Attr]) -> Iterator[str]:
    """The functions that attributes name, those in the attributes of functions too."""
    waiting: list[Func] = [func for attr in attrs for func in attr.funcs]
    while waiting:
        func = waiting.pop()
        yield func.name
        waiting += [inner for attr in func.attrs.values() for inner in attr.funcs]


def _shared_name(node: Node) -> bytes:
    attr = node.attrs.get("shared_name")
    return attr.value if attr is not None and isinstance(attr.value, bytes) else b""


def _functions_at_load(objects: ObjectGraph) -> Iterator[str]:
    for node in objects.nodes:
        for name, number in node.children.items():
            if name in _AT_LOAD and 0 <= number < len(objects.nodes):
                child = objects.nodes[number]
                if child.kind == "function":
                    yield from child.details.get("concrete_functions", ())
                elif child.kind == "bare_concrete_function":
                    yield str(child.details.get("concrete_function_name", ""))


def _texts(node: Node) -> Iterator[Origin]:
    tensor = node.constant
    if tensor is not None and tensor.dtype.name == "string" and (tensor.shape.elements or 0) <= _MOST_ORIGINS:
        for text in flat_texts(tensor):
            yield Origin("constant", text.decode("utf-8", "backslashreplace"))
