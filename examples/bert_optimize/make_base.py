"""Makes a frozen BERT of the real size, with weights that nobody trained: it is as fast as one that was."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen


def main() -> None:
    """Writes `base.pb`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="4 layers of 128 instead of 12 of 768")
    config = BertConfig.small() if parser.parse_args().small else BertConfig.base()
    path = Path("base.pb")
    write_frozen(bert_classifier(config, length=128), path)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
