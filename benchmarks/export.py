"""`tfsmith export`: against TensorFlow's own SavedModelBuilder, and against merely copying the weights."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, under
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "export"
_BUILDER = """
import sys
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default() as graph, v1.Session() as session:
    v1.train.import_meta_graph(sys.argv[1] + ".meta").restore(session, sys.argv[1])
    info = v1.saved_model.utils.build_tensor_info
    tensor = graph.get_tensor_by_name
    inputs, outputs = {"input_ids": info(tensor("input_ids:0"))}, {"probabilities": info(tensor("loss/output:0"))}
    signature = v1.saved_model.build_signature_def(inputs, outputs, "tensorflow/serving/predict")
    builder = v1.saved_model.Builder(sys.argv[2])
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
    builder.save()
"""


def rows(setup: Setup) -> list[Row]:
    """BERT-base: ours, `cp` of the data with and without `sync`, TensorFlow's builder."""
    prefix = setup.models.checkpoint("resource")
    data = Path(f"{prefix}.data-00000-of-00001")
    targets = [setup.output(name) for name in ("ours", "theirs", "copy")]

    def fresh() -> None:
        for target in targets:
            shutil.rmtree(target, ignore_errors=True)
            if target.is_file():
                target.unlink()
        os.sync()

    names = ["--input", "input_ids=input_ids:0", "--output", "probabilities=loss/output:0"]
    copy = ["sh", "-c", 'cp "$0" "$1"', str(data), str(targets[2])]
    found = setup.compare(
        {
            "ours": Command(script("tfsmith", "export", prefix, "-o", targets[0], *names), fresh, turns=3),
            "synced": Command([*copy[:2], copy[2] + ' && sync "$1"', *copy[3:]], fresh, turns=2),
            "copied": Command(copy, fresh, turns=2),
            "peer": Command(python(_BUILDER, prefix, targets[1]), fresh),
        }
    )
    fresh()
    taken, what = found["ours"], "export, .meta and checkpoint"
    copying = [at_most(2.5, taken, found["synced"], "cp and sync")]
    return [
        Row(_TOPIC, what, taken, "SavedModelBuilder", found["peer"], [under(100, taken)]),
        Row(_TOPIC, what, taken, "cp and sync of the data", found["synced"], copying),
        Row(_TOPIC, what, taken, "cp of the data, unsynced", found["copied"]),
    ]
