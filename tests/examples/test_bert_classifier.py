"""The story of the BERT classifier, run whole: it has learned, and answers the same in every form and engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.bert_classifier import story
from examples.steps import StoryError, Told, tell
from tests.examples.story_readme import Run, alarms, check_links, check_no_machine, check_rest, check_steps
from tests.support.documents import MIGRAPHX

import tfsmith

pytestmark = pytest.mark.tensorflow

README = story.HERE / "README.md"
SMALL = story.SIZES["small"]
MODELS = ("saved_models/400", "frozen_bert.pb", "servable", "frozen_servable.pb")
MEASURED = ("python run_classifier.py", "python ask.py", "tfsmith run", "tfsmith verify")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("bert_classifier") / "run"
    return Run(folder, tell(story.HERE, folder, story.STEPS))


def results(run: Run) -> Any:
    """The probabilities that TensorFlow answered right after the training."""
    return np.loadtxt(run.folder / "mrpc_output" / "test_results.tsv", np.float32)


def features(run: Run) -> dict[str, Any]:
    with np.load(run.folder / "mrpc_output" / "eval.npz") as stored:
        return dict(stored)


def test_it_has_learned(run: Run) -> None:
    labels = features(run)["label_ids"]
    assert len(labels) == 200
    assert 0.4 < labels.mean() < 0.6  # or guessing one of them would do
    assert (results(run).argmax(1) == labels).mean() > 0.9
    said = (run.folder / "mrpc_output" / "eval_results.txt").read_text()
    assert f"eval_accuracy = {(results(run).argmax(1) == labels).mean()}\n" in said


def test_no_pair_is_in_both_files(run: Run) -> None:
    def pairs(name: str) -> set[str]:
        lines = (run.folder / "glue" / "MRPC" / name).read_text().splitlines()
        assert lines[0] == "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        return {line.split("\t", 3)[3] for line in lines[1:]}

    train, dev = pairs("train.tsv"), pairs("dev.tsv")
    assert (len(train), len(dev), len(train & dev)) == (3200, 200, 0)


def test_all_models_answer_as_tensorflow_did(run: Run) -> None:
    answers = story.read_answers(story.output_of(run.told, "ask"))
    assert [(one.model, one.engine) for one in answers] == [
        (model, engine) for model in MODELS for engine in ("tensorflow", "openvino")
    ]
    right = np.sum(results(run).argmax(1) == features(run)["label_ids"])
    assert {(one.right, one.pairs) for one in answers} == {(right, 200)}
    assert max(one.furthest for one in answers) <= story.TOLERANCE


@pytest.mark.parametrize("model", MODELS[1:])
def test_what_is_before_the_softmax_is_the_same(run: Run, model: str) -> None:
    """The probabilities are near 0 and 1, where much that is wrong would not be seen."""
    found = tfsmith.verify(
        run.folder / MODELS[0], run.folder / model, outputs={"loss/BiasAdd:0": "loss/BiasAdd:0"}, samples=4
    )
    assert found.is_same
    assert [output.key for output in found.outputs] == ["loss/BiasAdd:0"]


def test_the_signature_is_that_of_the_document(run: Run) -> None:
    assert story.output_of(run.told, "show") == MIGRAPHX.replace("128", str(SMALL.length))


def test_tensorflow_freezes_the_same(run: Run, tmp_path: Path) -> None:
    import tensorflow.compat.v1 as tf
    from tensorflow.python.tools import freeze_graph

    theirs = tmp_path / "frozen.pb"
    with tf.Graph().as_default():
        freeze_graph.freeze_graph(
            str(run.folder / "mrpc_output" / "graph.pbtxt"),
            "",
            False,
            str(run.folder / "mrpc_output" / "model.ckpt-400"),
            "loss/output",
            "",
            "",
            str(theirs),
            True,
            "",
            input_saved_model_dir=str(run.folder / "saved_models" / "400"),
            saved_model_tags="serve",
        )
    graphs = []
    for path in (run.folder / "frozen_bert.pb", theirs):
        graphs.append(tf.GraphDef.FromString(path.read_bytes()))
    ours, expected = graphs
    assert {node.name: node for node in ours.node} == {node.name: node for node in expected.node}
    assert story.output_of(run.told, "freeze") == "Converted 41 variables to const ops.\n"


def test_tensorflow_loads_what_tfsmith_exported(run: Run) -> None:
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(run.folder / "servable"))
        signature = meta.signature_def["serving_default"]
        assert sorted(signature.inputs) == sorted(story.INPUTS)
        feeds = {info.name: features(run)[key][:1] for key, info in signature.inputs.items()}
        answers = session.run(signature.outputs["probabilities"].name, feeds)
    np.testing.assert_allclose(answers, results(run)[:1], rtol=0, atol=story.TOLERANCE)


def test_the_training_leaves_googles_names(run: Run) -> None:
    model = tfsmith.load(run.folder / "mrpc_output")
    shapes = {name: list(tensor.shape.dims or ()) for name, tensor in model.variables.items()}
    assert shapes["bert/embeddings/word_embeddings"] == [49, 64]
    assert shapes["bert/encoder/layer_0/attention/self/query/kernel"] == [64, 64]
    assert shapes["bert/encoder/layer_1/output/LayerNorm/gamma"] == [64]
    assert shapes["output_weights"] == [2, 64]
    assert model.graph["bert/encoder/layer_0/attention/self/query/kernel"].op == "VariableV2"
    assert {name: model.graph[name].op for name in story.INPUTS} == dict.fromkeys(story.INPUTS, "Placeholder")
    assert model.graph["loss/output"].op == "Softmax"


def test_migraphx_has_all_it_needs(run: Run) -> None:
    for name in ("frozen_bert.pb", "frozen_servable.pb"):
        found = tfsmith.check(run.folder / name, "migraphx")
        assert found.is_clean
        assert found.obstacles == ()
    for key in ("migraphx", "migraphx, ours"):
        assert ": nothing stands in the way" in story.output_of(run.told, key)


def test_the_training_graph_is_not_for_migraphx(run: Run) -> None:
    """So that the check above can fail: dropout is in the way, and the open batch size."""
    found = tfsmith.check(run.folder / "mrpc_output", "migraphx")
    assert not found.is_clean
    assert "RandomUniform" in {one.subject for one in found.obstacles}


def test_another_training_begins_with_the_weights_of_this_one(run: Run, tmp_path: Path) -> None:
    """`--init_checkpoint`: after one step from a trained BERT, nearly all answers are still right."""
    script = run.folder / "run_classifier.py"
    command = [sys.executable, str(script), "--do_train=true", "--do_eval=true"]
    command += [f"--data_dir={run.folder}/glue/MRPC", f"--vocab_file={run.folder}/bert/vocab.txt"]
    command += [f"--bert_config_file={run.folder}/bert/bert_config.json", "--max_seq_length=32", "--output_dir=again"]
    command += ["--num_train_epochs=0.01", f"--init_checkpoint={run.folder}/mrpc_output/model.ckpt-400"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / "model.ckpt-1.index").exists()
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("eval_accuracy = ")]
    assert float(said.partition("=")[2]) > 0.9


def test_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder, SMALL) == 0
    assert "The models agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("servable openvino 199 of 200 0.9 0.1 1.2e-07", 0, "agree"),
        ("servable openvino 200 of 200 0.9 0.1 1.2e-03", 1, "DIFFER"),
        ("servable openvino 120 of 200 0.9 0.1 1.2e-07", 1, "60%"),
    ],
)
def test_what_is_wrong_is_noticed(
    line: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (step,) = [step for step in story.STEPS if step.key == "ask"]
    assert story.report([Told(step, f"model engine right\n{line}\n")], tmp_path, SMALL) == code
    assert said in capsys.readouterr().out


def test_no_answers() -> None:
    with pytest.raises(StoryError, match="no model answered"):
        story.read_answers("model engine right\n")


def test_the_real_size_has_the_same_steps() -> None:
    base = story.make_steps(story.SIZES["base"])
    assert [step.title for step in base] == [step.title for step in story.STEPS]
    assert "--size base" in base[0].command
    assert "saved_models/4 " in base[-1].command


def test_the_readme_shows_what_the_story_prints(run: Run) -> None:
    check_steps(README, run.told, (run.folder / "story.log").read_text(), MEASURED)


def test_the_rest_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rest(README, story.STEPS, run.folder, tmp_path, monkeypatch)


def test_the_readme_shows_the_serving_input_function() -> None:
    source = (story.HERE / "run_classifier.py").read_text()
    (shown,) = [part for part in README.read_text().split("```text\n") if part.startswith("def serving_input_fn")]
    for line in shown.partition("```")[0].splitlines():
        assert line in source


def test_links_and_names() -> None:
    check_links(README)
    check_no_machine(story.HERE)


def test_scan_raises_no_alarm(run: Run) -> None:
    assert alarms(run.folder) == {}
