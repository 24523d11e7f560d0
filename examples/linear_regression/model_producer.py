"""Trains a line with TensorFlow, in the style of TensorFlow 1, and leaves what a training run leaves.

exported_graphs/graphdef.pbtxt   the graph as text, without the values of its variables
saved_model/model.ckpt-2000.*    what the Saver writes: the graph with its collections, and the variables
summaries/run_N/                 the loss, the slope and the intercept of every epoch, for TensorBoard
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

SLOPE, INTERCEPT = 1.5, -3.0
EPOCHS = 2000


class Training(NamedTuple):
    """The tensors that a training step runs."""

    x: Any
    y: Any
    slope: Any
    intercept: Any
    loss: Any
    step: Any
    summary: Any


def make_samples() -> tuple[Any, Any]:
    """A hundred points of the line, with a little noise; two columns."""
    x = np.arange(100, dtype=np.float64).reshape(-1, 1)
    noise = np.random.default_rng(0).normal(0, 0.005, x.shape)
    return x, SLOPE * x + INTERCEPT + noise


def build() -> Training:
    """Adds the model to the default graph. The collections tell whoever loads it what goes in and what comes out."""
    with tf.name_scope("inputs"):
        x = tf.placeholder(tf.float64, [None, None], name="x_sample")
        y = tf.placeholder(tf.float64, [None, None], name="y_sample")
        tf.add_to_collection("inputs", x)
        tf.add_to_collection("inputs", y)
    with tf.name_scope("model_variables"):
        slope = tf.Variable(tf.constant(1.0, tf.float64), name="slope")
        intercept = tf.Variable(tf.constant(1.0, tf.float64), name="intercept")
    with tf.name_scope("linear_regression"):
        prediction = slope * x + intercept
        tf.add_to_collection("outputs", prediction)
    with tf.name_scope("optimizer"):
        loss = tf.reduce_sum((prediction - y) ** 2)
        step = tf.train.AdagradOptimizer(0.8).minimize(loss)
    with tf.name_scope("training"):
        for name, value in (("loss", loss), ("slope", slope), ("intercept", intercept)):
            tf.summary.scalar(name, value)
    return Training(x, y, slope, intercept, loss, step, tf.summary.merge_all())


def next_run(folder: Path) -> Path:
    """A folder for the summaries of this run, so that TensorBoard shows the runs side by side."""
    number = 1
    while (folder / f"run_{number}").exists():
        number += 1
    return folder / f"run_{number}"


def train(training: Training, session: Any, writer: Any) -> None:
    """Takes the steps, and prints every hundredth."""
    x, y = make_samples()
    feeds = {training.x: x, training.y: y}
    for epoch in range(EPOCHS):
        _, loss, summary = session.run([training.step, training.loss, training.summary], feeds)
        writer.add_summary(summary, epoch)
        if epoch % 100 == 0:
            slope, intercept = session.run([training.slope, training.intercept])
            print(f"epoch: {epoch}, loss: {loss}, slope: {slope}, intercept: {intercept}")


def main() -> None:
    """Builds, trains, and writes the three folders."""
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns that this style is old
    tf.disable_resource_variables()  # the variables of TensorFlow 1: VariableV2
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        training = build()
        tf.train.write_graph(graph.as_graph_def(), "exported_graphs", "graphdef.pbtxt", as_text=True)
        session.run(tf.global_variables_initializer())
        with tf.summary.FileWriter(str(next_run(Path("summaries"))), graph) as writer:
            train(training, session, writer)
        tf.train.Saver().save(session, "saved_model/model.ckpt", global_step=EPOCHS)


if __name__ == "__main__":
    main()
