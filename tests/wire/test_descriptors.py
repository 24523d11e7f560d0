"""The packaged descriptors are those of the schema."""

from pathlib import Path

from tools.make_descriptors import descriptor_set

from tfsmith import wire as descriptors


def test_the_packaged_descriptors_are_up_to_date() -> None:
    packaged = Path(descriptors.__file__).with_name("tensorflow.descriptors").read_bytes()
    assert packaged == descriptor_set(), "run python -m tools.make_descriptors"
