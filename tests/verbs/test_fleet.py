"""A verb over many models: lines, resuming, models that are bad or deadly, and a cluster that loses a node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tfsmith
import tfsmith.verbs.fleet as module
from tfsmith.cli.main import main
from tfsmith.errors import TfsmithError, UsageError
from tfsmith.testing.half_plus import write_half_plus
from tfsmith.verbs._fleet_models import Found, find_models, out_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three SavedModels, a frozen graph, and files that are no models."""
    folder = tmp_path_factory.mktemp("fleet")
    first = write_half_plus(folder / "a", 1.0)
    for name in ("b", "c"):
        shutil.copytree(first, folder / "deep" / name)
    tfsmith.freeze(first, outputs=["y"]).save(folder / "frozen.pb")
    (folder / "bad.pb").write_bytes(b"no model at all")
    (folder / "readme.txt").write_text("nothing")
    return folder


def lines_of(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in report.read_text().splitlines()]


def test_models_are_found_once_each(models: Path) -> None:
    found = {Path(one.path).name for one in find_models([f"{models}/**", str(models / "a")])}
    assert found == {"a", "b", "c", "frozen.pb", "bad.pb"}
    assert {Path(one.path).name for one in find_models([str(models / "deep")])} == {"b", "c"}
    with pytest.raises(TfsmithError, match="no model matches"):
        find_models([f"{models}/*.txt"])


def test_one_line_for_each_and_it_resumes(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "scan.jsonl"
    command = ["fleet", "scan", f"{models}/**", "--report", str(report), "--jobs", "2", "--fail-on", "note"]
    assert main(command) == 1  # a model is bad
    lines = lines_of(report)
    assert sorted(Path(one["model"]).name for one in lines) == ["a", "b", "bad.pb", "c", "frozen.pb"]
    statuses = {Path(one["model"]).name: one["status"] for one in lines}
    assert statuses.pop("bad.pb") == "error"
    assert set(statuses.values()) == {"yes"}
    assert all(one["options"] == {"fail_on": "note"} for one in lines)
    assert "bad.pb" in capsys.readouterr().out
    assert "bad.pb" in report.with_suffix(".html").read_text()

    with open(report, "a") as file:
        file.write('{"model": "cut of')  # as a machine that lost its power leaves it
    shutil.copytree(models / "a", models / "deep" / "d")
    try:
        assert main(command) == 0
    finally:
        shutil.rmtree(models / "deep" / "d")
    assert [Path(json.loads(line)["model"]).name for line in report.read_text().splitlines()[5:]] == ["d"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("r.jsonl", "notes\n"), ("r.jsonl", "notes"), ("r.jsonl", '{"model": 1}\n'), ("r.html", ""), ("r.jsonl", None)],
)
def test_files_that_are_no_report_are_kept(models: Path, tmp_path: Path, name: str, text: str | None) -> None:
    if text is None:
        (tmp_path / "r.html").write_text("<title>my page</title>")
    else:
        (tmp_path / name).write_text(text)
    before = {one.name: one.read_text() for one in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="report"):
        tfsmith.fleet("scan", [str(models / "deep")], report=tmp_path / name)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == before


def test_outputs_are_named_after_the_models(models: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out" / "{stem}.pb")
    done = tfsmith.fleet(
        "freeze", [str(models / "deep")], report=tmp_path / "r.jsonl", options={"outputs": ["y"], "out": out}
    )
    assert done
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["b.pb", "c.pb"]
    again = tfsmith.fleet(
        "freeze", [str(models / "deep")], report=tmp_path / "r.jsonl", options={"outputs": ["y"], "out": out}
    )
    assert again.skipped == 2
    assert out_of("x/{parent}-{name}", "models/deep/b") == "x/deep-b"


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("nothing", {}),
        ("serve", {}),
        ("fleet", {}),
        ("scan", {"jobs": 0}),
        ("scan", {"jobs": 2, "ray": "auto"}),
        ("scan", {"options": {"nothing": 1}}),
        ("freeze", {"options": {"out": "same.pb"}}),
        ("freeze", {"options": {"out": "{what}.pb"}}),
        ("freeze", {"options": {"out": "{parent}.pb"}}),
    ],
)
def test_bad_calls_are_refused(models: Path, tmp_path: Path, verb: str, options: dict[str, Any]) -> None:
    with pytest.raises(TfsmithError):
        tfsmith.fleet(verb, [str(models / "deep")], report=tmp_path / "r.jsonl", **options)
    assert not (tmp_path / "r.jsonl").exists()


def test_a_model_that_ends_its_process_is_a_line(tmp_path: Path) -> None:
    tasks: list[module.Task] = [(Found(f"m{number}", 1, ""), {}) for number in range(6)]
    tasks.insert(2, (Found("deadly", 1, ""), {}))
    lines = list(module._in_processes("deadly", tasks, 2, {}, work=_deadly))
    assert sorted(line["model"] for line in lines) == ["deadly", "m0", "m1", "m2", "m3", "m4", "m5"]
    assert [line["model"] for line in lines if line["status"] == "crashed"] == ["deadly"]


def _deadly(verb: str, model: Found, options: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    import os
    import signal

    if model.path == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"model": model.path, "status": "yes"}


def test_a_cluster_that_is_not_there(models: Path, tmp_path: Path) -> None:
    with pytest.raises(TfsmithError, match="no Ray cluster"):
        tfsmith.fleet("scan", [str(models / "a")], report=tmp_path / "r.jsonl", ray="127.0.0.1:1")
    assert not (tmp_path / "r.jsonl").exists()


def test_a_fleet_without_a_report_is_refused(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "scan", str(models / "a")]) == 2
    assert "--report" in capsys.readouterr().err


def test_a_node_of_a_cluster_is_lost_and_each_model_is_reported_once(models: Path) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        lost = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        tasks: list[module.Task] = [
            (Found(str(models / name), number, ""), {}) for number in range(20) for name in ("a", "deep/b")
        ]
        lines = []
        for line in module._on_ray("show", tasks, cluster.address, {}):
            lines.append((line["model"], line["size"]))
            assert line["status"] == "yes", line
            if len(lines) == 4:
                cluster.remove_node(lost, allow_graceful=False)
        assert sorted(lines) == sorted((model.path, model.size) for model, _ in tasks)
    finally:
        cluster.shutdown()
