"""Cases on an engine in processes of their own: what dies is a verdict, and the rest is still run."""

from __future__ import annotations

import json

import pytest

from tfsmith.errors import UnsupportedError
from tfsmith.ops.samples import samples_of
from tfsmith.testing.conformance import isolated
from tfsmith.testing.conformance.__main__ import main
from tfsmith.testing.conformance.isolated import check_isolated, engine_compute

DIES = """
import json, os, sys
numbers = json.load(sys.stdin)["numbers"]
print(json.dumps(["equal", ""]), flush=True)
if len(numbers) > 1:
    os.abort()
print("over")
"""


def test_a_crash_is_a_verdict_and_the_rest_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_START", DIES)
    count = sum(1 for samples in samples_of("While") for _ in samples.cases())
    found = list(check_isolated("openvino", ["While"]))
    assert [one.kind for one in found] == ["equal", "crashed"] * (count // 2) + ["equal"] * (count % 2)
    assert found[1].reason == "the process was ended by SIGABRT"
    assert [one.kind for one in check_isolated("openvino", ["While"], only={1})] == ["equal"]


def test_silence_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_START", "import time; time.sleep(100)")
    monkeypatch.setattr(isolated, "_PATIENCE", 0.5)
    (found,) = check_isolated("openvino", ["While"], only={0})
    assert (found.kind, found.reason) == ("crashed", "no answer within 0 s")


@pytest.mark.slow
def test_the_command_finds_what_openvino_gets_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openvino")
    assert main(["openvino", "--ops", "LRN", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["engine"] == "openvino"
    kinds = {row["kind"] for row in told["cases"]}
    assert {"equal", "wrong"} <= kinds


def test_openvino_refuses_complex_inputs() -> None:
    pytest.importorskip("openvino")
    (samples,) = (one for one in samples_of("Snapshot") if one.family == "flow")
    case = next(one for one in samples.cases() if one.name == "complex64")
    with pytest.raises(UnsupportedError, match="OpenVINO leaves out imaginary parts"):
        engine_compute("openvino")(case)


def test_the_command_on_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["values", "--ops", "Transpose"]) == 0
    assert "cases of 1 ops" in capsys.readouterr().out
