"""Builds the op when the package is built. All else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # a build frontend does not put it there

from compile_op import BuildError, Options, compile_op  # noqa: E402

PACKAGE = "tfsmith_bert_op"


class BuildWithOp(build_py):
    """Adds the library to the package."""

    def run(self) -> None:
        """Compiles into the build folder; for an editable install, into the package's own."""
        super().run()
        folder = HERE / PACKAGE if self.editable_mode else Path(self.build_lib) / PACKAGE
        objects = Path(self.get_finalized_command("build").build_temp)
        try:
            self._made = compile_op(folder, objects, Options())
        except BuildError as error:
            raise SystemExit(f"error: {error}") from None

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """The library too, so that it gets into the wheel."""
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs + [str(path) for path in getattr(self, "_made", ())]


class WheelWithOp(bdist_wheel):
    """A wheel for this platform and any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Not the interpreter's: nothing in it uses Python's C API."""
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    """One that is not the same on all platforms."""

    def has_ext_modules(self) -> bool:
        """True, so that it gets the folder and the tag of a binary."""
        return True


setup(cmdclass={"build_py": BuildWithOp, "bdist_wheel": WheelWithOp}, distclass=BinaryDistribution)
