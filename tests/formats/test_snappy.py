from __future__ import annotations

import pytest
from tests.support.table_files import snappy_compress

from tfsmith.errors import CorruptFileError
from tfsmith.formats.checkpoint.table import decompress


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x09\x08abc\x05\x03\x00d", b"abcabcabd"),  # a copy of five that overlaps its source, then a literal
        (b"\x05\x00a\x01\x01", b"aaaaa"),  # a run of one byte
        (b"\x07\x08abc\x0e\x03\x00", b"abcabca"),  # an offset of two bytes
        (b"\x07\x08abc\x0f\x03\x00\x00\x00", b"abcabca"),  # an offset of four bytes
        (b"\x3d\xf0\x3c" + b"x" * 61, b"x" * 61),  # a length in one byte
        (b"\xac\x02\xf4\x2b\x01" + b"x" * 300, b"x" * 300),  # a length in two
    ],
)
def test_decompresses_each_kind_of_element(packed: bytes, plain: bytes) -> None:
    assert decompress(packed) == plain


def test_copies_with_an_offset_of_eleven_bits_reach_far_back() -> None:
    start = bytes(range(256)) * 8
    packed = snappy_compress(start + start[:11])
    assert decompress(packed) == start + start[:11]
    assert len(packed) < len(start)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (b"", "size"),
        (b"\x80\x80\x80\x80\x80\x01", "size"),
        (b"\xff\xff\xff\xff\x7f", "size"),
        (b"\xff\xff\xff\xff\x0f\x00a", "claim"),
        (b"\x03\x08ab", "cut off"),
        (b"\x03\xf0", "cut off"),
        (b"\x04\x00a\x01", "cut off"),
        (b"\x04\x01\x01", "before the block"),
        (b"\x05\x00a\x01\x02", "before the block"),
        (b"\x05\x00a\x01\x00", "before the block"),
        (b"\x02\x08abc", "more than"),
        (b"\x04\x08abc", "claims 4"),
    ],
)
def test_refuses_damage(packed: bytes, reason: str) -> None:
    with pytest.raises(CorruptFileError, match=reason) as caught:
        decompress(packed, path="x.index", offset=7)
    assert caught.value.path == "x.index"
    assert caught.value.offset == 7
    assert caught.value.remedy


def test_a_bomb_is_refused_by_its_claim_before_it_is_filled() -> None:
    bomb = b"\x80\x80\x80\x80\x01" + b"\x00a" + b"\xfe\x01\x00" * 100  # claims 256 MB in 300 bytes
    with pytest.raises(CorruptFileError, match="claim"):
        decompress(bomb)
