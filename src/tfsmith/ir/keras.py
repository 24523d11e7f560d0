"""What a Keras file says of its model besides the weights: layers as a tree, who wrote it, how it was trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from tfsmith.ir.tensor import Tensor
from tfsmith.records import record

__all__ = ["KerasFile", "KerasForm", "Layer", "LayerRow", "layer_rows"]

KerasForm = Literal["h5", "weights.h5", "keras", "saved_model"]


@record
class Layer:
    """A layer of a Keras model.

    Attributes:
        name: Its name, unique among its siblings.
        class_name: Its class, such as "Dense"; "" where the file does not say.
        weights: The keys of its own weights, in Keras' order.
        children: The layers inside of it.
        trainable: Whether it was trained; None where the file does not say.
    """

    name: str
    class_name: str = ""
    weights: tuple[str, ...] = ()
    children: tuple[Layer, ...] = ()
    trainable: bool | None = None

    def all_weights(self) -> Iterator[str]:
        """The keys of its weights and those of the layers inside, in order."""
        yield from self.weights
        for child in self.children:
            yield from child.all_weights()


@record
class KerasFile:
    """What a Keras file is.

    Attributes:
        form: Its layout: "h5" (Keras 1, 2 and tf.keras), "weights.h5", "keras" (Keras 3), or "saved_model".
        title: The same in words.
        keras_version: The version that wrote it, "" if the file does not say.
        backend: Its backend, such as "tensorflow".
        saved: When it was saved, as the file says it.
        model_class: The class of the model: "Sequential", "Functional", a class of the user's own.
        model_name: The model's name.
        layers: The layers, in order; where the file has no config, as its groups show them.
        optimizer: The keys of what belongs to the optimizer.
        training: The training configuration (loss, metrics, optimizer); None if there is none.
        config: The model's config as JSON; "" for weights alone.
        places: Where each weight lay in its file, by key.
        writer: Another program that wrote it, such as tfsmith.
    """

    form: KerasForm
    title: str
    keras_version: str = ""
    backend: str = ""
    saved: str = ""
    model_class: str = ""
    model_name: str = ""
    layers: tuple[Layer, ...] = ()
    optimizer: tuple[str, ...] = ()
    training: Mapping[str, Any] | None = None
    config: str = ""
    places: Mapping[str, str] | None = None
    writer: str = ""


@record
class LayerRow:
    """A layer as a table shows it.

    Attributes:
        depth: How deep it lies in the tree, from 0.
        name: Its name.
        class_name: Its class.
        weights: Its own weights: the last word of the name, the dtype and the sizes.
        parameters: How many numbers it and the layers inside have.
        keys: The keys of its own weights.
        trainable: Whether it was trained; None where the file does not say.
    """

    depth: int
    name: str
    class_name: str
    weights: tuple[tuple[str, str, tuple[int, ...]], ...]
    parameters: int
    keys: tuple[str, ...]
    trainable: bool | None = None


def layer_rows(
    layers: Sequence[Layer],
    tensors: Mapping[str, Tensor],
    names: Mapping[str, Sequence[str]] | None = None,
    depth: int = 0,
) -> Iterator[LayerRow]:
    """The tree of layers, from the top, with the shapes of their weights. No I/O.

    Args:
        layers: The layers, `KerasFile.layers`.
        tensors: The weights, `Model.variables`.
        names: What weights are called whose keys are no names, `Weights.names`.
        depth: How deep these layers lie.
    """
    known = names or {}
    for layer in layers:
        own = tuple(
            (
                (known.get(key) or (key,))[0].rpartition("/")[2],
                tensors[key].dtype.base.name,
                tuple(tensors[key].shape.dims or ()),
            )
            for key in layer.weights
            if key in tensors
        )
        parameters = sum(tensors[key].shape.elements or 0 for key in layer.all_weights() if key in tensors)
        yield LayerRow(depth, layer.name, layer.class_name, own, parameters, layer.weights, layer.trainable)
        yield from layer_rows(layer.children, tensors, names, depth + 1)
