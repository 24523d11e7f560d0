"""What is around a stack of transformer layers: tables of words, positions and types before it, heads behind it.

All of it is found by what is computed. A part whose computation is not known is left out, never guessed by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfsmith.ir.node import Endpoint, Node, parse_input
from tfsmith.ops import BIASES, COUNTS, FILLS, GATHERS, MOVES, PASSES_ON, PLACEHOLDERS, PRODUCTS, SLICES, SPLITS
from tfsmith.ops.inference import Inference
from tfsmith.patterns.algebra import Atom, Value
from tfsmith.patterns.architecture import Stack, find_stacks
from tfsmith.patterns.causal import is_causal
from tfsmith.patterns.flow import weight_node
from tfsmith.patterns.formula import Activation, Bound, Dense, Formula, Found, Kernel, LayerNorm, Norm, Search, Var
from tfsmith.patterns.parts import cuts_of
from tfsmith.patterns.raised import Raised
from tfsmith.records import record

__all__ = ["Head", "Table", "TextModel", "find_text_models"]

_PARTS = PASSES_ON | SLICES | GATHERS | {"Squeeze", "Reshape"}
"""What takes the first word out of a sequence is made of these."""
_FAR = 50
"""So many nodes are followed."""


@record
class Table:
    """A table that an embedding is looked up in.

    Attributes:
        kind: "words", "positions" or "types".
        weight: The tensor that it is; the variable's handle where that is looked up in.
        rows: How many there are; None if that is not known.
        is_plain: For positions, whether row n belongs to word n; for others whether the model's input chooses rows.
    """

    kind: str
    weight: Endpoint
    rows: int | None
    is_plain: bool


@record
class Head:
    """What is made of the encoded words.

    Attributes:
        kind: "classifier" (of a sequence), "word classifier", "answer span" or "language model".
        size: How many values it gives.
        kernel: Its last product; None for a language model, which uses the table of words.
        before: Products before it, without the pooler: each with its activation.
        norm: The layer norm before the words of a language model.
        bias: What is added to the words of a language model.
        is_first: Whether it is of the first word alone.
    """

    kind: str
    size: int | None
    kernel: Kernel | None
    before: tuple[tuple[Kernel, str], ...] = ()
    norm: Norm | None = None
    bias: Endpoint | None = None
    is_first: bool = False

    def __str__(self) -> str:
        if self.kind == "language model":
            return "language model head"
        if self.kind == "answer span":
            return "answer span"
        return self.kind if self.size is None else f"{self.kind} of {self.size}"


@record
class TextModel:
    """A stack and what is around it; each part may not be there.

    Attributes:
        stack: The layers.
        tables: The embeddings that are added up.
        norm: The layer norm of the embeddings.
        projection: What makes them as wide as the layers are.
        pooler: The product of the first word, whose tanh is what classifiers take.
        heads: What is made of it.
        is_causal: Whether no word sees those behind it.
        is_shared: Whether all layers have the same weights.
    """

    stack: Stack
    tables: tuple[Table, ...]
    norm: Norm | None
    projection: Kernel | None
    pooler: Kernel | None
    heads: tuple[Head, ...]
    is_causal: bool = False
    is_shared: bool = False

    def table(self, kind: str) -> Table | None:
        """The table of a kind."""
        return next((one for one in self.tables if one.kind == kind), None)

    @property
    def family(self) -> str | None:
        """The published family that it computes as: "BERT", "RoBERTa" or "ALBERT"; None where several do, or none."""
        kinds = {one.kind: one.is_plain for one in self.tables}
        if self.stack.kind != "encoder" or self.norm is None or self.is_causal or "positions" not in kinds:
            return None
        if self.is_shared:
            return "ALBERT"
        if self.projection is not None or "words" not in kinds or "types" not in kinds:
            return None
        return "BERT" if kinds["positions"] else "RoBERTa"

    def __str__(self) -> str:
        text = str(self.stack)
        if self.family is not None:
            text = f"{self.family} {text}"
        elif self.is_causal:
            what = "decoder" if self.stack.kind == "encoder" else "pre-norm decoder"
            text = text.replace(self.stack.kind, what, 1)
        words = {"words": "vocabulary {}", "positions": "{} positions", "types": "{} types"}
        tables = [words[one.kind].format(one.rows) for one in self.tables if one.rows is not None]
        parts = [text, *([", ".join(tables)] if tables else [])]
        parts += ["pooler"] if self.pooler is not None else []
        return "; ".join([*parts, *map(str, self.heads)])

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        first = self.stack.layers[0]
        return {
            "kind": self.stack.kind,
            "family": self.family,
            "layers": len(self.stack.layers),
            "hidden": first.kernel("output").width,
            "heads": first.heads.number,
            "intermediate": first.kernel("inner").width,
            "activation": str(first.found["activation"]),
            "epsilon": first.norm("norm1").epsilon,
            "causal": self.is_causal,
            "embeddings": {one.kind: one.rows for one in self.tables},
            "pooler": self.pooler is not None,
            "outputs_of": [{"kind": head.kind, "size": head.size} for head in self.heads],
            "outputs": [layer.output.node for layer in self.stack.layers],
        }


def find_text_models(raised: Raised, inference: Inference) -> tuple[TextModel, ...]:
    """The stacks of layers in a raised graph, each with what is around it."""
    stacks = find_stacks(raised)
    if not stacks:
        return ()
    around = _Around(raised, inference)
    return tuple(around.model(stack) for stack in stacks)


@record
class _Product:
    """A product with a weight somewhere in the graph, with its activation, and the class of what it is of."""

    kernel: Kernel
    x: int
    activation: str
    number: int
    tensor: Endpoint


class _Around:
    """Finds what is around stacks, in one body."""

    def __init__(self, raised: Raised, inference: Inference) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._body = raised.body
        self._inference = inference
        self._search = Search(raised)
        self._products: list[_Product] = []
        self._norms: dict[int, list[tuple[Norm, int]]] = {}
        self._classes: dict[Endpoint, int] = {}
        self._collect()

    def _collect(self) -> None:
        """Notes down every product with a weight and every layer norm, by what it is of."""
        seen: set[Value] = set()
        for tensor, reading in self._raised:
            self._classes[tensor] = self._algebra.intern(reading.value)[0]
            if reading.value in seen:
                continue
            seen.add(reading.value)
            kinds = {self._algebra.head(atom)[0] for product, _ in reading.value for atom, _ in product}
            if "norm" in kinds:
                for found in self._all(LayerNorm(Var("x"), "norm"), reading.value):
                    norm, x = found["norm"], found["x"]
                    if isinstance(norm, Norm) and isinstance(x, Bound):
                        self._norms.setdefault(x.number, []).append((norm, self._classes[tensor]))
            if "contract" in kinds:
                self._add(Dense(Var("x"), "kernel"), reading.value, tensor)
            if len(reading.value) == 1 and kinds & {"gelu", "relu", "tanh", "sigmoid", "elu", "selu", "softplus"}:
                self._add(Activation(Dense(Var("x"), "kernel"), "activation"), reading.value, tensor)

    def _all(self, formula: Formula, value: Value) -> Iterator[Found]:
        return self._search.match(formula, value, {})

    def _add(self, formula: Formula, value: Value, tensor: Endpoint) -> None:
        for found in self._all(formula, value):
            kernel, x = found["kernel"], found["x"]
            if isinstance(kernel, Kernel) and isinstance(x, Bound):
                activation = str(found.get("activation", ""))
                self._products.append(_Product(kernel, x.number, activation, self._classes[tensor], tensor))
                return

    def model(self, stack: Stack) -> TextModel:
        """A stack with what is around it."""
        tables, norm, projection = self._embedding(stack)
        last = self._classes[stack.layers[-1].output]
        encoded = {last} | {number for _, number in self._norms.get(last, ())}
        pooler, heads = self._heads(encoded, tables)
        queries = [cuts_of(self._algebra, layer.kernel("query").kernel)[0] for layer in stack.layers]
        nodes = [weight_node(self._body, parse_input(one)) for one in queries if one is not None]
        stored = {node.name for node in nodes if node is not None}
        is_shared = len(stored) == 1 < len(stack.layers)
        causal = is_causal(self._raised, stack.layers[0].heads)
        return TextModel(stack, tables, norm, projection, pooler, heads, causal, is_shared)

    # before the layers

    def _embedding(self, stack: Stack) -> tuple[tuple[Table, ...], Norm | None, Kernel | None]:
        """The tables, the norm and the projection of what the first layer takes."""
        x = stack.layers[0].x
        value = self._algebra.value_of(x.number, x.axes)
        projection = norm = None
        for found in self._all(Dense(Var("x"), "kernel"), value):
            kernel, inner = found["kernel"], found["x"]
            if isinstance(kernel, Kernel) and isinstance(inner, Bound) and len(value) <= 2:
                projection, value = kernel, self._algebra.value_of(inner.number, inner.axes)
                break
        for found in self._all(LayerNorm(Var("x"), "norm"), value):
            known, inner = found["norm"], found["x"]
            if isinstance(known, Norm) and isinstance(inner, Bound):
                norm, value = known, self._algebra.value_of(inner.number, inner.axes)
                break
        found_tables = [table for item in value if (table := self._looked_up(item)) is not None]
        if len(found_tables) != len(value):
            return (), norm, projection  # part of it is not known: nothing is said of the rest
        return _sorted_tables(found_tables), norm, projection

    def _looked_up(self, term: tuple[Any, float]) -> Table | None:
        """A term of the embeddings as rows of a table."""
        for found in self._all(Dense(Var("x"), "kernel"), (term,)):  # a product with numbers that are one-hot
            kernel, x = found["kernel"], found["x"]
            if isinstance(kernel, Kernel) and isinstance(x, Bound):
                hot = self._tensor(self._algebra.value_of(x.number, x.axes))
                node = None if hot is None else self._behind(hot, MOVES)
                weight = self._endpoint(kernel.kernel)
                if node is not None and node.op == "OneHot" and weight is not None:
                    return self._table(weight, self._body.resolve(node.data_inputs[0]))
        part = self._first_rows((term,))
        if part is not None:
            return part
        tensor = self._tensor((term,))
        node = None if tensor is None else self._behind(tensor, MOVES)
        if node is None or tensor is None:
            return None
        if node.op in GATHERS:
            inputs = [self._body.resolve(text) for text in node.data_inputs]
            return self._table(inputs[0], inputs[1])
        if node.op in SLICES:
            begin = self._inference.integers(self._body, self._body.resolve(node.data_inputs[1]))
            weight = self._body.resolve(node.data_inputs[0])
            is_plain = begin is not None and not any(begin)
            return Table("positions", weight, self._rows(weight), is_plain) if self._is_weight(weight) else None
        if self._is_weight(tensor):
            return Table("positions", tensor, self._rows(tensor), is_plain=True)
        return None

    def _first_rows(self, value: Value) -> Table | None:
        """The rows of a table that belong to as many positions."""
        if len(value) != 1 or len(value[0][0]) != 1 or value[0][0][0][1] != 1 or value[0][1] != 1:
            return None
        name, cuts = cuts_of(self._algebra, value[0][0][0][0])
        weight = None if name is None else parse_input(name)
        if weight is None or not cuts or not self._is_weight(weight):
            return None
        return Table("positions", weight, self._rows(weight), not any(cut.start for cut in cuts))

    def _table(self, weight: Endpoint, ids: Endpoint) -> Table | None:
        """A table of which numbers choose rows; its kind by where these come from."""
        if not self._is_weight(weight):
            return None
        source = self._origin_of(ids)
        kind = {"range": "positions", "count": "positions", "constant": "types"}.get(source, "words")
        return Table(kind, weight, self._rows(weight), source in ("range", "input"))

    def _is_weight(self, tensor: Endpoint) -> bool:
        return weight_node(self._body, tensor) is not None

    def _rows(self, weight: Endpoint) -> int | None:
        known = self._inference.known(self._body, weight)
        sizes = known.held if known.held is not None else known.dims
        wide = [size for size in sizes or () if size != 1]
        first = wide[0] if len(wide) == 2 else None
        return first if isinstance(first, int) else None

    def _origin_of(self, ids: Endpoint) -> str:
        """Where numbers of rows come from: "input", "range" (from zero), "constant", "count" or "other"."""
        node = self._behind(ids, MOVES)
        if node is None or node.op in PLACEHOLDERS:
            return "input"
        if node.op == "Range":
            start, step = (
                self._inference.integers(self._body, self._body.resolve(node.data_inputs[at])) for at in (0, 2)
            )
            return "range" if start == (0,) and step == (1,) else "count"
        if node.op == "Const":
            numbers = self._inference.integers(self._body, Endpoint(node.name, 0))
            is_range = numbers is not None and len(numbers) > 1 and numbers == tuple(range(len(numbers)))
            return "range" if is_range else "constant"
        if node.op in FILLS:
            return "constant"
        if node.op in SLICES:
            return self._origin_of(self._body.resolve(node.data_inputs[0]))
        return "count" if self._counts(node) else "other"

    def _counts(self, node: Node) -> bool:
        """Whether numbers are made by counting: a Range or Cumsum is behind them."""
        todo, seen = [node], {node.name}
        while todo and len(seen) < _FAR:
            one = todo.pop()
            if one.op in COUNTS:
                return True
            for text in one.data_inputs:
                found = self._body.by_name.get(self._body.resolve(text).node)
                if found is not None and found.name not in seen:
                    seen.add(found.name)
                    todo.append(found)
        return False

    def _behind(self, tensor: Endpoint, through: Any) -> Node | None:
        """The node that a tensor comes from, behind others that only move it; None for an argument."""
        for _ in range(_FAR):
            node = self._body.by_name.get(tensor.node)
            if node is None or node.op not in through or not node.data_inputs:
                return node
            tensor = self._body.resolve(node.data_inputs[0])
        return None

    def _tensor(self, value: Value) -> Endpoint | None:
        """The tensor that a value is, as a leaf of the graph."""
        if len(value) != 1 or len(value[0][0]) != 1 or value[0][0][0][1] != 1 or value[0][1] != 1:
            return None
        return self._endpoint(value[0][0][0][0])

    def _endpoint(self, atom: Atom) -> Endpoint | None:
        head = self._algebra.head(atom)
        if head[0] != "tensor":
            return None
        name, _, output = str(head[1]).rpartition(":")
        return Endpoint(name, int(output))

    # behind the layers

    def _heads(self, encoded: set[int], tables: Sequence[Table]) -> tuple[Kernel | None, tuple[Head, ...]]:
        """The pooler and the heads that take what the layers give."""
        by_input: dict[int, list[_Product]] = {}
        for product in self._products:
            by_input.setdefault(product.x, []).append(product)
        first = {number for number in by_input if self._is_first_word(number, encoded)}
        heads: list[Head] = []
        pooler = None
        for product in _last_spelling(one for number in first for one in by_input[number]):
            if product.activation == "tanh" and pooler is None:
                pooler = product.kernel
                heads += self._classifiers(product, by_input, ())
            elif product.activation:
                heads += self._classifiers(product, by_input, ((product.kernel, product.activation),))
            else:
                heads.append(Head("classifier", product.kernel.width, product.kernel, is_first=True))
        words = {one.weight for one in tables if one.kind == "words"}
        whole = _last_spelling(one for number in encoded for one in by_input.get(number, ()))
        for product in whole:
            head = self._of_words(product, by_input, words)
            if head is not None:
                heads.append(head)
        return pooler, tuple(heads)

    def _is_first_word(self, number: int, encoded: set[int]) -> bool:
        """Whether a class is a part of what the layers give, such as its first word."""
        sizes = self._algebra.class_sizes(number)
        value = self._algebra.value_of(number, tuple((-1 - at,) for at in range(len(sizes))))
        tensor = self._tensor(value)
        for _ in range(_FAR):
            node = None if tensor is None else self._body.by_name.get(tensor.node)
            if tensor is None or node is None or node.op not in _PARTS or not node.data_inputs:
                return False
            if node.op not in PASSES_ON and not self._is_at_start(node):
                return False
            tensor = self._body.resolve(node.data_inputs[0])
            if self._classes.get(tensor) in encoded:
                return True
        return False

    def _is_at_start(self, node: Node) -> bool:
        """Whether a slice begins at zero, or a lookup is of row zero."""
        if node.op in ("Squeeze", "Reshape"):
            return True
        numbers = self._inference.integers(self._body, self._body.resolve(node.data_inputs[1]))
        return numbers is not None and not any(numbers)

    def _classifiers(
        self, product: _Product, by_input: Mapping[int, list[_Product]], before: tuple[tuple[Kernel, str], ...]
    ) -> Iterator[Head]:
        """The products of what a product gives."""
        for last in _last_spelling(by_input.get(product.number, ())):
            yield Head("classifier", last.kernel.width, last.kernel, before, is_first=True)

    def _of_words(self, product: _Product, by_input: Mapping[int, list[_Product]], words: set[Endpoint]) -> Head | None:
        """A head that is of every word."""
        weight = self._endpoint(product.kernel.kernel)
        if weight is not None and self._same_weight(weight, words):
            return Head("language model", product.kernel.width, None, bias=self._added(product))
        if product.activation:
            for norm, number in self._norms.get(product.number, ()):
                for last in _last_spelling(by_input.get(number, ())):
                    weight = self._endpoint(last.kernel.kernel)
                    if weight is not None and self._same_weight(weight, words):
                        before = ((product.kernel, product.activation),)
                        return Head("language model", last.kernel.width, None, before, norm, self._added(last))
            for last in _last_spelling(by_input.get(product.number, ())):
                before = ((product.kernel, product.activation),)
                return Head("word classifier", last.kernel.width, last.kernel, before)
            return None
        if product.kernel.width == 2 and self._leads_to(product, SPLITS):  # the begin and the end go apart
            return Head("answer span", 2, product.kernel)
        if self._leads_to(product, PRODUCTS):  # keys and values of a decoder
            return None
        return Head("word classifier", product.kernel.width, product.kernel)

    def _same_weight(self, weight: Endpoint, words: set[Endpoint]) -> bool:
        node = weight_node(self._body, weight)
        return node is not None and any(node is weight_node(self._body, other) for other in words)

    def _added(self, product: _Product) -> Endpoint | None:
        """The bias of a product, also behind a reshape to sizes that are not known."""
        if product.kernel.bias is not None:
            return self._endpoint(product.kernel.bias)
        name = product.tensor.node
        for _ in range(_FAR):
            users = self._body.consumers(name)
            if len(users) != 1:
                return None
            node = users[0].node
            if node.op in BIASES:
                other = self._body.resolve(node.data_inputs[1 - users[0].input])
                sizes = self._raised.sizes(other)
                return other if self._is_weight(other) and sizes == (product.kernel.width,) else None
            if node.op not in MOVES:
                return None
            name = node.name
        return None

    def _leads_to(self, product: _Product, ops: Collection[str]) -> bool:
        """Whether what a product gives, only moved and with its bias, is taken by one of these ops."""
        todo, seen = [product.tensor.node], set[str]()
        while todo and len(seen) < _FAR:
            name = todo.pop()
            seen.add(name)
            for use in self._body.consumers(name):
                if use.node.op in ops:
                    return True
                if use.node.op in MOVES | BIASES | {"Transpose"} and use.node.name not in seen:
                    todo.append(use.node.name)
        return False


def _last_spelling(products: Any) -> Iterator[_Product]:
    """Of each weight the most of it: with its bias and its activation, where there are."""
    best: dict[int, _Product] = {}
    for product in products:
        number = product.kernel.kernel[0]
        if number not in best or _rank(product) > _rank(best[number]):
            best[number] = product
    yield from best.values()


def _rank(product: _Product) -> tuple[bool, bool]:
    return bool(product.activation), product.kernel.bias is not None


def _sorted_tables(tables: Sequence[Table]) -> tuple[Table, ...]:
    """Of several tables that inputs choose from, the largest has the words and the others the types."""
    of_words = [one for one in tables if one.kind == "words"]
    largest = max(of_words, key=lambda one: one.rows or 0, default=None)
    found = [
        Table("types", one.weight, one.rows, one.is_plain) if one.kind == "words" and one is not largest else one
        for one in tables
    ]
    order = ("words", "positions", "types")
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))
