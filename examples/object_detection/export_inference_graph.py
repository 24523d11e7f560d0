"""Exports a trained detector for inference, by the flags of the Object Detection API's script of this name.

It builds the graph for inference and puts the trained variables in. Into the output directory go:

saved_model/                 with its variables, NOT frozen: what TensorFlow Serving takes
frozen_inference_graph.pb    with constants in place of the variables
model.ckpt.*                 the same graph and variables as a .meta with its checkpoint
pipeline.config              a copy
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import tensorflow.compat.v1 as tf
from config import ConfigError, read_pipeline
from detector import INPUT_TYPES, OUTPUTS, build, make_input

import tfsmith


def export_inference_graph(told: argparse.Namespace) -> None:
    """Builds the graph, and writes it in all its forms."""
    output = Path(told.output_directory)
    output.mkdir(parents=True, exist_ok=True)
    placeholder, images = make_input(told.input_type, told.input_shape)
    _, _, detections = build(read_pipeline(told.pipeline_config_path), images)
    write_saved_model(output / "saved_model", told.trained_checkpoint_prefix, placeholder, detections)
    frozen = tfsmith.freeze(tfsmith.load(output / "saved_model"), OUTPUTS).model
    tfsmith.save(frozen, output / "frozen_inference_graph.pb")
    tfsmith.convert(output / "saved_model", output / "model.ckpt.meta")
    shutil.copyfile(told.pipeline_config_path, output / "pipeline.config")


def write_saved_model(
    path: Path, trained_checkpoint_prefix: str, inputs: tf.Tensor, outputs: dict[str, tf.Tensor]
) -> None:
    """What the document does in 30 lines, with a Saver, a session and a builder."""
    tfsmith.export(
        tf.get_default_graph().as_graph_def(add_shapes=True),
        path,
        inputs={"inputs": inputs.name},
        outputs={key: tensor.name for key, tensor in outputs.items()},
        checkpoint=trained_checkpoint_prefix,
    )


def _shape(text: str) -> tuple[int | None, ...]:
    sizes = tuple(None if size.strip() in ("None", "-1") else int(size) for size in text.split(","))
    if len(sizes) != 4:
        raise argparse.ArgumentTypeError("four sizes are wanted, such as 1,None,None,3")
    return sizes


def main() -> int:
    """Reads the flags, and exports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--input_type", required=True, choices=INPUT_TYPES, help="what is fed: pixels, or PNG or JPEG files"
    )
    parser.add_argument(
        "--input_shape", type=_shape, default=(None, None, None, 3), help="of the pixels: 1,None,None,3"
    )
    parser.add_argument("--pipeline_config_path", required=True)
    parser.add_argument("--trained_checkpoint_prefix", required=True, help="such as training/model.ckpt-400")
    parser.add_argument("--output_directory", required=True)
    told = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_resource_variables()
    tf.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            export_inference_graph(told)
    except (ConfigError, tfsmith.TfsmithError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
