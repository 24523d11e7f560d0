"""Drawings of recipes: how every input is remapped, what repeats folded, sound XML whatever the names."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.pictures import BERT_WEIGHTS, bert_recipe, small_bert

import tfsmith
from tfsmith.errors import NotFoundInModelError, OutputError
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import Match, NodeQuery, Pattern, Query, Recipe, Repeat, TargetNode, Unit, Variant
from tfsmith.view.canvas import fold_names, scope_groups
from tfsmith.view.recipe_drawing import draw_recipe, lay_out, recipe_page

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "bert-recipe.svg"
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """All lines of text in a drawing; it must be sound XML."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def chain(names: tuple[str, ...] = ("a", "b"), target: str = "Fused") -> Recipe:
    first, second = names
    nodes = (NodeQuery(first, ("Relu",), (Endpoint("x", 0),)), NodeQuery(second, ("Neg",), (Endpoint(first, 0),)))
    query = Query(nodes, ("x",), (Endpoint(second, 0),))
    new = TargetNode("fused", target, ("x",))
    return Recipe(
        "chain", "two become one", (Variant("v", query, (new,), {Endpoint(second, 0): Endpoint("fused", 0)}),)
    )


def repeated() -> Recipe:
    mul = NodeQuery("mul", ("Mul",), (Endpoint("x", 0), Endpoint("w", 0)))
    sub = NodeQuery("sub", ("Sub",), (Endpoint("mul", 0), Endpoint("mask", 0)))
    query = Query((mul, sub), ("x", "w", "mask"), (Endpoint("sub", 0),))
    before = Query((NodeQuery("cast", ("Cast",), (Endpoint("raw", 0),)),), ("raw",), (Endpoint("cast", 0),))
    repeat = Repeat({"x": Endpoint("sub", 0)}, ("mask",), before, {"mask": Endpoint("cast", 0)}, least=2)
    new = TargetNode("all", "Stack", ("x", "raw", "each(w)"))
    variant = Variant("v", query, (new,), {Endpoint("sub", 0): Endpoint("all", 0)}, repeat)
    return Recipe("stack", "layers become one", (variant,))


def test_the_picture_in_the_docs_is_what_is_drawn() -> None:
    """Made by `python -m tests.support.pictures`."""
    model, recipe = small_bert(), bert_recipe()
    match = tfsmith.replace(model, recipe, outputs=["loss/output"]).matches[0]
    assert PICTURE.read_text() == draw_recipe(recipe, recipe.variants[0], match, 1)


def test_bert_is_readable_and_complete(tmp_path: Path) -> None:
    """194 inputs are 18 lines; the page lists all of them with their names in the model."""
    model, recipe = small_bert(), bert_recipe()
    assert len(tfsmith.draw_recipe(recipe, tmp_path / "bert.svg", model=model).matches) == 1
    lines = texts((tmp_path / "bert.svg").read_text())
    assert len(lines) < 120
    assert "layer_{i}/attention/self/query/kernel/read  \N{MULTIPLICATION SIGN}12" in lines
    assert "2, 18, …, 178: layer_{i}/attention/self/query/kernel/read" in lines
    assert "17, 33, …, 193: layer_{i}/output/LayerNorm/beta/read" in lines
    tfsmith.draw_recipe(recipe, tmp_path / "bert.html", model=model)
    page = (tmp_path / "bert.html").read_text()
    for number, name in enumerate(BERT_WEIGHTS, 2):
        assert f"<tr><td>{number}</td><td>{name}</td><td>{name}</td></tr>" in page


def test_the_names_of_another_model_are_drawn() -> None:
    recipe = chain()
    match = Match("body", recipe.variants[0], (Unit({"a": "f", "b": "g"}, {"x": Endpoint("p", 1)}),))
    lines = texts(draw_recipe(recipe, recipe.variants[0], match, 2))
    assert "variant v; 2 matches in the model, the first in function body" in lines
    assert "p:1" in lines
    assert "g" in lines


def test_a_repeated_unit_with_what_stands_before_it() -> None:
    svg = draw_recipe(repeated(), repeated().variants[0])
    lines = texts(svg)
    assert "the unit, at least 2 times" in lines
    assert "once, before the first unit" in lines
    assert "w (of each unit)" in lines
    assert 'class="carry"' in svg


def test_names_cannot_break_out() -> None:
    names = ('<script>alert("x")</script>', "a&b\x00\ufffe\ud800")
    recipe = chain(names, target="<b>")
    svg = draw_recipe(recipe, recipe.variants[0])
    texts(svg)
    page = recipe_page(recipe, [(recipe.variants[0], [])])
    assert "<script" not in svg + page
    assert "<b>" not in svg + page


def test_a_removal_says_that_the_input_is_passed_on() -> None:
    query = Query((NodeQuery("id", ("Identity",), (Endpoint("x", 0),)),), ("x",), (Endpoint("id", 0),))
    variant = Variant("v", query, (), {Endpoint("id", 0): Endpoint("x", 0)})
    assert "x:0 itself takes the place of id:0" in texts(draw_recipe(Recipe("r", "d", (variant,)), variant))


def test_folding() -> None:
    names = ["layer_0/w", "layer_1/w", "layer_1/Mul_1", "one/w", "b2/u3/w", "b2/u4/w"]
    assert [(fold.title, len(fold.names)) for fold in fold_names(names)] == [
        ("layer_{i}/w", 2),
        ("layer_1/Mul_1", 1),
        ("one/w", 1),
        ("b{i}/u{j}/w", 2),
    ]
    assert len(fold_names(names, {"layer_0/w": "A", "layer_1/w": "B"})) == 5
    assert set(scope_groups(["a/b/c", "a/b/d", "a/e"], 2).values()) == {"a/b", "a/e"}
    assert scope_groups([], 3) == {}


def test_a_circle_of_scopes_is_still_drawn() -> None:
    """Of nodes p/a -> q -> p/b, the scope p both feeds q and takes from it."""
    nodes = [NodeQuery(f"p/{number}", ("Relu",), (Endpoint("x", 0),)) for number in range(40)]
    nodes.append(NodeQuery("q", ("Relu",), (Endpoint("p/0", 0),)))
    nodes.append(NodeQuery("p/last", ("Relu",), (Endpoint("q", 0),)))
    piece = lay_out(Query(tuple(nodes), ("x",), (Endpoint("p/last", 0),)))
    assert set(piece.boxes) == {"p", "q"}
    assert len(piece.edges) == len(piece.carries) == 1


@pytest.mark.parametrize("name", ["x.png", "x", "folder.svg"])
def test_outputs_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(OutputError):
        tfsmith.draw_recipe(chain(), tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.svg"]


def test_an_unknown_variant_is_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(NotFoundInModelError, match="it has 'v'"):
        tfsmith.draw_recipe(chain(), tmp_path / "x.svg", variant="w")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tfsmith.cli.main import main

    nodes = (Node("a", "Relu", ("x",), {"T": "float"}),)
    recipe = tfsmith.make_recipe(Pattern(nodes, (), ("x",)), Node("n", "Elu", ("x",)))
    tfsmith.save_recipe(recipe, tmp_path / "r.pb")
    assert main(["recipe", "draw", str(tmp_path / "r.pb"), "-o", str(tmp_path / "r.svg")]) == 0
    assert re.search(r"Drew recipe r into .*r\.svg", capsys.readouterr().out)
    assert texts((tmp_path / "r.svg").read_text())
