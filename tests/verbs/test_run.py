"""`tfsmith run` around a made-up engine: values of inputs, answers told and stored, chunks, wrong use."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsmith.cli.main import main
from tfsmith.engines.protocol import Lack, Options, Port, Program, engine_named
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Node
from tfsmith.ir.types import Shape, dtype_named

INPUTS = {
    "x": ("float32", (-1, 2)),
    "image": ("uint8", (-1, 2, 3, 3)),
    "gray": ("uint8", (2, 3, 1)),
    "text": ("string", (-1,)),
    "rate": ("float32", ()),
}


class Echo:
    """An engine that answers with what it is fed."""

    name = version = "echo"
    notes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.change: Callable[[Any], Any] = lambda values: values

    def available(self) -> str | None:
        return None

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        return ()

    def compile(self, program: Program, options: Options) -> Echo:
        self.outputs: Mapping[str, Port] = program.outputs
        self.inputs = program.inputs
        return self

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        self.runs.append(dict(feeds))
        fed = {port.tensor.partition(":")[0]: feeds[key] for key, port in self.inputs.items() if key in feeds}
        return {
            key: self.change(fed[port.tensor.partition("_out")[0].partition(":")[0]])
            for key, port in self.outputs.items()
        }

    def close(self) -> None:
        pass


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Echo:
    engine = Echo()
    monkeypatch.setattr(
        "tfsmith.engines.runner.engine_named", lambda name: engine if name != "x" else engine_named(name)
    )
    return engine


def write_model(folder: Path, *keys: str) -> str:
    from tfsmith import save

    nodes: list[Node] = []
    inputs: dict[str, TensorInfo] = {}
    outputs: dict[str, TensorInfo] = {}
    for key in keys:
        kind, shape = dtype_named(INPUTS[key][0]), Shape(INPUTS[key][1])
        nodes.append(Node(key, "Placeholder", (), {"dtype": kind, "shape": shape}))
        nodes.append(Node(f"{key}_out", "Identity", (key,), {"T": kind}))
        inputs[key] = TensorInfo(f"{key}:0", kind, shape)
        outputs[f"{key}_out"] = TensorInfo(f"{key}_out:0", kind, shape)
    signatures = {"serving_default": Signature(inputs, outputs)}
    meta = MetaGraph(Part.of(Graph(tuple(nodes))), signatures_part=Part.of(signatures))
    save(Model("metagraph", (meta,)), folder / "model.meta", force=True)
    return str(folder / "model.meta")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code = main(["run", *arguments, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return {key: found["values"] for key, found in json.loads(out)["outputs"].items()}


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, err
    return lines[0]


def test_values(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x")
    np.save(tmp_path / "a.npy", np.array([[1, 2]], np.float32))
    np.savez(tmp_path / "a.npz", x=np.array([[3, 4]], np.float32), other=np.ones(3))
    np.savez(tmp_path / "one.npz", any=np.array([[5, 6]], np.float32))
    (tmp_path / "a.json").write_text("[[7, 8]]")
    (tmp_path / "all.json").write_text('{"x": [[9, 10]]}')
    files = {"a.npy": [[1, 2]], "a.npz": [[3, 4]], "one.npz": [[5, 6]], "a.json": [[7, 8]]}
    for name, wanted in files.items():
        assert answer(capsys, model, "--input", f"x={tmp_path / name}") == {"x_out": wanted}
    assert answer(capsys, model, "-i", str(tmp_path / "all.json")) == {"x_out": [[9, 10]]}
    assert answer(capsys, model, "-i", str(tmp_path / "a.npy")) == {"x_out": [[1, 2]]}
    assert answer(capsys, model, "-i", "x:0=[[1, 2.5]]") == {"x_out": [[1, 2.5]]}
    assert answer(capsys, model, "-i", '{"x": [[1, 2]]}') == {"x_out": [[1, 2]]}
    assert answer(capsys, model, "-i", "x=zeros", "--batch", "2") == {"x_out": [[0, 0], [0, 0]]}
    random = answer(capsys, model, "-i", "random", "--seed", "3")
    assert random == answer(capsys, model, "-i", "x=random", "--seed", "3")
    assert random != answer(capsys, model, "-i", "x=random", "--seed", "4")


def test_text(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "text")
    assert answer(capsys, model, "-i", "text=some = text") == {"text_out": ["some = text"]}
    assert answer(capsys, model, "-i", 'text=["a", "b"]') == {"text_out": ["a", "b"]}
    assert answer(capsys, model, "-i", "text=[not json") == {"text_out": ["[not json"]}
    assert answer(capsys, model, "-i", "text=photo.png") == {"text_out": ["photo.png"]}
    (tmp_path / "photo.png").write_bytes(b"encoded")
    assert answer(capsys, model, "-i", f"text={tmp_path / 'photo.png'}") == {"text_out": ["encoded"]}


def test_images(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    (tmp_path / "a.ppm").write_bytes(b"P6\n3 2\n255\n" + pixels.tobytes())
    (tmp_path / "a.pgm").write_bytes(b"P5 3 2 255\n" + bytes(range(6)))
    model = write_model(tmp_path, "image", "gray")
    found = answer(capsys, model, "-i", f"image={tmp_path / 'a.ppm'}", "-i", f"gray={tmp_path / 'a.pgm'}")
    assert found["image_out"] == pixels[None].tolist()
    assert found["gray_out"] == np.arange(6).reshape(2, 3, 1).tolist()
    (tmp_path / "bad.ppm").write_bytes(b"P6\n3 2\n255\n" + bytes(3))
    (tmp_path / "text.ppm").write_bytes(b"P3\n3 2\n255\n1 2 3")
    for name, words in (("bad.ppm", "it is cut off"), ("text.ppm", "no binary PPM"), ("none.ppm", "no such file")):
        assert words in refusal(capsys, model, "-i", f"image={tmp_path / name}", "-i", "gray=zeros")
    assert "it has 3 channels, but the model wants 1" in refusal(capsys, model, "-i", f"gray={tmp_path / 'a.ppm'}")
    floats = write_model(tmp_path, "x")
    told = refusal(capsys, floats, "-i", f"x={tmp_path / 'a.ppm'}")
    assert "an image is uint8, but input 'x' wants float32 [?, 2]" in told


def test_png_needs_pillow(
    echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    told = refusal(capsys, write_model(tmp_path, "image"), "-i", f"image={tmp_path / 'a.png'}")
    assert "Pillow, which reads images, is not installed; pip install 'tfsmith[image]'" in told


def test_wrong_values(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x", "rate")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", x=np.array([{}]), y=np.ones(1))
    np.savez(tmp_path / "two.npz", a=np.ones(1), b=np.ones(1))
    (tmp_path / "junk.npy").write_bytes(b"junk")
    (tmp_path / "junk.npz").write_bytes(b"junk")
    (tmp_path / "junk.dat").write_bytes(b"junk")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:-30])
    np.save(tmp_path / "long.npy", np.ones((1, 2)) * 0.1)
    cases = {
        "x=nothing": "input 'x': 'nothing' is neither a file nor JSON; write KEY=FILE.npy",
        "nothing": "does not say for which input it is",
        "y=1": "the model has no input 'y'",
        "y=random": "the model has no input 'y'",
        f"x={tmp_path / 'none.npy'}": "there is no such file",
        f"x={tmp_path / 'objects.npy'}": "Python objects, which are never unpickled",
        f"x={tmp_path / 'objects.npz'}": "Python objects, which are never unpickled",
        f"x={tmp_path / 'junk.npy'}": "this is no file of numpy's",
        f"x={tmp_path / 'junk.npz'}": "this is no file of numpy's",
        f"x={tmp_path / 'junk.dat'}": "is a file whose name does not say what is in it; write KEY=FILE.npy",
        f"x={tmp_path / 'cut.npy'}": "numpy cannot read it",
        f"x={tmp_path / 'cut.npz'}": "numpy cannot read it",
        f"x={tmp_path / 'two.npz'}": "the archive has no array 'x'; it has: a, b",
        f"x={tmp_path / 'long.npy'}": "input 'x' is given float64 [1, 2]; the model wants float32 [?, 2]; convert it",
        "x=[[1, 2, 3]]": "input 'x' is given shape [1, 3]; the model wants float32 [?, 2]",
        "x=[1, 2]": "add the batch dimension",
        'x="text"': "input 'x' is given strings",
        f"x={'[' * 3000}": "is neither a file nor JSON",
    }
    for value, words in cases.items():
        assert words in refusal(capsys, model, "-i", value, "-i", "rate=1"), value
    assert "the model wants rate (float32 []), x (float32 [?, 2])" in refusal(capsys, model)
    assert "the model also wants rate (float32 [])" in refusal(capsys, model, "-i", "x=random")
    assert "input 'x' is given twice" in refusal(capsys, model, "-i", "x=random", "-i", "x=zeros")


def test_wrong_use(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x")
    np.save(tmp_path / "a.npy", np.ones((1, 2), np.float32))
    fed = ["-i", "x=random"]
    assert "--repeat 0 makes no sense" in refusal(capsys, model, *fed, "--repeat", "0")
    assert "--batch 0 makes no sense" in refusal(capsys, model, *fed, "--batch", "0")
    assert "leave one of them out" in refusal(capsys, model, *fed, "--repeat", "2", "--chunk", "2")
    assert "results are stored as .npz" in refusal(capsys, model, *fed, "-o", str(tmp_path / "out.txt"))
    assert "there is no engine 'x'" in refusal(capsys, model, *fed, "--engine", "x")
    assert "no node 'nothing' in the graph" in refusal(capsys, model, *fed, "--fetch", "nothing")
    assert "no signature 'other'" in refusal(capsys, model, *fed, "--signature", "other")
    np.savez(tmp_path / "in.npz", x=np.ones((1, 2), np.float32))
    before = (tmp_path / "in.npz").read_bytes()
    told = refusal(capsys, model, "-i", str(tmp_path / "in.npz"), "-o", str(tmp_path / "in.npz"))
    assert "the output is also the input" in told
    assert (tmp_path / "in.npz").read_bytes() == before


def test_answers_are_stored(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x", "text", "rate")
    out = tmp_path / "out.npz"
    assert main(["run", model, "-i", "x=[[1, 2]]", "-i", 'text=["a", "long"]', "-i", "rate=0.5", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "x_out     float32  [1, 2]  1    1.5   2    1, 2" in text
    assert "text_out  string   [2]" in text
    with np.load(out) as found:
        assert found["x_out"].tolist() == [[1, 2]]
        assert found["text_out"].tolist() == [b"a", b"long"]
        assert found["rate_out"] == 0.5
        assert found["rate_out"].shape == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.meta", "out.npz"]
    told = refusal(capsys, model, "-i", "random", "-o", str(out))
    assert "out.npz: the output exists already; choose another, or pass --force" in told


def test_chunks(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x", "text")
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "text.npy", np.array([b"a", b"bb", b"c", b"d", b"e", b"f", b"g"]))
    fed = ["-i", f"x={tmp_path / 'x.npy'}", "-i", f"text={tmp_path / 'text.npy'}"]
    out = tmp_path / "out.npz"
    assert main(["run", model, *fed, "--chunk", "3", "-o", str(out)]) == 0
    assert [len(run["x"]) for run in echo.runs] == [4, 2, 3, 3, 1], "the first two see whether rows can be cut"
    with np.load(out) as found:
        np.testing.assert_array_equal(found["x_out"], x)
        assert found["text_out"].tolist() == [b"a", b"bb", b"c", b"d", b"e", b"f", b"g"]
    echo.runs.clear()
    assert main(["run", model, *fed, "--chunk", "0"]) == 0
    assert len(echo.runs) == 1
    capsys.readouterr()
    np.save(tmp_path / "short.npy", x[:2])
    told = refusal(capsys, model, "-i", f"x={tmp_path / 'short.npy'}", *fed[2:], "--chunk", "3")
    assert "batches of different sizes: x has 2, text has 7" in told


def test_large_batches_go_in_chunks_by_themselves(
    echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfsmith.engines.runner._CHUNK_BYTES", 800)
    model = write_model(tmp_path, "x")
    for rows, chunk in ((256, 0), (257, 32)):
        echo.runs.clear()
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(rows, 2)).astype(np.float32))
        assert main(["run", model, "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.npz"), "--force"]) == 0
        told = capsys.readouterr().err
        assert ("it runs in chunks of 32 rows (--chunk)" in told) == bool(chunk)
        assert [len(run["x"]) for run in echo.runs] == ([4, 2, *[32] * 8, 1] if chunk else [rows])
        with np.load(tmp_path / "out.npz") as found:
            np.testing.assert_array_equal(found["x_out"], np.load(tmp_path / "x.npy"))


def test_rows_that_depend_on_each_other_stay_together(
    echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A norm over the batch has the shape of one answer for each row, but chunks would change it."""
    monkeypatch.setattr("tfsmith.engines.runner._CHUNK_BYTES", 800)
    echo.change = lambda values: values - values.mean(axis=0)
    model = write_model(tmp_path, "x")
    x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    command = ["run", model, "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.npz"), "--force"]
    assert main(command) == 0
    assert "but runs in one: rows of output 'x_out' depend on each other" in capsys.readouterr().err
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["x_out"], x - x.mean(axis=0))
    assert main([*command, "--chunk", "100"]) == 0
    assert "warning: rows of output 'x_out' depend on the other rows of their batch" in capsys.readouterr().err


def test_memory_does_not_grow_with_the_batch(
    echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs are read from their file, and answers gathered in files, chunk by chunk."""
    monkeypatch.setattr("tfsmith.engines.runner._CHUNK_BYTES", 1 << 16)
    echo.change = lambda values: np.repeat(values, 3, axis=1)
    model = write_model(tmp_path, "x")
    peaks: dict[int, int] = {}
    for rows in (1 << 16, 1 << 21):
        big = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (rows, 2))
        big[:] = np.arange(rows, dtype=np.float32)[:, None]
        big.flush()
        del big
        echo.runs = Forgetful()
        tracemalloc.start()
        try:
            command = ["run", model, "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.npz"), "--force"]
            assert main([*command, "--chunk", "4096"] if rows > 1 << 16 else command) == 0
            peaks[rows] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        with np.load(tmp_path / "out.npz") as found:
            assert found["x_out"].shape == (rows, 6)
            assert found["x_out"][-1].tolist() == [rows - 1] * 6
    assert capsys.readouterr().err.count("chunks of") == 1
    small, large = peaks.values()
    assert large < small + (1 << 23), "16 MB in and 48 MB out"


class Forgetful(list[Any]):
    """Keeps nothing, for what is kept counts as memory."""

    def append(self, item: Any) -> None:
        pass


@pytest.mark.parametrize("change", [np.sum, lambda values: values[:1], lambda values: values[:, : len(values)]])
def test_outputs_that_cannot_be_cut(
    echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Any], Any]
) -> None:
    echo.change = change
    model = write_model(tmp_path, "x")
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    told = refusal(capsys, model, "-i", f"x={tmp_path / 'x.npy'}", "--chunk", "2", "-o", str(tmp_path / "out.npz"))
    assert "run the batch in one, or leave the output out" in told
    assert not (tmp_path / "out.npz").exists()


def test_timing(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x")
    assert main(["run", model, "-i", "random", "--repeat", "4"]) == 0
    assert len(echo.runs) == 5  # the first warms up
    out, err = capsys.readouterr()
    assert "runs  median" in out
    assert err == "engine: openvino echo\n"
    assert main(["run", model, "-i", "random", "--repeat", "1", "--json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert seconds["runs"] == 1
    assert seconds["spread"] == 0
    assert seconds["fastest"] == seconds["median"] == seconds["slowest"]


def test_what_is_no_number_is_told(echo: Echo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "x")
    assert main(["run", model, "-i", "x=[[NaN, Infinity]]", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["outputs"]["x_out"]["values"] == [["NaN", "Infinity"]]
    assert "warning: output 'x_out': 1 of 2 values are NaN, and 1 are infinite" in err
