"""`--verify` of the verbs that write a model: what does not compute as the original did is not put in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfsmith import records
from tfsmith.engines.compare import tolerance_for
from tfsmith.errors import UsageError, call, data_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.passes.interface import INIT_SIGNATURE
from tfsmith.verbs._shared import FilePath
from tfsmith.verbs.verify import Verified, join_verified, verify

__all__ = ["Checks", "Verified"]


@records.record
class Checks:
    """How a result is compared with its original.

    Attributes:
        engine: What runs them: "openvino", "reference", "tensorflow" or "auto".
        op_libraries: Libraries of custom ops.
        dtype: What the weights were rounded to, if they were: it leaves a tolerance.
    """

    engine: str = "auto"
    op_libraries: tuple[FilePath, ...] = ()
    dtype: str | None = None

    def outputs(
        self,
        a: Model,
        b: Model,
        outputs: Mapping[str, str] | None = None,
        signature: tuple[str | None, str | None] = (None, None),
    ) -> Verified:
        """Runs both, and compares these outputs of the original with those of the result; by default all."""
        room = None if self.dtype is None else tolerance_for(self.dtype, reordered=False)
        return verify(
            a,
            b,
            outputs or (),
            signature=signature[0],
            other_signature=signature[1],
            engine=self.engine,
            op_libraries=self.op_libraries,
            rtol=None if room is None else room.relative,
            atol=None if room is None else room.absolute,
        )

    def signatures(self, a: Model, b: Model) -> Verified:
        """Compares every signature of the result with the tensors of the original that it names; else the outputs."""
        found: list[Verified] = []
        for key, signature in b.signatures.items():
            if key == INIT_SIGNATURE:  # it fills the model when it is loaded, and gives no tensor
                continue
            outputs = {info.name: name for name, info in signature.outputs.items() if info.encoding == "dense"}
            named = {name: own for name, own in outputs.items() if parse_input(name).node in a.graph}
            if named:
                same = key if key in a.signatures else None  # so that inputs are paired by their keys
                found.append(self.outputs(a, b, named, (same, key)))
        if found:
            return join_verified(found)
        try:
            return self.outputs(a, b)
        except UsageError as error:  # what is not known, such as the outputs, is nothing that the verb asks for
            is_about_outputs = "{outputs}" in data_of(error.remedy or "")
            more: dict[str, Any] = {"outputs": ["NAME"]} if is_about_outputs else {"inputs": "..."}
            known = call("verify", "MODEL", "RESULT", **more)
            raise error.at(a.path, remedy=f"write it without {{verify}}, then say it: {known}") from error
