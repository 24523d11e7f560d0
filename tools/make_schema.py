"""Writes src/tfsmith/wire/tensorflow.schema: the field names, numbers and types of TensorFlow's messages.

Run it with a Python that has TensorFlow, when a new TensorFlow adds fields:

    python tools/make_schema.py
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

MODULES = [
    "tensorflow.core.framework.graph_pb2",
    "tensorflow.core.framework.op_def_pb2",
    "tensorflow.core.framework.variable_pb2",
    "tensorflow.core.protobuf.meta_graph_pb2",
    "tensorflow.core.protobuf.saved_model_pb2",
    "tensorflow.core.protobuf.saved_object_graph_pb2",
    "tensorflow.core.protobuf.trackable_object_graph_pb2",
    "tensorflow.core.protobuf.tensor_bundle_pb2",
    "tensorflow.core.protobuf.control_flow_pb2",
    "tensorflow.core.protobuf.queue_runner_pb2",
    "tensorflow.core.protobuf.fingerprint_pb2",
    "tensorflow.core.util.saved_tensor_slice_pb2",
    "tensorflow.python.training.checkpoint_state_pb2",
]
ROOTS = [
    "GraphDef", "MetaGraphDef", "SavedModel", "TrackableObjectGraph", "BundleHeaderProto", "BundleEntryProto",
    "SavedTensorSlices", "CheckpointState", "VariableDef", "WhileContextDef", "CondContextDef", "QueueRunnerDef",
    "FingerprintDef", "OpList",
]  # fmt: skip
SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
HEADER = """\
# The messages of TensorFlow's files: names, numbers and types, as its files carry them. Made by tools/make_schema.py.
# A field is "number[*|%] name type [oneof]": * repeated, % a map (key type, value type).
"""

# The messages of tensorflow/tools/proto_splitter (chunk.proto, versions.proto), which no Python module of TensorFlow
# has. "_chunk_index" makes that field's presence known, as `optional` does; the splitter's own VersionDef has another
# name here, because TensorFlow has a VersionDef too.
SPLITTER = """\
enum ChunkInfo.Type
  0 UNSET
  1 MESSAGE
  2 BYTES
message ChunkInfo
  1 type ChunkInfo.Type
  2 size uint64
  3 offset uint64
message ChunkMetadata
  1 version SplitterVersionDef
  2* chunks ChunkInfo
  3 message ChunkedMessage
message ChunkedField
  1* field_tag FieldIndex
  3 message ChunkedMessage
message ChunkedMessage
  1 chunk_index uint64 _chunk_index
  2* chunked_fields ChunkedField
message FieldIndex
  1 field uint32 kind
  2 map_key FieldIndex.MapKey kind
  3 index uint64 kind
message FieldIndex.MapKey
  1 s string type
  2 boolean bool type
  3 ui32 uint32 type
  4 ui64 uint64 type
  5 i32 int32 type
  6 i64 int64 type
message SplitterVersionDef
  1 splitter_version int32
  2 join_version int32
  3* bad_consumers int32"""

# The messages of pattern and recipe files, which are no part of TensorFlow: model_modifier/pattern.proto and
# recipe.proto of Intel's light-model-transformer.
RECIPES = """\
message Pattern
  1* seed_nodes NodeDef
  2* internal_nodes NodeDef
  3* inputs string
message Recipe
  1 source_pattern Pattern
  2 target_node NodeDef"""


# The messages of TensorFlow Serving's API (tensorflow_serving/apis and config) and of tf.train.Example, which it
# takes: names and numbers as its clients send them. What it has for streams and for logs of requests is left out.
SERVING = """\
enum serving.ModelVersionStatus.State
  0 UNKNOWN
  10 START
  20 LOADING
  30 AVAILABLE
  40 UNLOADING
  50 END
message google.protobuf.Int64Value
  1 value int64
message BytesList
  1* value bytes
message FloatList
  1* value float
message Int64List
  1* value int64
message Feature
  1 bytes_list BytesList kind
  2 float_list FloatList kind
  3 int64_list Int64List kind
message Features
  1% feature string Feature
message Example
  1 features Features
message serving.ModelSpec
  1 name string
  2 version google.protobuf.Int64Value version_choice
  3 signature_name string
  4 version_label string version_choice
message serving.PredictRequest
  1 model_spec serving.ModelSpec
  2% inputs string TensorProto
  3* output_filter string
message serving.PredictResponse
  1% outputs string TensorProto
  2 model_spec serving.ModelSpec
message serving.ExampleList
  1* examples Example
message serving.ExampleListWithContext
  1* examples Example
  2 context Example
message serving.Input
  1 example_list serving.ExampleList kind
  2 example_list_with_context serving.ExampleListWithContext kind
message serving.Class
  1 label string
  2 score float
message serving.Classifications
  1* classes serving.Class
message serving.ClassificationResult
  1* classifications serving.Classifications
message serving.ClassificationRequest
  1 model_spec serving.ModelSpec
  2 input serving.Input
message serving.ClassificationResponse
  1 result serving.ClassificationResult
  2 model_spec serving.ModelSpec
message serving.Regression
  1 value float
message serving.RegressionResult
  1* regressions serving.Regression
message serving.RegressionRequest
  1 model_spec serving.ModelSpec
  2 input serving.Input
message serving.RegressionResponse
  1 result serving.RegressionResult
  2 model_spec serving.ModelSpec
message serving.SignatureDefMap
  1% signature_def string SignatureDef
message serving.GetModelMetadataRequest
  1 model_spec serving.ModelSpec
  2* metadata_field string
message serving.GetModelMetadataResponse
  1 model_spec serving.ModelSpec
  2% metadata string google.protobuf.Any
message serving.GetModelStatusRequest
  1 model_spec serving.ModelSpec
message serving.StatusProto
  1 error_code error.Code
  2 error_message string
message serving.ModelVersionStatus
  1 version int64
  2 state serving.ModelVersionStatus.State
  3 status serving.StatusProto
message serving.GetModelStatusResponse
  1* model_version_status serving.ModelVersionStatus
message serving.VersionPolicy
  100 latest serving.VersionPolicy.Latest policy_choice
  101 all serving.VersionPolicy.All policy_choice
  102 specific serving.VersionPolicy.Specific policy_choice
message serving.VersionPolicy.Latest
  1 num_versions uint32
message serving.VersionPolicy.All
message serving.VersionPolicy.Specific
  1* versions int64
message serving.ModelConfig
  1 name string
  2 base_path string
  4 model_platform string
  7 model_version_policy serving.VersionPolicy
  8% version_labels string int64
message serving.ModelConfigList
  1* config serving.ModelConfig
message serving.ModelServerConfig
  1 model_config_list serving.ModelConfigList"""


def main() -> None:
    by_name: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    for module in MODULES:
        _collect(importlib.import_module(module).DESCRIPTOR, by_name)
    wanted: dict[str, Any] = {}
    todo = [by_name[f"tensorflow.{name}"] for name in ROOTS]
    while todo:
        message = todo.pop()
        if message.full_name in wanted:
            continue
        wanted[message.full_name] = message
        for field in message.fields:
            if field.message_type is not None:
                todo.append(field.message_type)
            if field.enum_type is not None:
                enums[field.enum_type.full_name] = field.enum_type
    lines = [HEADER]
    for name, enum in sorted(enums.items()):
        lines.append(f"enum {_short(name)}")
        lines += [f"  {value.number} {value.name}" for value in enum.values]
    for name, message in sorted(wanted.items()):
        if message.GetOptions().map_entry:
            continue
        lines.append(f"message {_short(name)}")
        lines += [f"  {_field(field)}" for field in message.fields]
    lines += [SPLITTER, RECIPES, SERVING]
    target = Path(__file__).parents[1] / "src/tfsmith/wire/tensorflow.schema"
    target.write_text("\n".join(lines) + "\n")


def _collect(file: Any, into: dict[str, Any]) -> None:
    todo = list(file.message_types_by_name.values())
    while todo:
        message = todo.pop()
        into[message.full_name] = message
        todo += message.nested_types
    for dependency in file.dependencies:
        _collect(dependency, into)


def _short(full_name: str) -> str:
    return full_name.removeprefix("tensorflow.")


def _type(field: Any) -> str:
    if field.message_type is not None:
        return _short(str(field.message_type.full_name))
    if field.enum_type is not None:
        return _short(str(field.enum_type.full_name))
    return SCALARS[field.type]


def _field(field: Any) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return f"{field.number}% {field.name} {_type(key)} {_type(value)}"
    star = "*" if field.is_repeated else ""
    oneof = "" if field.containing_oneof is None else f" {field.containing_oneof.name}"
    if not oneof and field.has_presence and field.message_type is None:
        oneof = f" _{field.name}"  # a scalar of proto2: known to be there even when it is zero
    return f"{field.number}{star} {field.name} {_type(field)}{oneof}"


if __name__ == "__main__":
    main()
