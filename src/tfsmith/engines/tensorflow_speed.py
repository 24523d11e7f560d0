"""How fast TensorFlow runs two programs, as users have it: all of its optimizations are on.

Both are loaded in one process, so they share its threads, and run in turns, so that whatever else the machine does
meets both. (The engine itself runs without the remapper, which would make the programs faster, and some of them wrong.)
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.engines.protocol import Program, Stored
from tfsmith.errors import CorruptFileError, EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["measure_speed"]

# Isolated, so that no `tensorflow.py` of the working directory is imported, and then with our own search path.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tfsmith.engines.tensorflow_speed_child import main
main()
"""


def measure_speed(
    programs: Sequence[Program], feeds: Mapping[str, NDArray[Any]], *, op_libraries: Sequence[Path], repeat: int
) -> tuple[tuple[float, ...], ...]:
    """Seconds of each run of each program; runs that warm up are not among them. Starts TensorFlow.

    Args:
        programs: What to run.
        feeds: What to feed to each, by key; keys that a program does not have are left out.
        op_libraries: Shared libraries with custom ops.
        repeat: How often to run each.

    Raises:
        EngineError: TensorFlow is not installed, refused, or its process died.
    """
    with tempfile.TemporaryDirectory(prefix="tfsmith-") as folder:
        stored = []
        for number, program in enumerate(programs):
            place = Path(folder) / str(number)
            place.mkdir()
            stored.append(program.stored(place))
        request = io.BytesIO()
        say = {
            "op_libraries": [str(path.absolute()) for path in op_libraries],
            "repeat": repeat,
            "programs": [_told(one, feeds) for one in stored],
        }
        write_frame(request, say, feeds)
        told = _ask(request.getvalue())
    if "error" in told:
        raise EngineError(f"TensorFlow: {told['error']}", path=programs[0].path, remedy=told.get("remedy"))
    return tuple(tuple(map(float, times)) for times in told["seconds"])


def _told(stored: Stored, feeds: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {
        "kind": stored.kind,
        "path": str(stored.path.absolute()),
        "tags": list(stored.tags),
        "inputs": {stored.inputs[key]: key for key in feeds if key in stored.inputs},
        "fetches": list(dict.fromkeys(stored.outputs.values())),
    }


def _ask(request: bytes) -> dict[str, Any]:
    search = [str(Path(entry).absolute()) for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _START, json.dumps(search)],
        input=request,
        capture_output=True,
        # oneDNN is on by default; somebody who turned it off for exact answers must not see us win by that.
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    try:
        return read_frame(io.BytesIO(done.stdout))[0]
    except CorruptFileError as error:
        words = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        what = f"TensorFlow's process ended with {done.returncode}{f' ({words[-1]})' if words else ''}"
        raise EngineError(what, remedy="the model, the op library or a lack of memory broke it") from error
