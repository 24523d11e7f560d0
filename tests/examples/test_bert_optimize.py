"""The story of the optimized op, run whole: the encoder is replaced, runs in TensorFlow, and answers the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from examples.bert_classifier.story import output_of
from examples.bert_optimize import story
from examples.steps import StoryError, Told
from tests.examples.story_readme import Run, check_links, check_no_machine, check_rest, check_steps

import tfsmith

pytestmark = pytest.mark.tensorflow

README = story.HERE / "README.md"
MEASURED = ("python accuracy.py", "tfsmith verify", "tfsmith optimize")
LAST = "bert/encoder/layer_1/output/LayerNorm/batchnorm/add_1"


@pytest.fixture(scope="module")
def run(stories_with_bert: Path) -> Run:
    missing = story.why_no_op()
    if missing is not None:
        pytest.skip(missing)
    folder = stories_with_bert / "bert_optimize"
    fewer = {"python make_base.py": "python make_base.py --small"}
    steps = [replace(step, command=fewer.get(step.command, step.command)) for step in story.STEPS]
    return Run(folder, story.run(folder, steps))


def test_the_graph_has_one_node_in_the_encoders_place(run: Run) -> None:
    model = tfsmith.load(run.folder / "bert" / "modified_saved_model.pb")
    node = model.graph["bert/encoder/bert"]
    assert node.op == "Bert"
    assert len(node.inputs) == 34
    assert node.get("MaxSequenceLength") == 64
    assert LAST not in model.graph


def test_the_link_leads_to_the_original_again(run: Run) -> None:
    link = run.folder / "bert" / "saved_model.pb"
    assert link.is_symlink()
    original = run.folder.parent / "bert_classifier" / "saved_models" / "400" / "saved_model.pb"
    assert link.read_bytes() == original.read_bytes()


def test_the_answers_are_those_of_the_original(run: Run) -> None:
    answers = story.read_answers(output_of(run.told, "accuracy"))
    assert list(answers) == [story.MODEL, "optimized", "quantized"]
    before, floats, quantized = answers.values()
    assert before.right > 180
    assert floats.right == before.right
    assert floats.furthest <= story.TOLERANCE
    assert before.right - quantized.right <= story.MOST_LOST * before.pairs
    assert quantized.furthest > floats.furthest  # else it did not round


def test_the_weights_are_not_touched(run: Run) -> None:
    original = run.folder.parent / "bert_classifier" / "saved_models" / "400" / "variables"
    for name in ("variables.index", "variables.data-00000-of-00001"):
        for other in ("bert", "optimized", "quantized"):
            assert (run.folder / other / "variables" / name).read_bytes() == (original / name).read_bytes()


def test_the_other_bert_is_one_node_too(run: Run) -> None:
    nodes = [node for node in tfsmith.load(run.folder / "base_optimized.pb").graph if node.op == "Bert"]
    assert [len(node.inputs) for node in nodes] == [66]
    assert story.read_speedup(output_of(run.told, "base")) > 0


def test_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    assert "The models agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("right", "furthest"), [("200 of 200", "1.0e-02"), ("190 of 200", "1.0e-09")], ids=["far away", "less accurate"]
)
def test_what_is_wrong_is_reported(run: Run, right: str, furthest: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{story.MODEL}  200 of 200  0.0e+00", f"optimized  {right}  {furthest}", "quantized  200 of 200  1.0e-05"]
    output = "\n".join(["model  right  furthest", *lines, ""])
    wrong = [Told(one.step, output) if one.step.key == "accuracy" else one for one in run.told]
    assert story.report(wrong, run.folder) == 1
    assert "DIFFER" in capsys.readouterr().out


def test_without_the_op_it_says_what_was_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(story, "why_no_op", lambda: "there is no compiler")
    assert story.report([], tmp_path) == 0
    assert "skipped: 8 steps that need the op: there is no compiler" in capsys.readouterr().out


def test_nothing_that_can_be_read() -> None:
    with pytest.raises(StoryError, match="no model answered"):
        story.read_answers("model\n")
    with pytest.raises(StoryError, match="nothing was timed"):
        story.read_speedup("Wrote it\n")


def test_the_readme_shows_what_the_story_prints(run: Run) -> None:
    told = [one for one in run.told if one.step in story.STEPS and one.step.key != "base"]
    check_steps(README, told, (run.folder / "story.log").read_text(), MEASURED)


def test_the_rest_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rest(README, story.STEPS, run.folder, tmp_path, monkeypatch)


def test_links_and_names() -> None:
    check_links(README)
    check_no_machine(story.HERE)
