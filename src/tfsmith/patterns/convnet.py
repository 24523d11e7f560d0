"""Convolutional nets by what they compute: convolutions, blocks that are added to their input, pooling, classifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tfsmith.ir.body import Body
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ops import ADDS, BATCH_NORMS, BESIDE_CONVOLUTIONS, CONVOLUTIONS, POOLS
from tfsmith.ops.inference import Inference
from tfsmith.patterns.flow import DenseEnd, Flow
from tfsmith.records import record

__all__ = ["Convolution", "ConvNet", "find_convnet"]

_FAR = 60
_MANY = 3


@record
class Convolution:
    """A convolution: its node, its kind ("plain", "grouped", "depthwise" or "transposed"), the sizes of its kernel."""

    node: str
    kind: str
    kernel: tuple[int, ...]

    @property
    def size(self) -> str:
        """The sizes of the kernel in words, such as "3x3"."""
        return "x".join(map(str, self.kernel))


@record
class ConvNet:
    """A convolutional net.

    Attributes:
        convolutions: All of them, in the file's order.
        separable: How many depthwise convolutions a 1x1 convolution follows.
        batch_norms: How many batch norms there are; those that are folded into kernels are not.
        residual: How many blocks are added to what they were given.
        pooling: "average" or "max", if all of an image is pooled at the end; else "".
        ends: The last dense layers.
    """

    convolutions: tuple[Convolution, ...]
    separable: int
    batch_norms: int
    residual: int
    pooling: str
    ends: tuple[DenseEnd, ...]

    @property
    def family(self) -> str | None:
        """The published family that it is like: "MobileNet" or "ResNet"; None for any other."""
        depthwise = sum(one.kind == "depthwise" for one in self.convolutions)
        if depthwise >= _MANY and self.separable == depthwise:
            return "MobileNet"
        return "ResNet" if not depthwise and self.residual >= _MANY else None

    def __str__(self) -> str:
        count = len(self.convolutions)
        sizes = Counter(one.size for one in self.convolutions)
        listed = [size if number == 1 else f"{size} x{number}" for size, number in sizes.most_common(_MANY)]
        listed += ["..."] if len(sizes) > _MANY else []
        likeness = {"MobileNet": " (depthwise separable, like MobileNet)", "ResNet": " (residual, like ResNet)"}
        parts = [f"convolutional net{likeness.get(self.family or '', '')}"]
        parts.append(f"{count} convolution{'s' * (count != 1)} ({', '.join(listed)})")
        kinds = Counter(one.kind for one in self.convolutions)
        parts += [f"{kinds[kind]} {kind}" for kind in ("depthwise", "grouped", "transposed") if kinds[kind]]
        parts += [_counted(self.batch_norms, "batch norm")] if self.batch_norms else []
        parts += [_counted(self.residual, "residual block")] if self.residual else []
        parts += [f"global {self.pooling} pooling"] if self.pooling else []
        return ", ".join([*parts, *map(str, self.ends)])

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        kinds = Counter(one.kind for one in self.convolutions)
        return {
            "kind": "convolutional net",
            "family": self.family,
            "convolutions": len(self.convolutions),
            "kernels": dict(Counter(one.size for one in self.convolutions).most_common()),
            **{kind: kinds[kind] for kind in ("depthwise", "grouped", "transposed")},
            "separable": self.separable,
            "batch_norms": self.batch_norms,
            "residual_blocks": self.residual,
            "global_pooling": self.pooling or None,
            "outputs_of": [{"size": end.size, "activation": end.activation or None} for end in self.ends],
        }


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def find_convnet(body: Body, inference: Inference) -> ConvNet | None:
    """The convolutional net that a body is; None if it has no convolution that looks at more than one place."""
    if not any(node.op in CONVOLUTIONS for node in body):
        return None
    flow = Flow(body, inference)
    found = {one.node: one for node in body if (one := _convolution(flow, node)) is not None}
    if not any(max(one.kernel) > 1 for one in found.values()):
        return None
    features = flow.behind(lambda node: node.name in found)
    look = _Net(flow, found, features)
    return ConvNet(
        tuple(found.values()),
        sum(look.is_separable(one) for one in found.values()),
        sum(look.is_batch_norm(node) for node in body),
        sum(look.is_residual(node) for node in body),
        next(look.pools(), ""),
        look.ends(),
    )


def _convolution(flow: Flow, node: Node) -> Convolution | None:
    """A node as a convolution with a weight."""
    if node.op not in CONVOLUTIONS or not flow.takes_weight(node, 1):
        return None
    kind, rank = CONVOLUTIONS[node.op]
    sizes = flow.input_sizes(node, 1)
    if sizes is None or len(sizes) != rank + 2:
        return None
    kernel = [size for size in sizes[:rank] if isinstance(size, int)]
    if len(kernel) != rank:
        return None
    source = flow.node(flow.body.resolve(node.data_inputs[1]))
    if rank == 2 and kernel[0] == 1 and source is not None and source.op == "ExpandDims":
        kernel = kernel[1:]  # one axis only
    given, taken = _channels(flow, node), sizes[rank]
    if kind == "plain" and isinstance(given, int) and isinstance(taken, int) and 0 < taken < given:
        kind = "grouped"
    return Convolution(node.name, kind, tuple(kernel))


def _channels(flow: Flow, node: Node) -> object:
    sizes = flow.input_sizes(node, 0)
    if not sizes:
        return None
    return sizes[1] if node.get("data_format", b"NHWC").startswith(b"NC") else sizes[-1]


class _Net:
    """Looks at what is around the convolutions of a body."""

    def __init__(self, flow: Flow, convolutions: Mapping[str, Convolution], features: set[str]) -> None:
        self._flow = flow
        self._convolutions = convolutions
        self._features = features

    def is_separable(self, one: Convolution) -> bool:
        """Whether a convolution is depthwise and the next ones look at one place only."""
        if one.kind != "depthwise":
            return False
        todo, seen = [one.node], set[str]()
        while todo and len(seen) < _FAR:
            name = todo.pop()
            seen.add(name)
            for use in self._flow.body.consumers(name):
                found = self._convolutions.get(use.node.name)
                if found is not None:
                    return found.kind == "plain" and max(found.kernel) == 1
                if use.node.name not in seen and use.node.op in BESIDE_CONVOLUTIONS:
                    todo.append(use.node.name)
        return False

    def is_batch_norm(self, node: Node) -> bool:
        """Whether a node is a batch norm of features; of one that is spelled out, its Rsqrt of a stored variance."""
        if node.op in BATCH_NORMS:
            return node.name in self._features
        if node.op != "Rsqrt" or node.name in self._features:
            return False
        (source,) = self._flow.inputs(node)[:1] or (None,)
        return (
            source is not None
            and source.op in ADDS
            and self._flow.takes_weight(source, 0)
            and any(use.node.op == "Mul" for use in self._flow.body.consumers(node.name))
        )

    def is_residual(self, node: Node) -> bool:
        """Whether a node adds what a block gives to what it was given, which at most one convolution fits to it."""
        if node.op not in ADDS | {"AddN"} or len(node.data_inputs) != 2:
            return False
        chains = [self._chain(node, number) for number in range(2)]
        if not all(chains):
            return False
        for one, other in (chains, chains[::-1]):
            places = {name: at for at, name in enumerate(other)}
            met = next((at for at, name in enumerate(one) if name in places), None)
            if met is None:
                continue
            inside = sum(name in self._convolutions for name in one[:met])
            bypass = sum(name in self._convolutions for name in other[: places[one[met]]])
            if inside > bypass and bypass <= 1:
                return True
        return False

    def _chain(self, node: Node, number: int) -> list[str]:
        """The features that lead to an input, back to where several come together."""
        body = self._flow.body
        tensor = body.resolve(node.data_inputs[number])
        found: list[str] = [] if tensor.node in self._features else [tensor.node]
        while tensor.node in self._features and len(found) < _FAR:
            found.append(tensor.node)
            inner = body[tensor.node]
            sources = [body.resolve(text) for text in inner.data_inputs]
            if inner.op == "IdentityN":
                sources = sources[tensor.output : tensor.output + 1]
            led = {source for source in sources if source.node in self._features}
            if not led and sources:
                found.append(sources[0].node)  # before any convolution
            source = self._gated(led) if inner.op == "Mul" and len(led) > 1 else next(iter(led), None)
            if source is None or (len(led) > 1 and inner.op != "Mul"):
                break
            tensor = source
        return found

    def _gated(self, sources: set[Endpoint]) -> Endpoint | None:
        """Of a product of features with what is made of them, such as x * sigmoid(x) or weights of channels: x."""
        for source in sources:
            others = [one.node for one in sources if one != source]
            if all(any(one.name == source.node for one in self._flow.before([name], _FAR)) for name in others):
                return source
        return None

    def pools(self) -> Iterator[str]:
        """How all places of features are pooled; the last way first."""
        for node in reversed(self._flow.body.nodes):
            is_pool = node.op in POOLS and node.name in self._features
            if is_pool and self._is_global(node) and not self._is_gate(node):
                yield POOLS[node.op]

    def _is_global(self, node: Node) -> bool:
        sizes = self._flow.input_sizes(node, 0)
        if sizes is None or len(sizes) not in (3, 4, 5):
            return False
        inner = set(range(1, len(sizes) - 1))
        if node.op in ("Mean", "Max"):
            axes = self._flow.integers(node, 1)
            found = {axis % len(sizes) for axis in axes or ()}
            return found in (inner, {axis + 1 for axis in inner})
        window = tuple(node.get("ksize", ()))
        places = sizes[2:] if node.get("data_format", b"NHWC").startswith(b"NC") else sizes[1:-1]
        given = window[2:] if node.get("data_format", b"NHWC").startswith(b"NC") else window[1:-1]
        return all(isinstance(size, int) for size in places) and given == tuple(places) and given != (1, 1)

    def _is_gate(self, node: Node) -> bool:
        """Whether what is pooled only weighs the channels of features: a sigmoid of it is multiplied with them."""
        todo, seen = [node.name], set[str]()
        while todo and len(seen) < _FAR:
            name = todo.pop()
            seen.add(name)
            for use in self._flow.body.consumers(name):
                if use.node.op == "Mul" and self._flow.sizes(use.node) == self._flow.input_sizes(node, 0):
                    return True
                is_near = use.node.op in BESIDE_CONVOLUTIONS or use.node.op in CONVOLUTIONS or use.node.op == "MatMul"
                if is_near and use.node.name not in seen:
                    todo.append(use.node.name)
        return False

    def ends(self) -> tuple[DenseEnd, ...]:
        """The last dense layers; a convolution of one place is one behind global pooling."""
        found = self._flow.dense_ends(self._features)
        if found:
            return found
        for name in reversed(list(self._convolutions)):
            node = self._flow.body[name]
            sizes = self._flow.sizes(node)
            is_nchw = node.get("data_format", b"NHWC").startswith(b"NC")
            places = () if sizes is None else sizes[2:] if is_nchw else sizes[1:-1]
            kernel = self._flow.input_sizes(node, 1)
            if places and all(size == 1 for size in places) and kernel is not None and isinstance(kernel[-1], int):
                return (DenseEnd(name, kernel[-1], self._flow.activation(node)),)
        return ()
