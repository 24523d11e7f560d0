"""Writes the node that takes the place of the encoder: a NodeDef of the op `Bert`, with inputs named as in the model.

The names say what each input of the new node is in the pattern: the tool remaps them to what is there in other models.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

PARTS = (
    "attention/self/query/kernel",
    "attention/self/query/bias",
    "attention/self/key/kernel",
    "attention/self/key/bias",
    "attention/self/value/kernel",
    "attention/self/value/bias",
    "attention/output/dense/kernel",
    "attention/output/dense/bias",
    "attention/output/LayerNorm/gamma",
    "attention/output/LayerNorm/beta",
    "intermediate/dense/kernel",
    "intermediate/dense/bias",
    "output/dense/kernel",
    "output/dense/bias",
    "output/LayerNorm/gamma",
    "output/LayerNorm/beta",
)


def node(config: dict[str, int], length: int) -> str:
    """The NodeDef as text."""
    layers = range(config["num_hidden_layers"])
    weights = [f"bert/encoder/layer_{layer}/{part}/read" for layer in layers for part in PARTS]
    inputs = ["bert/encoder/Reshape_1", "bert/encoder/Reshape", *weights]
    numbers = {
        "HiddenSize": config["hidden_size"],
        "NumAttentionHeads": config["num_attention_heads"],
        "IntermediateSize": config["intermediate_size"],
        "MaxSequenceLength": length,
        "NumWeights": len(weights),
    }
    lines = ['name: "bert/encoder/bert"', 'op: "Bert"']
    lines += [f'input: "{name}"' for name in inputs]
    lines += [attr(name, f"i: {number}") for name, number in numbers.items()]
    lines += [attr("HiddenAct", 's: "gelu_tanh"'), attr("MaskT", "type: DT_INT32")]
    lines += [attr(name, "type: DT_FLOAT") for name in ("QuantizableDataType", "NonQuantizableDataType")]
    return "\n".join(lines) + "\n"


def attr(name: str, value: str) -> str:
    """One attribute."""
    return f'attr {{ key: "{name}" value {{ {value} }} }}'


def main() -> None:
    """Writes the node, and says what it has."""
    parser = argparse.ArgumentParser(description="Writes the NodeDef of the op Bert for a model of this config.")
    parser.add_argument("config", type=Path, help="bert_config.json")
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("-o", "--output", type=Path, default=Path("bert_node.pbtxt"))
    arguments = parser.parse_args()
    text = node(json.loads(arguments.config.read_text()), arguments.max_seq_length)
    arguments.output.write_text(text)
    print(f"{arguments.output}: a node with {text.count('input: ')} inputs")


if __name__ == "__main__":
    main()
