"""Packs the descriptors of TensorFlow Serving's own client, for tests that need neither it nor TensorFlow.

Needs `tensorflow-serving-api` and TensorFlow, in an environment of its own:

    python tools/make_serving_api.py tests/data/serving_api
"""

import lzma
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROVENANCE = """# Where this file comes from

`python tools/make_serving_api.py tests/data/serving_api` made it with tensorflow-serving-api {version} (Apache-2.0):
the descriptors that its generated modules hold, of `prediction_service.proto`, `model_service.proto` and all that they
import, as a FileDescriptorSet.
"""


def with_imports(file: Any) -> dict[str, bytes]:
    """A file and all that it imports, each after what it needs."""
    found: dict[str, bytes] = {}
    for one in file.dependencies:
        found.update(with_imports(one))
    return {**found, file.name: file.serialized_pb}


def main() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

    folder = Path(sys.argv[1])
    files = with_imports(prediction_service_pb2.DESCRIPTOR) | with_imports(model_service_pb2.DESCRIPTOR)
    made = FileDescriptorSet()
    for data in files.values():
        made.file.add().ParseFromString(data)
    packed = lzma.compress(made.SerializeToString(deterministic=True), preset=9 | lzma.PRESET_EXTREME)
    (folder / "descriptors.xz").write_bytes(packed)
    (folder / "PROVENANCE.md").write_text(PROVENANCE.format(version=version("tensorflow-serving-api")))


if __name__ == "__main__":
    main()
