"""`view`: the page as a file, the local server, and what is painted."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.view_models import HOSTILE, write_cut_off, write_hostile

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import OutputError, UsageError
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs.view import Viewed, view_model
from tfsmith.view.page_data import page_data, tensor_facts, weight_tensors
from tfsmith.view.raised_graph import recognised_scopes

TF2_MODEL = Path(__file__).parents[1] / "docs" / "files" / "tf2_model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    write_saved_model(bert_classifier(), made / "bert")
    write_saved_model(conv_net(), made / "conv")
    write_frozen(conv_net(), made / "conv.pb")
    return made


def facts_of(html: str) -> dict[str, Any]:
    """What the page holds."""
    found = re.search(r'<script id="data" type="application/octet-stream">([\w+/=]*)</script>', html)
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


def test_every_node_is_in_the_page_with_its_inputs_and_types(folder: Path) -> None:
    model = tfsmith.load(folder / "bert")
    facts = page_data(model)
    sheet, tables = facts["sheets"][0], facts["tables"]
    assert sheet["names"] == [node.name for node in model.graph.nodes]
    assert [tables["ops"][number]["name"] for number in sheet["ops"]] == [node.op for node in model.graph.nodes]
    stream = iter(sheet["inputs"])
    for node in model.graph.nodes:
        pairs = [(next(stream), next(stream)) for _ in range(next(stream))]
        texts = [
            f"^{sheet['names'][source]}" if output < 0 else (sheet["names"][source], output) for source, output in pairs
        ]
        wanted = [model.graph.resolve(text) for text in node.inputs]
        assert texts == [f"^{one.node}" if one.output < 0 else (one.node, one.output) for one in wanted]
    number = sheet["names"].index("bert/encoder/layer_0/attention/self/Softmax")
    assert [tables["types"][at] for at in sheet["types"][number]] == [["float32", [-1, 2, 20, 20]]]
    outputs = [sheet["names"][at] for at in sheet["outputs"]]
    assert outputs == ["loss/output"]
    keys = {sheet["names"][int(at)]: key for at, key in sheet["keys"].items()}
    assert keys["bert/pooler/dense/kernel"] == "bert/pooler/dense/kernel"


def test_functions_are_sheets_with_arguments_and_results() -> None:
    model = tfsmith.load(TF2_MODEL)
    sheets = {sheet["name"]: sheet for sheet in page_data(model)["sheets"]}
    assert set(sheets) == {"", *model.graph.library}
    name, function = next(iter(model.graph.library.items()))
    sheet = sheets[name]
    assert sheet["names"][: sheet["args"]] == list(function.args)
    assert len(sheet["names"]) == sheet["args"] + len(function.nodes) + sheet["rets"]
    assert sheet["rets"] == len(function.ret)


def test_statistics_are_those_of_numpy(folder: Path) -> None:
    model = tfsmith.load(folder / "conv")
    found = dict(weight_tensors(model))
    values = model.variables["conv2d/kernel"].numpy()
    facts = tensor_facts(found["variable:conv2d/kernel"])
    assert facts["count"] == values.size == sum(facts["histogram"])
    assert facts["mean"] == pytest.approx(float(values.mean()), abs=1e-6)
    assert facts["deviation"] == pytest.approx(float(values.std()), rel=1e-5)
    assert (facts["min"], facts["max"]) == (float(values.min()), float(values.max()))


def test_statistics_of_odd_values() -> None:
    facts = tensor_facts(ArrayTensor.of(np.array([np.nan, np.inf, -np.inf, 0.0, 2.0], np.float32)))
    assert (facts["nan"], facts["infinite"], facts["zeros"], facts["finite"]) == (1, 2, 1, 2)
    assert (facts["min"], facts["max"], facts["mean"]) == (0.0, 2.0, 1.0)
    nothing = tensor_facts(ArrayTensor.of(np.array([np.nan], np.float32)))
    assert "min" not in nothing
    assert tensor_facts(ArrayTensor.of(np.zeros((0, 3), np.float32)))["count"] == 0


def test_the_page_is_written_whole_and_replaces_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["view", str(folder / "conv"), "-o", str(page), "--weights", "--scan"]) == 0
    assert f"Wrote {page}" in capsys.readouterr().out
    html = page.read_text()
    facts = facts_of(html)
    assert facts["weights"]["variable:conv2d/kernel"]["histogram"]
    assert [one["name"] for one in facts["overlays"]] == ["scan"]
    assert facts["models"][0]["networks"][0]["text"].startswith("convolutional net")
    assert "http://" not in html.replace("http://www.w3.org/", "")
    with pytest.raises(OutputError):
        view_model(folder / "conv", out=page)
    assert page.read_text() == html
    assert main(["view", str(folder / "conv"), "-o", str(page), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == str(page)
    with pytest.raises(OutputError):
        view_model(folder / "conv.pb", out=folder / "conv.pb" / "x.html")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "page.pb"}, "a page is HTML"),
        ({"diff": "a", "verify": "b"}, "both show a second model"),
        ({"attrs": "none"}, "go with {recipe}"),
        ({"serve": True, "port": 99999}, "cannot be used"),
    ],
)
def test_refused(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message).replace(r"\{recipe\}", ".*recipe.*")):
        view_model(folder / "conv", **options)


def test_names_cannot_be_read_as_html(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    view_model(write_hostile(tmp_path / "model.pb"), out=page)
    html = page.read_text()
    for name in HOSTILE:
        assert name not in html
    facts = facts_of(html)
    assert set(HOSTILE) < set(facts["models"][0]["sheets"][0]["names"])
    frame = view_model(tmp_path / "model.pb")._repr_html_()
    assert frame.startswith("<iframe")
    assert frame.count("<") == 2  # the frame and its end: all of the page is escaped inside of an attribute


def test_a_graph_that_is_cut_off_is_viewed_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_cut_off(tmp_path / "model.pb")
    assert main(["view", str(path), "-o", str(tmp_path / "page.html")]) == 0
    warning = "the graph is cut off: net/y takes 'gone', which is not there, and 1 more inputs are missing"
    assert warning in capsys.readouterr().err
    sheet = facts_of((tmp_path / "page.html").read_text())["models"][0]["sheets"][0]
    assert sheet["missing"] == ["gone", "lost"]


def test_a_checkpoint_alone_has_variables(folder: Path, tmp_path: Path) -> None:
    done = view_model(folder / "conv" / "variables" / "variables")
    facts = facts_of(done.html)["models"][0]
    assert not facts["sheets"]
    assert any(row["name"] == "conv2d/kernel" for row in facts["variables"])


def test_a_recipe_paints_matches_and_where_they_stop(folder: Path) -> None:
    done = view_model(folder / "bert", recipe="bert-encoder")
    overlay = facts_of(done.html)["overlays"][0]
    kinds = {mark["kind"] for mark in overlay["marks"]}
    assert kinds >= {"output", "inner", "barrier"}
    inner = {mark["node"] for mark in overlay["marks"] if mark["kind"] != "barrier"}
    assert inner == set(tfsmith.find(folder / "bert", "bert-encoder")[0].nodes)
    missed = view_model(folder / "conv", recipe="bert-encoder").overlays[0]
    assert not [mark for mark in missed.marks if mark.kind != "miss"]
    assert missed.notes[0].startswith("0 matches")


def test_differences_are_painted_on_both_sides(folder: Path, tmp_path: Path) -> None:
    model = tfsmith.load(folder / "conv.pb")
    end = next(node for node in model.graph.nodes if node.op == "Softmax")
    with model.edit() as g:
        g.add("Identity", [end.name], name="added")
        g.set(next(node.name for node in model.graph.nodes if node.op == "Conv2D"), {"padding": b"VALID"})
    facts = facts_of(view_model(folder / "conv.pb", diff=g.model).html)
    assert len(facts["models"]) == 2
    first, second = facts["overlays"]
    assert "added" not in {mark["kind"] for mark in first["marks"]}
    assert [mark["node"] for mark in second["marks"] if mark["kind"] == "added"] == ["added"]
    changed = [(mark["node"], mark["text"]) for mark in first["marks"] if mark["kind"] == "changed"]
    assert changed == [("conv2d/Conv2D", "attribute padding")]


def test_where_models_part_is_painted(folder: Path) -> None:
    pytest.importorskip("openvino")
    model = tfsmith.load(folder / "conv.pb")
    relu = next(node for node in model.graph.nodes if node.op == "Relu")
    with model.edit() as g:
        g.rewire(f"{relu.name}:0", g.add("Softplus", list(relu.inputs), name="other"))
    overlay = facts_of(view_model(folder / "conv.pb", verify=g.model).html)["overlays"][0]
    assert overlay["notes"][0] == "The models do not agree."
    assert {mark["kind"] for mark in overlay["marks"]} >= {"differs"}
    same = view_model(folder / "conv.pb", verify=folder / "conv.pb").overlays[0]
    assert same.notes[0] == "The models agree."
    assert {mark.kind for mark in same.marks} == {"same"}


@pytest.fixture
def served(folder: Path) -> Iterator[Viewed]:
    viewed = view_model(folder / "bert", serve=True, browser=False)
    thread = threading.Thread(target=viewed.stay)
    thread.start()
    yield viewed
    assert viewed.server is not None
    viewed.server.close()
    thread.join()


def fetch(url: str, **headers: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_server_answers_whoever_has_the_token_and_nobody_else(served: Viewed) -> None:
    url = served.url or ""
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", url)
    status, html = fetch(url)
    assert status == 200
    assert facts_of(html)["server"] == url[url.index("/", 8) :]
    host = url[: url.index("/", 8)]
    for path in (
        "/",
        "/weight?key=variable:x",
        f"/{'x' * 24}/",
        f"{url[len(host) :]}../",
        f"{url[len(host) :]}etc/passwd",
    ):
        assert fetch(f"{host}{path}")[0] == 404
    assert fetch(url, Host="evil.example")[0] == 404


def test_the_server_reads_weights_on_demand_and_drafts_recipes(served: Viewed) -> None:
    url = served.url or ""
    status, text = fetch(f"{url}weight?key=variable:bert/pooler/dense/kernel")
    assert status == 200
    assert json.loads(text)["count"] == 256
    assert json.loads(fetch(f"{url}weight?key=variable:none")[1])["error"] == "there is no such weight"
    assert json.loads(fetch(f"{url}weight?key=node::bert/pooler/dense/Tanh")[1])["error"] == "there is no such weight"
    layer = "bert/encoder/layer_0/attention/self"
    query = f"seeds=%5B%22{layer}/Softmax%22%5D&barriers=%5B%22{layer}/add%22%5D&function=&constants=1"
    status, text = fetch(f"{url}draft?{query}")
    assert status == 200
    assert "FusedPattern" in text
    from tfsmith.formats.recipe.toml import parse_recipe_toml

    assert [node.ops for node in parse_recipe_toml(text).variants[0].query.nodes] == [("Softmax",)]
    status, text = fetch(f"{url}draft?seeds=%5B%22nothing%22%5D")
    assert status == 400
    assert "is not in the graph" in text


def test_a_larger_bert_is_recognised(tmp_path: Path) -> None:
    config = BertConfig(60, 24, 3, 4, 48, max_position_embeddings=20)
    write_saved_model(bert_classifier(config), tmp_path / "bert")
    found = facts_of(view_model(tmp_path / "bert").html)["models"][0]["networks"]
    assert found[0]["text"].startswith("BERT encoder of 3 layers, hidden 24, heads 4")


def test_recognised_layers_have_their_nodes_and_share_none(folder: Path) -> None:
    model = tfsmith.load(folder / "bert")
    scopes = recognised_scopes(model)[""]
    for number in (0, 1):
        layer = f"bert/encoder/layer_{number}"
        for inner in ("attention/self/Softmax", "intermediate/dense/MatMul", "output/dense/MatMul"):
            assert scopes[f"{layer}/{inner}"] == f"encoder/layer {number + 1}"
    kinds = {scope.rpartition("/")[2] for scope in scopes.values()}
    assert kinds >= {"layer 1", "layer 2", "layer norm 1", "layer norm 2", "GELU 1"}
    assert not [name for name in scopes if name.startswith(("bert/embeddings", "bert/pooler", "input_", "save/"))]
    assert recognised_scopes(tfsmith.load(folder / "conv")) == {}


def test_a_graph_that_is_cut_off_has_no_recognised_layers(tmp_path: Path) -> None:
    assert recognised_scopes(tfsmith.load(write_cut_off(tmp_path / "model.pb"))) == {}


def test_the_command_prints_the_address_before_it_serves(folder: Path) -> None:
    command = [sys.executable, "-m", "tfsmith", "view", str(folder / "conv"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert fetch(url)[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
