"""Formulas as text: rules that need no Python are saved and read again; drafts and extracts of the raised view."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest

import tfsmith
from tfsmith import op
from tfsmith.errors import TfsmithError, UsageError
from tfsmith.formats.recipe.toml import parse_recipe_toml, recipe_toml
from tfsmith.ir.model import Model
from tfsmith.patterns.formula_text import FileRule, rule_as_data, rule_of_data
from tfsmith.patterns.rule import Rule

CORPUS = Path(__file__).parents[1] / "data" / "encoders"
LAYERS = 2


def opened(name: str) -> Model:
    return tfsmith.load(lzma.decompress((CORPUS / f"{name}.pb.xz").read_bytes()))


@pytest.fixture(scope="module")
def bert() -> Model:
    return opened("transformers-bert")


def normalized() -> Rule:
    @tfsmith.rule(name="fused-norm", where="rank(x) == 3")
    def found(x: Any, y: Any, gamma: Any, beta: Any, epsilon: Any) -> Any:
        """A sum and its layer norm become one node."""
        return op.LayerNorm(x + y, gamma, beta, epsilon=epsilon)

    @found.replace
    def _(g: Any, x: Any, y: Any, gamma: Any, beta: Any, epsilon: Any) -> Any:
        return g.add("AddNorm", [g.add("AddV2", [x, y]), gamma, beta], epsilon=epsilon, outputs=["normal"])

    return found


def test_a_rule_that_needs_no_python_is_saved_and_read_again(bert: Model, tmp_path: Path) -> None:
    rule = normalized()
    tfsmith.save_recipe(rule, tmp_path / "norm.toml")
    text = (tmp_path / "norm.toml").read_text()
    assert '"LayerNorm((x + y), gamma, beta, epsilon=epsilon)"' in text
    read = tfsmith.load_recipe(tmp_path / "norm.toml")
    assert isinstance(read, FileRule)
    assert (read.name, read.description, read.parameters) == (rule.name, rule.description, rule.parameters)
    assert recipe_toml(rule_as_data(read)) == text
    done, again = tfsmith.replace(bert, rule), tfsmith.replace(bert, tmp_path / "norm.toml")
    assert len(again.matches) == len(done.matches) == 2 * LAYERS + 1
    nodes = [[node for node in one.model.graph if node.op == "AddNorm"] for one in (done, again)]
    assert [node.get("epsilon") for node in nodes[0]] == [node.get("epsilon") for node in nodes[1]]
    assert [node.inputs[1:] for node in nodes[0]] == [node.inputs[1:] for node in nodes[1]]


def guarded(x: Any) -> bool:
    return bool(x.rank == 3)


def test_what_only_python_can_say_is_refused(tmp_path: Path) -> None:
    def formula(x: Any, epsilon: Any) -> Any:
        return op.LayerNorm(x, epsilon=epsilon)

    with_guard = tfsmith.rule(name="guarded", where=guarded)(formula)
    asks = tfsmith.rule(name="asks")(formula).replace(lambda g, x: g.add("Relu", [x], T=x.dtype))
    turned = tfsmith.rule(name="turned")(formula).replace(lambda g, x: g.add("Relu", [x]) if not x.transposed else x)
    computes = tfsmith.rule(name="computes")(formula).replace(
        lambda g, x, epsilon: g.add("Mine", [x], e=2 * epsilon, outputs=["y"])
    )
    reasons = {
        with_guard: "its guard 'guarded' is written in Python, and no file can say it",
        asks: "its builder asks for 'type' of 'x'",
        turned: "its builder asks for 'transposed' of 'x'",
        computes: "its builder computes with 'epsilon'",
        tfsmith.load_recipe("bert-encoder"): "what finds it is written in Python",
    }
    for rule, reason in reasons.items():
        with pytest.raises(UsageError, match=reason):
            tfsmith.save_recipe(rule, tmp_path / "rule.toml")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="write it as"):
        tfsmith.save_recipe(normalized(), tmp_path / "rule.pb")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("__import__('os').system('true')", "there is no form"),
        ("x.y", "nothing that a formula has"),
        ("op.mro()", "there is no form 'mro'"),
        ("(lambda: x)()", "there is no form"),
        ("[x for x in y]", "nothing that a formula has"),
        ("LayerNorm(x, *y)", "nothing that a formula has"),
        ("LayerNorm(x, **y)", r"\*\* is nothing"),
        ("LayerNorm()", "is given what it does not take"),
        ("LayerNorm(x, gamma=1)", "is no parameter"),
        ("x ** y", "an exponent is no number"),
        ("x +", "cannot be read"),
        ("y = x", "no form"),
        ("Repeat(layer, x, units)", "no block of this file"),
        ("1 + 2", "two numbers"),
        ("(" * 5000 + "x" + ")" * 5000, "cannot be read"),
        ("-" * 15000 + "x", "cannot be read"),
        ("x" * 30000, "at most 20,000"),
    ],
)
def test_text_that_is_no_formula_is_refused_and_never_run(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'[formula]\ntext = ["""{text}"""]\n')
    with pytest.raises(TfsmithError, match=reason):
        tfsmith.find(opened("bert-relu"), tfsmith.load_recipe(path))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('inputs = ["z"]', "takes 'z', which is nothing that is found"),
        ('inputs = ["each(x)"]', "no blocks of a chain"),
        ('inputs = ["x"]\nattrs = {T = "DT_NOTHING"}', "T"),
    ],
)
def test_what_a_file_puts_in_is_checked_when_it_is_read(lines: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    target = f'[[formula.target]]\nname = "new"\nop = "Relu"\n{lines}\n'
    path.write_text(f'[formula]\ntext = ["Softmax(x)"]\nresult = "new"\n{target}')
    with pytest.raises(TfsmithError, match=reason):
        tfsmith.load_recipe(path)


def test_a_drafted_formula_finds_what_is_spelled_otherwise(bert: Model, tmp_path: Path) -> None:
    drafted = tfsmith.draft_recipe(bert, raised=True, op="MyEncoder", out=tmp_path / "layer.toml")
    assert drafted.block.units == LAYERS
    text = (tmp_path / "layer.toml").read_text()
    assert "Attention(Dense(x, query_kernel, query_bias), Dense(x, key_kernel, key_bias)" in text
    assert "Gelu(Dense(layernorm_1, kernel_2, bias_2), kind='erf')" in text
    assert recipe_toml(parse_recipe_toml(text)) in text
    assert isinstance(rule_of_data(parse_recipe_toml(text)), FileRule)
    for name in ("transformers-bert", "transformers-xlm-roberta", "transformers-electra"):
        done = tfsmith.replace(opened(name), tmp_path / "layer.toml")
        (node,) = (node for node in done.model.graph if node.op == "MyEncoder")
        assert (node.get("NumWeights"), len(node.inputs)) == (16 * LAYERS, 2 + 16 * LAYERS)
    for name in ("kerashub-bert", "transformers-no-gpt2", "bert-relu"):  # another GELU, another mask, or none
        assert not tfsmith.find(opened(name), tmp_path / "layer.toml").matches


def test_an_extracted_formula_goes_back_to_its_barriers(bert: Model, tmp_path: Path) -> None:
    first, *_, last = tfsmith.find(bert, "layer-norm")
    ends = [one.variant.query.outputs[0].node for one in (first, last)]
    before = tfsmith.find(bert, "layer-norm").matches[-2].variant.query.outputs[0].node
    found = tfsmith.extract(bert, ends[1:], [before], raised=True, out=tmp_path / "part.toml")
    formula = found.block.recipe.formula_text
    assert formula is not None
    assert formula.lines == (
        "LayerNorm((x + Dense(Gelu(Dense(x, kernel, bias), kind='erf'), kernel_2, bias_2)), gamma, beta,"
        " epsilon=1e-12)",
    )
    assert [one.kind for one in found.block.inputs] == ["input", *["weight"] * 6]
    assert len(tfsmith.find(bert, tmp_path / "part.toml").matches) == LAYERS
    assert len(tfsmith.find(opened("kerashub-distilbert"), tmp_path / "part.toml").matches) == LAYERS
    assert not tfsmith.find(opened("bert-base"), tmp_path / "part.toml").matches  # another GELU


def test_a_drafted_formula_needs_something_that_repeats(bert: Model) -> None:
    with pytest.raises(TfsmithError, match="there is no node 'nothing'"):
        tfsmith.draft_recipe(bert, raised=True, seeds=["nothing"])
    with pytest.raises(UsageError, match="one seed"):
        tfsmith.extract(bert, ["a", "b"], raised=True)
