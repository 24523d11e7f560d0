"""Asks the installed TensorFlow Lite converter, op by op, what it turns into built-in ops; `make_targets.py` uses it.

    python tools/tflite_ops.py OP...          prints for each op "yes", "no", or "?" where no graph of it could be made
    python tools/tflite_ops.py --types OP...  prints for each op, and each combination of types, "yes" or "no"

For the names, a graph of one op is made in every way that its definition allows and that TensorFlow's shape functions
accept, up to a few; the op counts if one of them converts. Inputs that say where or how much are constants, as in real
models. For the types, the graphs are the conformance cases of the op, with what is fed and with constants in its place.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

TYPES = ("float32", "int32", "bool", "int64", "string", "complex64", "int8", "float16", "uint8")
SHAPES = ((1, 4, 4, 2), (2, 2), (), (2,), (4,), (2, 3, 3), (1, 4, 4, 4, 2), (1,), (2, 2, 2, 1), (4, 2))
INTS = (1, 2, 0, -1)
MOST_TRIES, MOST_GRAPHS, MOST_CASES = 1500, 4, 8


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if sys.argv[1:2] == ["--types"]:
        for op in sys.argv[2:]:
            for types, cases in _cases(op).items():
                print(op, types.replace(" ", ";") or "-", flush=True, end=" ")
                print("yes" if any(_case_converts(case) for case in cases) else "no", flush=True)
        return
    for op in sys.argv[1:]:
        print(op, flush=True, end=" ")
        print(ask(op), flush=True)


def _cases(op: str) -> dict[str, list[Any]]:
    """The cases of an op that TensorFlow computes, by the types of its node: a few of each, spread over all."""
    from tfsmith.ops.samples import samples_of
    from tfsmith.ops.traits import node_types
    from tfsmith.testing.conformance.answers import digest, load_answers

    found: dict[str, list[Any]] = {}
    for samples in samples_of(op):
        answers = load_answers(samples.family).by_digest
        for case in samples.cases():
            answer = answers.get(digest(case))
            own = [node for node in case.nodes if node.op == op]
            if answer is None or answer.kind != "values" or len(own) != 1 or case.shapes:
                continue
            if all(array.size for array in (*case.feeds.values(), *answer.values)):
                found.setdefault(node_types(op, own[0].attrs) or "", []).append(case)
    return {types: cases[:: -(-len(cases) // MOST_CASES)] for types, cases in found.items()}


def _case_converts(case: Any) -> bool:
    """Whether a case converts, with some of its inputs as constants or none; not with all, for those are folded."""
    from tfsmith.testing.conformance.isolated import with_constants

    return any(_graph_converts(one) for one in (*with_constants(case), case) if one.feeds or not case.feeds)


def _graph_converts(case: Any) -> bool:
    import tensorflow as tf

    from tfsmith.formats.graph.graphdef import plan_graph

    graph_def = tf.compat.v1.GraphDef.FromString(plan_graph(case.graph()).tobytes())

    def import_it() -> None:
        tf.compat.v1.import_graph_def(graph_def, name="")

    try:
        wrapped = tf.compat.v1.wrap_function(import_it, [])
        fed = [wrapped.graph.get_tensor_by_name(f"{key}:0") for key in case.feeds]
        return _converts(wrapped.prune(fed, [wrapped.graph.get_tensor_by_name(name) for name in case.fetches]))
    except Exception:  # a graph that cannot be made alone, such as one with a table
        return False


def ask(op: str) -> str:
    """Whether an op converts."""
    made = False
    for function in itertools.islice(_functions(op), MOST_GRAPHS):
        made = True
        if _converts(function):
            return "yes"
    return "no" if made else "?"


def _converts(function: Any) -> bool:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    try:
        return bool(converter.convert())
    except Exception:  # it raises whatever its passes do
        return False


def _functions(op: str) -> Iterator[Any]:
    """Graphs of one op, one for each choice of attributes at most; those that TensorFlow refuses are left out."""
    import tensorflow as tf

    definition = tf.Graph().op_def_for_type(op)
    if not definition.output_arg:  # nothing of it would be left to convert
        return
    attrs = [attr for attr in definition.attr if not attr.HasField("default_value")]
    inputs = len(definition.input_arg)
    chosen = [(shape,) * inputs for shape in SHAPES]
    if 1 < inputs < 4:
        chosen = sorted(
            itertools.product(SHAPES, repeat=inputs), key=lambda found: (() in (found[0], found[-1]), len(set(found)))
        )
    tries = 0
    for values in itertools.product(*(_values(attr) for attr in attrs)):
        given = dict(zip((attr.name for attr in attrs), values, strict=True))
        for shapes, fill in itertools.product(chosen, (tf.ones, _count)):
            tries += 1
            if tries > MOST_TRIES:
                return
            function = _function(definition, given, shapes, fill)
            if function is not None:
                yield function
                break


def _count(shape: tuple[int, ...], kind: Any) -> Any:
    import tensorflow as tf

    return tf.reshape(tf.range(math.prod(shape), dtype=kind), shape)


def _function(definition: Any, attrs: dict[str, Any], shapes: tuple[tuple[int, ...], ...], fill: Any) -> Any:
    import tensorflow as tf

    types = {attr.name: attr.default_value.type for attr in definition.attr}
    types |= {name: value.as_datatype_enum for name, value in attrs.items() if isinstance(value, tf.DType)}
    said = {arg.name: arg.type or types.get(arg.type_attr, 0) for arg in definition.input_arg}
    fixed = {name for name, kind in said.items() if kind in (tf.int32, tf.int64)}  # an axis, a size, indices
    fixed = fixed if len(fixed) < len(said) else set(list(said)[1:])
    fed: list[Any] = []
    inputs: list[Any] = []  # for each its place among what is fed, or its shape and type if it is a constant
    for arg, shape in zip(definition.input_arg, shapes, strict=True):
        listed = attrs.get(arg.type_list_attr, ())
        count = attrs.get(arg.number_attr, 1) if arg.number_attr else max(1, len(listed))
        kind = listed[0] if listed else tf.dtypes.as_dtype(arg.type or types[arg.type_attr] or 1)
        is_fixed = arg.name in fixed
        for _ in range(count):
            inputs.append((shape, kind) if is_fixed else len(fed))
            fed += [] if is_fixed else [tf.TensorSpec(shape, kind)]
    if not fed:
        return None

    def call(*values: Any) -> Any:
        taken = [values[one] if isinstance(one, int) else fill(*one) for one in inputs]
        told = {name: _value(value) for name, value in attrs.items()}
        made = tf.compat.v1.get_default_graph().create_op(definition.name, taken, attrs=told)
        return made.outputs

    try:
        return tf.function(call, autograph=False).get_concrete_function(*fed)
    except Exception:  # whatever its shape function does not accept
        return None


def _value(value: Any) -> Any:
    """An attribute as the protocol buffer has it."""
    import tensorflow as tf

    found = tf.compat.v1.AttrValue()
    if isinstance(value, tf.DType):
        found.type = value.as_datatype_enum
    elif isinstance(value, bool):
        found.b = value
    elif isinstance(value, str):
        found.s = value.encode()
    elif isinstance(value, (int, float)):
        setattr(found, "i" if isinstance(value, int) else "f", value)
    elif isinstance(value, tf.TensorShape):
        found.shape.CopyFrom(value.as_proto())
    elif value and isinstance(value[0], tf.DType):
        found.list.type.extend(one.as_datatype_enum for one in value)
    elif value and isinstance(value[0], float):
        found.list.f.extend(value)
    else:
        found.list.i.extend(value)
    return found


def _values(attr: Any) -> tuple[Any, ...]:
    """What to try for an attribute that has no default."""
    import tensorflow as tf

    if attr.type == "type":
        allowed = [tf.dtypes.as_dtype(kind).name for kind in attr.allowed_values.list.type]
        return tuple(tf.dtypes.as_dtype(kind) for kind in TYPES if not allowed or kind in allowed)
    if attr.type == "string":
        return tuple(value.decode() for value in attr.allowed_values.list.s) or ("",)
    found: dict[str, tuple[Any, ...]] = {
        "int": INTS[: 2 if attr.has_minimum else 4],
        "float": (1.0,),
        "bool": (False, True),
        "shape": (tf.TensorShape((2, 2)),),
        "list(int)": ((1, 1, 1, 1), (1, 2, 2, 1), (1,), (0,), (1, 1, 1, 1, 1)),
        "list(type)": ((tf.float32,), (tf.float32, tf.float32)),
        "list(float)": ((1.0,),),
    }
    return found.get(attr.type, ())


if __name__ == "__main__":
    main()
