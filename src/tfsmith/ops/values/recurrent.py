"""Values of the recurrent blocks: LSTM and GRU cells, and whole LSTM layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.windows import require_rank, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _sigmoid(x: NDArray[Any]) -> Any:
    return x.dtype.type(1) / (x.dtype.type(1) + numpy.exp(-x))


def _product(a: NDArray[Any], b: NDArray[Any]) -> Any:
    return (wide(a) @ wide(b)).astype(a.dtype, copy=False)


class _Lstm:
    """An LSTM cell with its weights."""

    def __init__(
        self, w: NDArray[Any], peepholes: tuple[NDArray[Any], ...] | None, b: NDArray[Any], order: str,
        forget_bias: float, cell_clip: float,
    ) -> None:  # fmt: skip
        self._w, self._b = w, b
        self._peepholes = peepholes
        self._places = [order.index(letter) for letter in "icfo"]
        self._forget_bias = w.dtype.type(forget_bias)
        self._clip = w.dtype.type(cell_clip)

    def step(self, x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any]) -> tuple[Any, ...]:
        """One step: the gates and states i, cs, f, o, ci, co, h."""
        gates = _product(numpy.concatenate([x, hidden], 1), self._w) + self._b
        parts = numpy.split(gates, 4, 1)
        i, new, f, o = (parts[place] for place in self._places)
        f = f + self._forget_bias
        if self._peepholes is not None:
            i, f = i + cell * self._peepholes[0], f + cell * self._peepholes[1]
        i, f, new = _sigmoid(i), _sigmoid(f), numpy.tanh(new)
        state = new * i + f * cell
        if self._clip > 0:
            state = numpy.clip(state, -self._clip, self._clip)
        if self._peepholes is not None:
            o = o + state * self._peepholes[2]
        o = _sigmoid(o)
        out = numpy.tanh(state)
        return i, state, f, o, new, out, o * out


def _cell(
    x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any], w: NDArray[Any],
    peepholes: tuple[NDArray[Any], ...], b: NDArray[Any], order: str, forget_bias: float, cell_clip: float,
    use_peephole: bool,
) -> _Lstm:  # fmt: skip
    batch, inputs = x.shape[-2:]
    require_rank(cell, 2, "the state")
    size = cell.shape[1]
    wanted = {"the state": (cell, (batch, size)), "h": (hidden, (batch, size)), "w": (w, (inputs + size, 4 * size)),
              "b": (b, (4 * size,))}  # fmt: skip
    if use_peephole:
        wanted |= {f"peephole {number}": (one, (size,)) for number, one in enumerate(peepholes)}
    for what, (found, shape) in wanted.items():
        if found.shape != shape:
            raise OpError(f"{what} must have the shape {list(shape)}, not {list(found.shape)}")
    return _Lstm(w, peepholes if use_peephole else None, b, order, forget_bias, cell_clip)


@value("LSTMBlockCell")
def _lstm_cell(
    x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any], w: NDArray[Any], wci: NDArray[Any], wcf: NDArray[Any],
    wco: NDArray[Any], b: NDArray[Any], *, forget_bias: float, cell_clip: float, use_peephole: bool,
) -> Any:  # fmt: skip
    require_rank(x, 2, "x")
    block = _cell(x, cell, hidden, w, (wci, wcf, wco), b, "icfo", forget_bias, cell_clip, use_peephole)
    return block.step(x, cell, hidden)


@value("BlockLSTM")
def _block_lstm(
    length: NDArray[Any], x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any], w: NDArray[Any],
    wci: NDArray[Any], wcf: NDArray[Any], wco: NDArray[Any], b: NDArray[Any], *, forget_bias: float, cell_clip: float,
    use_peephole: bool,
) -> Any:  # fmt: skip
    require_rank(x, 3, "x")
    block = _cell(x, cell, hidden, w, (wci, wcf, wco), b, "icfo", forget_bias, cell_clip, use_peephole)
    return _layer(block, length, x, cell, hidden)


@value("BlockLSTMV2")
def _block_lstm_v2(
    length: NDArray[Any], x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any], w: NDArray[Any],
    wci: NDArray[Any], wcf: NDArray[Any], wco: NDArray[Any], b: NDArray[Any], *, cell_clip: float, use_peephole: bool,
) -> Any:  # fmt: skip
    require_rank(x, 3, "x")
    block = _cell(x, cell, hidden, w, (wci, wcf, wco), b, "ifco", 0, cell_clip, use_peephole)
    return _layer(block, length, x, cell, hidden)


def _layer(block: _Lstm, length: NDArray[Any], x: NDArray[Any], cell: NDArray[Any], hidden: NDArray[Any]) -> Any:
    """All steps of a sequence; those after its end are zero."""
    if length.ndim:
        raise OpError("the length must be a scalar")
    if not 0 <= length <= len(x):
        raise OpError(f"the length {length} lies outside of the {len(x)} steps")
    found = tuple(numpy.zeros((len(x), *cell.shape), x.dtype) for _ in range(7))
    for time in range(int(length)):
        step = block.step(x[time], cell, hidden)
        for whole, one in zip(found, step, strict=True):
            whole[time] = one
        cell, hidden = step[1], step[6]
    return found


@value("GRUBlockCell")
def _gru_cell(
    x: NDArray[Any], hidden: NDArray[Any], w_ru: NDArray[Any], w_c: NDArray[Any], b_ru: NDArray[Any],
    b_c: NDArray[Any],
) -> Any:  # fmt: skip
    require_rank(x, 2, "x")
    require_rank(hidden, 2, "h")
    (batch, inputs), size = x.shape, hidden.shape[1]
    for what, found, shape in (
        ("h", hidden, (batch, size)), ("w_ru", w_ru, (inputs + size, 2 * size)), ("w_c", w_c, (inputs + size, size)),
        ("b_ru", b_ru, (2 * size,)), ("b_c", b_c, (size,)),
    ):  # fmt: skip
        if found.shape != shape:
            raise OpError(f"{what} must have the shape {list(shape)}, not {list(found.shape)}")
    r, u = numpy.split(_sigmoid(numpy.concatenate([x, hidden], 1) @ w_ru + b_ru), 2, 1)
    c = numpy.tanh(numpy.concatenate([x, hidden * r], 1) @ w_c + b_c)
    return r, u, c, u * (hidden - c) + c
