"""Makes small SavedModels below FOLDER/sound, and one file that is no model: `python make_models.py FOLDER COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

from tfsmith.testing.half_plus import write_half_plus


def main() -> int:
    """Writes them."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "sound").mkdir(parents=True)
    for number in range(count):
        write_half_plus(folder / "sound" / f"half_plus_{number}", float(number))
    (folder / "damaged.pb").write_bytes(b"this was a model once")
    print(f"{count} models, and one that is damaged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
