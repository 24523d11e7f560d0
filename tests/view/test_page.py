"""The page in a real browser: opens, searches, follows edges, picks patterns, and shows hostile names as text."""

from __future__ import annotations

import json
import shlex
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.view_models import HOSTILE, write_cut_off, write_hostile, write_many
from tests.view.conftest import OpenPage

import tfsmith
from tfsmith.cli.main import main
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs.view import view_model

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TF2_MODEL = ROOT / "tests" / "docs" / "files" / "tf2_model"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
LAYER = "bert/encoder/layer_0/attention/self"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    write_saved_model(bert_classifier(BertConfig.base()), made / "bert")
    view_model(made / "bert", out=made / "bert.html", recipe="bert-encoder")
    narrow = BertConfig(60, 24, 12, 12, 48, max_position_embeddings=20)
    write_saved_model(bert_classifier(narrow), made / "narrow")  # where weights are read
    view_model(made / "narrow", out=made / "narrow.html", recipe="bert-encoder", weights=True)
    return made


def names(page: Page) -> list[str]:
    """What the picture shows: names of nodes and scopes."""
    found: list[str] = page.evaluate(
        """() => {
            const found = [];
            const view = tfsmithView.page.views[0];
            const { names } = view.tree.sheet;
            const name = (item) => item.group ? item.group.path : item.node >= 0 ? names[item.node] : "";
            view.each((item) => found.push(name(item)));
            return found;
        }"""
    )
    return found


def click_at(page: Page, name: str) -> None:
    """Clicks a node or scope of the picture."""
    x, y = page.evaluate(
        """(name) => {
            const view = tfsmithView.page.views[0];
            const node = view.tree.sheet.find(name);
            const place = view.placeOf(node >= 0 && view.placeOf(node) ? node : view.tree.find(name));
            const box = view.canvas.getBoundingClientRect();
            const middle = view.x + (place[0] + place[2] / 2) * view.scale;
            return [box.left + middle, box.top + view.y + (place[1] + 10) * view.scale];
        }""",
        name,
    )
    page.mouse.click(x, y)
    settle(page)


def settle(page: Page) -> None:
    page.wait_for_timeout(60)
    page.evaluate("() => tfsmithView.page.views[0].isReady")
    page.wait_for_timeout(60)


def find(page: Page, query: str) -> list[str]:
    page.fill("#search", query)
    found: list[str] = page.locator("#results [role=option] .name-text").all_inner_texts()
    return found


def heading(page: Page) -> str:
    return str(page.inner_text("#content h2"))


def test_bert_is_folded_opened_by_clicks_and_its_layers_are_a_stack(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    assert "BERT encoder of 12 layers" in page.inner_text("#title")
    assert "bert" in names(page)
    assert not [name for name in names(page) if name.startswith("bert/")]
    click_at(page, "bert")
    assert "bert/encoder" in names(page)
    click_at(page, "bert/encoder")
    stack = page.evaluate(
        """() => tfsmithView.page.views[0].tree.all
            .filter((group) => group.kind === "stack").map((group) => [group.name, group.groups.length])"""
    )
    assert ["layer_0 … layer_11", 12] in stack
    click_at(page, "bert/encoder")  # its title, which closes it
    assert "bert/encoder/Reshape_1" not in names(page)


def test_a_switch_shows_the_raised_graph(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    find(page, f"{LAYER}/Softmax")
    page.keyboard.press("Enter")
    settle(page)
    page.click("#raised")
    settle(page)
    assert page.get_attribute("#raised", "aria-pressed") == "true"
    assert page.locator("#content b").first.inner_text() == "Attention"  # what stands for the softmax
    assert "12" in page.inner_text("#content tr:has(th:text-is('heads'))")
    counts = page.evaluate(
        """() => {
            const { sheet } = tfsmithView.page.views[0].tree;
            const found = {};
            for (const number of sheet.data.ops) {
                const { name } = sheet.model.tables.ops[number];
                found[name] = (found[name] ?? 0) + 1;
            }
            return found;
        }"""
    )
    assert (counts["Attention"], counts["LayerNorm"], counts["GELU"]) == (12, 25, 12)
    assert "Reshape" not in counts
    stacks = page.evaluate(
        """() => tfsmithView.page.views[0].tree.all
            .filter((group) => group.kind === "stack").map((group) => [group.name, group.groups.length])"""
    )
    assert ["layer 1 … layer 12", 12] in stacks
    page.click(
        f"#content li button:text-is('{LAYER}/Softmax')"
    )  # one of the nodes that it stands for: back to the graph as it is
    settle(page)
    assert page.get_attribute("#raised", "aria-pressed") == "false"
    assert heading(page) == f"{LAYER}/Softmax"


def test_search_and_links_lead_to_nodes_and_back(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    assert len(find(page, "op:Softmax")) == 13
    assert "bert/embeddings/word_embeddings" in find(page, "shape:30522x768")
    assert all("MatMul" in name for name in find(page, "attr:transpose_b=true name:matmul"))
    assert find(page, f"{LAYER}/Soft") == [f"{LAYER}/Softmax"]
    page.keyboard.press("Enter")
    settle(page)
    assert heading(page) == f"{LAYER}/Softmax"
    assert "Computes softmax activations." in page.inner_text("#content")
    assert "#node=bert%2Fencoder" in page.url
    page.click(f"#content >> text={LAYER}/add")
    settle(page)
    assert heading(page) == f"{LAYER}/add"
    page.go_back()
    settle(page)
    assert heading(page) == f"{LAYER}/Softmax"
    page.go_forward()
    settle(page)
    assert heading(page) == f"{LAYER}/add"
    again = open_page(page.url)
    settle(again)
    assert heading(again) == f"{LAYER}/add"


def test_keys_do_it_all(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    page.focus("canvas")
    for turn in range(12):  # down and to the left, until it is there
        if page.evaluate("() => tfsmithView.page.views[0].focus?.group?.path") == "bert":
            break
        page.keyboard.press("ArrowLeft" if turn % 2 else "ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    assert "bert/encoder" in names(page)
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "search"
    page.keyboard.type("op:Tanh")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("#content b").first.inner_text() == "Tanh"
    page.focus("canvas")
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    assert page.get_attribute("html", "data-theme") == "dark"


def test_weights_variables_and_matches_are_in_the_panel(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "narrow.html")
    assert "1 match of bert-encoder" in page.inner_text("#content")
    page.click("text=next")
    settle(page)
    page.click("#tab-variables")
    assert page.locator(".treemap rect").count() > 100
    page.click("#content table >> text=bert/pooler/dense/kernel")
    settle(page)
    assert heading(page) == "bert/pooler/dense/kernel"
    assert page.locator(".bars rect").count() == 32
    page.click("#tab-signatures")
    assert "input_ids" in page.inner_text("#content")


def test_a_picked_pattern_becomes_a_command_that_runs(
    folder: Path, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page(folder / "bert.html")
    find(page, f"{LAYER}/Softmax")
    page.keyboard.press("Enter")
    settle(page)
    page.click("#pick")
    settle(page)
    assert "open ends" in page.inner_text("#content")
    for barrier in (f"{LAYER}/MatMul", f"{LAYER}/mul_1"):
        click_at(page, barrier)
    page.click("#copy-command")
    command = page.input_value("#command")
    words = shlex.split(command)
    assert words[:3] == ["tfsmith", "extract", str(folder / "bert")]
    monkeypatch.chdir(tmp_path)
    assert main(words[1:]) == 0
    pattern = tfsmith.load_pattern(tmp_path / "pattern.pb")
    marked = page.evaluate("() => { const p = tfsmithView.page.pattern; return p.names(p.nodes).sort(); }")
    assert sorted(node.name for node in pattern.nodes) == marked
    assert pattern.inputs == (f"{LAYER}/MatMul", f"{LAYER}/mul_1")


def test_pictures_are_saved(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    with page.expect_download() as saved:
        page.click("#svg")
    svg = Path(saved.value.path()).read_text()
    assert svg.startswith("<svg ")
    assert "input_ids" in svg
    with page.expect_download() as saved:
        page.click("#png")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


def test_functions_are_sheets(tmp_path: Path, open_page: OpenPage) -> None:
    view_model(TF2_MODEL, out=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert find(page, "op:StatefulPartitionedCall")
    page.keyboard.press("Enter")
    settle(page)
    page.click("text=open function")
    settle(page)
    name = page.input_value("#sheets")
    assert name in tfsmith.load(TF2_MODEL).graph.library
    find(page, "op:_Arg")
    page.keyboard.press("Enter")
    settle(page)
    assert "sheet=" in page.url


def test_fifty_thousand_nodes(tmp_path: Path, open_page: OpenPage) -> None:
    view_model(write_many(tmp_path / "many.pb"), out=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert "50,001" in page.inner_text("#content")
    assert len(names(page)) < 60
    click_at(page, "scope_1")
    assert len([name for name in names(page) if name.startswith("scope_1/flat_")]) == 1000
    assert find(page, "name:scope_49/block_9/n_99") == ["scope_49/block_9/n_99"]
    page.keyboard.press("Enter")
    settle(page)
    assert heading(page) == "scope_49/block_9/n_99"


def test_a_graph_that_is_cut_off(tmp_path: Path, open_page: OpenPage) -> None:
    view_model(write_cut_off(tmp_path / "cut.pb"), out=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.inner_text("#banner") == (
        "The graph is cut off: net/y takes gone, which is not there, and 1 more inputs are missing."
    )
    find(page, "gone")
    page.keyboard.press("Enter")
    settle(page)
    assert "(not in the file)" in page.inner_text("#content")


def test_differences_side_by_side(tmp_path: Path, open_page: OpenPage) -> None:
    write_frozen(conv_net(), tmp_path / "conv.pb")
    model = tfsmith.load(tmp_path / "conv.pb")
    with model.edit() as g:
        g.set("conv2d/Conv2D", {"padding": b"VALID"})
        g.add("Identity", ["conv2d/Conv2D"], name="conv2d/added")
    view_model(tmp_path / "conv.pb", diff=g.model, out=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.locator("canvas").count() == 2
    page.click("#tab-diff1")
    page.click("#content >> text=conv2d/added")
    settle(page)
    shown = page.evaluate("() => tfsmithView.page.views.map((view) => [view.tree.find('conv2d').isOpen, view.scale])")
    assert shown[1][0]
    page.click("#tab-diff0")
    page.click("#content >> text=conv2d/Conv2D")
    settle(page)
    opened = page.evaluate("() => tfsmithView.page.views.map((view) => view.tree.sheet.names[view.selectedNode])")
    assert opened == ["conv2d/Conv2D", "conv2d/Conv2D"]
    page.click("#in")
    scales = page.evaluate("() => tfsmithView.page.views.map((view) => [view.scale, view.x, view.y])")
    assert scales[0] == scales[1]


def test_hostile_names_are_text(tmp_path: Path, open_page: OpenPage) -> None:
    view_model(write_hostile(tmp_path / "model.pb"), out=tmp_path / "page.html", scan=True)
    page = open_page(tmp_path / "page.html")
    for name in HOSTILE:
        page.evaluate("(name) => tfsmithView.page.go(tfsmithView.page.views[0], '', name)", name)
        settle(page)
        assert heading(page).replace("\ufffd", "")[:30] == name.replace("\u202e", "")[:30]
    page.click("#tab-scan")
    assert find(page, "script")
    assert page.locator("#content script, #results script, #results img, #content img").count() == 0
    assert page.title() == "model.pb \N{EN DASH} tfsmith view"
    with page.expect_download() as saved:
        page.click("#svg")
    assert "<script" not in Path(saved.value.path()).read_text()


def test_the_server_gives_weights_on_demand(folder: Path, open_page: OpenPage) -> None:
    viewed = view_model(folder / "narrow", serve=True, browser=False)
    thread = threading.Thread(target=viewed.stay)
    thread.start()
    try:
        page = open_page(f"{viewed.url}#node=bert/pooler/dense/kernel")
        settle(page)
        page.click("text=read statistics")
        page.wait_for_selector(".bars")
        assert "576 float32" in page.inner_text("#content")
    finally:
        assert viewed.server is not None
        viewed.server.close()
        thread.join()


def test_a_draft_of_a_picked_pattern_is_downloaded_and_is_a_recipe(
    folder: Path, open_page: OpenPage, tmp_path: Path
) -> None:
    viewed = view_model(folder / "narrow", serve=True, browser=False)
    thread = threading.Thread(target=viewed.stay)
    thread.start()
    try:
        page = open_page(f"{viewed.url}#node={LAYER}/Softmax")
        settle(page)
        page.focus("canvas")
        page.keyboard.press("p")  # by keys alone: what is selected is the output
        settle(page)
        page.focus("#close-ends")
        page.keyboard.press("Enter")
        with page.expect_download() as saved:
            page.focus("#draft")
            page.keyboard.press("Enter")
        text = Path(saved.value.path()).read_text()
    finally:
        assert viewed.server is not None
        viewed.server.close()
        thread.join()
    (tmp_path / "recipe.toml").write_text(text)
    assert saved.value.suggested_filename == "recipe.toml"
    assert "Softmax" in text
    assert tfsmith.load_recipe(tmp_path / "recipe.toml").variants


def test_a_notebook_shows_the_page(folder: Path, open_page: OpenPage, tmp_path: Path) -> None:
    shown = view_model(folder / "narrow")._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><meta charset=utf-8><title>n</title><body>{shown}</body>")
    page = open_page(tmp_path / "notebook.html", ready="iframe")
    inner = page.frame_locator("iframe")
    inner.locator("html[data-ready]").wait_for(state="attached", timeout=60_000)
    inner.locator("#search").fill(f"{LAYER}/Softmax")
    inner.locator("#search").press("Enter")
    inner.locator("#content h2", has_text=f"{LAYER}/Softmax").wait_for()
    with page.expect_download() as saved:
        inner.locator("#svg").click()
    assert Path(saved.value.path()).read_text().startswith("<svg ")


def test_checkpoints_and_keras_files(folder: Path, open_page: OpenPage, tmp_path: Path) -> None:
    view_model(folder / "narrow" / "variables" / "variables", out=tmp_path / "weights.html", weights=True)
    page = open_page(tmp_path / "weights.html")
    assert "no graph" in page.inner_text("#banner")
    page.click("#content table >> text=bert/pooler/dense/kernel")
    assert page.locator(".bars rect").count() == 32
    assert page.locator("#pick").is_hidden()
    keras = pytest.importorskip("h5py", reason="h5py is not installed (extra `keras`)")
    with keras.File(tmp_path / "model.h5", "w") as file:
        layers = [
            {"class_name": "InputLayer", "config": {"name": "image"}},
            {"class_name": "Dense", "config": {"name": "dense", "units": 4}},
        ]
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"layers": layers}})
        group = file.create_group("model_weights/dense")
        group.attrs["weight_names"] = [b"dense/kernel:0"]
        group["dense/kernel:0"] = np.ones((3, 4), np.float32)
        file.create_group("model_weights/image").attrs["weight_names"] = np.zeros(0, "S1")
        file["model_weights"].attrs["layer_names"] = [b"image", b"dense"]
    view_model(tmp_path / "model.h5", out=tmp_path / "keras.html", weights=True)
    page = open_page(tmp_path / "keras.html")
    assert find(page, "op:Dense") == ["dense"]
    page.keyboard.press("Enter")
    settle(page)
    page.click("#content >> text=image")
    settle(page)
    assert heading(page) == "image"


def test_an_onnx_file(open_page: OpenPage, tmp_path: Path) -> None:
    write_frozen(conv_net(), tmp_path / "conv.pb")
    tfsmith.convert(tmp_path / "conv.pb", tmp_path / "conv.onnx")
    view_model(tmp_path / "conv.onnx", out=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert "ONNX, opset" in page.inner_text("#content")
    first, *_ = find(page, "op:Conv")
    page.keyboard.press("Enter")
    settle(page)
    assert heading(page) == first
    page.locator("#content td button.link").first.click()  # an edge leads to what it takes
    settle(page)
    assert heading(page) != first
    assert page.locator("#pick").is_hidden()


def test_tab_goes_through_everything_in_the_order_of_reading(folder: Path, open_page: OpenPage) -> None:
    page = open_page(folder / "bert.html")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                """() => {
                    const one = document.activeElement;
                    const style = getComputedStyle(one);
                    const shows = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                    const words = one.getAttribute("aria-label") || one.innerText || one.title;
                    const label = words || one.labels?.[0]?.innerText;
                    return [one.id || one.tagName.toLowerCase(), shows, Boolean(label)];
                }"""
            )
        )
        if seen[-1][0] == "content":
            break
    names = [name for name, _, _ in seen]
    order = ["sheets", "search", "raised", "pick", "fit", "out", "in", "svg", "png", "theme", "help", "canvas"]
    assert names == [*order, "tab-selected", "content"]  # the picture's focus is on its first node, which is selected
    assert all(shows for _, shows, _ in seen)
    assert all(labelled for _, _, labelled in seen[:-1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_the_picture_can_be_read_and_shapes_tell_kinds(folder: Path, open_page: OpenPage, scheme: str) -> None:
    """The canvas is no element that the accessibility checks look into: its colors and outlines are checked here."""
    page = open_page(folder / "bert.html", color_scheme=scheme)
    colors = page.evaluate("() => tfsmithView.page.colors")
    grounds = ("input", "output", "variable", "constant", "call", "missing", "op", "group", "product", "page", "deep")
    for ground in grounds:
        assert contrast(colors["text"], colors[ground]) >= 4.5, ground
        assert contrast(colors["muted"], colors[ground]) >= 4.5, ground
    for ground in ("page", "deep"):
        assert contrast(colors["accent"], colors[ground]) >= 4.5
        assert contrast(colors["frame"], colors[ground]) >= 2.5  # outlines
    marks = {
        mark["color"] for one in page.evaluate("() => tfsmithView.page.page.overlays") for mark in one["kinds"].values()
    }
    assert all(contrast("#ffffff", color) >= 4.5 for color in marks)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def light(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_can_be_used_by_everybody(folder: Path, open_page: OpenPage, scheme: str, width: int) -> None:
    if not AXE.is_file():
        pytest.skip("web/node_modules is not there: `npm ci` in web/ installs axe-core")
    page = open_page(folder / "bert.html", color_scheme=scheme, viewport={"width": width, "height": 800})
    page.evaluate(AXE.read_text())
    for tab in ("recipe", "model", "variables"):
        page.click(f"#tab-{tab}")
        found = page.evaluate(
            """() => axe.run(document, {resultTypes: ["violations"]}).then((result) =>
                result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3)}`))"""
        )
        assert found == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
