"""Loads the trained model with TensorFlow, and calculates: the collections say what goes in and what comes out."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

X = [[0.0], [1.0], [-1.0], [2.0]]


def main() -> None:
    """Imports the graph from the `.meta`, restores the variables, and runs the output."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default(), tf.Session() as session:
        prefix = tf.train.latest_checkpoint("saved_model")
        saver = tf.train.import_meta_graph(f"{prefix}.meta")
        saver.restore(session, prefix)
        print(session.graph.get_collection("inputs"))
        print(session.graph.get_collection("outputs"))
        x, _ = session.graph.get_collection("inputs")
        (prediction,) = session.graph.get_collection("outputs")
        results = session.run(prediction, {x: X})
    print("The calculation results :", results.ravel().tolist())


if __name__ == "__main__":
    main()
