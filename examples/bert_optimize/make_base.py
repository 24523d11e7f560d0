"""Makes a frozen BERT of the real size, with weights that nobody trained: it is as fast as one that was."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen


def main() -> None:
    """Writes `base.pb`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12, help="how many layers it has (default: 12, as BERT-base)")
    layers = parser.parse_args().layers
    base = BertConfig.base()
    config = BertConfig(base.vocab_size, base.hidden_size, layers, base.num_attention_heads, base.intermediate_size)
    path = Path("base.pb")
    write_frozen(bert_classifier(config, length=128), path)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
