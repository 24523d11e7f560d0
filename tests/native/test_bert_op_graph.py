"""The op in graphs: shapes, variables that change, threads, and a BERT of TensorFlow 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.cases import Array, Case, make_case
from tests.support.helpers import python

from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen

pytestmark = pytest.mark.tensorflow

Op = Callable[..., Any]
ATOL = 3e-5


def _weight_names(layers: int) -> list[str]:
    """Those of Google's BERT, in the op's order."""
    dense = [f"attention/self/{name}" for name in ("query", "key", "value")] + ["attention/output/dense"]
    names = [f"{name}/{what}" for name in dense for what in ("kernel", "bias")]
    names += ["attention/output/LayerNorm/gamma", "attention/output/LayerNorm/beta"]
    names += [f"{name}/dense/{what}" for name in ("intermediate", "output") for what in ("kernel", "bias")]
    names += ["output/LayerNorm/gamma", "output/LayerNorm/beta"]
    return [f"bert/encoder/layer_{layer}/{name}/read:0" for layer in range(layers) for name in names]


def test_the_op_definition(bert_op: Op) -> None:
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get("Bert")
    assert [one.name for one in definition.input_arg] == ["embedded", "input_mask", "weights"]
    assert [one.name for one in definition.output_arg] == ["encoded"]
    attributes = {one.name: one for one in definition.attr}
    # What the public interface has; all else must have a default.
    public = {"MaskT", "QuantizableDataType", "NonQuantizableDataType", "NumWeights", "HiddenSize", "NumAttentionHeads"}
    public |= {"IntermediateSize", "MaxSequenceLength", "HiddenAct", "CalibrateQuantFactors", "QuantizationFactorsPath"}
    assert public <= set(attributes)
    assert all(one.HasField("default_value") for name, one in attributes.items() if name not in public)
    assert attributes["MaxSequenceLength"].default_value.i == 128


def test_a_frozen_bert_of_tensorflow_1(bert_op: Op, tmp_path: Path) -> None:
    import tensorflow as tf

    config = BertConfig(50, 48, 3, 4, 96, max_position_embeddings=20)
    model = bert_classifier(config, length=20)
    v1 = tf.compat.v1
    definition = v1.GraphDef.FromString(write_frozen(model, tmp_path / "frozen.pb").read_bytes())
    with tf.Graph().as_default() as graph:
        v1.import_graph_def(definition, name="")
        encoded = bert_op(
            embedded=graph.get_tensor_by_name("bert/encoder/Reshape_1:0"),
            input_mask=graph.get_tensor_by_name("bert/encoder/Reshape:0"),
            weights=[graph.get_tensor_by_name(name) for name in _weight_names(3)],
            HiddenSize=48,
            NumAttentionHeads=4,
            IntermediateSize=96,
            MaxSequenceLength=20,
        )
        original = graph.get_tensor_by_name("bert/encoder/layer_2/output/LayerNorm/batchnorm/add_1:0")
        options = v1.ConfigProto()
        # With it, TensorFlow 2.21 on oneDNN takes 0.001 for the epsilon of layer normalizations; the graph says 1e-12.
        options.graph_options.rewrite_options.remapping = 2
        feeds = {model.inputs[key]: value for key, value in model.example_inputs(batch=3).items() if key != "label_ids"}
        with v1.Session(graph=graph, config=options) as session:
            expected, result = session.run([original, encoded], feeds)
    np.testing.assert_allclose(result, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("embedded", "mask", "expected"),
    [
        ([None, None, None], [None, 8], [None, 8, 16]),
        ([3, None, 16], [None, None], [3, None, 16]),
        ([None, 16], [None, 1, 8], [None, 16]),
        ([16, None], [2, 8], [16, 16]),
        ([2, 8, 16], None, [2, 8, 16]),
        (None, None, None),
    ],
)
def test_shapes_are_known_before_values(
    bert_op: Op, embedded: list[int] | None, mask: list[int] | None, expected: list[int] | None
) -> None:
    import tensorflow as tf

    case = make_case()

    @tf.function(input_signature=[tf.TensorSpec(embedded, tf.float32), tf.TensorSpec(mask, tf.int32)])
    def encode(rows: Any, words: Any) -> Any:
        return bert_op(embedded=rows, input_mask=words, weights=case.weights, **case.attributes)

    shape = encode.get_concrete_function().output_shapes
    assert (shape.as_list() if shape.rank is not None else None) == expected


@pytest.mark.parametrize(
    ("embedded", "mask"),
    [([16], [1, 8]), ([1, 1, 8, 16], [1, 8]), ([1, 8, 17], [1, 8]), ([1, 8, 16], [8]), ([2, 8, 16], [3, 8])],
)
def test_shapes_that_never_fit(bert_op: Op, embedded: list[int], mask: list[int]) -> None:
    import tensorflow as tf

    case = make_case()
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"[Ss]hape|[Dd]imension"):
        bert_op(
            embedded=tf.compat.v1.placeholder(tf.float32, embedded),
            input_mask=tf.compat.v1.placeholder(tf.int32, mask),
            weights=case.weights,
            **case.attributes,
        )


def test_weights_that_never_fit(bert_op: Op) -> None:
    import tensorflow as tf

    case = make_case()
    weights = [*case.weights[:3], np.zeros(17, np.float32), *case.weights[4:]]
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"weights 3 \(key bias of layer 0\) have shape \[17\]"),
    ):
        bert_op(embedded=case.embedded, input_mask=case.mask, weights=weights, **case.attributes)


def _check_changes(run: Callable[[], Array], change: Callable[[list[Array]], None], first: Case, second: Case) -> None:
    np.testing.assert_allclose(run(), first.expected, rtol=0, atol=ATOL)
    np.testing.assert_allclose(run(), first.expected, rtol=0, atol=ATOL)
    change(second.weights)
    np.testing.assert_allclose(run(), second.expected, rtol=0, atol=ATOL)
    change(first.weights)
    np.testing.assert_allclose(run(), first.expected, rtol=0, atol=ATOL)


def _two_cases() -> tuple[Case, Case]:
    """The same input, other weights. The kernels are so large that only some of their values are looked at."""
    first = make_case(heads=4, head_size=32, inner=300, layers=2, length=5)
    other = make_case(heads=4, head_size=32, inner=300, layers=2, length=5, seed=1)
    return first, Case(first.embedded, first.mask, other.weights, first.heads, first.activation)


@pytest.mark.parametrize("in_place", [False, True])
def test_variables_that_change(bert_op: Op, in_place: bool) -> None:
    import tensorflow as tf

    first, second = _two_cases()
    variables = [tf.Variable(value) for value in first.weights]

    @tf.function
    def encode() -> Any:
        return bert_op(embedded=first.embedded, input_mask=first.mask, weights=variables, **first.attributes)

    def change(weights: list[Array]) -> None:
        for variable, value in zip(variables, weights, strict=True):
            if in_place:
                variable.assign_add(value - variable)
            else:
                variable.assign(value)

    _check_changes(lambda: encode().numpy(), change, first, second)


def test_variables_of_tensorflow_1_that_change(bert_op: Op) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    first, second = _two_cases()
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.Variable(value, use_resource=False) for value in first.weights]
        new = [v1.placeholder(tf.float32, value.shape) for value in first.weights]
        assigned = [v1.assign(variable, value) for variable, value in zip(variables, new, strict=True)]
        encoded = bert_op(embedded=first.embedded, input_mask=first.mask, weights=variables, **first.attributes)
        session.run([variable.initializer for variable in variables])

        def change(weights: list[Array]) -> None:
            session.run(assigned, dict(zip(new, weights, strict=True)))

        _check_changes(lambda: session.run(encoded), change, first, second)


def test_one_vector_that_changes(bert_op: Op) -> None:
    import tensorflow as tf

    case = make_case(layers=2)
    variables = [tf.Variable(value) for value in case.weights]

    def run() -> Array:
        return case.run(bert_op, weights=[variable.value() for variable in variables])

    np.testing.assert_allclose(run(), case.expected, rtol=0, atol=ATOL)
    variables[-1].assign_add(np.eye(1, 16, 5, dtype=np.float32)[0])
    np.testing.assert_allclose(run(), case.expected + np.eye(1, 16, 5), rtol=0, atol=ATOL)


def test_runs_at_the_same_time(bert_op: Op) -> None:
    import tensorflow as tf

    cases = [make_case(batch=1 + at % 3, length=5 + at, heads=4, head_size=16, inner=100, layers=2) for at in range(8)]
    weights = cases[0].weights
    attributes = {**cases[0].attributes, "MaxSequenceLength": 20}

    @tf.function(reduce_retracing=True)
    def encode(rows: Any, mask: Any) -> Any:
        return bert_op(embedded=rows, input_mask=mask, weights=weights, **attributes)

    def run(case: Case) -> Array:
        result: Array = encode(tf.constant(case.embedded), tf.constant(case.mask)).numpy()
        return result

    with ThreadPoolExecutor(4) as pool:
        for case, result in zip(cases * 4, pool.map(run, cases * 4), strict=True):
            same = Case(case.embedded, case.mask, weights, case.heads, case.activation)
            np.testing.assert_allclose(result, same.expected, rtol=0, atol=ATOL)


THREADS = """
import json, sys
import numpy as np, tensorflow as tf
from tests.native.cases import make_case
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[2]))
op = tf.load_op_library(sys.argv[1]).bert
worst = []
for kind in (tf.float32, tf.qint8):
    for sizes in ({"length": 3}, {"length": 130, "batch": 3}, {"length": 40, "batch": 7}):
        case = make_case(heads=6, head_size=32, inner=700, layers=2, **sizes)
        worst.append(float(np.abs(case.run(op, QuantizableDataType=kind) - case.expected).mean()))
print(json.dumps(worst))
"""


@pytest.mark.parametrize("threads", [1, 40])
def test_any_number_of_threads(bert_library: Path, threads: int) -> None:
    done = python("-c", THREADS, str(bert_library), str(threads))
    worst = json.loads(done.stdout.splitlines()[-1])
    assert max(worst[:3]) < ATOL
    assert max(worst[3:]) < 0.05
