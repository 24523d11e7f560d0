from __future__ import annotations

import pytest

from tfsmith.formats.checkpoint.slices import Box, box, extents_of, fill_slice_proto, find_flaw
from tfsmith.wire import new


def test_extents_go_through_the_proto() -> None:
    proto = new("TensorSliceProto")
    fill_slice_proto(proto, ((0, -1), (3, 2), (0, 0)))
    assert extents_of(proto) == ((0, -1), (3, 2), (0, 0))
    assert not proto.extent[0].HasField("length")


@pytest.mark.parametrize(
    ("extents", "dims", "result"),
    [
        ((), (), ((), ())),
        (((0, -1), (1, 2)), (4, 3), ((0, 1), (4, 2))),
        (((0, 4),), (4,), ((0,), (4,))),
        (((4, 0),), (4,), ((4,), (0,))),
        (((0, 5),), (4,), None),
        (((-1, 2),), (4,), None),
        (((1, -1),), (4,), None),
        (((0, 4),), (4, 4), None),
    ],
)
def test_a_slice_must_lie_inside(
    extents: tuple[tuple[int, int], ...], dims: tuple[int, ...], result: Box | None
) -> None:
    assert box(extents, dims) == result


PINWHEEL: list[Box] = [((0, 0), (1, 2)), ((0, 2), (2, 1)), ((2, 1), (1, 2)), ((1, 0), (2, 1)), ((1, 1), (1, 1))]


@pytest.mark.parametrize(
    ("boxes", "dims", "flaw"),
    [
        ([((), ())], (), None),
        ([], (), "hole"),
        ([((), ()), ((), ())], (), "overlap"),
        ([((0,), (3,)), ((3,), (2,))], (5,), None),
        ([((3,), (2,)), ((0,), (3,))], (5,), None),
        ([((0,), (3,)), ((3,), (1,))], (5,), "hole"),
        ([((0,), (3,)), ((2,), (3,))], (5,), "overlap"),
        ([((0,), (3,)), ((0,), (2,))], (5,), "overlap"),  # as many elements as there should be, but not those
        ([((0,), (5,)), ((5,), (0,))], (5,), None),
        (PINWHEEL, (3, 3), None),  # a tiling that is no grid
        (PINWHEEL[:4], (3, 3), "hole"),
        ([*PINWHEEL, PINWHEEL[4]], (3, 3), "overlap"),
        ([], (0, 3), None),
        ([((0, 0), (0, 3)), ((0, 0), (0, 3))], (0, 3), None),
    ],
)
def test_slices_must_cover_the_whole_once(boxes: list[Box], dims: tuple[int, ...], flaw: str | None) -> None:
    found = find_flaw(boxes, dims)
    assert found is None if flaw is None else flaw in str(found)


def test_many_slices_are_no_trouble() -> None:
    dims = (50_000, 4)
    boxes: list[Box] = [((row, 0), (1, 4)) for row in range(50_000)]
    assert find_flaw(boxes, dims) is None
    assert find_flaw(boxes[:-1] + boxes[:1], dims) is not None


def test_too_many_cut_axes_are_refused_rather_than_counted() -> None:
    dims = (2,) * 60
    assert "too many" in str(find_flaw([((0,) * 60, (1,) * 60)], dims))
