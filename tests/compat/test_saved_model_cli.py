"""Our `saved_model_cli show` against TensorFlow's own, on the same SavedModels, character for character.

Two things are random in TensorFlow itself, and so compared without their order: the set of ops, and the dicts inside
arguments, which come from protobuf maps.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfsmith.compat import functions_text as load_order
from tfsmith.compat.saved_model_cli import main
from tfsmith.verbs._files import load
from tfsmith.wire import parse

pytestmark = pytest.mark.tensorflow

ALL_FLAGS = ("all", "tag_set", "signature_def", "list_ops", "dir")
TF2_MODELS = [
    "custom_gradients",
    "network",
    "nested",
    "tensor_specs",
    "python_values",
    "named_tuples",
    "dtypes",
    "ragged_and_sparse",
    "data_specs",
    "iterator",
    "other_specs",
    "extension_type",
    "variables_as_arguments",
    "without_arguments",
    "wrapped_functions",
    "attribute_names",
    "composite_signature",
    "no_functions",
    "root_is_a_dict",
    "root_is_a_table",
    "many_traces",
    "keras_export",
    "keras_saved",
    "tf1_saved_again",
]
EDITED_MODELS = [
    "custom_op",
    "custom_op_outside",
    "lost_child",
    "two_meta_graphs",
    "own_spec",
    "recursion",
    "lost_signatures",
    "no_tags",
    "no_children",
    "no_objects",
    "nothing",
]
TF1_MODELS = ["tf1", "tf1_text"]

Build = Callable[[str], Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Writes a model of the zoo, once."""
    from tests.support.saved_model_edits import EDITED
    from tests.support.saved_model_zoo import BUILDERS

    builders = BUILDERS | EDITED
    folder = tmp_path_factory.mktemp("zoo")

    def build_once(name: str) -> Path:
        if not (folder / name).exists():
            builders[name](folder / name)
        return folder / name

    return build_once


def theirs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    """What TensorFlow prints, in this process; ours then counts functions from where it began."""
    from absl import flags as absl_flags
    from tensorflow.python.framework import ops, type_spec_registry
    from tensorflow.python.saved_model import nested_structure_coder
    from tensorflow.python.tools import saved_model_cli

    def decode_sorted(_: Any, value: Any, decode: Callable[[Any], Any]) -> dict[str, Any]:
        fields = value.dict_value.fields
        return {key: decode(fields[key]) for key in sorted(fields)}

    monkeypatch.setattr(nested_structure_coder._DictCodec, "do_decode", decode_sorted)
    # The program that shows a model is not the one that wrote it, and does not know its classes.
    monkeypatch.delitem(type_spec_registry._NAME_TO_TYPE_SPEC, "tests.Extension.Spec", raising=False)
    monkeypatch.setattr(load_order, "FIRST_NUMBER", ops.uid() + 1)
    for name in ALL_FLAGS:
        absl_flags.FLAGS[name].unparse()
    parsed = saved_model_cli.create_parser().parse_args(["show", *flags])
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed.func()
    return capsys.readouterr().out


def ours(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    capsys.readouterr()
    code = main(["show", *flags])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def sort_ops(text: str) -> str:
    """The text with its sets of ops in one order."""

    def sort(found: re.Match[str]) -> str:
        ops = ast.literal_eval(found[2]) if found[2] != "set()" else set()
        assert isinstance(ops, set)
        return found[1] + str(sorted(ops))

    return re.sub(r"(contains the following ops: )(\{.*\}|set\(\))$", sort, text, flags=re.M)


def assert_same(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    expected = theirs(capsys, monkeypatch, *flags)
    found = ours(capsys, *flags)
    assert sort_ops(found) == sort_ops(expected)
    return found


def test_the_zoo_is_all_tested() -> None:
    from tests.support.saved_model_edits import EDITED
    from tests.support.saved_model_zoo import BUILDERS

    assert {*TF1_MODELS, *TF2_MODELS} == set(BUILDERS)
    assert set(EDITED_MODELS) == set(EDITED)


@pytest.mark.parametrize("name", [*TF1_MODELS, *TF2_MODELS, *EDITED_MODELS])
def test_all(name: str, build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = assert_same(capsys, monkeypatch, "--dir", str(build(name)), "--all")

    assert "MetaGraphDef with tag-set: " in text
    assert ("Concrete Functions:" in text) == (name not in (*TF1_MODELS, "nothing"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("custom_op", "the existence of custom ops in the SavedModel"),
        ("own_spec", "unknown reasons"),
        ("lost_child", "unknown reasons"),
        ("recursion", "unknown reasons"),
        ("lost_signatures", "unknown reasons"),
        ("two_meta_graphs", "unknown reasons"),
        ("no_objects", "unknown reasons"),
        ("root_is_a_dict", "unknown reasons"),
    ],
)
def test_what_tensorflow_cannot_load_is_not_listed(
    name: str, reason: str, build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ours(capsys, "--dir", str(build(name)), "--all")

    assert text.endswith(f"\nConcrete Functions: N/A (could not be listed due to {reason})\n")


@pytest.mark.parametrize("name", [*TF1_MODELS, "network", "no_tags", "nothing"])
@pytest.mark.parametrize("ops", [(), ("--list_ops",)])
def test_tag_sets(
    name: str, ops: tuple[str, ...], build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(capsys, monkeypatch, "--dir", str(build(name)), *ops)


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("tf1", "serve,gpu"),
        ("tf1", "gpu,serve"),
        ("tf1", "train"),
        ("tf1", "a,b"),
        ("network", "serve"),
        ("keras_export", "serve"),
        ("composite_signature", "serve"),
    ],
)
def test_one_tag_set(
    name: str, tags: str, build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--dir", str(build(name)), "--tag_set", tags)
    keys = assert_same(capsys, monkeypatch, *flags)
    assert_same(capsys, monkeypatch, *flags, "--list_ops")
    for key in re.findall('SignatureDef key: "(.*)"$', keys, re.M):
        assert_same(capsys, monkeypatch, *flags, "--signature_def", key)
        assert_same(capsys, monkeypatch, *flags, "--signature_def", key, "--list_ops")


def test_the_empty_tag_set(build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(capsys, monkeypatch, "--dir", str(build("tf1")), "--tag_set", "")


def test_all_outweighs_the_other_flags(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--tag_set", "nonsense", "--signature_def", "nonsense", "--list_ops", "--nolist_ops")
    assert_same(capsys, monkeypatch, "--dir", str(build("network")), *flags, "--all")


def test_both_as_programs(build: Build) -> None:
    """The order of the options needs the count to start where a fresh process starts."""
    flags = ["show", "--dir", str(build("many_traces")), "--all"]
    script = Path(sys.executable).with_name("saved_model_cli")
    expected = subprocess.run([str(script), *flags], capture_output=True, text=True, check=True).stdout
    found = subprocess.run(
        [sys.executable, "-m", "tfsmith.compat.saved_model_cli", *flags], capture_output=True, text=True, check=True
    )

    assert found.stderr == ""
    assert sort_ops(found.stdout) == sort_ops(expected)
    sizes = re.findall(r"x: TensorSpec\(shape=\((\d+),\)", found.stdout)
    assert len(sizes) == 24
    assert sizes != sorted(sizes, key=int)


@pytest.mark.parametrize("name", ["many_traces", "custom_gradients", "network", "keras_saved"])
def test_functions_get_the_names_that_the_loader_gives(
    name: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf
    from tensorflow.python.framework import ops
    from tensorflow.python.saved_model import function_deserialization

    folder = build(name)
    expected: dict[str, str] = {}
    original = function_deserialization.load_function_def_library

    def remember(*args: Any, **kwargs: Any) -> Any:
        functions = original(*args, **kwargs)
        expected.update({name: function.name.decode() for name, function in functions.items()})
        return functions

    monkeypatch.setattr(function_deserialization, "load_function_def_library", remember)
    first = ops.uid() + 1
    with tf.Graph().as_default():
        tf.saved_model.load(str(folder), options=tf.saved_model.LoadOptions(experimental_skip_checkpoint=True))
    library = load(folder).graph.library
    saved = parse("FunctionDefLibrary", b"".join(extra.tobytes() for extra in library.extras))
    gradients = {item.registered_op_type: item.gradient_func for item in saved.registered_gradients}

    order = load_order.load_order(library, gradients)

    assert load_order.loaded_names(order, gradients, first=first) == expected
    assert [function.name for function in order] == list(expected)
    assert bool(gradients) == (name == "custom_gradients")
