"""Asks the installed TensorFlow for the script of each code point, and packs the answers for `UnicodeScript`.

    python -m tools.make_unicode_scripts

The file has the lengths of runs of code points that have one script (4 bytes each), then their scripts (2 bytes each).
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy

TABLE = Path(__file__).parents[1] / "src/tfsmith/ops/values/unicode_scripts.zlib"
_CODE_POINTS = 0x110000


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    scripts = tf.raw_ops.UnicodeScript(input=numpy.arange(_CODE_POINTS, dtype=numpy.int32)).numpy()
    starts = numpy.concatenate([[0], numpy.flatnonzero(numpy.diff(scripts)) + 1])
    lengths = numpy.diff(starts, append=_CODE_POINTS)
    data = lengths.astype("<u4").tobytes() + scripts[starts].astype("<i2").tobytes()
    TABLE.write_bytes(zlib.compress(data, 9))
    print(f"{len(starts)} runs, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
