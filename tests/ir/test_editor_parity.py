"""An edited graph computes what the edits say, in TensorFlow and in OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import tfsmith
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files

ENGINES = ["openvino", pytest.param("tensorflow", marks=pytest.mark.tensorflow)]


@pytest.mark.parametrize("engine", ENGINES)
def test_edits_of_a_meta_graph(tmp_path: Path, engine: str) -> None:
    """Nodes of a `.meta` carry their shapes; those that an edit made wrong would be refused."""
    write_checkpoint_files(linear_regression(), tmp_path, step=1)
    model = tfsmith.load(tmp_path / "model.ckpt-1")
    slope, intercept = (model.variables[f"model_variables/{name}"].numpy() for name in ("slope", "intercept"))
    with model.edit() as g:
        g.set("inputs/x_sample", shape=(None, 2))
        doubled = g.add("AddV2", ["linear_regression/mul", "linear_regression/mul"], name="double")
        g.rewire("linear_regression/mul:0", g.add("Sum", [doubled, [1]], keep_dims=True, name="sum"))
        parts = g.add("Split", [0, "linear_regression/add"], num_split=2, name="parts")
        g.add("ConcatV2", [parts.outputs[1], parts, 0], name="turned")
        g.rename("linear_regression/add", "answer")
    path = tmp_path / "edited.meta"
    tfsmith.save(g.model, path)
    x = numpy.array([[1.0, 2.0], [3.0, 4.0]])
    found = tfsmith.run(path, {"inputs/x_sample": x}, ["answer", "turned"], engine=engine)
    wanted = 2 * slope * x.sum(1, keepdims=True) + intercept
    numpy.testing.assert_allclose(found["answer"], wanted, rtol=1e-6)
    numpy.testing.assert_allclose(found["turned"], wanted[::-1], rtol=1e-6)
