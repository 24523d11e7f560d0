"""Convert: the real TensorFlow reads every kind of file that comes out, and answers as it did before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.support import freeze_models as models
from tests.support.freeze_models import Made, make_tf1
from tests.support.helpers import files_of
from tests.verbs.test_freeze_tf2_parity import KERAS, _example
from tests.verbs.test_freeze_tf2_parity import _Made as Module

import tfsmith

pytestmark = pytest.mark.tensorflow

BUILDERS: dict[str, Callable[[Any, Path], Any]] = {
    "ref": lambda tf, _: models.dense(tf, resource=False),
    "resource": lambda tf, _: models.dense(tf, resource=True),
    "embedding": lambda tf, _: models.embedding(tf),
    "batch_norm": lambda tf, _: models.batch_norm(tf),
    "control_flow_ref": lambda tf, _: models.control_flow(tf, resource=False, v2=False),
    "control_flow_resource": lambda tf, _: models.control_flow(tf, resource=True, v2=False),
    "control_flow_v2": lambda tf, _: models.control_flow(tf, resource=True, v2=True),
    "vocabulary": lambda tf, tmp: models.vocabulary(tf, tmp / "words.txt"),
    "partitioned_ref": lambda tf, _: models.dense(tf, resource=False, partitions=2),
    "partitioned_resource": lambda tf, _: models.dense(tf, resource=True, partitions=2),
}
TRAINED = ("ref", "resource", "partitioned_ref", "partitioned_resource")
LOOSE = {"float16": 4e-3, "bfloat16": 4e-2}


@pytest.fixture(scope="module", params=list(BUILDERS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp = tmp_path_factory.mktemp(request.param)
    return make_tf1(tmp / "model", lambda tf: BUILDERS[request.param](tf, tmp))


@pytest.fixture(scope="module", params=TRAINED)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp = tmp_path_factory.mktemp(request.param)
    return make_tf1(tmp / "model", lambda tf: BUILDERS[request.param](tf, tmp))


@pytest.fixture(scope="module")
def tf2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A tf.Module with nested functions, control flow, tables and four signatures."""
    import tensorflow as tf

    tmp = tmp_path_factory.mktemp("tf2")
    module = Module(tf, tmp / "words.txt").module
    signatures = {key: getattr(module, key) for key in ("nested", "lookup", "branches", "cases")}
    tf.saved_model.save(module, str(tmp / "model"), signatures=signatures)
    return module, tmp / "model"


def edits(**changes: Any) -> dict[str, Any]:
    """What to do to the signatures, as arguments of `convert`."""
    return {f"{what}_signatures": value for what, value in changes.items()}


def run_meta(prefix: Path, made: Made) -> tuple[list[Any], list[str]]:
    """What import_meta_graph and restore give, and the variables that it then has; saves again by the same saver."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(f"{prefix}.meta")
        saver.restore(session, str(prefix))
        session.run(v1.tables_initializer())
        answers = session.run([f"{name}:0" for name in made.outputs], made.feeds)
        again = saver.save(session, str(prefix) + "-again", write_meta_graph=False)
        names = [variable.op.name for variable in v1.global_variables()]
    assert_same_tensors(Path(again), prefix)
    return answers, names


def run_saved_model(folder: Path, made: Made) -> list[Any]:
    """What TF1's loader gives."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(folder))
        return list(session.run([f"{name}:0" for name in made.outputs], made.feeds))


def tensors(prefix: Path) -> dict[str, Any]:
    """All tensors of a checkpoint, as TensorFlow's own reader gives them."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    kinds = reader.get_variable_to_dtype_map()
    ours = tfsmith.load(prefix).variables  # TensorFlow's reader refuses slices of float16, though its restore does not
    return {name: ours[name].numpy() if kinds[name] == tf.float16 else reader.get_tensor(name) for name in kinds}


def assert_same_tensors(ours: Path, theirs: Path) -> None:
    found, wanted = tensors(ours), tensors(theirs)
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


def assert_answers(found: list[Any], made: Made, tolerance: float = 0.0) -> None:
    for ours, theirs in zip(found, made.answers, strict=True):
        if tolerance:
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(ours, theirs)


# Kinds of files


def test_saved_model_to_meta_and_back(made: Made, tmp_path: Path) -> None:
    converted = tfsmith.convert(made.saved_model, tmp_path / "model.ckpt.meta")
    assert converted.out == tmp_path / "model.ckpt.meta"
    answers, _ = run_meta(tmp_path / "model.ckpt", made)
    assert_answers(answers, made)
    assert_same_tensors(tmp_path / "model.ckpt", made.saved_model / "variables" / "variables")
    tfsmith.convert(tmp_path / "model.ckpt.meta", tmp_path / "back")
    assert_answers(run_saved_model(tmp_path / "back", made), made)
    ours, theirs = files_of(tmp_path / "back"), files_of(made.saved_model)
    if "vocabulary_file" not in tfsmith.load(made.prefix).graph:  # it now has the file that it was made without
        assert ours == {name: data for name, data in theirs.items() if not name.startswith("fingerprint")}


def test_meta_to_saved_model(made: Made, tmp_path: Path) -> None:
    inputs = {name.split(":")[0]: name for name in made.feeds}
    add = {"serving_default": (inputs, {name: f"{name}:0" for name in made.outputs})}
    converted = tfsmith.convert(made.prefix, tmp_path / "out", as_="saved_model", **edits(add=add))
    assert [note for note in converted.notes if "outside of the model" not in note.what] == []
    assert_answers(run_saved_model(tmp_path / "out", made), made)
    assert_same_tensors(tmp_path / "out" / "variables" / "variables", made.prefix)
    assert_answers(signature_answers(tmp_path / "out", "serving_default", made), made, 1e-6)


def signature_answers(folder: Path, key: str, made: Made) -> list[Any]:
    """What tf.saved_model.load gives."""
    import tensorflow as tf

    function = tf.saved_model.load(str(folder)).signatures[key]
    fed = {name.split(":")[0].replace("/", "_"): tf.constant(value) for name, value in made.feeds.items()}
    answers = function(**fed)
    return [answers[name.replace("/", "_")].numpy() for name in made.outputs]


def test_graph_to_text_and_back(made: Made, tmp_path: Path) -> None:
    import tensorflow as tf

    tfsmith.convert(made.folder / "graph.pb", tmp_path / "g.pbtxt")
    assert (tmp_path / "g.pbtxt").read_bytes() == (made.folder / "graph.pbtxt").read_bytes()
    tfsmith.convert(tmp_path / "g.pbtxt", tmp_path / "g.pb")
    theirs = tf.compat.v1.GraphDef.FromString((made.folder / "graph.pb").read_bytes())
    assert tf.compat.v1.GraphDef.FromString((tmp_path / "g.pb").read_bytes()) == theirs


def test_a_graph_and_its_checkpoint_to_meta(made: Made, tmp_path: Path) -> None:
    """A graph without a saver gets one."""
    tfsmith.convert(made.folder / "graph.pb", tmp_path / "m.meta", checkpoint=made.prefix)
    if "vocabulary_file" not in tfsmith.load(made.prefix).graph:  # a graph alone does not say how to fill its tables
        assert_answers(run_meta(tmp_path / "m", made)[0], made)
    assert_same_tensors(tmp_path / "m", made.prefix)


@pytest.mark.parametrize("sharded", [False, True])
def test_v1_to_v2(sharded: bool, tmp_path: Path) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        outputs, feeds = models.dense(tf, resource=False, partitions=2)
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1, sharded=sharded)
        session.run(v1.global_variables_initializer())
        answers = session.run(outputs, feeds)
        prefix = Path(saver.save(session, str(tmp_path / "old.ckpt"), global_step=3).replace("-?????-of-00001", ""))
        same = Path(v1.train.Saver().save(session, str(tmp_path / "same.ckpt")))
    fed = {tensor.name: value for tensor, value in feeds.items()}
    made = Made(tmp_path, prefix, tmp_path, tuple(tensor.op.name for tensor in outputs), fed, answers)
    tfsmith.convert(prefix, tmp_path / "new.ckpt-3.meta", shards=2)
    assert (tmp_path / "new.ckpt-3.index").exists()
    assert_answers(run_meta(tmp_path / "new.ckpt-3", made)[0], made)
    assert_same_tensors(tmp_path / "new.ckpt-3", same)
    tfsmith.convert(prefix, tmp_path / "alone", as_="checkpoint")
    assert_same_tensors(tmp_path / "alone", tmp_path / "new.ckpt-3")


def test_shards(made: Made, tmp_path: Path) -> None:
    tfsmith.convert(made.prefix, tmp_path / "split.meta", shards=3)
    assert len(list(tmp_path.glob("split.data-*"))) == 3
    assert_answers(run_meta(tmp_path / "split", made)[0], made)
    assert_same_tensors(tmp_path / "split", made.prefix)
    tfsmith.convert(tmp_path / "split", tmp_path / "copy.meta")
    assert len(list(tmp_path.glob("copy.data-*"))) == 3
    tfsmith.convert(tmp_path / "split", tmp_path / "merged.meta", shards=1)
    assert len(list(tmp_path.glob("merged.data-*"))) == 1
    assert_answers(run_meta(tmp_path / "merged", made)[0], made)
    assert_same_tensors(tmp_path / "merged", made.prefix)


# Variables


def test_inference_only(trained: Made, tmp_path: Path) -> None:
    before = tensors(trained.prefix)
    for source in (trained.prefix, trained.saved_model):
        out = tmp_path / source.name
        converted = tfsmith.convert(source, out, as_="meta", inference_only=True)
        answers, names = run_meta(out, trained)
        assert_answers(answers, trained)
        assert {name for name, new in converted.names.items() if new is None} == {
            name for name in before if "Adam" in name or name in ("global_step", "beta1_power", "beta2_power")
        }
        assert not [name for name in names if "Adam" in name or name == "global_step"]
        after = tensors(out)
        assert 3 * sum(map(np.size, after.values())) < sum(map(np.size, before.values()))
        assert {name: value.tolist() for name, value in after.items()} == {
            name: value.tolist() for name, value in before.items() if name in after
        }
    tfsmith.convert(trained.prefix, tmp_path / "alone", as_="checkpoint", inference_only=True)
    assert_same_tensors(tmp_path / "alone", out)


def test_rename(made: Made, tmp_path: Path) -> None:
    options: dict[str, Any] = {"rename": (("re:^", "new/"),)}
    for source, kind in ((made.prefix, "meta"), (made.saved_model, "meta"), (made.folder / "graph.pb", "meta")):
        out = tmp_path / source.name
        tfsmith.convert(source, out, as_=kind, **options, checkpoint=made.prefix)  # type: ignore[arg-type]
        if source.suffix != ".pb" or "vocabulary_file" not in tfsmith.load(made.prefix).graph:
            assert_answers(run_meta(out, made)[0], made)
        assert sorted(tensors(out)) == sorted(f"new/{name}" for name in tensors(made.prefix))
    tfsmith.convert(made.saved_model, tmp_path / "sm", **options)
    assert_answers(run_saved_model(tmp_path / "sm", made), made)


def test_drop(trained: Made, tmp_path: Path) -> None:
    tfsmith.convert(trained.prefix, tmp_path / "out.meta", drop=("*Adam*", "beta?_power"))
    answers, names = run_meta(tmp_path / "out", trained)
    assert_answers(answers, trained)
    assert not [name for name in names if "Adam" in name]
    assert "global_step" in names
    assert sorted(tensors(tmp_path / "out")) == ["global_step", "net/b", "net/w", "net/w2"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_weights(made: Made, tmp_path: Path, dtype: str) -> None:
    import tensorflow as tf

    options: dict[str, Any] = {"inference_only": True, "dtype": dtype}
    converted = tfsmith.convert(made.prefix, tmp_path / "out.meta", **options)
    assert_answers(run_meta(tmp_path / "out", made)[0], made, LOOSE[dtype])
    after = tensors(tmp_path / "out")
    for name, value in tensors(made.prefix).items():
        if name in after:
            assert name in converted.cast
            theirs = tf.cast(value, dtype).numpy()
            assert after[name].dtype == theirs.dtype
            np.testing.assert_array_equal(after[name].view(np.uint16), theirs.view(np.uint16))
    tfsmith.convert(made.saved_model, tmp_path / "sm", **options)
    assert_answers(run_saved_model(tmp_path / "sm", made), made, LOOSE[dtype])
    assert_answers(signature_answers(tmp_path / "sm", "serving_default", made), made, LOOSE[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_constants(made: Made, tmp_path: Path, dtype: str) -> None:
    """Frozen, as a SavedModel (which fills its tables) and as a graph; small constants too, because they are named."""
    import tensorflow as tf

    v1 = tf.compat.v1
    frozen = tfsmith.freeze(tfsmith.load(made.saved_model), as_="saved_model").model
    tfsmith.save(frozen, tmp_path / "frozen", format="saved_model")
    constants = [node for node in tfsmith.load(tmp_path / "frozen").graph if node.op == "Const"]
    only = tuple(node.name for node in constants if node.get("dtype").name == "float32")
    options: dict[str, Any] = {"dtype": dtype, "only": only}
    tfsmith.convert(tmp_path / "frozen", tmp_path / "small", **options)
    assert_answers(run_saved_model(tmp_path / "small", made), made, LOOSE[dtype])
    tfsmith.convert(tmp_path / "small", tmp_path / "small.pb")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tf.import_graph_def(v1.GraphDef.FromString((tmp_path / "small.pb").read_bytes()), name="")
        for name in only:
            assert graph.get_tensor_by_name(f"{name}:0").dtype == dtype
        session.run([node.name for node in frozen.graph if node.op.startswith("InitializeTable")])
        assert_answers(session.run([f"{name}:0" for name in made.outputs], made.feeds), made, LOOSE[dtype])


def test_weights_that_train_are_not_cast(trained: Made, tmp_path: Path) -> None:
    with pytest.raises(tfsmith.TfsmithError, match=r"Apply.* takes a variable.*inference_only=True"):
        tfsmith.convert(trained.prefix, tmp_path / "out.meta", dtype="float16")
    assert not list(tmp_path.iterdir())


# Signatures, and models of TensorFlow 2


def test_signatures_of_tf1(made: Made, tmp_path: Path) -> None:
    import tensorflow as tf

    inputs = {name.split(":")[0]: name for name in made.feeds}
    added = {"added": (inputs, {name: f"{name}:0" for name in made.outputs})}
    options = edits(add=added, rename={"serving_default": "renamed"})
    tfsmith.convert(made.saved_model, tmp_path / "out", **options, link=True)
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    assert sorted(loaded.signatures) == ["added", "renamed"]
    for key in loaded.signatures:
        assert_answers(signature_answers(tmp_path / "out", key, made), made, 1e-6)
    assert_answers(run_saved_model(tmp_path / "out", made), made)
    data = "variables/variables.data-00000-of-00001"
    assert (tmp_path / "out" / data).samefile(made.saved_model / data)
    tfsmith.convert(tmp_path / "out", tmp_path / "fewer", **edits(remove=("renamed",)))
    assert sorted(tf.saved_model.load(str(tmp_path / "fewer")).signatures) == ["added"]


X = np.array([1.0, 2.0, -0.5, 0.25], np.float32)
EXAMPLES: dict[str, dict[str, Any]] = {
    "nested": {"x": X[None]},
    "branches": {"x": X},
    "cases": {"x": X},
    "lookup": {"words": np.array([b"beta", b"nothing"], object)},
}


def assert_module(loaded: Any, module: Any, names: Mapping[str, str], tolerance: float = 1e-6) -> None:
    """Every signature that was loaded answers as the module does; `names` has what each is called now."""
    import tensorflow as tf

    assert sorted(loaded) == sorted(names.values())
    for old, new in names.items():
        fed = {key: tf.constant(value) for key, value in EXAMPLES[old].items()}
        theirs, ours = getattr(module, old)(*fed.values()), loaded[new](**fed)
        assert sorted(ours) == sorted(theirs)
        for key, value in theirs.items():
            np.testing.assert_allclose(ours[key].numpy(), value.numpy(), rtol=tolerance, atol=tolerance)


def run_graph(folder: Path, key: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """What TF1's loader (and Serving) gives by `signature_def`."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(folder))
        signature = meta.signature_def[key]
        fed = {signature.inputs[name].name: value for name, value in example.items()}
        return dict(session.run({name: info.name for name, info in signature.outputs.items()}, fed))


SAME = {key: key for key in EXAMPLES}


def test_tf2_copy_and_link(tf2: tuple[Any, Path], tmp_path: Path) -> None:
    _, path = tf2
    tfsmith.convert(path, tmp_path / "copy", link=True)
    assert files_of(tmp_path / "copy") == files_of(path)
    for name in ("variables.index", "variables.data-00000-of-00001"):
        assert (tmp_path / "copy" / "variables" / name).samefile(path / "variables" / name)


def test_tf2_signatures_renamed_and_removed(tf2: tuple[Any, Path], tmp_path: Path) -> None:
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    module, path = tf2
    options = edits(rename={"nested": "serving_default"}, remove=("cases",))
    tfsmith.convert(path, tmp_path / "out", **options)
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    names = {"nested": "serving_default", "branches": "branches", "lookup": "lookup"}
    assert_module(loaded.signatures, module, names)
    np.testing.assert_array_equal(loaded.inner(X[None]), module.inner(X[None]))
    ours = run_graph(tmp_path / "out", "serving_default", EXAMPLES["nested"])
    np.testing.assert_allclose(ours["both"], module.nested(X[None])["both"], rtol=1e-6)
    # all but the signatures is as it was
    before = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0]
    after = saved_model_pb2.SavedModel.FromString((tmp_path / "out" / "saved_model.pb").read_bytes()).meta_graphs[0]
    assert sorted(after.signature_def) == ["__saved_model_init_op", *sorted(names.values())]
    for old, new in names.items():
        assert after.signature_def[new] == before.signature_def[old]
    number = next(
        child.node_id for child in before.object_graph_def.nodes[0].children if child.local_name == "signatures"
    )
    children = {child.local_name: child.node_id for child in before.object_graph_def.nodes[number].children}
    found = {child.local_name: child.node_id for child in after.object_graph_def.nodes[number].children}
    assert found == {new: children[old] for old, new in names.items()}
    for meta in (before, after):
        meta.ClearField("signature_def")
        del meta.object_graph_def.nodes[number].children[:]
    assert after == before
    others = {name: data for name, data in files_of(path).items() if name not in ("saved_model.pb", "fingerprint.pb")}
    assert {name: data for name, data in files_of(tmp_path / "out").items() if name != "saved_model.pb"} == others


def test_tf2_signature_added(tf2: tuple[Any, Path], tmp_path: Path) -> None:
    """Serving and TF1's loader read `signature_def`; tf.saved_model.load takes the signatures of the objects."""
    import tensorflow as tf

    module, path = tf2
    there = tfsmith.load(path).signatures["nested"]
    asked = {"new": ({"x": there.inputs["x"].name}, {"sum": there.outputs["both"].name})}
    converted = tfsmith.convert(path, tmp_path / "out", **edits(add=asked))
    assert any("tf.saved_model.load does not see" in str(note) for note in converted.notes)
    ours = run_graph(tmp_path / "out", "new", EXAMPLES["nested"])
    np.testing.assert_allclose(ours["sum"], module.nested(X[None])["both"], rtol=1e-6)
    assert_module(tf.saved_model.load(str(tmp_path / "out")).signatures, module, SAME)


def test_tf2_to_meta_and_back(tf2: tuple[Any, Path], tmp_path: Path) -> None:
    """TF1 restores by the function that TensorFlow 2 made for it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    module, path = tf2
    converted = tfsmith.convert(path, tmp_path / "m.meta")
    assert any("assets" in note.what for note in converted.notes)
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(str(tmp_path / "m.meta"))
        saver.restore(session, str(tmp_path / "m"))
        signature = tfsmith.load(path).signatures["branches"]
        answer = session.run(signature.outputs["answer"].name, {signature.inputs["x"].name: X})
        saver.save(session, str(tmp_path / "again"), write_meta_graph=False)
    np.testing.assert_allclose(answer, module.branches(X)["answer"], rtol=1e-6)
    again, before = tensors(tmp_path / "again"), tensors(path / "variables" / "variables")
    assert sorted(again) == sorted(before)


def test_tf2_renamed(tf2: tuple[Any, Path], tmp_path: Path) -> None:
    """Keys in the checkpoint, in its object graph, and in the restore function: both loaders find them."""
    import tensorflow as tf

    module, path = tf2
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    options: dict[str, Any] = {"rename": ((f"w{end}", f"weights/kernel{end}"), ("re:^rows/", "table/"))}
    tfsmith.convert(path, tmp_path / "out", **options)
    assert {f"weights/kernel{end}", f"table{end}"} < set(tensors(tmp_path / "out/variables/variables"))
    assert_module(tf.saved_model.load(str(tmp_path / "out")).signatures, module, SAME)
    ours = run_graph(tmp_path / "out", "nested", EXAMPLES["nested"])
    np.testing.assert_allclose(ours["both"], module.nested(X[None])["both"], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tf2_small(tf2: tuple[Any, Path], tmp_path: Path, dtype: Literal["float16", "bfloat16"]) -> None:
    import tensorflow as tf

    module, path = tf2
    tfsmith.convert(path, tmp_path / "out", dtype=dtype)
    found = tensors(tmp_path / "out" / "variables" / "variables")
    assert {value.dtype.name for value in found.values()} == {dtype}
    assert_module(tf.saved_model.load(str(tmp_path / "out")).signatures, module, SAME, 5 * LOOSE[dtype])
    for key, example in EXAMPLES.items():
        for name, value in run_graph(tmp_path / "out", key, example).items():
            theirs = getattr(module, key)(*example.values())[name]
            np.testing.assert_allclose(value, theirs, rtol=5 * LOOSE[dtype], atol=5 * LOOSE[dtype])


@pytest.mark.parametrize("name", list(KERAS))
def test_keras_small(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    build, shape = KERAS[name]
    tf.keras.utils.set_random_seed(3)
    keras = build(tf)
    keras.export(str(tmp_path / "model"), verbose=False)
    tfsmith.convert(tmp_path / "model", tmp_path / "out", inference_only=True, dtype="float16")
    kinds = {tensor.dtype.name for tensor in tfsmith.load(tmp_path / "out").variables.values()}
    assert "float16" in kinds
    assert "float32" not in kinds
    x = _example(shape)
    (key,) = tfsmith.load(tmp_path / "out").signatures["serving_default"].inputs
    (answer,) = run_graph(tmp_path / "out", "serving_default", {key: x}).values()
    np.testing.assert_allclose(answer, keras(x, training=False).numpy(), rtol=2e-2, atol=2e-2)
    loaded = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    (same,) = loaded(**{key: tf.constant(x)}).values()
    np.testing.assert_allclose(same.numpy(), answer, rtol=1e-4, atol=1e-5)


def test_tf2_inference_only(tmp_path: Path) -> None:
    """A model that was trained has its optimizer's variables in the SavedModel. Its objects stay, without these."""
    import tensorflow as tf

    class Trainer(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones([4, 2]), name="w")
            self.optimizer = tf.keras.optimizers.Adam()
            self.optimizer.build([self.w])

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            return {"y": tf.matmul(x, self.w)}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def train(self, x: Any) -> Any:
            self.optimizer.apply([tf.ones_like(self.w)], [self.w])
            return x

    module = Trainer()
    module.train(X[None])
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": module.serve})
    before = tensors(tmp_path / "model/variables/variables")
    assert len([name for name in before if "optimizer" in name]) >= 4
    tfsmith.convert(tmp_path / "model", tmp_path / "out", inference_only=True)
    after = tensors(tmp_path / "out/variables/variables")
    assert sorted(after) == ["_CHECKPOINTABLE_OBJECT_GRAPH", "w/.ATTRIBUTES/VARIABLE_VALUE"]
    theirs = module.serve(X[None])["y"]
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    np.testing.assert_array_equal(loaded.signatures["serving_default"](tf.constant(X[None]))["y"], theirs)
    np.testing.assert_array_equal(loaded.serve(X[None])["y"], theirs)
    np.testing.assert_array_equal(loaded.w.numpy(), module.w.numpy())
    np.testing.assert_allclose(run_graph(tmp_path / "out", "serving_default", {"x": X[None]})["y"], theirs, rtol=1e-6)


def test_tf2_checkpoint(tmp_path: Path) -> None:
    """A checkpoint of objects: what is left restores, under other keys, and slots are forgotten."""
    import tensorflow as tf

    def build() -> tuple[Any, Any, Any]:
        dense = tf.keras.layers.Dense(3)
        dense.build((None, 4))
        optimizer = tf.keras.optimizers.Adam()
        return dense, optimizer, tf.train.Checkpoint(model=dense, optimizer=optimizer, step=tf.Variable(5))

    tf.keras.utils.set_random_seed(1)
    dense, optimizer, checkpoint = build()
    optimizer.apply_gradients([(tf.ones_like(value), value) for value in dense.trainable_variables])
    prefix = checkpoint.save(str(tmp_path / "ckpt"))
    options: dict[str, Any] = {"inference_only": True, "rename": (("re:^model/", "net/"),)}
    tfsmith.convert(prefix, tmp_path / "small.ckpt", **options)
    names = set(tensors(tmp_path / "small.ckpt"))
    assert not [name for name in names if "optimizer" in name]
    assert [name for name in names if name.startswith("net/")]
    fresh, _, again = build()
    again.restore(str(tmp_path / "small.ckpt")).expect_partial()
    for ours, theirs in zip(fresh.trainable_variables, dense.trainable_variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert int(again.step) == 5
