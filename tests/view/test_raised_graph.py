"""The raised graph as the page has it: what stands for which nodes, with parameters, and no edge that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.view_models import write_many

import tfsmith
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.view.page_data import page_data
from tfsmith.view.raised_graph import RAISED_OPS, recognised_scopes

LAYER = "bert/encoder/layer_1"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("raised") / "bert"
    write_saved_model(bert_classifier(BertConfig(60, 24, 2, 4, 48, max_position_embeddings=20)), path)
    model = tfsmith.load(path)
    return page_data(model, recognised=recognised_scopes(model), is_raised=True)


def ops(data: dict[str, Any]) -> list[str]:
    return [data["tables"]["ops"][number]["name"] for number in data["raised"][""]["ops"]]


def node(data: dict[str, Any], name: str) -> tuple[str, dict[str, Any], list[str]]:
    """The op, the attributes and the inputs of a raised node."""
    sheet = data["raised"][""]
    at, found = 0, {}
    for number, one in enumerate(sheet["names"]):
        count = sheet["inputs"][at]
        sources = sheet["inputs"][at + 1 : at + 1 + 2 * count : 2]
        found[one] = (
            ops(data)[number],
            data["tables"]["attrs"][sheet["attrs"][number]],
            [sheet["names"][each] for each in sources],
        )
        at += 1 + 2 * count
    return found[name]


def test_layers_become_attention_norms_and_products(bert: dict[str, Any]) -> None:
    found = ops(bert)
    counts = {op: found.count(op) for op in ("Attention", "LayerNorm", "GELU", "Softmax")}
    assert counts == {"Attention": 2, "LayerNorm": 5, "GELU": 2, "Softmax": 1}
    products = 2 * 6 + 2 + 1  # of each layer; of pooler and classifier; of the types, which are looked up by one
    assert found.count("Contract") == products
    assert not {"Transpose", "BatchMatMulV2", "MatMul", "BiasAdd", "Rsqrt", "Tensordot"} & set(found)
    scopes = bert["raised"][""]["scopes"]
    inner = {op for op, scope in zip(found, scopes, strict=True) if scope.startswith("bert/encoder/layer ")}
    assert inner == {"Contract", "Attention", "LayerNorm", "GELU", "AddV2", "Weight"}


def test_nodes_have_their_parameters_and_take_what_the_graph_takes(bert: dict[str, Any]) -> None:
    attention = f"{LAYER}/attention/self/MatMul_1"
    op, attrs, inputs = node(bert, attention)
    assert op == "Attention"
    assert attrs == {"heads": 4, "mask": "added", "scale": 0.408248}
    sources = {f"{LAYER}/attention/self/{part}/BiasAdd" for part in ("query", "key", "value")}
    assert sources < set(inputs)
    assert len(inputs) == 4  # and the mask
    op, attrs, inputs = node(bert, f"{LAYER}/attention/self/query/BiasAdd")
    assert op == "Contract"
    assert attrs["equation"] == "abc,cd->abd"
    assert attrs["sizes"].endswith("c=24, d=24")
    weights = {f"{LAYER}/attention/self/query/{part}" for part in ("kernel", "bias")}
    assert weights < set(inputs)
    assert node(bert, f"{LAYER}/attention/self/query/kernel")[0] == "Weight"
    op, attrs, _ = node(bert, f"{LAYER}/output/LayerNorm/batchnorm/add_1")
    assert (op, attrs["epsilon"], attrs["over"]) == ("LayerNorm", 1e-12, "24")


def test_each_node_of_the_graph_is_in_one_raised_node_at_most(bert: dict[str, Any]) -> None:
    covers = [number for one in bert["raised"][""]["covers"] for number in one]
    assert len(covers) == len(set(covers))
    assert len(covers) > 150
    names = bert["sheets"][0]["names"]
    place = bert["raised"][""]["names"].index(f"{LAYER}/attention/self/MatMul_1")
    assert f"{LAYER}/attention/self/Softmax" in [names[number] for number in bert["raised"][""]["covers"][place]]


def test_scopes_are_layers_and_weights_lie_where_they_are_taken(bert: dict[str, Any]) -> None:
    sheet = bert["raised"][""]
    scope = dict(zip(sheet["names"], sheet["scopes"], strict=True))
    assert scope[f"{LAYER}/attention/self/MatMul_1"] == "bert/encoder/layer 2"
    assert scope[f"{LAYER}/attention/self/query/kernel"] == "bert/encoder/layer 2"
    assert scope["bert/pooler/dense/kernel"].startswith("bert/pooler")


def test_other_nets_stay_as_they_are_but_for_products(tmp_path: Path) -> None:
    write_frozen(conv_net(), tmp_path / "conv.pb")
    data = page_data(tfsmith.load(tmp_path / "conv.pb"), is_raised=True)
    found = ops(data)
    assert found.count("Conv2D") == 2
    assert {"Contract", "Softmax", "Placeholder"} <= set(found)
    plain = page_data(tfsmith.load(write_many(tmp_path / "many.pb", scopes=1, blocks=1, nodes=20)), is_raised=True)
    assert plain["raised"] == {}


def test_each_raised_op_says_what_it_does() -> None:
    assert all(text.endswith(".") for text in RAISED_OPS.values())
