"""The story of the detector, run whole: it finds the shapes, and answers the same wherever it is asked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from examples.object_detection import config, pictures, serve, story
from examples.steps import StoryError, Told, tell
from tests.docs.runner import matches
from tests.examples.story_readme import alarms, check_rest, shown_commands

pytestmark = pytest.mark.tensorflow

README = story.HERE / "README.md"
OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
_DECIMAL = re.compile(r"\b\d+\.\d+(?:e-?\d+)?\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Run(NamedTuple):
    """A story that was run: where, and what came of each step."""

    folder: Path
    told: list[Told]

    def output(self, key: str) -> str:
        """What the step with a key printed."""
        (found,) = [one.output for one in self.told if one.step.key == key]
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("object_detection") / "run"
    return Run(folder, tell(story.HERE, folder, story.STEPS))


@pytest.fixture(scope="module")
def servable(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serve.Servable]:
    base = tmp_path_factory.mktemp("servable")
    for version in (3, 12):  # 12 is the higher one, though not as text
        shutil.copytree(run.folder / "exported" / "saved_model", base / str(version))
    (base / "13_not_yet").mkdir()
    loaded = serve.Servable("shapes", base)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def address(servable: serve.Servable) -> Iterator[str]:
    server = serve.make_server(servable, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def asked(run: Run) -> Any:
    """The pictures that the story stores as inputs."""
    with np.load(run.folder / "pictures.npz") as stored:
        return stored["inputs"]


def test_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.problems(run.told) == []
    assert story.report(run.told, run.folder) == 0
    assert "The detector is good" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "old", "new", "what"),
    [
        ("trained", r"recall \S+,", "recall 0.512,", "the recall is 0.512"),
        ("trained", r"precision \S+,", "precision 0.5,", "the precision is 0.5"),
        ("exported", r"overlap \S+", "overlap 0.5", "exported it is"),
        ("served", r"triangle", "square  ", "the served model"),
        ("served", r"x 0\.\d+ to", "x 0.111 to", "the served model"),
        ("served", r"(?m)^circle.*\n", "", "the served model"),
        ("tfsmith", r"triangle", "square  ", "tfsmith serve"),
        ("found", r"(?s).+", "", "nothing was found"),
    ],
)
def test_what_is_wrong_is_noticed(run: Run, key: str, old: str, new: str, what: str) -> None:
    told = [Told(one.step, re.sub(old, new, one.output, count=1)) if one.step.key == key else one for one in run.told]
    assert any(what in problem for problem in story.problems(told))
    assert story.report(told, run.folder) == 1


def test_a_score_that_is_not_there() -> None:
    with pytest.raises(StoryError, match="no score"):
        story.read_score("step  100  loss 1.0\n")


def test_it_finds_the_shapes(run: Run) -> None:
    score = story.read_score(run.output("trained"))
    assert score["recall"] >= 0.9
    assert score["precision"] >= 0.85
    assert score["overlap"] >= 0.8
    drawn = re.search(r"^picture.png: (.*)$", "".join(one.output for one in run.told), re.MULTILINE)
    assert drawn is not None
    names = sorted(name for name, _ in story.read_found(run.output("found")))
    assert names == sorted(drawn[1].split(", "))


def test_the_listings_are_those_of_the_document(run: Run) -> None:
    step = "model.ckpt-400"
    assert files_below(run.folder / "training") == [
        "checkpoint",
        f"{step}.data-00000-of-00001",
        f"{step}.index",
        f"{step}.meta",
    ]
    saved_model = ["saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index"]
    assert files_below(run.folder / "exported" / "saved_model") == saved_model
    assert files_below(run.folder / "exported") == [
        "checkpoint",
        "frozen_inference_graph.pb",
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
        "model.ckpt.meta",
        "pipeline.config",
        *(f"saved_model/{name}" for name in saved_model),
    ]


def test_tensorflow_answers_the_same_of_all_that_was_exported(run: Run, servable: serve.Servable) -> None:
    import tensorflow as tf

    exported = run.folder / "exported"
    images = asked(run)
    names = [f"{name}:0" for name in OUTPUTS]
    frozen, restored = tf.Graph(), tf.Graph()
    with frozen.as_default(), tf.compat.v1.Session(graph=frozen) as session:
        graph = tf.compat.v1.GraphDef.FromString((exported / "frozen_inference_graph.pb").read_bytes())
        tf.import_graph_def(graph, name="")
        assert not [node.op for node in graph.node if "Variable" in node.op]
        expected = dict(zip(OUTPUTS, session.run(names, {"image_tensor:0": images}), strict=True))
    with restored.as_default(), tf.compat.v1.Session(graph=restored) as session:
        saver = tf.compat.v1.train.import_meta_graph(str(exported / "model.ckpt.meta"))
        saver.restore(session, str(exported / "model.ckpt"))
        from_meta = dict(zip(OUTPUTS, session.run(names, {"image_tensor:0": images}), strict=True))
    function = tf.saved_model.load(str(exported / "saved_model")).signatures["serving_default"]
    unfrozen = {name: value.numpy() for name, value in function(tf.constant(images)).items()}
    served = servable.predict({"inputs": images.tolist()})["outputs"]
    assert expected["num_detections"].min() > 0
    for answer in (from_meta, unfrozen, served):
        assert sorted(answer) == sorted(OUTPUTS)
        for name in OUTPUTS:
            np.testing.assert_allclose(answer[name], expected[name], rtol=1e-4, atol=1e-5)


def test_a_picture_without_shapes(run: Run, servable: serve.Servable) -> None:
    answer = servable.predict({"instances": np.full((2, 40, 60, 3), 99, np.uint8).tolist()})["predictions"]
    assert [one["num_detections"] for one in answer] == [0.0, 0.0]
    assert np.abs(answer[0]["detection_boxes"]).max() == 0.0
    assert np.shape(answer[0]["detection_boxes"]) == (20, 4)


def call(url: str, body: bytes | None = None) -> tuple[int, Any]:
    """The status, and the JSON that came with it."""
    try:
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_status_and_metadata_have_the_form_of_the_server(address: str) -> None:
    code, status = call(f"{address}/v1/models/shapes")
    fine = {"error_code": "OK", "error_message": ""}
    assert code == 200
    assert status == {"model_version_status": [{"version": "12", "state": "AVAILABLE", "status": fine}]}
    code, metadata = call(f"{address}/v1/models/shapes/metadata")
    assert code == 200
    assert metadata["model_spec"] == {"name": "shapes", "signature_name": "", "version": "12"}
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert sorted(signature["outputs"]) == sorted(OUTPUTS)
    (info,) = signature["inputs"].values()
    assert (info["name"], info["dtype"]) == ("image_tensor:0", "DT_UINT8")
    assert [dim["size"] for dim in info["tensor_shape"]["dim"]] == ["-1", "-1", "-1", "3"]


def test_rows_and_columns(run: Run, address: str) -> None:
    images = asked(run)[:2].tolist()
    url = f"{address}/v1/models/shapes:predict"
    code, rows = call(url, json.dumps({"instances": images}).encode())
    assert code == 200
    assert [sorted(row) for row in rows["predictions"]] == [sorted(OUTPUTS)] * 2
    _, named = call(url, json.dumps({"instances": [{"inputs": image} for image in images]}).encode())
    assert named == rows
    _, columns = call(url, json.dumps({"inputs": {"inputs": images}}).encode())
    for name in OUTPUTS:
        np.testing.assert_allclose(columns["outputs"][name], [row[name] for row in rows["predictions"]], rtol=1e-5)


@pytest.mark.parametrize(
    ("path", "body", "code", "what"),
    [
        ("shapes:predict", b"{", 400, "JSON Parse error"),
        ("shapes:predict", b"[]", 400, "must be a JSON object"),
        ("shapes:predict", b"{}", 400, "either 'instances' or 'inputs'"),
        ("shapes:predict", b'{"instances": []}', 400, "not empty"),
        ("shapes:predict", b'{"instances": [[[["a"]]]]}', 400, "not uint8"),
        ("shapes:predict", b'{"instances": [[[[1, 2, 300]]]]}', 400, "not uint8"),
        ("shapes:predict", b'{"instances": [{"image": 1}]}', 400, "lacks the input 'inputs'"),
        ("shapes:predict", b'{"instances": [1], "signature_name": "other"}', 400, "'other' not found"),
        ("circles:predict", b'{"instances": [1]}', 404, "unknown model"),
        ("circles", None, 404, "unknown model"),
    ],
)
def test_requests_that_do_not_fit(address: str, path: str, body: bytes | None, code: int, what: str) -> None:
    status, answer = call(f"{address}/v1/models/{path}", body)
    assert status == code
    assert what in answer["error"]


def ask(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the client, in which TensorFlow and tfsmith cannot be imported."""
    code = "import runpy, sys; sys.modules.update(tensorflow=None, tfsmith=None); sys.path.insert(0, '.')\n"
    code += "runpy.run_path('client.py', run_name='__main__')"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)


def test_the_client(run: Run, address: str) -> None:
    done = ask(run, "picture.png", "--server", address, "-o", "asked.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "model shapes, version 12: AVAILABLE"
    found, expected = story.read_found(done.stdout), story.read_found(run.output("found"))
    assert [name for name, _ in found] == [name for name, _ in expected]
    np.testing.assert_allclose([numbers for _, numbers in found], [numbers for _, numbers in expected], atol=0.002)
    drawn, before = pictures.read_png(run.folder / "asked.png"), pictures.read_png(run.folder / "picture.png")
    assert drawn.shape == before.shape
    assert (drawn != before).any()


def test_the_client_says_what_the_server_says(run: Run, address: str) -> None:
    done = ask(run, "picture.png", "--server", address, "--model", "circles")
    assert done.returncode == 2
    assert re.fullmatch(r"error: http://localhost:\d+/v1/models/circles: 404: .*unknown model.*\n", done.stderr)


def test_the_client_without_a_server(run: Run) -> None:
    done = ask(run, "picture.png", "--server", f"http://localhost:{serve._free_port()}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: http://localhost:")


def test_the_server_is_taken_if_it_is_installed(run: Run, tmp_path: Path) -> None:
    program = tmp_path / serve.PROGRAM
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "assert sys.argv[1].startswith('--port=') and os.path.isabs(sys.argv[-1].partition('=')[2])\n"
        "os.execv(sys.executable, [sys.executable, 'serve.py', '--stand_in', *sys.argv[2:]])\n"
    )
    program.chmod(0o755)
    served = [sys.executable, "serve.py", "--model_name=shapes", "--model_base_path=servable/shapes"]
    served += ["--run", f"{sys.executable} client.py --server $SERVER picture.png"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(served, cwd=run.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("served by tensorflow_model_server\nmodel shapes, version ")
    assert len(story.read_found(done.stdout)) == len(story.read_found(run.output("found")))


def test_a_base_path_without_versions(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no numbered folder"):
        serve.Servable("shapes", tmp_path)


def test_detecting_needs_no_tensorflow(run: Run) -> None:
    code = "import runpy, sys; sys.modules['tensorflow'] = None; sys.path.insert(0, '.')\n"
    code += "runpy.run_path('detect.py', run_name='__main__')"
    command = [sys.executable, "-c", code, "exported/frozen_inference_graph.pb", "picture.png"]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run.output("found")


def test_png_files_are_those_of_others(tmp_path: Path) -> None:
    import tensorflow as tf

    random = np.random.default_rng(0)
    smooth = np.add.outer(np.arange(40), np.arange(60))[..., None] * np.array([1, 2, 3])
    picture = (smooth + random.integers(0, 20, smooth.shape)).astype(np.uint8)
    ours, theirs = tmp_path / "ours.png", tmp_path / "theirs.png"
    pictures.write_png(ours, picture)
    assert (tf.io.decode_png(ours.read_bytes()).numpy() == picture).all()
    for channels, expected in ((picture[..., :1], picture[..., [0, 0, 0]]), (picture, picture)):
        theirs.write_bytes(tf.io.encode_png(channels).numpy())
        assert (pictures.read_png(theirs) == expected).all()
    alpha = np.concatenate([picture, picture[..., :1]], -1)
    theirs.write_bytes(tf.io.encode_png(alpha).numpy())
    assert (pictures.read_png(theirs) == picture).all()
    with pytest.raises(pictures.PictureError, match="not a PNG"):
        pictures.read_png(README)


@pytest.mark.parametrize(("kind", "coded"), [(3, [10, 10, 10]), (4, [10, 10, 10])])
def test_the_filters_that_depend_on_the_pixel_before(kind: int, coded: list[int]) -> None:
    above = [100, 50, 200]
    left = corner = 0
    expected = []
    for value, up in zip(coded, above, strict=True):
        guess = (left + up) // 2
        if kind == 4:
            near = left + up - corner
            guess = min((abs(near - left), 0, left), (abs(near - up), 1, up), (abs(near - corner), 2, corner))[2]
        left, corner = (value + guess) % 256, up
        expected.append(left)
    assert pictures._unfilter_slowly(kind, coded, above, 1) == expected


def test_boxes_that_reach_out_of_the_picture() -> None:
    picture = np.zeros((64, 64, 3), np.uint8)
    pictures.draw_box(picture, (-0.1, -0.1, 0.5, 0.5), "circle 99%", (255, 0, 0))
    pictures.draw_box(picture, (0.6, 0.7, 1.2, 1.2), "square 1%", (0, 0, 255))
    assert (picture[0, 0] == (255, 0, 0)).all()  # the label, which has no room above
    assert (picture[31, :6] == (255, 0, 0)).all()
    assert (picture[63, 45] == (0, 0, 255)).all()
    assert (picture[40:, :40] == 0).all()


def test_the_configuration(tmp_path: Path) -> None:
    text = (story.HERE / "pipeline.config").read_text()
    file = tmp_path / "pipeline.config"
    found = config.read_pipeline(story.HERE / "pipeline.config")
    assert (found.num_classes, found.height, found.num_steps) == (3, 96, 400)
    assert found.box_scales == (10.0, 10.0, 5.0, 5.0)
    for wrong, what in (
        (text.replace("num_classes: 3", ""), r"model\.ssd\.num_classes is missing"),
        (text.rstrip().removesuffix("}"), "a '}' is missing"),
        (text.replace("num_classes: 3", "num_classes 3"), "there must be ':'"),
        (text + "?", r"cannot read this: \?"),
    ):
        file.write_text(wrong)
        with pytest.raises(config.ConfigError, match=what) as error:
            config.read_pipeline(file)
        assert str(file) in str(error.value)
    with pytest.raises(config.ConfigError, match="No such file"):
        config.read_pipeline(tmp_path / "none.config")


def test_the_export_says_what_is_wrong(run: Run) -> None:
    command = [sys.executable, "export_inference_graph.py", "--input_type=image_tensor"]
    command += ["--pipeline_config_path=pipeline.config", "--output_directory=nothing"]
    command += ["--trained_checkpoint_prefix=training/model.ckpt-500"]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(r"^error: training/model\.ckpt-500: ", done.stderr, re.MULTILINE), done.stderr
    assert files_below(run.folder / "nothing") == []


def plain(text: str) -> str:
    """A text without its fractions: their last digits depend on the processor."""
    return _DECIMAL.sub("#", text)


def test_the_readme_shows_what_the_story_prints(run: Run) -> None:
    shown = shown_commands(README)
    assert [step.command for step in story.STEPS if step.command not in shown] == []
    wrong = [
        f"$ {one.step.command}\n{one.output}"
        for one in run.told
        if not matches(plain(shown[one.step.command]), plain(one.output))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_rest_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rest(README, story.STEPS, run.folder, tmp_path, monkeypatch, least=6)


def test_the_picture_in_the_readme(run: Run) -> None:
    shown, found = (pictures.read_png(file) for file in (story.HERE / "images/found.png", run.folder / "found.png"))
    assert shown.shape == found.shape
    assert (shown != found).any(-1).mean() < 0.05  # labels and edges may move by a pixel


def test_links_lead_somewhere() -> None:
    for link in _LINK.findall(README.read_text()):
        assert (story.HERE / link.partition("#")[0]).exists(), link


def test_nothing_names_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=story.HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.split():
        if name.endswith(".png"):
            continue
        text = (story.HERE / name).read_text()
        assert not re.search(r"/(?:root|home|work|Users|tmp)/", text), name
        hosts = set(re.findall(r"https?://([\w.]+\.\w+)", text))
        assert hosts <= {"storage.googleapis.com"}, name


def test_scan_raises_no_alarm(run: Run) -> None:
    assert alarms(run.folder) == {}
