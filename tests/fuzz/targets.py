"""What is fuzzed: for each format, for matching, for the reference engine and for the scan, seeds and a use of them.

A target takes the bytes of one file, puts them where they belong in a model, and does with it all that users do. It may
raise `TfsmithError` with a remedy, and nothing else.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
from tests.fuzz import mutators
from tests.fuzz.mutators import Mutator
from tests.support import planted
from tests.support.helpers import attr_value, const_node, field, files_of, graph_def, node_def, write_files
from tests.support.riegeli_files import split
from tests.support.table_files import GOLDEN_DATA, GOLDEN_INDEX, table, write_golden
from tests.support.v1_files import TENSORS, v1_entries

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.formats.recipe.toml import recipe_toml
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern
from tfsmith.patterns.extract import recipe_from_pattern
from tfsmith.storage import from_bytes
from tfsmith.testing.models import conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.wire import parse
from tfsmith.wire.text_reader import read_text

__all__ = ["TARGETS", "Target", "attempt", "no_sync"]

T = {"T": attr_value(type=1)}
X = node_def("x", "Placeholder", attrs={"dtype": attr_value(type=1), "shape": field(7, b"")})
CHAIN = graph_def(
    [
        X,
        const_node("c", [1.0, 2.0]),
        node_def("a", "Relu", ["x"], T),
        node_def("m", "Mul", ["a", "c"], T),
        node_def("y", "AddV2", ["m", "a"], T),
        node_def("out", "Neg", ["y"], T),
    ]
)
PATTERN = Pattern((Node("y", "AddV2", ("a", "x")),), (Node("a", "Relu", ("x",), {"T": "t"}),), ("x",))
RECIPE_PB = field(
    1, field(1, node_def("y", "AddV2", ["m", "a"], T)) + field(2, node_def("a", "Relu", ["x"], T)) + field(3, b"x")
) + field(2, node_def("fused", "Mine", ["x"], {"N": attr_value(i=2)}))
RECIPE_TOML = recipe_toml(recipe_from_pattern(PATTERN, Node("fused", "Mine", ("x",), {"n": [1, 2], "s": "=a"})))
LAYER = {"class_name": "Lambda", "config": {"name": "l", "function": ["4wEA", None, None], "function_type": "lambda"}}
LAMBDA = {"class_name": "Functional", "config": {"layers": [LAYER]}}


ENGINE = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "n" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 2 int_val: 3 } } } }
node { name: "two" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 2 } } } }
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
node { name: "perm" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 1 int_val: 0 } } } }
node { name: "v" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2 } } } }
node { name: "fill" op: "Fill" input: "n" input: "v" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "index_type" value { type: DT_INT32 } } }
node { name: "tile" op: "Tile" input: "fill" input: "n" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "Tmultiples" value { type: DT_INT32 } } }
node { name: "range" op: "Range" input: "zero" input: "two" input: "two" attr { key: "Tidx" value { type: DT_INT32 } } }
node { name: "take" op: "GatherV2" input: "tile" input: "n" input: "zero"
  attr { key: "Tparams" value { type: DT_FLOAT } }
  attr { key: "Tindices" value { type: DT_INT32 } } attr { key: "Taxis" value { type: DT_INT32 } } }
node { name: "turn" op: "Transpose" input: "tile" input: "perm" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "Tperm" value { type: DT_INT32 } } }
node { name: "reshape" op: "Reshape" input: "fill" input: "n" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "Tshape" value { type: DT_INT32 } } }
node { name: "hot" op: "OneHot" input: "n" input: "two" input: "v" input: "v"
  attr { key: "T" value { type: DT_FLOAT } } attr { key: "TI" value { type: DT_INT32 } }
  attr { key: "axis" value { i: -1 } } }
node { name: "product" op: "Einsum" input: "fill" input: "reshape" attr { key: "N" value { i: 2 } }
  attr { key: "T" value { type: DT_FLOAT } } attr { key: "equation" value { s: "ab,ab->a" } } }
node { name: "text" op: "AsString" input: "n" attr { key: "T" value { type: DT_INT32 } }
  attr { key: "width" value { i: 5 } } attr { key: "precision" value { i: -1 } } attr { key: "fill" value { s: " " } } }
node { name: "out" op: "Sum" input: "product" input: "zero" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "Tidx" value { type: DT_INT32 } } attr { key: "keep_dims" value { b: false } } }
"""


class Target:
    """One thing to fuzz.

    Args:
        name: Its name; found files are kept under it.
        seeds: Makes sound files, in a folder that it may use.
        mutator: Makes other files of them.
        use: Uses a file, given its bytes and a folder of its own.
    """

    def __init__(
        self, name: str, seeds: Callable[[Path], Iterable[bytes]], mutator: Mutator, use: Callable[[bytes, Path], None]
    ) -> None:
        self.name = name
        self.seeds = seeds
        self.mutator = mutator
        self.use = use

    def mutant(self, seeds: list[bytes], random: Random) -> bytes:
        """Another file: a seed that was changed once or twice, now and then blindly."""
        data = random.choice(seeds)
        for _ in range(random.choice((1, 1, 1, 2))):
            data = mutators.blind(data, random) if random.random() < 0.2 else self.mutator(data, random)
        return data[: 1 << 20]


def attempt(job: Callable[[], Any]) -> Any:
    """Does a job, which may raise an error of ours that says what to do, and no other."""
    try:
        return job()
    except TfsmithError as error:
        if not (error.what and error.remedy):
            raise AssertionError("an error must say what is wrong and what to do") from error
        if len(str(error).splitlines()) > 1:
            raise AssertionError("an error is one line") from error
        return None


def _look(path: Path) -> Any:
    """Opens a model, and shows all of it in every form."""
    model = attempt(lambda: tfsmith.load(path))
    if model is None:
        return None

    def show() -> None:
        shown = tfsmith.show(model, all=True)
        json.dumps(shown.to_json(), allow_nan=False)
        assert str(shown)

    attempt(show)
    return model


def _use_graph(name: str) -> Callable[[bytes, Path], None]:
    def use(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        model = _look(path)
        if model is not None:
            attempt(lambda: tfsmith.graph_text(model))
            attempt(lambda: tfsmith.freeze(model))
            attempt(lambda: tfsmith.save(model, folder / "again", as_="keep", force=True))

    return use


def _use_saved_model(main: str) -> Callable[[bytes, Path], None]:
    def use(data: bytes, folder: Path) -> None:
        _variables(folder / "m")
        (folder / "m" / main).write_bytes(data)
        model = _look(folder / "m")
        if model is not None:
            attempt(lambda: tfsmith.freeze(model))
            attempt(lambda: tfsmith.diff(model, model))

    return use


def _variables(folder: Path) -> None:
    if not (folder / "variables").is_dir():
        write_files(folder, _variable_files())


@cache
def _variable_files() -> dict[str, bytes]:
    """The files of a SavedModel without its main one."""
    with tempfile.TemporaryDirectory() as home:
        found = files_of(write_saved_model(linear_regression(), Path(home) / "m"))
    return {name: data for name, data in found.items() if name != "saved_model.pb"}


def _use_index(data: bytes, folder: Path) -> None:
    (folder / "m.index").write_bytes(data)
    (folder / "m.data-00000-of-00001").write_bytes(GOLDEN_DATA)

    def use() -> None:
        bundle = open_bundle(folder / "m")
        for name in bundle:
            attempt(lambda: bundle[name].numpy())  # noqa: B023
        attempt(bundle.verify)

    attempt(use)
    _look(folder / "m")


def _use_file(name: str) -> Callable[[bytes, Path], None]:
    """Weights: everything is read."""

    def use(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        model = _look(folder / name)
        for tensor in (model.variables if model is not None else {}).values():
            if tensor.nbytes < 1 << 20:
                attempt(tensor.numpy)

    return use


def _use_keras(name: str) -> Callable[[bytes, Path], None]:
    """A file of Keras: everything is read, shown and scanned, and it is written as the other kind."""
    read = _use_file(name)

    def use(data: bytes, folder: Path) -> None:
        read(data, folder)
        attempt(lambda: json.dumps(tfsmith.scan(folder / name, weights=True).to_sarif(), allow_nan=False))
        other = folder / ("out.keras" if name.endswith(".h5") else "out.h5")
        attempt(lambda: tfsmith.convert(folder / name, out=other))

    return use


def _use_state(data: bytes, folder: Path) -> None:
    write_golden(folder / "m")
    (folder / "checkpoint").write_bytes(data)
    _look(folder)


def _use_recipe(name: str) -> Callable[[bytes, Path], None]:
    def use(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        (folder / "m.pb").write_bytes(CHAIN)
        model = tfsmith.load(folder / "m.pb")
        attempt(lambda: tfsmith.check_recipe(folder / name, model))
        attempt(lambda: tfsmith.replace(model, folder / name))

    return use


def _use_match(data: bytes, folder: Path) -> None:
    (folder / "r.toml").write_text(RECIPE_TOML)
    (folder / "m.pb").write_bytes(data)
    model = attempt(lambda: tfsmith.load(folder / "m.pb"))
    if model is None:
        return
    attempt(lambda: tfsmith.find(model, folder / "r.toml"))
    attempt(lambda: tfsmith.replace(model, folder / "r.toml"))
    for recipe in ("layer-norm", "gelu"):
        attempt(lambda: tfsmith.replace(model, recipe))  # noqa: B023


def _use_engine(data: bytes, folder: Path) -> None:
    (folder / "m.pb").write_bytes(data)
    model = attempt(lambda: tfsmith.load(folder / "m.pb"))
    if model is not None:
        feeds = {"x": np.ones(2, np.float32)}
        for name in ("out", "turn", "take", "hot", "text", "range", "y"):
            attempt(lambda: tfsmith.run(model, feeds, engine="reference", outputs=[name]))  # noqa: B023


def _use_scan(name: str) -> Callable[[bytes, Path], None]:
    """The scan of a SavedModel in which one file is given."""

    def use(data: bytes, folder: Path) -> None:
        home = folder / "m"
        (home / "assets").mkdir(parents=True, exist_ok=True)
        (home / "saved_model.pb").write_bytes(_saved_model_bytes())
        (home / name).write_bytes(data)
        found = attempt(lambda: tfsmith.scan(home))
        if found is not None:
            json.dumps(found.to_json(), allow_nan=False)
            json.dumps(found.to_sarif(), allow_nan=False)
            assert str(found)

    return use


def _use_verbs(data: bytes, folder: Path) -> None:
    """All that looks into a graph or makes another of it."""
    model = attempt(lambda: tfsmith.load(data))
    if model is None:
        return
    attempt(lambda: str(tfsmith.show(model, architecture=True)))
    attempt(lambda: str(tfsmith.diff(model, tfsmith.load(CHAIN), inferred_shapes=True)))
    attempt(lambda: json.dumps(tfsmith.scan(model).to_sarif(), allow_nan=False))
    for target in ("onnx", "openvino", "tensorflow-1.15"):
        attempt(lambda: str(tfsmith.check(model, target)))  # noqa: B023
    attempt(lambda: tfsmith.find(model, "attention"))
    attempt(lambda: tfsmith.thaw(model, out=folder / "thawed"))
    attempt(lambda: tfsmith.freeze(model, fold_shapes=True, batch_size=1, out=folder / "folded.pb"))
    attempt(lambda: tfsmith.convert(model, out=folder / "m.onnx"))


def _saved_model_bytes() -> bytes:
    return field(2, field(1, field(4, b"serve")) + field(2, CHAIN))


def _attacks(folder: Path) -> Iterable[bytes]:
    """The graphs of the attack files, as SavedModels."""
    del folder
    for path in sorted((Path(__file__).parents[1] / "hostile" / "scan").glob("*.pbtxt")):
        model = tfsmith.load(path.read_bytes())
        if model.kind == "graphdef":
            graph = read_text(from_bytes(path.read_bytes()), "GraphDef").tobytes()
            yield field(2, field(1, field(4, b"serve")) + field(2, graph))


def _models(folder: Path) -> Iterable[bytes]:
    for number, model in enumerate((linear_regression(), linear_regression(variables="resource"), conv_net())):
        path = write_saved_model(model, folder / str(number))
        yield (Path(path) / "saved_model.pb").read_bytes()


def _frozen(folder: Path) -> Iterable[bytes]:
    yield CHAIN
    for number, model in enumerate((linear_regression(), conv_net())):
        yield Path(write_frozen(model, folder / f"{number}.pb")).read_bytes()


def _graphs(folder: Path) -> Iterable[bytes]:
    """Graphs as TensorFlow makes them, with functions and loops; see `make_seeds.py`."""
    del folder
    yield planted.graph()
    with zipfile.ZipFile(Path(__file__).with_name("seeds.zip")) as archive:
        yield from (archive.read(name) for name in archive.namelist())


def _computations(folder: Path) -> Iterable[bytes]:
    del folder
    yield CHAIN
    yield read_text(from_bytes(ENGINE.encode()), "GraphDef").tobytes()


def _metas(folder: Path) -> Iterable[bytes]:
    write_checkpoint_files(linear_regression(), folder)
    yield from (path.read_bytes() for path in folder.glob("*.meta"))


def _texts(folder: Path) -> Iterable[bytes]:
    for data in _frozen(folder):
        (folder / "t.pb").write_bytes(data)
        yield tfsmith.graph_text(tfsmith.load(folder / "t.pb")).encode()[:20_000]


def _split(folder: Path) -> Iterable[bytes]:
    for data in list(_models(folder))[:2]:
        yield split(parse("SavedModel", data), constant=20).file()
        yield split(parse("SavedModel", data), run=3).file()


def _npz(folder: Path) -> Iterable[bytes]:
    del folder
    arrays: dict[str, Any] = {"w": np.ones((2, 3), np.float32), "n": np.arange(4), "s": np.array(["a", "b"])}
    for save in (np.savez, np.savez_compressed):
        made = io.BytesIO()
        save(made, **arrays)
        yield made.getvalue()


def _safetensors(folder: Path) -> Iterable[bytes]:
    del folder
    head = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                       "b": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]},
                       "__metadata__": {"format": "tf"}}).encode()  # fmt: skip
    yield struct.pack("<Q", len(head)) + head + bytes(16)


def _keras(ending: str) -> Callable[[Path], Iterable[bytes]]:
    """Files that Keras wrote, with this ending."""
    stored = Path(__file__).parents[1] / "data" / "keras"
    return lambda folder: [lzma.decompress(path.read_bytes()) for path in sorted(stored.glob(f"*{ending}.xz"))]


def _constant(*seeds: bytes) -> Callable[[Path], Iterable[bytes]]:
    return lambda folder: seeds


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target("graphdef", _frozen, mutators.message("GraphDef"), _use_graph("m.pb")),
            Target("text", _texts, mutators.text, _use_graph("m.pbtxt")),
            Target("metagraph", _metas, mutators.message("MetaGraphDef"), _use_graph("m.meta")),
            Target("savedmodel", _models, mutators.message("SavedModel"), _use_saved_model("saved_model.pb")),
            Target("riegeli", _split, mutators.riegeli, _use_saved_model("saved_model.cpb")),
            Target("index", _constant(GOLDEN_INDEX), mutators.bundle_index, _use_index),
            Target("snappy", _constant(GOLDEN_INDEX), mutators.snappy_table, _use_index),
            Target("version1", _constant(table(v1_entries(TENSORS))), mutators.version_1, _use_file("m.ckpt")),
            Target("npz", _npz, mutators.npz, _use_file("m.npz")),
            Target("safetensors", _safetensors, mutators.safetensors, _use_file("m.safetensors")),
            Target("state", _constant(b'model_checkpoint_path: "m"\nall_model_checkpoint_paths: "m"\n'),
                   mutators.text, _use_state),
            Target("recipe-toml", _constant(RECIPE_TOML.encode()), mutators.text, _use_recipe("r.toml")),
            Target("recipe-pb", _constant(RECIPE_PB), mutators.message("Recipe"), _use_recipe("r.pb")),
            Target("replace", _frozen, mutators.message("GraphDef"), _use_match),
            Target("engine", _computations, mutators.message("GraphDef"), _use_engine),
            Target("verbs", _graphs, mutators.message("GraphDef"), _use_verbs),
            Target("scan", _attacks, mutators.message("SavedModel"), _use_scan("saved_model.pb")),
            Target("scan-zip", _constant(b"PK"), mutators.zip_members, _use_scan("assets/a.zip")),
            Target("scan-tar", _constant(b"\x1f\x8b"), mutators.tar_members, _use_scan("assets/a.tgz")),
            Target("hdf5", _keras(".h5"), mutators.hdf5, _use_keras("m.h5")),
            Target("keras", _keras(".keras"), mutators.keras_archive, _use_keras("m.keras")),
            Target("scan-keras", _constant(mutators.wrapped_metadata(json.dumps(LAMBDA).encode())),
                   mutators.keras_metadata, _use_scan("keras_metadata.pb")),
        )
    }
)  # fmt: skip


def no_sync() -> None:
    """What is written here need not outlive the machine; waiting for the disk would take most of the time."""
    os.fsync = lambda fd: None
