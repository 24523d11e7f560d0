"""SavedModels written by the real TensorFlow, one per oddity of `saved_model_cli show`.

Each builder writes one folder. Only tests that need TensorFlow import this file.
"""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_spec, tensor_util, weak_tensor
from tensorflow.python.ops.ragged import row_partition

v1 = tf.compat.v1
Pair = collections.namedtuple("Pair", ["p", "q"])
Nothing = collections.namedtuple("Nothing", [])
FLOAT = tf.TensorSpec([], tf.float32)


class Extension(tf.experimental.ExtensionType):
    __name__ = "tests.Extension"
    a: tf.Tensor
    n: int
    s: str
    several: tuple[tf.Tensor, ...]
    named: Mapping[str, tf.Tensor]


class Network(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(2.0)

    def _serve(self, x: Any) -> Any:
        return x * self.scale

    def _mixed(self, x: Any, y: Any = 1, *, rate: float = 2.0, name: str = "n", flag: bool = True) -> Any:
        return tf.cast(x, tf.float32) * self.scale * rate

    def _variadic(self, x: Any, *args: Any, lr: float = 0.1, **kwargs: Any) -> Any:
        return x * self.scale

    def _call(self, x: Any, training: bool = False) -> Any:
        return x

    serve = tf.function(_serve, input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    mixed = tf.function(_mixed)
    variadic = tf.function(_variadic)
    __call__ = tf.function(_call)


def _save(model: Any, folder: Path, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that specs need their classes to be loaded, which is what is tested
        tf.saved_model.save(model, str(folder), **options)


def _one(*args: Any, **kwargs: Any) -> Callable[[Path], None]:
    """A module whose one function was traced with these arguments."""

    def build(folder: Path) -> None:
        module = tf.Module()
        module.f = tf.function(lambda *args, **kwargs: tf.constant(1))
        module.f.get_concrete_function(*args, **kwargs)
        _save(module, folder)

    return build


def _identity() -> Any:
    return tf.function(lambda x: x, input_signature=[FLOAT])


def network(folder: Path) -> None:
    model = Network()
    model.mixed(tf.constant(1), y=3, rate=3.5, name="zz", flag=False)
    model.mixed(tf.constant(1), tf.constant(2))
    model.mixed(1)
    model.variadic(tf.constant(1.0))
    model.variadic(tf.constant(1.0), tf.constant(2), 3, lr=1.0, extra=tf.constant(1), b="x")
    model.variadic(tf.constant(1.0), [1, 2], zz={"a": 1})
    model(tf.zeros([2]), training=True)
    model(tf.zeros([2]))
    model.__call__.get_concrete_function(tf.RaggedTensorSpec([None, None], tf.float32))
    model.__call__.get_concrete_function(tf.SparseTensorSpec([None, None], tf.float32), training=False)
    model.bare = model.serve.get_concrete_function()
    _save(model, folder, signatures=model.serve)


def nested(folder: Path) -> None:
    inner = {"z": tf.constant(2.0), "c": 3, "s": "text"}
    first = {"b": tf.constant(1.0), "a": inner, "zz": None}
    second = [tf.constant(1.0), 2, "s", None, True, 1.5]
    third = (tf.constant(1.0), tf.constant(2.0), [1, (2,)])
    _one(first, second, third, Pair(tf.constant(1.0), "q"))(folder)


def tensor_specs(folder: Path) -> None:
    _one(
        tf.TensorSpec(None, tf.float32, "a/b"),
        tf.TensorSpec([], tf.string, "weird name'"),
        tf.TensorSpec([0], tf.uint8),
        tf.TensorSpec([1, None, 3], tf.resource),
        tf.TensorSpec([], tf.variant),
        tf.TensorSpec([2], tf.half, name="d"),
    )(folder)


def python_values(folder: Path) -> None:
    numbers = (1, -5, 2**40, 1.5, float("inf"), 1e300, -0.0, 0.1, True, False, None)
    texts = ("s", "", 'it\'s "q"\n\tü', "\\")
    containers: tuple[Any, ...] = (
        [],
        (),
        {},
        [[]],
        [()],
        ({},),
        ["a", "b'c", ["d"]],
        {"k": "v", "n": ["v", "w"], "q'": 1},
    )
    _one(*numbers, *texts, *containers)(folder)


def named_tuples(folder: Path) -> None:
    maps = (collections.OrderedDict(b=1, a=2), collections.defaultdict(int, {"a": 1}))
    _one(Pair(1, "q"), [Pair("a", Pair(2, None))], {"a": Pair(1.5, Nothing())}, Nothing(), *maps)(folder)


def dtypes(folder: Path) -> None:
    _one(tf.float32, [tf.int8, tf.bool], {"a": tf.string}, [(tf.bfloat16,)])(folder)


def ragged_and_sparse(folder: Path) -> None:
    _one(
        tf.RaggedTensorSpec([None, None, 3], tf.string, ragged_rank=1, row_splits_dtype=tf.int32),
        tf.RaggedTensorSpec(None, tf.int64, ragged_rank=2),
        [tf.RaggedTensorSpec([2, None], flat_values_spec=tf.TensorSpec([None], tf.float32))],
        tf.SparseTensorSpec(None, tf.string),
    )(folder)


def data_specs(folder: Path) -> None:
    bounded = tensor_spec.BoundedTensorSpec([], tf.float32, 0, 1.5)
    parts = (tf.TensorSpec([2], tf.int32, name="q"), {"b": tf.RaggedTensorSpec([2, None], tf.string), "a": bounded})
    plain = tf.data.DatasetSpec(tf.TensorSpec([2], tf.int32))
    _one(plain, tf.data.DatasetSpec(parts, [3]), tf.OptionalSpec(tf.TensorSpec([2], tf.int32)))(folder)


def iterator(folder: Path) -> None:
    module = tf.Module()
    module.f = tf.function(lambda values: next(values))
    module.f.get_concrete_function(iter(tf.data.Dataset.range(3)))
    _save(module, folder)


def other_specs(folder: Path) -> None:
    _one(
        tf.IndexedSlicesSpec([3, 4], tf.float32),
        tf.IndexedSlicesSpec(None, tf.float32, tf.int32, tf.int64, [5]),
        row_partition.RowPartitionSpec(3, None, None, tf.int64),
        tf.experimental.DynamicRaggedShape.from_lengths([2, (1, 2), 3]),
        tf.linalg.LinearOperatorDiag(tf.constant([1.0, 2.0]), is_self_adjoint=True),
        weak_tensor.WeakTensor.from_tensor(tf.constant(1.0)),
    )(folder)


def extension_type(folder: Path) -> None:
    several = (tf.constant([1, 2]), tf.constant(2))
    _one(Extension(tf.constant(1.0), 3, "x", several, {"k": tf.constant(1), "j": tf.constant(True)}))(folder)


def variables_as_arguments(folder: Path) -> None:
    module = tf.Module()
    module.v, module.w = tf.Variable([1.0, 2.0]), tf.Variable(1, trainable=False)
    module.f = tf.function(lambda a, b, c: a + 1.0)
    module.f.get_concrete_function(module.v, module.w, module.v)
    _save(module, folder)


def without_arguments(folder: Path) -> None:
    module = tf.Module()
    module.f = tf.function(lambda: tf.constant(1))
    module.f.get_concrete_function()
    module.never_traced = tf.function(lambda x: x)
    module.named_only = tf.function(lambda *, k: k)
    for k in (tf.TensorSpec([], tf.int32), tf.TensorSpec([1], tf.int32), 3):
        module.named_only.get_concrete_function(k=k)
    _save(module, folder)


def wrapped_functions(folder: Path) -> None:
    module = tf.Module()
    module.w = v1.wrap_function(lambda x, y: x + 1.0, [FLOAT, FLOAT])
    module.pruned = module.w.prune(module.w.inputs[0], module.w.outputs[0])
    _save(module, folder)


def attribute_names(folder: Path) -> None:
    module, f = tf.Module(), _identity()
    for name in ("_private", "graph_debug_info", "tensorflow_version", "we ird-1", "alias", "ü", "B"):
        setattr(module, name, f)
    module.inner = tf.Module()
    module.inner.g = f
    module.several = [f]
    _save(module, folder, signatures={"a": f, "b": f})


def composite_signature(folder: Path) -> None:
    spec = {"r": tf.RaggedTensorSpec([None, None], tf.int64), "s": tf.SparseTensorSpec([None, 4], tf.float32)}
    module = tf.Module()
    module.f = tf.function(
        lambda d: {"o": d["r"], "p": d["s"], "q": tf.constant("x"), "u": tf.constant(1.0)}, input_signature=[spec]
    )
    _save(module, folder, signatures=module.f)


def no_functions(folder: Path) -> None:
    module = tf.Module()
    module.v = tf.Variable(1.0)
    _save(module, folder)


def root_is_a_dict(folder: Path) -> None:
    module = tf.Module()
    module.d = {"a": _identity(), "b": tf.Variable(1.0)}
    _save(module.d, folder)


def root_is_a_table(folder: Path) -> None:
    _save(tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1), folder)


def many_traces(folder: Path) -> None:
    """Enough concrete functions, of ops with one, several and listed outputs, that their numbers gain a digit."""

    def f(x: Any) -> Any:
        for _ in tf.range(3):
            x = x + 1.0 if x[0] > 0.0 else x - 1.0
        a, b, c = tf.split(tf.concat([x, x, x], 0), 3)
        return tf.map_fn(lambda y: y * 2.0, x), tf.unstack(x, num=x.shape[0]), a, b, c

    def g(x: Any) -> Any:
        total = 0.0
        for value in tf.data.Dataset.range(3).map(lambda z: z + 1):
            total += tf.cast(value, tf.float32)
        return x + total + module.f(x)[1][0]

    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    module.f, module.g, module.look = tf.function(f), tf.function(g), tf.function(module.table.lookup)
    for n in range(1, 13):
        module.f.get_concrete_function(tf.TensorSpec([n], tf.float32))
        module.g.get_concrete_function(tf.TensorSpec([n], tf.float32))
        module.look.get_concrete_function(tf.TensorSpec([n], tf.string))
    _save(module, folder)


def custom_gradients(folder: Path) -> None:
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: dy * 2 * x))
    module = tf.Module()
    module.f = tf.function(lambda x: square(x) + tf.nn.silu(x) + square(x + 1))
    for n in range(1, 13):
        module.f.get_concrete_function(tf.TensorSpec([n], tf.float32))
    _save(module, folder, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))


def keras_export(folder: Path) -> None:
    import keras

    words, flags = keras.Input([4], name="words"), keras.Input([None, 3], dtype="int32", name="flags")
    outputs = [keras.layers.Dense(3, activation="relu")(words), keras.layers.Embedding(5, 2)(flags)]
    keras.Model({"words": words, "flags": flags}, outputs).export(str(folder), verbose=False)


def keras_saved(folder: Path) -> None:
    import keras

    layers = [keras.Input([8, 8, 1]), keras.layers.Conv2D(2, 3), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    _save(model, folder)


def tf1(folder: Path, *, text: bool = False) -> None:
    """Several tag sets; signatures with sparse, ragged and default inputs, unknown rank, and odd keys."""
    with tf.Graph().as_default(), v1.Session() as session:
        x, s = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.string, None, "s")
        sparse, flag = v1.sparse_placeholder(tf.int64, [None, 7], "sp"), v1.placeholder(tf.bool, [], "b")
        rows = v1.placeholder(tf.int64, [None], "rows")
        ragged = tf.RaggedTensor.from_row_splits(v1.placeholder(tf.int32, [None], "values"), rows)
        weights = v1.get_variable("w", [3, 2], use_resource=False)
        y = tf.matmul(x, weights, name="y")
        session.run(v1.global_variables_initializer())
        info, signature = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
        predict = "tensorflow/serving/predict"
        signatures = {
            "serving_default": signature({"x": info(x), "b": info(flag)}, {"y": info(y)}, predict),
            'a/b weird "k"': signature({"s": info(s), "sp": info(sparse), "r": info(ragged)}, {"x": info(x)}, "own"),
            "empty": signature({}, {}, ""),
            "ü": signature({"ключ": info(x)}, {"ref": info(weights)}, "m"),
            "defaults": signature({"x": info(x)}, {"y": info(y)}, predict),
        }
        signatures["defaults"].defaults["x"].CopyFrom(tensor_util.make_tensor_proto([[1.0, 2.0, 3.0]]))
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve", "gpu"], signature_def_map=signatures)
        builder.add_meta_graph(["train"], signature_def_map={"t": signatures["empty"]})
        builder.add_meta_graph(["b", "a"])
        builder.add_meta_graph([])
        builder.save(as_text=text)


def tf1_text(folder: Path) -> None:
    tf1(folder, text=True)


def tf1_saved_again(folder: Path) -> None:
    """A TF1 model that went through TF2: its signatures are wrapped functions."""
    old = folder.with_name(folder.name + "_old")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        y = tf.matmul(x, v1.get_variable("w", [3, 2], use_resource=True))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(old), {"x": x}, {"y": y})
    loaded = tf.saved_model.load(str(old))
    _save(loaded, folder, signatures=loaded.signatures)


BUILDERS: dict[str, Callable[[Path], None]] = {
    build.__name__: build
    for build in (
        network,
        nested,
        tensor_specs,
        python_values,
        named_tuples,
        dtypes,
        ragged_and_sparse,
        data_specs,
        iterator,
        other_specs,
        extension_type,
        variables_as_arguments,
        without_arguments,
        wrapped_functions,
        attribute_names,
        composite_signature,
        no_functions,
        root_is_a_dict,
        root_is_a_table,
        many_traces,
        custom_gradients,
        keras_export,
        keras_saved,
        tf1,
        tf1_text,
        tf1_saved_again,
    )
}
