"""SavedModels of the zoo with changes that only other programs make, or none at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2
from tests.support.saved_model_zoo import network


def _edited(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """The network with a change that only other programs make."""

    def build(folder: Path) -> None:
        network(folder)
        main = folder / "saved_model.pb"
        message = saved_model_pb2.SavedModel.FromString(main.read_bytes())
        change(message)
        main.write_bytes(message.SerializeToString(deterministic=True))

    return build


def _use_custom_op(message: Any) -> None:
    own = message.meta_graphs[0].meta_info_def.stripped_op_list.op.add(name="MyMul")
    own.input_arg.add(name="x", type=1)
    own.output_arg.add(name="y", type=1)
    for function in message.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            node.op = "MyMul" if node.op == "Mul" else node.op


def _use_custom_op_outside(message: Any) -> None:
    message.meta_graphs[0].graph_def.node.add(name="own", op="MyOp")


def _lose_child(message: Any) -> None:
    message.meta_graphs[0].object_graph_def.nodes[0].children.add(local_name="lost", node_id=10_000)


def _add_meta_graph(message: Any) -> None:
    message.meta_graphs.add().CopyFrom(message.meta_graphs[0])
    message.meta_graphs[1].meta_info_def.tags[:] = ["b", "a"]


def _use_own_spec(message: Any) -> None:
    functions = message.meta_graphs[0].object_graph_def.concrete_functions
    for name in functions:
        for value in functions[name].canonicalized_input_signature.tuple_value.values[0].tuple_value.values:
            if value.HasField("type_spec_value"):
                value.type_spec_value.type_spec_class = 12
                value.type_spec_value.type_spec_class_name = "my.Spec"


def _call_itself(message: Any) -> None:
    function = message.meta_graphs[0].graph_def.library.function[0]
    function.node_def.add(name="again", op=function.signature.name)


def _drop_concrete_functions(message: Any) -> None:
    functions = message.meta_graphs[0].object_graph_def.concrete_functions
    for name in [name for name in functions if "__mixed_" in name]:
        del functions[name]


def _drop_tags(message: Any) -> None:
    del message.meta_graphs[0].meta_info_def.tags[:]


def _drop_children(message: Any) -> None:
    del message.meta_graphs[0].object_graph_def.nodes[0].children[:]


def _empty_object_graph(message: Any) -> None:
    message.meta_graphs[0].object_graph_def.Clear()
    message.meta_graphs[0].object_graph_def.SetInParent()


def _empty_meta_graph(message: Any) -> None:
    del message.meta_graphs[:]
    message.meta_graphs.add()


EDITED: dict[str, Callable[[Path], None]] = {
    "custom_op": _edited(_use_custom_op),
    "custom_op_outside": _edited(_use_custom_op_outside),
    "lost_child": _edited(_lose_child),
    "two_meta_graphs": _edited(_add_meta_graph),
    "own_spec": _edited(_use_own_spec),
    "recursion": _edited(_call_itself),
    "lost_signatures": _edited(_drop_concrete_functions),
    "no_tags": _edited(_drop_tags),
    "no_children": _edited(_drop_children),
    "no_objects": _edited(_empty_object_graph),
    "nothing": _edited(_empty_meta_graph),
}
