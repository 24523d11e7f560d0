"""Makes TensorFlow's C library out of the pip wheel, and prints the lines that Go's compiler needs to find it.

    python libtensorflow.py > libtensorflow.env && . ./libtensorflow.env

The wheel has all of it: the C API is exported by `libtensorflow_cc.so.2`, and the headers lie in `include`. This makes
a folder `libtensorflow` of links to them (nothing is copied), named as in TensorFlow's own archive of the C library, so
that the usual `-ltensorflow` works. TensorFlow itself is not imported.
"""

from __future__ import annotations

import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = {
    "libtensorflow.so": "libtensorflow_cc.so.2",  # for the linker: -ltensorflow -ltensorflow_framework
    "libtensorflow_framework.so": "libtensorflow_framework.so.2",
    "libtensorflow_cc.so.2": "libtensorflow_cc.so.2",  # for the loader, which looks for the libraries' own names
    "libtensorflow_framework.so.2": "libtensorflow_framework.so.2",
}


def find_wheel() -> Path:
    """The folder of the installed TensorFlow.

    Raises:
        SystemExit: There is none, or it has no C library for Linux.
    """
    spec = find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("error: TensorFlow is not installed; pip install 'tfsmith[tensorflow]'")
    wheel = Path(next(iter(spec.submodule_search_locations)))
    for name in (*LIBRARIES.values(), "include/tensorflow/c/c_api.h"):
        if not (wheel / name).exists():
            raise SystemExit(f"error: {wheel} has no {name}; this needs TensorFlow's wheel for Linux, 2.16 or later")
    return wheel


def link(wheel: Path, folder: Path) -> None:
    """Makes the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    for name, target in LIBRARIES.items():
        (folder / "lib" / name).symlink_to(wheel / target)
    (folder / "include").symlink_to(wheel / "include")


def main() -> None:
    """Makes the folder beside the others, and prints the lines for the shell."""
    folder = Path("libtensorflow").absolute()
    link(find_wheel().absolute(), folder)
    lib = shlex.quote(str(folder / "lib"))
    flags = shlex.quote(f'-O2 "-I{folder}/include"')
    print(f"export LIBRARY_PATH={lib}${{LIBRARY_PATH:+:$LIBRARY_PATH}}")
    print(f"export LD_LIBRARY_PATH={lib}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}")
    print(f"export CGO_CFLAGS={flags}")


if __name__ == "__main__":
    main()
