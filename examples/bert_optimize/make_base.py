"""Makes a frozen BERT of the real size, with weights that nobody trained: it is as fast as one that was."""

from __future__ import annotations

from pathlib import Path

from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen


def main() -> None:
    """Writes `base.pb`."""
    path = Path("base.pb")
    write_frozen(bert_classifier(BertConfig.base(), length=128), path)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
