"""`tfsmith run` with the real engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.freeze_models import make_tf1
from tests.support.helpers import python

from tfsmith.cli.main import main
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_saved_model

pytestmark = pytest.mark.tensorflow


def test_the_caller_stays_light(tmp_path: Path) -> None:
    """Neither engine brings TensorFlow into this process, nor anything of ours into protobuf's default pool."""
    path = write_saved_model(linear_regression(), tmp_path / "model")
    code = """
import sys
import tfsmith
for engine in ("openvino", "tensorflow"):
    answers = tfsmith.run(sys.argv[1], {"x": [[2.0]]}, engine=engine)
    assert answers["y"].shape == (1, 1)
    assert "tensorflow" not in sys.modules
"""
    done = python("-c", code, str(path))
    assert (done.returncode, done.stderr) == (0, "")


def test_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    def build(tf: Any) -> Any:
        v1 = tf.compat.v1
        image = v1.placeholder(tf.uint8, [None, None, None, 3], "image")
        scale = v1.get_variable("scale", [], use_resource=True, initializer=v1.constant_initializer(2.0))
        return [tf.identity(tf.cast(image, tf.float32) * scale, name="twice")], {image: np.zeros((1, 2, 2, 3))}

    made = make_tf1(tmp_path / "model", build)
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels[..., 0]).save(tmp_path / "gray.png")
    Image.fromarray(pixels).save(tmp_path / "a.jpg")
    for name, wanted in (("a.png", pixels), ("gray.png", np.repeat(pixels[..., :1], 3, -1)), ("a.jpg", None)):
        assert main(["run", str(made.saved_model), "-i", f"image={tmp_path / name}", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["outputs"].values()
        assert found["shape"] == [1, 2, 4, 3]
        if wanted is not None:
            assert found["values"] == (wanted[None] * 2.0).tolist()
    (tmp_path / "bad.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    assert main(["run", str(made.saved_model), "-i", f"image={tmp_path / 'bad.png'}"]) == 2
    assert "no image that can be read" in capsys.readouterr().err


def test_which_engine_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_saved_model(linear_regression(), tmp_path / "model")
    assert main(["run", str(path), "-i", "x=[[1.0], [2.0]]", "-o", str(tmp_path / "y.npz")]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("engine: reference with numpy ")
    assert "OpenVINO computes float64 as float32" in err
    assert "y    float64  [2, 1]" in out
    with np.load(tmp_path / "y.npz") as found:
        assert found["y"].dtype == np.float64
        wanted = linear_regression().reference({"x": np.array([[1.0], [2.0]])})["y"]
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-12)
    assert main(["run", str(path), "-i", "x=[[1.0]]", "--engine", "openvino"]) == 0
    assert "warning: OpenVINO computes float64 as float32" in capsys.readouterr().err
    assert main(["run", str(path), "-i", "x=[[1.0]]", "--engine", "tensorflow", "--op-library", "none.so"]) == 2
    assert "error: none.so: there is no such op library" in capsys.readouterr().err
