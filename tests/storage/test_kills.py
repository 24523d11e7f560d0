"""kill -9 at any moment of every verb that writes: the old output or the new one, and no litter after the next run.

A few moments of each are tried in every run, those of the last steps among them; `--kills 1000` tries all there are.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.helpers import files_of, write_files
from tests.support.killed import Killer

import tfsmith
from tfsmith.storage.place import Output
from tfsmith.testing.models import ConvNetConfig, conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import read_verb

ADD = "linear_regression/add"
INPUT = "inputs/x_sample"
SHARDS = ("00000-of-00002", "00001-of-00002")
HEADS = (".index", ".index.json", ".meta", ".onnx")
"""How a file ends by which a set of files is opened. While it is not there, the set is none."""
FOLDER = "m/saved_model.pb m/variables/variables.index"

WRITES: Mapping[str, tuple[str, str]] = {
    "freeze": ("freeze saved -o {out}/m.pb", "m.pb"),
    "freeze text": ("freeze saved -o {out}/m.pbtxt", "m.pbtxt"),
    "export": (f"export training -o {{out}}/m --input x={INPUT} --output y={ADD}", FOLDER),
    "thaw": ("thaw frozen.pb -o {out}/m --min-elements 0", FOLDER),
    "convert folder": ("convert saved -o {out}/m", FOLDER),
    "convert checkpoint": (
        "convert training -o {out}/m.ckpt",
        f"m.ckpt.index m.ckpt.data-{SHARDS[0]} m.ckpt.data-{SHARDS[1]}",
    ),
    "convert meta": ("convert training -o {out}/m.meta", "m.meta m.index m.data-00000-of-00001"),
    "convert onnx": ("convert conv -o {out}/m.onnx --external-data always", "m.onnx m.onnx.data"),
    "weights": ("weights training -o {out}/m.npz", "m.npz"),
    "weights in shards": (
        "weights training -o {out}/m.safetensors --max-shard-size 8",
        "m.safetensors.index.json m-00001-of-00002.safetensors m-00003-of-00003.safetensors",
    ),
    "run": ("run saved -i random -o {out}/m.npz --engine reference", "m.npz"),
    "view": ("view saved -o {out}/m.html", "m.html"),
    "extract": (f"extract frozen.pb -s {ADD} -b {INPUT} -B Const -o {{out}}/m.pb", "m.pb"),
    "recipe make": ("recipe make pattern.pb node.pbtxt {out}/m.toml", "m.toml"),
    "recipe draw": ("recipe draw gelu-erf -o {out}/m.html", "m.html"),
    "replace": ("replace conv.pb -r remove-no-ops -o {out}/m.pb", "m.pb"),
    "configure": ("configure frozen.pb --op Mul --set _mine=1 -o {out}/m.pb", "m.pb"),
}
"""Each way to write: the command, and the files that were there before."""
ELSEWHERE = {
    "optimize": "needs TensorFlow, and is put in place as by replace",
    "recipe draft": "needs a model with layers, and is put in place as by recipe make",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and what else the commands take."""
    folder = tmp_path_factory.mktemp("models")
    write_saved_model(linear_regression(), folder / "saved")
    write_checkpoint_files(linear_regression(), folder / "training")
    write_frozen(linear_regression(), folder / "frozen.pb")
    large = conv_net(ConvNetConfig(filters=(16, 16)))
    write_saved_model(large, folder / "conv")
    write_frozen(large, folder / "conv.pb")
    pattern = folder / "pattern.pb"
    tfsmith.extract(folder / "frozen.pb", [ADD], barriers=[INPUT], barrier_ops=["Const"], out=pattern)
    (folder / "node.pbtxt").write_text(f'name: "fused" op: "Fused" input: "{INPUT}"')
    return folder


def clean(folder: Path) -> dict[str, bytes]:
    """What is there, after a next run that writes beside it, whatever it writes."""
    with Output(folder / "other") as output:
        output.discard()
    return files_of(folder)


def is_whole(seen: Mapping[str, bytes], *states: Mapping[str, bytes]) -> bool:
    """Whether all of an output is there, as it was or as it is to be, or a set of files that nobody takes for one.

    A `.meta` and its checkpoint are two, each with a head: of them, one may be there alone.
    """
    named = {name: data for name, data in seen.items() if "tfsmith-" not in name}
    heads = {name for state in states for name in state if name.endswith(HEADS) and "/" not in name}
    if named in states:
        return True
    if not heads or len(states[0]) == 1:
        return False
    is_one = any(named.items() <= state.items() and state.keys() - named.keys() < heads for state in states)
    return is_one or not heads & named.keys()


def moments(steps: int, count: int) -> list[int]:
    """Which steps to try: the last ones, in which the output is put in place, and some before."""
    last = range(max(1, steps - 2 * count // 3), steps + 1)
    return (
        sorted({*last, *range(1, steps + 1, max(1, 3 * steps // count))}) if steps > count else [*range(1, steps + 1)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITES)
def test_killed_at_any_moment(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(home)
    command, files = WRITES[name]
    out = tmp_path / "out"
    old = dict.fromkeys(files.split(), b"old")
    with Killer(*command.format(out=out).split(), "--force") as killer:
        write_files(out, old)
        code, steps = killer.kill(0)
        new = clean(out)
        assert code == 0
        assert b"old" not in new.values()
        for step in moments(steps, request.config.getoption("kills")):
            shutil.rmtree(out)
            write_files(out, old)
            assert killer.kill(step)[0] == -signal.SIGKILL
            assert is_whole(files_of(out), old, new), step
            assert clean(out) in (old, new), step


@pytest.mark.slow
def test_killed_in_place(home: Path, tmp_path: Path) -> None:
    """`configure` without an output replaces the graph that it read."""
    before = (home / "frozen.pb").read_bytes()
    with Killer("configure", tmp_path / "m.pb", "--op", "Mul", "--set", "_mine=1") as killer:
        write_files(tmp_path, {"m.pb": before})
        code, steps = killer.kill(0)
        new = files_of(tmp_path)
        assert code == 0
        assert new["m.pb"] != before
        for step in range(max(1, steps - 8), steps + 1):
            write_files(tmp_path, {"m.pb": before})
            assert killer.kill(step)[0] == -signal.SIGKILL
            assert clean(tmp_path) in ({"m.pb": before}, new), step


@pytest.mark.slow
def test_killed_fleet(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report goes on where it was stopped, and its page is the old one or the new one."""
    monkeypatch.chdir(home)
    report = tmp_path / "r.jsonl"
    with Killer("fleet", "scan", "saved", "frozen.pb", "--report", report, "--jobs", "1") as killer:
        assert killer.kill(0)[0] == 0
        whole = files_of(tmp_path)
        for step in (1, 4, 7):
            report.write_bytes(report.read_bytes().splitlines(keepends=True)[0])
            assert killer.kill(step)[0] == -signal.SIGKILL
            assert clean(tmp_path).keys() == whole.keys()
            assert killer.kill(0)[0] == 0
            assert files_of(tmp_path).keys() == whole.keys()
            assert len(report.read_text().splitlines()) == 2


def test_every_verb_that_writes_is_here() -> None:
    writing = {
        name
        for name, (home, _) in VERBS.items()
        if home and any(option.kind == "Out" or option.name == "out" for option in read_verb(name, home).options)
    }
    tried = {name for name in VERBS if any(command.startswith(f"{name} ") for command, _ in WRITES.values())}
    assert writing <= tried | ELSEWHERE.keys()
    assert not tried & ELSEWHERE.keys()
