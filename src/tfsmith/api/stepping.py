"""F4: A model that is run in steps, each from the values of those before it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.api.program import ModelProgram
from tfsmith.api.running import compile
from tfsmith.engines.protocol import Port, cut_graph
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.ir.shape import Shape
from tfsmith.passes.interface import output_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Side"]


class Side:
    """One of two models that are compared node by node.

    A step runs only the nodes between the tensors that are asked for and those that are known already. Of these, only
    such are kept as a later step can still need. Computed again are what follows from constants alone, and integers:
    engines want to see where shapes and axes come from.

    Attributes:
        graph: The frozen graph.
    """

    def __init__(
        self,
        program: ModelProgram,
        engine: str,
        op_libraries: Sequence[str | os.PathLike[str]],
        feeds: Mapping[str, NDArray[Any]],
    ) -> None:
        self.graph: Graph = program.frozen.model.graph
        self._path = program.path
        self._engine = engine
        self._op_libraries = op_libraries
        ports = {
            key: program.inputs[key] for key in feeds if parse_input(program.inputs[key].tensor).node in self.graph
        }
        self._known = {port.tensor: (port, feeds[key]) for key, port in ports.items()}
        self._moving = _reached(self.graph, [parse_input(tensor).node for tensor in self._known])
        self._done: set[str] = set()
        self._last: dict[str, NDArray[Any]] = {}

    def ask(self, tensors: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Computes these tensors, unless the last step gave them. The engine lives no longer than this.

        Raises:
            TfsmithError: They cannot be computed.
        """
        if all(name in self._last for name in tensors):
            return {name: self._last[name] for name in tensors}
        ports = {name: port for name, (port, _) in self._known.items()}
        flat = cut_graph(self.graph, ports, {name: name for name in tensors})
        model = Model("graphdef", (MetaGraph(graph_part=Part.of(flat.graph)),), path=self._path)
        with compile(model, tensors, engine=self._engine, op_libraries=self._op_libraries) as runner:
            keys = {port.tensor: key for key, port in runner.inputs.items()}
            feeds = {keys[name]: self._known[key][1] for key, name in flat.inputs.items() if name in keys}
            self._last = runner.run(feeds, warn=False)
        return self._last

    def keep(self, values: Mapping[str, NDArray[Any]], nodes: Iterable[str]) -> None:
        """Takes note of the values of all tensors of these nodes; those that no later step needs are let go."""
        self._done.update(nodes)
        for name, value in values.items():
            tensor = parse_input(name)
            kind = output_type(self.graph, self.graph[tensor.node], tensor.output)
            if kind is None or "int" in kind.base.name:
                self._done.discard(tensor.node)  # what it takes stays
            elif tensor.node in self._moving:
                self._known[name] = (Port(name, kind.base, Shape(value.shape)), value)
        self._known = {name: found for name, found in self._known.items() if self._is_needed(name)}

    def _is_needed(self, name: str) -> bool:
        tensor = parse_input(name)
        return any(use.node.name not in self._done for use in self.graph.consumers(tensor.node, tensor.output))


def _reached(graph: Graph, names: Iterable[str]) -> set[str]:
    """The names of all nodes that these lead to, themselves included."""
    todo = list(names)
    seen = set(todo)
    while todo:
        for use in graph.uses[todo.pop()]:
            if use.node.name not in seen:
                seen.add(use.node.name)
                todo.append(use.node.name)
    return seen
