"""A SavedModel of BERT's size as TensorFlow 2 writes it: a `tf.Module`, its functions, and the object graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["save_model"]


def save_model(path: Path, *, quick: bool) -> None:
    """Builds the model with TensorFlow and saves it."""
    import tensorflow as tf

    width, layers, heads, inner = (128, 4, 2, 512) if quick else (768, 12, 12, 3072)
    words, length, labels = 30522, 128, 2
    inputs = [tf.TensorSpec([None, length], tf.int32, name) for name in ("ids", "mask", "types")]

    def weight(name: str, *dims: int) -> Any:
        return tf.Variable(tf.random.stateless_normal(dims, [len(name), sum(dims)], stddev=0.02), name=name)

    class Dense(tf.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, name: str) -> None:
            super().__init__(name=name)
            with self.name_scope:
                self.kernel, self.bias = weight("kernel", inputs, outputs), weight("bias", outputs)

        def __call__(self, x: Any) -> Any:
            return tf.nn.bias_add(tf.linalg.matmul(x, self.kernel), self.bias)

    class Norm(tf.Module):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            super().__init__(name=name)
            with self.name_scope:
                self.gamma, self.beta = tf.Variable(tf.ones([width]), name="gamma"), weight("beta", width)

        def __call__(self, x: Any) -> Any:
            mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, self.beta, self.gamma, 1e-12)

    class Layer(tf.Module):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            super().__init__(name=name)
            with self.name_scope:
                self.query, self.key = Dense(width, width, "query"), Dense(width, width, "key")
                self.value, self.output = Dense(width, width, "value"), Dense(width, width, "output")
                self.wide, self.narrow = Dense(width, inner, "wide"), Dense(inner, width, "narrow")
                self.norm_1, self.norm_2 = Norm("norm_1"), Norm("norm_2")

        def __call__(self, x: Any, mask: Any) -> Any:
            batch = tf.shape(x)[0] // length

            def split(y: Any) -> Any:
                return tf.transpose(tf.reshape(y, [batch, length, heads, width // heads]), [0, 2, 1, 3])

            query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
            scores = tf.linalg.matmul(query, key, transpose_b=True) * (width // heads) ** -0.5 + mask
            context = tf.transpose(tf.linalg.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
            x = self.norm_1(x + self.output(tf.reshape(context, [-1, width])))
            return self.norm_2(x + self.narrow(tf.nn.gelu(self.wide(x), approximate=True)))

    class Bert(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="bert")
            self.words, self.positions = weight("words", words, width), weight("positions", 512, width)
            self.types, self.norm = weight("types", 2, width), Norm("norm")
            self.layers = [Layer(f"layer_{number}") for number in range(layers)]
            self.pooler, self.classifier = Dense(width, width, "pooler"), Dense(width, labels, "classifier")

        @tf.function(input_signature=inputs)  # type: ignore[untyped-decorator]
        def serve(self, ids: Any, mask: Any, types: Any) -> dict[str, Any]:
            x = tf.gather(self.words, ids) + tf.gather(self.types, types) + self.positions[:length]
            x = self.norm(tf.reshape(x, [-1, width]))
            hidden = (1.0 - tf.cast(mask[:, None, None, :], tf.float32)) * -10000.0
            for layer in self.layers:
                x = layer(x, hidden)
            first = tf.reshape(x, [-1, length, width])[:, 0]
            return {"probabilities": tf.nn.softmax(self.classifier(tf.math.tanh(self.pooler(first))))}

    model = Bert()
    tf.saved_model.save(model, str(path), signatures=model.serve)
