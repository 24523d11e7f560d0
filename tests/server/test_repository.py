"""Which versions of a model are served: policies, labels, and configurations that are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.server.lanes import Limits, RequestError
from tfsmith.server.repository import ModelConfig, Repository, read_model_config, versions_of
from tfsmith.testing.half_plus import write_half_plus


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions") / "model"
    for version in ("1", "2", "00000010", "not_a_version", "3.5"):
        (folder / version).mkdir(parents=True)
    (folder / "7").write_text("a file")
    return folder


def config(base: Path, text: str) -> ModelConfig:
    path = base.parent / "models.config"
    path.write_text(f'model_config_list {{ config {{ name: "m" base_path: "{base}" {text} }} }}')
    (found,) = read_model_config(path)
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {10}),
        ("model_version_policy { latest { } }", {10}),
        ("model_version_policy { latest { num_versions: 2 } }", {2, 10}),
        ("model_version_policy { latest { num_versions: 9 } }", {1, 2, 10}),
        ("model_version_policy { all { } }", {1, 2, 10}),
        ("model_version_policy { specific { versions: 1 versions: 2 versions: 99 } }", {1, 2}),
        ('version_labels { key: "stable" value: 1 }', {1, 10}),
    ],
)
def test_policies(base: Path, text: str, wanted: set[int]) -> None:
    assert set(versions_of(config(base, text))) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model_config_list { }",
        'model_config_list { config { name: "a" } }',
        'model_config_list { config { base_path: "a" } }',
        'model_config_list { config { name: "a" base_path: "a" model_platform: "pytorch" } }',
        'model_config_list { config { name: "a" base_path: "a" } config { name: "a" base_path: "b" } }',
        "custom_model_config { }",
        "model_config_list { config ",
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "models.config").write_text(text)
    with pytest.raises(TfsmithError, match=r"models\.config: ") as error:
        read_model_config(tmp_path / "models.config")
    assert len(str(error.value)) < 300 + len(str(tmp_path))
    assert "\n" not in str(error.value)


def repository_of(config: ModelConfig) -> Repository:
    return Repository(
        [config],
        tfsmith.load,
        lambda model, signature, any_shape: tfsmith.compile(model, signature=signature, engine="reference"),
        Limits(),
        lambda event, **facts: None,
    )


def states(repository: Repository) -> dict[int, str]:
    return {one.version: one.state for one in repository.status("m")}


def test_versions_that_are_half_copied_or_broken_take_nobodys_place(tmp_path: Path) -> None:
    base, whole = tmp_path / "m", tmp_path / "whole"
    write_half_plus(whole, 2.0)
    for version in (1, 2):
        shutil.copytree(whole, base / str(version))
    repository = repository_of(ModelConfig("m", str(base), labels={"old": 1}))
    try:
        repository.poll()
        data = base / "3" / "variables" / "variables.data-00000-of-00001"
        shutil.copytree(whole, base / "3")
        content = data.read_bytes()
        for part in (b"", content[:-1], bytes(len(content))):
            data.write_bytes(part)
            repository.poll()
            assert states(repository) == {1: "AVAILABLE", 2: "AVAILABLE", 3: "END"}
        data.write_bytes(content)
        repository.poll()
        assert states(repository) == {1: "AVAILABLE", 2: "END", 3: "AVAILABLE"}
        for version in (1, 2, 3):
            shutil.rmtree(base / str(version))
        (base / "notes").mkdir()
        repository.poll()
        assert states(repository)[3] == "AVAILABLE"
        with repository.use("m") as servable:
            assert servable.version == 3
    finally:
        repository.close()


def test_a_label_is_a_version_besides_the_newest(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    for version in (1, 2, 3):
        write_half_plus(tmp_path / "m" / str(version), float(version))
    made = ModelConfig("m", str(tmp_path / "m"), labels={"stable": 1, "gone": 9})
    repository = repository_of(made)
    try:
        repository.poll()
        assert [(one.version, one.state) for one in repository.status("m")] == [(3, "AVAILABLE"), (1, "AVAILABLE")]
        for label, version in ((None, 3), ("stable", 1)):
            with repository.use("m", label=label) as servable:
                assert servable.version == version
        for label, code in (("gone", "NOT_FOUND"), ("none", "FAILED_PRECONDITION")):
            with pytest.raises(RequestError) as error, repository.use("m", label=label):
                pass
            assert error.value.code == code
    finally:
        repository.close()
    with pytest.raises(RequestError), repository.use("m"):
        pass
