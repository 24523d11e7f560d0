"""Loops and conditions of TensorFlow 1, which are nodes among others: Switch, Merge, Enter, NextIteration, Exit.

A node is in the loops that its inputs came into, and in the branches whose Switch its inputs passed. Who wants what a
Merge gives makes a condition, and lowers the nodes of each branch inside of it; who wants what an Exit gives makes the
loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import Body
from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.onnx.builder import BOOL, Refusal, Val
from tfsmith.ops import CONTROL_FLOW, ENTERS, EXITS, MERGES, NEXT_ITERATIONS, PASSES_ON, SWITCHES

if TYPE_CHECKING:
    from tfsmith.onnx.lower import Driver

__all__ = ["Tf1Flow", "has_tf1_flow"]

_Path = tuple[str, ...]
_Branches = Mapping[Endpoint, int]
_STEPS = 50


def has_tf1_flow(body: Body) -> bool:
    """Whether a body has such nodes."""
    return any(node.op in CONTROL_FLOW for node in body)


class Tf1Flow:
    """Lowers a body with control flow of TensorFlow 1."""

    def __init__(self, driver: Driver, body: Body) -> None:
        self._driver = driver
        self._body = body
        self._order = body.topological_order()
        self._paths: dict[str, _Path] = {}
        self._branches: dict[str, _Branches] = {}
        for node in self._order:
            self._place(node)

    def _sources(self, node: Node) -> list[Endpoint]:
        return [self._body.resolve(text) for text in node.inputs]

    def _source(self, node: Node, number: int) -> Endpoint:
        if number >= len(node.data_inputs):
            what = f"op {node.op} needs more than {number} tensors, but it has {len(node.data_inputs)}"
            raise InvalidModelError(what, where=f"{self._body.title}, node {node.name!r}")
        return self._body.resolve(node.inputs[number])

    def _place(self, node: Node) -> None:
        """Finds the loops and branches that a node is in; back edges come from nodes that are not known yet."""
        sources = [one for one in self._sources(node) if one.node in self._paths]
        paths = [self._behind(one.node) for one in sources]
        path = max(paths, key=len, default=())
        if node.op in ENTERS:
            path = (*path, str(node.get("frame_name")))
        self._paths[node.name] = path
        found = [self._of(one) for one in sources]
        if node.op in MERGES:
            common = dict(found[0]) if found else {}
            for other in found[1:]:
                common = {key: at for key, at in common.items() if other.get(key) == at}
            self._branches[node.name] = common
        else:
            self._branches[node.name] = {key: at for one in found for key, at in one.items()}

    def _behind(self, name: str) -> _Path:
        path = self._paths[name]
        return path[:-1] if self._body[name].op in EXITS else path

    def _of(self, tensor: Endpoint) -> _Branches:
        """The branches that a tensor is in."""
        node = self._body[tensor.node]
        own = self._branches[tensor.node]
        if node.op not in SWITCHES or tensor.output == CONTROL:
            return own
        chosen = self._chooser(node)
        return own if self._body[chosen.node].op in ("LoopCond", "RefLoopCond") else {**own, chosen: tensor.output}

    def _chooser(self, node: Node) -> Endpoint:
        """What decides a Switch, behind what only hands it on."""
        found = self._source(node, 1)
        for _ in range(_STEPS):
            maker = self._body.by_name.get(found.node)
            if maker is None or maker.op not in PASSES_ON:
                break
            found = self._source(maker, 0)
        return found

    def lower(
        self, env: dict[Endpoint, Val], wanted: Sequence[Endpoint], path: _Path = (), inside: _Branches | None = None
    ) -> None:
        """Lowers what these tensors need, of the nodes in these loops and branches; `env` gets all."""
        inside = inside or {}
        known = {tensor.node for tensor in env}
        starts = [tensor.node for tensor in wanted if tensor not in env]
        needed = self._body.ancestors(list(dict.fromkeys(starts)), known)
        for node in self._order:
            if node.name not in needed or Endpoint(node.name, 0) in env:
                continue
            if node.op in EXITS and self._paths[node.name][:-1] == path and self._is_inside(node, inside):
                self._loop(node, env, path, inside)
            elif self._paths[node.name] != path or not self._is_inside(node, inside):
                continue
            elif node.op in SWITCHES:
                self._switch(node, env)
            elif node.op in MERGES:
                self._merge(node, env, path, inside)
            elif node.op in CONTROL_FLOW:
                continue
            else:
                self._driver.lower_node(self._body, node, env)

    def _is_inside(self, node: Node, inside: _Branches) -> bool:
        return all(inside.get(key) == at for key, at in self._branches[node.name].items())

    def _switch(self, node: Node, env: dict[Endpoint, Val]) -> None:
        """In its branch, it hands on what it takes."""
        found = env.get(self._source(node, 0))
        if found is not None:
            env[Endpoint(node.name, 0)] = env[Endpoint(node.name, 1)] = found

    def _merge(self, node: Node, env: dict[Endpoint, Val], path: _Path, inside: _Branches) -> None:
        from tfsmith.onnx.flow import emit_if

        driver = self._driver
        sources = [one for one in self._sources(node) if one.output != CONTROL]
        try:
            if len(sources) != 2:
                raise Refusal("it merges other than two branches")
            one, other = (self._of(source) for source in sources)
            found = [key for key, at in one.items() if key not in inside and other.get(key) == 1 - at]
            if len(found) != 1 or found[0] not in env:
                raise Refusal("which condition decides it is not known")
            chosen = found[0]
            condition = env[chosen]
            if condition.dtype != BOOL or condition.dims is None or condition.dims:
                raise Refusal("its condition is not known to be one truth")
            by_branch = {one[chosen]: sources[0], other[chosen]: sources[1]}

            def branch(at: int) -> list[Val]:
                own = dict(env)
                self.lower(own, [by_branch[at]], path, {**inside, chosen: at})
                if by_branch[at] not in own:
                    raise Refusal("a branch has no value")
                return [own[by_branch[at]]]

            made = emit_if(driver, condition, [lambda: branch(1), lambda: branch(0)], node.name)
            env[Endpoint(node.name, 0)] = made[0]
        except Refusal as refused:
            driver.refuse(node, str(refused), env)

    def _loop(self, leaving: Node, env: dict[Endpoint, Val], path: _Path, inside: _Branches) -> None:
        """Emits the loop that a node leaves; all its exits are known then."""
        from tfsmith.onnx.flow import emit_loop

        driver = self._driver
        own = self._paths[leaving.name]
        nodes = [node for node in self._order if self._paths[node.name] == own]
        enters = {node.name: node for node in nodes if node.op in ENTERS}
        try:
            outside = [self._source(node, 0) for node in enters.values()]
            self.lower(env, [one for one in outside if one not in env], path, inside)
            frame = _Frame(self._body, nodes, enters)
            fixed = dict(env)
            for node in enters.values():
                source = self._source(node, 0)
                if source not in env:
                    raise Refusal("what it takes is not there")
                fixed[Endpoint(node.name, 0)] = env[source]

            def given(carried: Sequence[Val], *, in_body: bool) -> dict[Endpoint, Val]:
                found = dict(fixed)
                for (_, merge, _), val in zip(frame.carried, carried, strict=True):
                    found[Endpoint(merge, 0)] = val
                    for switch in frame.switches.get(merge, ()) if in_body else ():
                        found[Endpoint(switch, 0)] = found[Endpoint(switch, 1)] = val
                return found

            def condition(carried: Sequence[Val]) -> Val:
                found = given(carried, in_body=False)
                self.lower(found, [frame.condition], own, inside)
                return _there(found, frame.condition)

            def body(carried: Sequence[Val]) -> list[Val]:
                found = given(carried, in_body=True)
                self.lower(found, [after for _, _, after in frame.carried], own, inside)
                return [_there(found, after) for _, _, after in frame.carried]

            initial = [fixed[Endpoint(enter, 0)] for enter, _, _ in frame.carried]
            results = emit_loop(driver, initial, condition, body, own[-1])
            for (_, merge, _), val in zip(frame.carried, results, strict=True):
                for name in frame.exits.get(merge, ()):
                    env[Endpoint(name, 0)] = val
        except Refusal as refused:
            driver.refuse(leaving, str(refused), env)


def _there(env: Mapping[Endpoint, Val], tensor: Endpoint) -> Val:
    if tensor not in env:
        raise Refusal(f"{tensor} is in a branch that its loop does not take")
    return env[tensor]


class _Frame:
    """The parts of a loop.

    Attributes:
        carried: For each tensor that it carries: its Enter, its Merge, and what it is after a step.
        switches: For each Merge the Switches that take it.
        exits: For each Merge the Exits behind these.
        condition: What decides whether there is another step.
    """

    def __init__(self, body: Body, nodes: Sequence[Node], enters: Mapping[str, Node]) -> None:
        self.carried: list[tuple[str, str, Endpoint]] = []
        self.switches: dict[str, list[str]] = {}
        self.exits: dict[str, list[str]] = {}
        merges: dict[str, str] = {}
        behind: dict[str, str] = {}
        for node in nodes:
            sources = [body.resolve(text) for text in node.inputs if not text.startswith("^")]
            if node.op in MERGES and any(body[one.node].op in NEXT_ITERATIONS for one in sources):
                before, after = sorted(sources, key=lambda one: body[one.node].op in NEXT_ITERATIONS)
                if before.node not in enters or len(sources) != 2:
                    raise Refusal("a loop begins in a way that is not known")
                self.carried.append((before.node, node.name, body.resolve(body[after.node].inputs[0])))
                merges[node.name] = node.name
        for node in nodes:
            sources = [body.resolve(text) for text in node.inputs if not text.startswith("^")]
            if node.op in SWITCHES and sources[0].node in merges:
                self.switches.setdefault(sources[0].node, []).append(node.name)
                behind[node.name] = sources[0].node
        for node in nodes:
            source = body.resolve(node.inputs[0]) if node.inputs and node.op in EXITS else None
            if source is not None:
                if source.node not in behind:
                    raise Refusal("a loop ends in a way that is not known")
                self.exits.setdefault(behind[source.node], []).append(node.name)
        conditions = [node for node in nodes if node.op in ("LoopCond", "RefLoopCond")]
        if len(conditions) != 1:
            raise Refusal("a loop has no condition")
        self.condition = body.resolve(conditions[0].inputs[0])
