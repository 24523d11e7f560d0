"""Our merger against TensorFlow's own, on the same `saved_model.cpb`.

No TensorFlow that pip installs can write this form: `SaveOptions(experimental_image_format=True)` raises. Its library
does hold the merger that reads it, though nothing in Python calls it, so a small C++ file is compiled for that. The
files come from the writer of these tests, which writes what Riegeli's own writer does (tests/unit/test_riegeli.py).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.riegeli_files import BYTES, CONTENT, GRAPH, Parts, split

from tfsmith.formats.cpb.chunked import read_chunked
from tfsmith.storage import open_file
from tfsmith.wire import new

pytestmark = pytest.mark.tensorflow

MERGE = """
#include <cstring>
#include <fstream>
#include <memory>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tensorflow/tools/proto_splitter/merge.h"

extern "C" int merge(const char* prefix, const char* output, char* reason, size_t room) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* type = pool->FindMessageTypeByName("tensorflow.SavedModel");
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  std::unique_ptr<google::protobuf::Message> model(factory->GetPrototype(type)->New());
  absl::Status status = tensorflow::tools::proto_splitter::Merger::Read(prefix, model.get());
  if (!status.ok()) {
    std::strncpy(reason, status.ToString().c_str(), room - 1);
    return 1;
  }
  std::ofstream file(output, std::ios::binary);
  return model->SerializeToOstream(&file) ? 0 : 2;
}
"""

Merge = Callable[[bytes], Any]


@pytest.fixture(scope="module")
def tensorflow_merges(tmp_path_factory: pytest.TempPathFactory) -> Merge:
    """What TensorFlow's merger makes of a file."""
    import tensorflow as tf

    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("merger")
    (folder / "merge.cc").write_text(MERGE)
    flags = ["-shared", "-fPIC", "-w", "merge.cc", "-o", "merge.so"]
    command = [compiler, *flags, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "merge.so"))

    def merges(data: bytes) -> Any:
        (folder / "saved_model.cpb").write_bytes(data)
        reason = ctypes.create_string_buffer(4000)
        prefix, output = str(folder / "saved_model").encode(), str(folder / "merged.pb").encode()
        code = library.merge(prefix, output, reason, len(reason))
        assert code == 0, reason.value.decode()
        model = new("SavedModel")
        model.ParseFromString((folder / "merged.pb").read_bytes())
        return model

    return merges


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A SavedModel that TensorFlow wrote as one file, with constants in its graph and in its functions."""
    import numpy
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(numpy.ones((500, 4), numpy.float32))

        @tf.function(input_signature=[tf.TensorSpec([None, 300], tf.float32, "x")])
        def serve(self, x: Any) -> dict[str, Any]:
            large = tf.constant(numpy.arange(300 * 500, dtype=numpy.float32).reshape(300, 500))
            small = tf.constant(numpy.arange(300, dtype=numpy.float32))
            return {"y": tf.matmul(tf.matmul(x * small, large), self.weight)}

    folder = tmp_path_factory.mktemp("model")
    module = Module()
    tf.saved_model.save(module, str(folder), signatures=module.serve)
    model = new("SavedModel")
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return model


def ours(data: bytes, folder: Path) -> Any:
    (folder / "saved_model.cpb").write_bytes(data)
    model = new("SavedModel")
    model.ParseFromString(read_chunked(open_file(folder / "saved_model.cpb")).tobytes())
    return model


def test_tensorflow_does_not_write_this_form() -> None:
    """When this fails, let TensorFlow write the files of the other tests."""
    import tensorflow as tf

    with pytest.raises(ValueError, match="disabled in OSS"):
        tf.saved_model.SaveOptions(experimental_image_format=True)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        {"constant": 1000},
        {"constant": 1000, "run": 2},
        {"run": 3, "whole_graph": True},
        {"constant": 1000, "run": 1, "whole_graph": True},
    ],
    ids=str,
)
def test_splits_as_tensorflow_makes_them(
    tensorflow_merges: Merge, saved_model: Any, tmp_path: Path, how: dict[str, Any], compressed: bool
) -> None:
    pack = pytest.importorskip("brotli").compress if compressed else None
    parts = split(saved_model, **how)
    assert len(parts.chunks) > 2
    for together in (False, True):
        data = parts.file(ord("b") if compressed else 0, pack, together=together)
        assert ours(data, tmp_path) == saved_model
        assert tensorflow_merges(data) == saved_model


def test_chunks_in_chunks(tensorflow_merges: Merge, saved_model: Any, tmp_path: Path) -> None:
    base, graph = new("SavedModel"), new("GraphDef")
    base.CopyFrom(saved_model)
    graph.CopyFrom(base.meta_graphs[0].graph_def)
    base.meta_graphs[0].ClearField("graph_def")
    at, node = max(enumerate(graph.node), key=lambda pair: pair[1].ByteSize())
    parts = Parts(base.SerializeToString())
    part = new("GraphDef")
    part.CopyFrom(graph)
    part.node[at].Clear()
    inner = parts.add(part.SerializeToString(), GRAPH)
    parts.add(node.SerializeToString(), (1, (at,)), parent=inner)
    data = parts.file()
    assert ours(data, tmp_path) == saved_model
    assert tensorflow_merges(data) == saved_model


def test_what_is_missing_is_made(tensorflow_merges: Merge, tmp_path: Path) -> None:
    """A message, a list's next element and a map's key that no chunk has; a oneof that had another value."""
    model = new("SavedModel")
    node = model.meta_graphs.add().graph_def.node.add(name="a", op="Const")
    node.attr["value"].placeholder = "p"
    parts = Parts(model.SerializeToString())
    parts.add(b"raw", (*GRAPH, 1, (0,), *CONTENT), BYTES)
    parts.add(b"new", (*GRAPH, 1, (0,), 5, "other", 2), BYTES)
    parts.add(new("NodeDef").SerializeToString(), (*GRAPH, 1, (1,)))
    parts.add(b"root", (2, (1,), 2, 2, 1, (0,), 1, 1), BYTES)
    data = parts.file()
    expected = tensorflow_merges(data)
    assert expected.meta_graphs[1].graph_def.library.function[0].signature.name == "root"
    assert ours(data, tmp_path) == expected


def test_later_values_win(tensorflow_merges: Merge, tmp_path: Path) -> None:
    """A oneof that changes its field, and a map's key that comes again, before something is put inside."""
    model = new("SavedModel")
    node = model.meta_graphs.add().graph_def.node.add(name="a", op="Const")
    for name in ("value", "other"):
        node.attr[name].tensor.dtype = 1
    parts = Parts(model.SerializeToString())
    value, again = new("AttrValue"), new("NodeDef")
    value.placeholder = "p"
    again.attr["value"].tensor.version_number = 3
    parts.add(value.SerializeToString(), (*GRAPH, 1, (0,), 5, "other"))
    parts.add(b"raw", (*GRAPH, 1, (0,), 5, "other", 8, 4), BYTES)
    inner = parts.add(again.SerializeToString(), (*GRAPH, 1, (0,)))
    parts.add(b"raw", CONTENT, BYTES, parent=inner)
    data = parts.file()
    assert ours(data, tmp_path) == tensorflow_merges(data)


def test_repeated_merges(tensorflow_merges: Merge, saved_model: Any, tmp_path: Path) -> None:
    """The same fields in several chunks: lists grow, messages merge, the last value wins."""
    other = new("MetaGraphDef")
    other.meta_info_def.tensorflow_version = "other"
    other.meta_info_def.tags.append("more")
    other.graph_def.versions.min_consumer = 7
    other.signature_def["serving_default"].method_name = "other"
    other.graph_def.node.add(name="more")
    other.object_graph_def.nodes.add().constant.operation = "c"
    parts = Parts(saved_model.SerializeToString())
    for _ in range(2):
        parts.add(other.SerializeToString(), (2, (0,)))
    parts.add(b"first", (2, (0,), 1, 1), BYTES)
    parts.add(b"second", (2, (0,), 1, 1), BYTES)
    data = parts.file()
    expected = tensorflow_merges(data)
    assert expected.meta_graphs[0].meta_info_def.meta_graph_version == "second"
    assert ours(data, tmp_path) == expected
