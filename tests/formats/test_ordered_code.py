from __future__ import annotations

import pytest

from tfsmith.errors import CorruptFileError
from tfsmith.formats.checkpoint import is_slice_key
from tfsmith.formats.checkpoint import slices as ordered_code
from tfsmith.formats.checkpoint.slices import FULL_EXTENT, decode_slice_key, encode_slice_key


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, "00"), (1, "0101"), (255, "01ff"), (256, "020100"), ((1 << 64) - 1, "08ffffffffffffffff")],
)
def test_numbers(value: int, code: str) -> None:
    assert ordered_code.write_num(value).hex() == code
    assert ordered_code.read_num(bytes.fromhex(code)) == (value, len(code) // 2)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "80"),
        (63, "bf"),
        (64, "c040"),
        (-1, "7f"),
        (-64, "40"),
        (-65, "3fbf"),
        (-0x800, "3800"),
        (0x424242, "f0424242"),
        ((1 << 63) - 1, "ffc07fffffffffffffff"),
        (-(1 << 63), "003f8000000000000000"),
        ((1 << 62) - 1, "ffbfffffffffffffff"),
        (1 << 55, "ff8080000000000000"),
    ],
)
def test_signed_numbers(value: int, code: str) -> None:
    assert ordered_code.write_signed(value).hex() == code
    assert ordered_code.read_signed(bytes.fromhex(code)) == (value, len(code) // 2)


@pytest.mark.parametrize(
    ("value", "code"), [(b"", "0001"), (b"foo", "666f6f0001"), (b"\x00\x13\xff", "00ff13ff000001")]
)
def test_strings(value: bytes, code: str) -> None:
    assert ordered_code.write_string(value).hex() == code
    assert ordered_code.read_string(bytes.fromhex(code)) == (value, len(code) // 2)


@pytest.mark.parametrize(
    ("name", "extents", "key"),
    [
        ("a", (), b"\x00a\x00\x01\x00"),
        ("x", (FULL_EXTENT,), b"\x00x\x00\x01\x01\x01\x80\x7f"),
        ("i", (FULL_EXTENT, FULL_EXTENT), b"\x00i\x00\x01\x01\x02\x80\x7f\x80\x7f"),
        ("p", ((3, 2), (0, 3)), b"\x00p\x00\x01\x01\x02\x83\x82\x80\x83"),
    ],
)
def test_slice_keys_are_those_of_tensorflow(name: str, extents: tuple[tuple[int, int], ...], key: bytes) -> None:
    assert encode_slice_key(name, extents) == key
    assert decode_slice_key(key) == (name, extents)
    assert is_slice_key(key)


def test_names_are_no_slice_keys() -> None:
    assert not is_slice_key(b"")
    assert not is_slice_key(b"bert/kernel")


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\x01\x05a\x00\x01\x00",  # does not begin with 0
        b"\x00a",  # a name without an end
        b"\x00a\x00\x02\x00",  # an escape that means nothing
        b"\x00a\xff\xff\x00\x01\x00",
        b"\x00a\x00\x01",  # no rank
        b"\x00a\x00\x01\x01\x02\x80\x83\x80",  # too few extents
        b"\x00a\x00\x01\x00\x00",  # something behind the end
        b"\x00a\x00\x01\x02\x00\x01\x80\x83",  # a number with a leading zero
        b"\x00a\x00\x01\x01\x01\xc0\x00\x83",  # a signed number that is longer than it must be
        b"\x00a\x00\x01\x01\x01\xff\xff\x83",
        b"\x00a\x00\x01\x01\x01\x00\x00\x83",
        b"\x00a\x00\x01\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01",
        b"\x00a\x00\x01\x01\xff" + b"\x80\x83" * 255,  # too many dimensions
        b"\x00\xc3\x28\x00\x01\x00",  # no UTF-8
    ],
)
def test_refuses_what_is_no_slice_key(key: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_slice_key(key, path="m.index")
    assert caught.value.path == "m.index"


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_a_number_must_fit(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        ordered_code.write_num(value)


@pytest.mark.parametrize("value", [-(1 << 63) - 1, 1 << 63])
def test_a_signed_number_must_fit(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        ordered_code.write_signed(value)
