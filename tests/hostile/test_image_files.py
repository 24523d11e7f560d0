"""Image files that were damaged: a decoder returns pixels or refuses in words, and nothing else."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.errors import UnsupportedError
from tfsmith.ops.samples import samples_of
from tfsmith.ops.values import OpError, compute

MUTATIONS = 60


def files() -> dict[str, bytes]:
    """The contents of the cases that decode, by their names."""
    cases = [one for op in ("DecodeImage", "DecodeJpeg", "DecodeWav") for two in samples_of(op) for one in two.cases()]
    whole = {f"{one.op}, {one.name}": bytes(one.feeds["x0"].item()) for one in cases}
    seen: dict[bytes, str] = {}
    for name, data in whole.items():
        seen.setdefault(data, name)
    return {name: data for data, name in seen.items()}


def text(data: bytes) -> NDArray[Any]:
    found = np.empty((), object)
    found[()] = data
    return found


@pytest.mark.parametrize("name", files())
def test_damaged_files(name: str) -> None:
    data = files()[name]
    chance = random.Random(name)
    op = "DecodeWav" if name.startswith("DecodeWav") else "DecodeImage"
    for _ in range(MUTATIONS):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            if not damaged:
                break
            place = chance.randrange(len(damaged))
            kind = chance.randrange(3)
            if kind == 0:
                damaged[place] = chance.randrange(256)
            elif kind == 1:
                del damaged[place : place + chance.randint(1, 9)]
            else:
                damaged[place:place] = chance.randbytes(chance.randint(1, 9))
        with contextlib.suppress(OpError, UnsupportedError):
            found = compute(op, [text(bytes(damaged))])
            assert found[0].dtype == (np.float32 if op == "DecodeWav" else np.uint8)


def test_a_header_that_promises_too_much_is_refused() -> None:
    whole = next(data for name, data in files().items() if data.startswith(b"BM"))
    huge = whole[:18] + (2**30).to_bytes(4, "little") * 2 + whole[26:]
    with pytest.raises(OpError, match="1073741824 x 1073741824 pixels cannot be decoded"):
        compute("DecodeBmp", [text(huge)])
