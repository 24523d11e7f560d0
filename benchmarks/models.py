"""The models that are measured. Each is made on first use, in a process of its own, and kept for the next run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import environment

__all__ = ["Models"]

_LAYERS_OF_THE_LARGEST = 35
"""So many layers of BERT-large make 1.9 GB, just below what a GraphDef can hold."""
_TENSORS = 200


@dataclass(frozen=True, slots=True)
class Models:
    """Finds or makes models.

    Attributes:
        folder: Where they are kept.
        quick: Whether small ones will do.
    """

    folder: Path
    quick: bool = False

    def small(self) -> Path:
        """A `.meta` of a few nodes, with its checkpoint."""
        return self._made("small") / "model.ckpt-1.meta"

    def checkpoint(self, kind: str) -> Path:
        """The prefix of a BERT's checkpoint, with its `.meta` and `graph.pbtxt`; kind is "ref" or "resource"."""
        return self._made(f"bert-{kind}") / "model.ckpt-1603"

    def saved_model(self, kind: str) -> Path:
        """The same BERT as a TF1 SavedModel."""
        return self._made(f"bert-{kind}-saved_model")

    def frozen(self, kind: str) -> Path:
        """The same BERT as a frozen graph."""
        return self._made(f"bert-{kind}-frozen") / "frozen.pb"

    def saved_model_2(self) -> Path:
        """A SavedModel of BERT's size that TensorFlow 2 wrote."""
        return self._made("bert-tf2-saved_model")

    def resnet(self) -> Path:
        """A ResNet50 as a SavedModel that TensorFlow 2 wrote."""
        return self._made("resnet")

    def tf_model(self) -> Path:
        """The weights of a BERT as TensorFlow's classes of transformers save them."""
        return self._made("tf_model") / "tf_model.h5"

    def largest(self) -> Path:
        """The prefix of a checkpoint, with its `.meta`, whose frozen graph is just below 2 GiB."""
        return self._made("largest") / "model.ckpt-1603"

    def graph(self, nodes: int) -> Path:
        """A GraphDef of so many nodes."""
        return self._made(f"graph-{nodes}") / "graph.pb"

    def bare_checkpoint(self, megabytes: int) -> Path:
        """The prefix of a checkpoint of so many megabytes, always in as many tensors."""
        return self._made(f"checkpoint-{megabytes}") / "model.ckpt"

    def forget(self, model: Path) -> None:
        """Removes a model that is too large to keep."""
        shutil.rmtree(model.parent)

    def _made(self, name: str) -> Path:
        path = self.folder / (f"{name}.quick" if self.quick else name)
        if path.exists():
            _settle(path)
            return path
        sys.stderr.write(f"making {path.name} ...\n")
        self.folder.mkdir(parents=True, exist_ok=True)
        work = path.with_name(f"{path.name}.part")
        shutil.rmtree(work, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "benchmarks.models", name, str(work.resolve()), "quick" if self.quick else "full"],
            check=True,
            cwd=Path(__file__).parents[1],
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        work.rename(path)
        os.sync()
        _settle(path)
        return path


def _settle(folder: Path) -> None:
    """Has the system hold all files as if they had just been read from end to end: in memory, in large pages.

    What it holds them in depends on who wrote them and how, and counts when a command maps them.
    """
    buffer = bytearray(1 << 20)
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.readinto(buffer):
                pass


def _make(name: str, path: Path, *, quick: bool) -> None:
    """Makes one model. Runs in a process of its own, so here may be imported what is needed."""
    kind, _, rest = name.partition("-")
    if kind == "graph":
        _make_graph(path, int(rest))
    elif kind == "checkpoint":
        _make_checkpoint(path, int(rest))
    elif name == "bert-tf2-saved_model":
        from benchmarks.tf2_model import save_model

        save_model(path, quick=quick)
    elif name == "resnet":
        from benchmarks.resnet_model import save_resnet

        save_resnet(path, quick=quick)
    elif name == "tf_model":
        _make_tf_model(path, layers=1 if quick else 12, width=48 if quick else 768)
    else:
        _make_test_model(name, path, quick=quick)


def _make_test_model(name: str, path: Path, *, quick: bool) -> None:
    from tfsmith.testing.models import BertConfig, bert_classifier, linear_regression
    from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

    if name == "small":
        write_checkpoint_files(linear_regression(variables="resource"), path, step=1)
        return
    sizes = BertConfig.small() if quick else BertConfig.base()
    if name == "largest":
        large = BertConfig.large()
        sizes = (
            BertConfig.small()
            if quick
            else BertConfig(
                large.vocab_size,
                large.hidden_size,
                _LAYERS_OF_THE_LARGEST,
                large.num_attention_heads,
                large.intermediate_size,
            )
        )
    model = bert_classifier(sizes, variables="ref" if "-ref" in name else "resource", global_step=1603)
    if name.endswith("saved_model"):
        write_saved_model(model, path)
    elif name.endswith("frozen"):
        path.mkdir()
        write_frozen(model, path / "frozen.pb")
    else:
        write_checkpoint_files(model, path)


def _make_graph(path: Path, count: int) -> None:
    """A chain of layers, each as nodes are in real graphs: scalars, a read of a variable, arithmetic."""
    from tfsmith.formats.graph.graphdef import plan_graph
    from tfsmith.ir.graph import Graph, Versions
    from tfsmith.ir.node import Node
    from tfsmith.ir.tensor import ArrayTensor
    from tfsmith.ir.types import Shape, dtype_named
    from tfsmith.storage import FileSink

    kind, shape = dtype_named("float32"), Shape((-1, 64))
    output = {"_output_shapes": (shape,)}
    nodes = [Node("x", "Placeholder", (), {"dtype": kind, "shape": shape, **output})]
    while len(nodes) < count:
        scope, last = f"model/block_{len(nodes) // 100}/layer_{len(nodes)}", nodes[-1].name
        variable = {"dtype": kind, "shape": Shape((64, 64)), "shared_name": b"", "container": b""}
        nodes += [
            Node(f"{scope}/kernel", "VariableV2", (), variable),
            Node(f"{scope}/kernel/read", "Identity", (f"{scope}/kernel",), {"T": kind}),
            Node(f"{scope}/add/y", "Const", (), {"dtype": kind, "value": ArrayTensor.of(0.5, kind)}),
            Node(f"{scope}/MatMul", "MatMul", (last, f"{scope}/kernel/read"), {"T": kind, **output}),
            Node(f"{scope}/add", "AddV2", (f"{scope}/MatMul", f"{scope}/add/y"), {"T": kind, **output}),
            Node(f"{scope}/Relu", "Relu", (f"{scope}/add",), {"T": kind, **output}),
        ]
    path.mkdir()
    plan = plan_graph(Graph(tuple(nodes[:count]), Versions(1087)))
    with FileSink(path / "graph.pb") as sink:
        sink.write(plan.tobytes())


def _make_checkpoint(path: Path, megabytes: int) -> None:
    from tfsmith.formats.checkpoint.writer import write_bundle
    from tfsmith.ir.tensor import FilledTensor
    from tfsmith.ir.types import Shape, dtype_named

    path.mkdir()
    shape = Shape((megabytes * 1_000_000 // 4 // _TENSORS,))
    value = FilledTensor(dtype_named("float32"), shape, b"\x00\x00\x80\x3f")
    write_bundle(path / "model.ckpt", {f"layer_{number}/kernel": value for number in range(_TENSORS)})


def _make_tf_model(path: Path, layers: int, width: int) -> None:
    """A `tf_model.h5` with the names and the layout that transformers writes: the words twice, names of any length."""
    import h5py
    import numpy

    model = "tf_bert_for_masked_lm"
    words: dict[str, tuple[int, ...]] = {"embeddings/word_embeddings/weight:0": (40 * width, width)}
    found = {f"{model}/bert/{name}": shape for name, shape in words.items()}
    found[f"{model}/bert/embeddings/position_embeddings/embeddings:0"] = (512, width)
    found[f"{model}/bert/embeddings/token_type_embeddings/embeddings:0"] = (2, width)
    found |= {f"{model}/bert/embeddings/LayerNorm/{name}:0": (width,) for name in ("gamma", "beta")}
    products: dict[str, tuple[int, ...]] = {
        **{f"attention/{name}": (width, width) for name in ("self/query", "self/key", "self/value", "output/dense")},
        "intermediate/dense": (width, 4 * width),
        "output/dense": (4 * width, width),
    }
    for scope in [f"{model}/bert/encoder/layer_._{number}" for number in range(layers)]:
        for name, shape in products.items():
            found |= {f"{scope}/{name}/kernel:0": shape, f"{scope}/{name}/bias:0": shape[1:]}
        for name in ("attention/output/LayerNorm", "output/LayerNorm"):
            found |= {f"{scope}/{name}/{last}:0": (width,) for last in ("gamma", "beta")}
    head = {f"{model}/bert/{name}": shape for name, shape in words.items()}
    head[f"{model}/mlm___cls/predictions/bias:0"] = (40 * width,)
    random = numpy.random.default_rng(0)
    values = {name: random.standard_normal(shape, "float32") for name, shape in (found | head).items()}
    path.mkdir()
    with h5py.File(path / "tf_model.h5", "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = "2.19.0", "tensorflow"
        groups = {"bert": found, "mlm___cls": head}
        file.attrs["layer_names"] = numpy.array(list(groups), h5py.string_dtype())
        for layer, shapes in groups.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = numpy.array(list(shapes), h5py.string_dtype())
            for name in shapes:
                group.create_dataset(name, data=values[name])


if __name__ == "__main__":
    _make(sys.argv[1], Path(sys.argv[2]), quick=sys.argv[3] == "quick")
