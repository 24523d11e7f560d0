#!/bin/sh
# Freezes the trained graph. The flags are those of TensorFlow's freeze_graph.py; the work is done without TensorFlow.
set -eu
mkdir -p frozen_graphs
exec python -m tfsmith.compat.freeze_graph \
    --input_graph=exported_graphs/graphdef.pbtxt \
    --input_checkpoint=saved_model/model.ckpt-2000 \
    --output_node_names=linear_regression/add \
    --output_graph=frozen_graphs/frozen_graph.pb
