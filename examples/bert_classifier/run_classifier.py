"""Fine-tunes a BERT to tell whether two sentences say the same, and exports it. The flags are those of Google's script.

OUTPUT_DIR/model.ckpt-N.*, graph.pbtxt   what a training run leaves: a checkpoint, and the graph that was trained
OUTPUT_DIR/eval_results.txt              how often it is right about the pairs in dev.tsv
OUTPUT_DIR/eval.npz, test_results.tsv    the inputs for these pairs, and what came out: two probabilities a line
saved_models/N/                          a SavedModel that takes one pair at a time
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from modeling import BertConfig, Classifier, build_classifier
from tokenization import encode, load_pairs, load_vocabulary

LABELS = 2
SEED = 1


def parse() -> argparse.Namespace:
    """The flags of Google's run_classifier.py, as far as they are needed here."""

    def boolean(text: str) -> bool:
        return text.lower() in ("true", "1", "yes")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task_name", choices=["MRPC"], default="MRPC")
    parser.add_argument("--do_train", type=boolean, default=False)
    parser.add_argument("--do_eval", type=boolean, default=False)
    parser.add_argument("--data_dir", type=Path, required=True, help="has train.tsv and dev.tsv")
    parser.add_argument("--vocab_file", type=Path, required=True)
    parser.add_argument("--bert_config_file", type=Path, required=True)
    parser.add_argument("--init_checkpoint", help="a BERT to begin with, such as Google's bert_model.ckpt")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--num_train_epochs", type=float, default=3.0)
    parser.add_argument("--output_dir", type=Path, required=True)
    return parser.parse_args()


def make_placeholders(length: int) -> dict[str, Any]:
    """The four inputs, for any number of pairs."""
    names = ("input_ids", "input_mask", "segment_ids")
    features = {name: tf.placeholder(tf.int32, [None, length], name=name) for name in names}
    return features | {"label_ids": tf.placeholder(tf.int32, [None], name="label_ids")}


def make_step(loss: Any, peak: float, steps: int) -> Any:
    """A step of Adam. Its rate rises for a tenth of the steps, then falls to nothing."""
    count = tf.train.get_or_create_global_step()
    done = tf.cast(count, tf.float32) / steps
    optimizer = tf.train.AdamOptimizer(peak * tf.minimum(done / 0.1, (1.0 - done) / 0.9))
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    return optimizer.apply_gradients(zip(clipped, variables, strict=True), global_step=count)


def take_over(checkpoint: str) -> None:
    """Lets variables begin with the values that a checkpoint has for them. It need not have the classifier's layer."""
    there = {name for name, _ in tf.train.list_variables(checkpoint)}
    ours = [variable.op.name for variable in tf.trainable_variables()]
    tf.train.init_from_checkpoint(checkpoint, {name: name for name in ours if name in there})


def train(arguments: argparse.Namespace, config: BertConfig, data: dict[str, Any]) -> None:
    """Trains on all pairs, in another order in each epoch, and saves a checkpoint."""
    count, size = len(data["label_ids"]), arguments.train_batch_size
    steps = int(count * arguments.num_train_epochs / size)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(SEED)
        inputs = make_placeholders(arguments.max_seq_length)
        loss = build_classifier(config, inputs, LABELS, is_training=True).loss
        step = make_step(loss, arguments.learning_rate, steps)
        if arguments.init_checkpoint:
            take_over(arguments.init_checkpoint)
        session.run(tf.global_variables_initializer())
        tf.train.write_graph(graph.as_graph_def(), str(arguments.output_dir), "graph.pbtxt")
        chance = np.random.default_rng(SEED)
        order = np.concatenate([chance.permutation(count) for _ in range(int(arguments.num_train_epochs) + 1)])
        losses = []
        for number in range(1, steps + 1):
            rows = order[(number - 1) * size : number * size]
            losses.append(session.run([loss, step], {inputs[name]: data[name][rows] for name in inputs})[0])
            if number % 100 == 0 or number == steps:
                print(f"step: {number}, loss: {np.mean(losses):.4f}")
                losses.clear()
        tf.train.Saver().save(session, str(arguments.output_dir / "model.ckpt"), global_step=steps)


def restore(session: Any, folder: Path) -> str:
    """Takes the variables from the latest checkpoint, and gives its path."""
    prefix: str = tf.train.latest_checkpoint(str(folder))
    print(f"Restoring parameters from {prefix}")
    tf.train.Saver().restore(session, prefix)
    return prefix


def evaluate(arguments: argparse.Namespace, config: BertConfig, data: dict[str, Any]) -> None:
    """Asks the model about the pairs that it has not seen, and writes how it did."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = make_placeholders(arguments.max_seq_length)
        model = build_classifier(config, inputs, LABELS, is_training=False)
        prefix = restore(session, arguments.output_dir)
        answers: Classifier = session.run(model, {inputs[name]: data[name] for name in inputs})
    accuracy = np.mean(answers.probabilities.argmax(1) == data["label_ids"])
    results = {"eval_accuracy": accuracy, "global_step": prefix.rpartition("-")[2], "loss": answers.loss}
    text = "".join(f"{name} = {value}\n" for name, value in results.items())
    print(f"***** Eval results *****\n{text}", end="")
    (arguments.output_dir / "eval_results.txt").write_text(text)
    np.savez(arguments.output_dir / "eval.npz", **data)
    lines = ["\t".join(map(str, row)) for row in answers.probabilities.tolist()]
    (arguments.output_dir / "test_results.tsv").write_text("\n".join(lines) + "\n")


def serving_input_fn(length: int, batch: int = 1) -> dict[str, Any]:
    """The inputs of the exported model: placeholders again, for a fixed number of pairs.

    This is what `tf.estimator.export.build_raw_serving_input_receiver_fn` makes of its features when it is given a
    `default_batch_size`: it takes their types, shapes and names. The names are in use, so TensorFlow appends `_1`.
    """
    features = make_placeholders(length)
    return {
        name: tf.placeholder(tensor.dtype, [batch, *tensor.shape[1:]], name=tensor.op.name)
        for name, tensor in features.items()
    }


def export(arguments: argparse.Namespace, config: BertConfig) -> None:
    """Writes a SavedModel with a signature. Its folder is called like the checkpoint's step."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = serving_input_fn(arguments.max_seq_length)
        model = build_classifier(config, inputs, LABELS, is_training=False)
        prefix = restore(session, arguments.output_dir)
        signature = tf.saved_model.predict_signature_def(inputs, {"probabilities": model.probabilities})
        folder = f"saved_models/{prefix.rpartition('-')[2]}"
        builder = tf.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    print(f"SavedModel written to: {folder}/saved_model.pb")


def main() -> None:
    """Trains, evaluates and exports."""
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns that this style is old
    tf.disable_v2_behavior()
    tf.disable_resource_variables()  # the variables of TensorFlow 1: VariableV2
    arguments = parse()
    config = BertConfig.load(arguments.bert_config_file)
    vocabulary = load_vocabulary(arguments.vocab_file)

    def load(name: str) -> dict[str, Any]:
        return encode(load_pairs(arguments.data_dir / name), vocabulary, arguments.max_seq_length)

    if arguments.do_train:
        train(arguments, config, load("train.tsv"))
    if arguments.do_eval:
        evaluate(arguments, config, load("dev.tsv"))
    if arguments.do_train:
        export(arguments, config)


if __name__ == "__main__":
    main()
