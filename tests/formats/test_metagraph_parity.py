"""Meta graphs that the real TensorFlow wrote: collections of every kind, signatures, assets, objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.support.helpers import files_of

import tfsmith
from tfsmith.ir.model import Collection, Model
from tfsmith.ir.tensor import ArrayTensor

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def v1() -> Any:
    import tensorflow as tf

    return tf.compat.v1


@pytest.fixture(scope="module")
def meta_file(tmp_path_factory: pytest.TempPathFactory, v1: Any) -> Path:
    """A TF1 graph with old control flow, queues, summaries, an optimizer, and collections of every kind."""
    from google.protobuf import any_pb2

    folder = tmp_path_factory.mktemp("tf1")
    was_on = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with v1.Graph().as_default() as graph, v1.Session() as session:
            _build(v1)
            graph.add_to_collection("numbers", 7)
            graph.add_to_collection("numbers", -(2**40))
            graph.add_to_collection("rates", 0.5)
            graph.add_to_collection("words", "plain text")
            packed = any_pb2.Any()
            packed.Pack(v1.train.SaverDef(filename_tensor_name="f:0", version=2))
            graph.add_to_collection("packed", packed)
            session.run(v1.global_variables_initializer())
            v1.train.Saver(max_to_keep=3, sharded=True).save(session, str(folder / "model.ckpt"), global_step=12)
    finally:
        if was_on:
            v1.enable_control_flow_v2()
    return folder / "model.ckpt-12.meta"


def _build(v1: Any) -> None:
    x = v1.placeholder(v1.float32, [None, 3], "x")
    weights = v1.get_variable("weights", [3, 2])
    v1.get_variable("local", [], collections=[v1.GraphKeys.LOCAL_VARIABLES])
    partitioned = v1.get_variable("parts", [4, 2], partitioner=v1.fixed_size_partitioner(2))
    y = v1.matmul(x, weights, name="y")
    _, total = v1.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + y), [0, v1.zeros_like(y)], name="loop")
    v1.cond(v1.reduce_sum(y) > 0, lambda: y + 1, lambda: y - 1, name="choice")
    queue = v1.FIFOQueue(10, [v1.float32], [[]], name="queue")
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(1.0)]))
    v1.summary.scalar("mean", v1.reduce_mean(total))
    v1.train.get_or_create_global_step()
    v1.add_to_collection("outputs", total)
    v1.train.AdamOptimizer().minimize(v1.reduce_sum(total) + v1.reduce_sum(v1.convert_to_tensor(partitioned)))


@pytest.fixture(scope="module")
def theirs(meta_file: Path) -> Any:
    from tensorflow.core.protobuf import meta_graph_pb2

    return meta_graph_pb2.MetaGraphDef.FromString(meta_file.read_bytes())


@pytest.fixture(scope="module")
def model(meta_file: Path) -> Model:
    return tfsmith.load(meta_file)


def _plain(message: Any) -> dict[str, Any]:
    """A message as plain data, made from TensorFlow's own class."""
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            out[field.name] = {
                key: _plain(item) if hasattr(item, "ListFields") else item for key, item in value.items()
            }
        elif field.is_repeated and field.enum_type is not None:
            out[field.name] = tuple(field.enum_type.values_by_number[item].name for item in value)
        elif field.is_repeated:
            out[field.name] = tuple(_plain(item) if hasattr(item, "ListFields") else item for item in value)
        elif field.enum_type is not None:
            out[field.name] = field.enum_type.values_by_number[value].name
        else:
            out[field.name] = _plain(value) if hasattr(value, "ListFields") else value
    return out


def test_every_collection(model: Model, theirs: Any) -> None:
    assert sorted(model.collections) == sorted(theirs.collection_def)
    kinds = set()
    for key, wanted in theirs.collection_def.items():
        found = model.collections[key]
        field = wanted.WhichOneof("kind")
        assert found.kind == field.removesuffix("_list")
        kinds.add(found.kind)
        values = getattr(wanted, field).value
        if found.kind == "any":
            assert found.values == tuple((item.type_url, item.value) for item in values)
        else:
            assert found.values == tuple(values)
    assert kinds == {"node", "bytes", "int64", "float", "any"}


def _messages(theirs: Any, key: str, kind: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(_plain(kind.FromString(data)) for data in theirs.collection_def[key].bytes_list.value)


def test_messages_in_collections(model: Model, theirs: Any, v1: Any) -> None:
    from tensorflow.core.framework.variable_pb2 import VariableDef
    from tensorflow.core.protobuf.control_flow_pb2 import CondContextDef, WhileContextDef
    from tensorflow.core.protobuf.queue_runner_pb2 import QueueRunnerDef

    kinds = {
        "variables": VariableDef,
        "trainable_variables": VariableDef,
        "local_variables": VariableDef,
        "global_step": VariableDef,
        "while_context": WhileContextDef,
        "cond_context": CondContextDef,
        "queue_runners": QueueRunnerDef,
    }
    for key, kind in kinds.items():
        found = model.collections[key]
        assert found.messages, key
        assert found.messages == _messages(theirs, key, kind), key
        assert model.get_collection(key) == found.messages


def test_variables_in_collections_are_those_of_the_checkpoint(model: Model) -> None:
    names = {item["variable_name"].removesuffix(":0") for item in model.collections["variables"].messages}
    parts = {name for name in names if "/part_" in name}
    assert len(parts) == 6  # of the variable, and of two slots
    assert {name.partition("/part_")[0] + name.partition("/part_")[2][1:] for name in parts} | (names - parts) == set(
        model.variables
    )
    assert model.variables["parts"].shape.dims == (4, 2)


def test_any_is_unpacked(model: Model) -> None:
    assert model.collections["packed"].messages == ({"filename_tensor_name": "f:0", "version": "V2"},)


def test_text_in_a_collection_stays_bytes(model: Model) -> None:
    assert model.collections["words"] == Collection("bytes", (b"plain text",), model.collections["words"].decode)
    assert model.get_collection("words") == (b"plain text",)
    assert model.get_collection("numbers") == (7, -(2**40))
    assert model.get_collection("rates") == (0.5,)


def test_info_and_saver(model: Model, theirs: Any) -> None:
    info, wanted = model.meta.info, theirs.meta_info_def
    assert info.tensorflow_version == wanted.tensorflow_version
    assert info.tensorflow_git_version == wanted.tensorflow_git_version
    assert info.stripped_default_attrs == wanted.stripped_default_attrs
    assert sorted(info.ops) == sorted(op.name for op in wanted.stripped_op_list.op)
    saver = model.meta.saver
    assert saver is not None
    for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name", "max_to_keep", "sharded", "version"):
        assert getattr(saver, name) == getattr(theirs.saver_def, name)
    assert saver.sharded
    assert saver.max_to_keep == 3


def test_graph_is_walked_as_tensorflow_walks_it(model: Model, meta_file: Path, v1: Any) -> None:
    with v1.Graph().as_default() as graph:
        v1.train.import_meta_graph(str(meta_file))
    operations = graph.get_operations()
    assert {node.name for node in model.graph} == {op.name for op in operations}
    for op in operations:
        node = model.graph[op.name]
        assert node.op == op.type
        found = model.graph.inputs_of(node)
        assert [(s, o) for s, o in found if o >= 0] == [(t.op.name, t.value_index) for t in op.inputs]
        assert sorted(s for s, o in found if o < 0) == sorted(c.name for c in op.control_inputs)
        for number, tensor in enumerate(op.outputs):
            uses = sorted((use.node.name, use.input) for use in model.graph.consumers(op.name, number))
            wanted = [(c.name, i) for c in set(tensor.consumers()) for i, t in enumerate(c.inputs) if t is tensor]
            assert uses == sorted(wanted)
    place = {node.name: at for at, node in enumerate(model.graph.topological_order())}
    assert len(place) == len(operations)
    for op in operations:
        for tensor in op.inputs:
            assert tensor.op.type == "NextIteration" or place[tensor.op.name] < place[op.name]


def test_types_of_outputs_are_those_of_tensorflow(model: Model, meta_file: Path, v1: Any) -> None:
    from tfsmith.passes.interface import output_type

    with v1.Graph().as_default() as graph:
        v1.train.import_meta_graph(str(meta_file))
    for op in graph.get_operations():
        for tensor in op.outputs:
            found = output_type(model.graph, model.graph[op.name], tensor.value_index)
            assert found is not None
            assert found.base.name == tensor.dtype.base_dtype.name, tensor


def test_meta_comes_back(model: Model, meta_file: Path, tmp_path: Path) -> None:
    tfsmith.save(model, tmp_path / "model.ckpt-12.meta")
    before = {name: data for name, data in files_of(meta_file.parent).items() if name != "checkpoint"}
    after = {name: data for name, data in files_of(tmp_path).items() if name != "checkpoint"}
    assert after == before


def test_tensorflow_runs_an_edited_graph(model: Model, tmp_path: Path, v1: Any) -> None:
    """One node is changed: the rest is as it was, and TensorFlow restores and runs it."""
    graph = model.graph
    step = graph["loop/add/y"].replace(attrs={"value": ArrayTensor.of(numpy.int32(3))})
    edited = model.replace_graph(graph.map_nodes({"loop/add/y": step}))
    (tmp_path / "out").mkdir()
    tfsmith.save(edited, tmp_path / "out/edited.meta")
    results = []
    for prefix in (str(model.path).removesuffix(".meta"), str(tmp_path / "out/edited")):
        with v1.Graph().as_default(), v1.Session() as session:
            v1.train.import_meta_graph(f"{prefix}.meta").restore(session, prefix)
            [output] = v1.get_collection("outputs")
            results.append(session.run([output, "y:0"], {"x:0": [[1.0, 2.0, 3.0]]}))
    (three, y), (one, same) = results
    assert numpy.array_equal(y, same)
    assert numpy.allclose(three, 3 * y)
    assert numpy.array_equal(one, y)


# SavedModels


@pytest.fixture(scope="module")
def tf1_saved_model(tmp_path_factory: pytest.TempPathFactory, v1: Any) -> Path:
    """Built by SavedModelBuilder: two meta graphs, sparse and composite inputs, an asset, an init op."""
    folder = tmp_path_factory.mktemp("builder")
    (folder / "words.txt").write_text("one\ntwo\n")
    builder = v1.saved_model.Builder(str(folder / "model"))
    with v1.Graph().as_default() as graph, v1.Session() as session:
        sparse = v1.sparse_placeholder(v1.float32, [None, 4], "sparse")
        ragged = v1.ragged.placeholder(v1.int64, 1, [], "ragged")
        weights = v1.get_variable("w", [4, 2])
        y = v1.sparse_tensor_dense_matmul(sparse, weights, name="y")
        asset = v1.constant(str(folder / "words.txt"), name="asset")
        graph.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {"sparse": info(sparse), "ragged": info(ragged)}, {"y": info(y)}, v1.saved_model.PREDICT_METHOD_NAME
        )
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            assets_collection=graph.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.group(v1.identity(asset), name="init"),
        )
        builder.add_meta_graph(["serve", "tpu"], {"other": signature})
    builder.save()
    return folder / "model"


def _saved_model(folder: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def test_signatures_and_assets(tf1_saved_model: Path) -> None:
    wanted = _saved_model(tf1_saved_model)
    model = tfsmith.load(tf1_saved_model)
    assert model.tag_sets == (("serve",), ("serve", "tpu"))
    for meta, message in zip(model.meta_graphs, wanted.meta_graphs, strict=True):
        assert sorted(meta.signatures) == sorted(message.signature_def)
        assert [(a.tensor_name, a.filename) for a in meta.assets] == [
            (a.tensor_info.name, a.filename) for a in message.asset_file_def
        ]
    signature, theirs = model.signatures["serving_default"], wanted.meta_graphs[0].signature_def["serving_default"]
    assert signature.method_name == theirs.method_name
    sparse = signature.inputs["sparse"]
    assert (sparse.encoding, sparse.dtype.name, sparse.shape.dims) == ("sparse", "float32", (-1, 4))
    assert {role: part.name for role, part in sparse.components.items()} == {
        "values": theirs.inputs["sparse"].coo_sparse.values_tensor_name,
        "indices": theirs.inputs["sparse"].coo_sparse.indices_tensor_name,
        "dense_shape": theirs.inputs["sparse"].coo_sparse.dense_shape_tensor_name,
    }
    ragged = signature.inputs["ragged"]
    assert ragged.encoding == "composite"
    assert [part.name for part in ragged.components.values()] == [
        part.name for part in theirs.inputs["ragged"].composite_tensor.components
    ]
    assert model.get_collection("saved_model_main_op") == ("init_1",)


def test_signatures_written_afresh_are_the_same_messages(tf1_saved_model: Path) -> None:
    from tfsmith.formats.graph.metagraph import plan_meta_graph
    from tfsmith.ir.body import Part
    from tfsmith.records import replace

    model, wanted = tfsmith.load(tf1_saved_model), _saved_model(tf1_saved_model)
    for meta, message in zip(model.meta_graphs, wanted.meta_graphs, strict=True):
        fresh = replace(
            meta,
            info_part=Part.of(meta.info),
            saver_part=Part.of(meta.saver),
            signatures_part=Part.of(meta.signatures),
            collections_part=Part.of(meta.collections),
            raw=None,
        )
        assert type(message).FromString(plan_meta_graph(fresh).tobytes()) == message


def test_folder_comes_back_and_loads(tf1_saved_model: Path, tmp_path: Path, v1: Any) -> None:
    tfsmith.save(tfsmith.load(tf1_saved_model), tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(tf1_saved_model)
    with v1.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(tmp_path / "copy"))
        assert session.run("w/Read/ReadVariableOp:0").shape == (4, 2)


@pytest.fixture(scope="module")
def tf2_saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("tf2")
    (folder / "words.txt").write_text("one\ntwo\n")

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(tf.ones([3, 2]), name="weights")
            self.vocabulary = tf.saved_model.Asset(str(folder / "words.txt"))
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    self.vocabulary.asset_path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, -1
                ),
                -1,
            )

        @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.string)])
        def serve(self, x: Any, words: Any) -> Any:
            y = tf.matmul(x, self.weights)
            total = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + y), [0, tf.zeros_like(y)])[1]
            return {"total": total, "best": tf.argmax(total, 1), "ids": self.table.lookup(words)}

    net = Net()
    tf.saved_model.save(net, str(folder / "model"), signatures=net.serve)
    return folder / "model"


def test_objects(tf2_saved_model: Path) -> None:
    model, wanted = tfsmith.load(tf2_saved_model), _saved_model(tf2_saved_model).meta_graphs[0].object_graph_def
    objects = model.meta.objects
    assert objects is not None
    assert [node.kind for node in objects.nodes] == [node.WhichOneof("kind") or "" for node in wanted.nodes]
    for node, message in zip(objects.nodes, wanted.nodes, strict=True):
        assert node.children == {child.local_name: child.node_id for child in message.children}
    assert sorted(objects.concrete_functions) == sorted(wanted.concrete_functions)
    variable = objects.nodes[objects.nodes[0].children["weights"]]
    assert (variable.kind, variable.details["name"], variable.details["dtype"]) == ("variable", "weights", "DT_FLOAT")


def test_tf2_folder_comes_back_and_runs(tf2_saved_model: Path, tmp_path: Path) -> None:
    import tensorflow as tf

    tfsmith.save(tfsmith.load(tf2_saved_model), tmp_path / "copy")
    before = files_of(tf2_saved_model)
    assert files_of(tmp_path / "copy") == before
    assert {"saved_model.pb", "fingerprint.pb", "assets/words.txt"} <= set(before)
    found = tf.saved_model.load(str(tmp_path / "copy")).signatures["serving_default"](
        x=tf.ones([1, 3]), words=tf.constant(["two"])
    )
    assert found["total"].numpy().tolist() == [[9.0, 9.0]]
    assert found["ids"].numpy().tolist() == [1]


def test_functions_are_walked_as_tensorflow_walks_them(tf2_saved_model: Path) -> None:
    """Every function of the library, imported by TensorFlow as a graph of its own."""
    from tensorflow.python.framework import function_def_to_graph

    library = _saved_model(tf2_saved_model).meta_graphs[0].graph_def.library
    ours = tfsmith.load(tf2_saved_model).graph.library
    assert list(ours) == [message.signature.name for message in library.function]
    edges = 0
    for message in sorted(library.function, key=lambda item: len(item.node_def)):
        function = ours[message.signature.name]
        try:
            graph = function_def_to_graph.function_def_to_graph(message)
        except Exception:  # it calls functions that TensorFlow does not find without the rest of the model
            continue
        for node in function:
            found = [(source, output) for source, output in function.inputs_of(node) if output >= 0]
            tensors = graph.get_operation_by_name(node.name).inputs
            assert found == [(tensor.op.name, tensor.value_index) for tensor in tensors]
            edges += len(found)
        for name, text in function.ret.items():
            assert name in message.ret
            assert function.resolve(text).output >= 0
    assert edges > 20


def test_edited_tf2_model_runs(tf2_saved_model: Path, tmp_path: Path) -> None:
    """A constant inside of a function is changed; everything else stays, and TensorFlow loads and runs it."""
    import tensorflow as tf

    model = tfsmith.load(tf2_saved_model)
    graph = model.graph
    changed = {}
    for name, function in graph.library.items():
        if name.startswith(("__inference_while_cond", "while_cond")):
            nodes = tuple(
                node.replace(attrs={"value": ArrayTensor.of(numpy.int32(5))}) if node.op == "Const" else node
                for node in function
            )
            changed[name] = function.replace_nodes(nodes)
    assert changed
    library = graph.library.replace({**graph.library, **changed})
    tfsmith.save(model.replace_graph(graph.replace(library=library)), tmp_path / "edited")
    found = tf.saved_model.load(str(tmp_path / "edited")).signatures["serving_default"](
        x=tf.ones([1, 3]), words=tf.constant(["one"])
    )
    assert found["total"].numpy().tolist() == [[15.0, 15.0]]
