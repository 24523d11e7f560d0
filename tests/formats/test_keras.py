"""Keras files open as their own Keras reads them; they are written, compared and refused where they should be."""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import (
    CorruptFileError,
    LimitError,
    OutputError,
    TfsmithError,
    UnsupportedError,
    UsageError,
    WrongFileError,
)
from tfsmith.formats.keras.hdf5 import _longest_text
from tfsmith.ir.keras import KerasFile, layer_rows
from tfsmith.verbs.view import view_model
from tfsmith.view.page_data import page_data

DATA = Path(__file__).parents[1] / "data/keras"
NAMES = ("keras-1.2", "keras-2.2", "tf-keras-2.19")


def unpacked(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((DATA / f"{name}.xz").read_bytes()))
    return path


def keras_of(path: Path) -> KerasFile:
    found = tfsmith.load(path).keras
    assert found is not None
    return found


def digest(values: Any) -> str:
    return hashlib.sha256(numpy.asarray(values).tobytes()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_an_old_model_is_what_its_keras_reads(name: str, tmp_path: Path) -> None:
    path = unpacked(tmp_path, f"{name}.h5")
    facts = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    model = tfsmith.load(path)
    keras = keras_of(path)
    found = [
        [layer.name, list(model.variables[key].shape.dims or ()), digest(model.variables[key])]
        for layer in keras.layers
        for key in layer.all_weights()
    ]
    assert found == facts["weights"]
    assert keras.keras_version == facts["keras"]
    assert keras.training is not None
    assert keras.optimizer
    assert set(keras.optimizer) & set(tfsmith.load_weights(path, training=False)) == set()


def test_the_layouts_of_one_model_hold_the_same(tmp_path: Path) -> None:
    first, second, third = (unpacked(tmp_path, f"tf-keras-2.19{ending}") for ending in (".h5", ".keras", ".weights.h5"))
    for other in (second, third):
        found = tfsmith.compare_weights(
            tfsmith.load_weights(first, training=False), tfsmith.load_weights(other, training=False)
        )
        assert [one.verdict for one in found] == ["same"] * 11
    rows = list(layer_rows(keras_of(second).layers, tfsmith.load(second).variables))
    assert [(row.class_name, row.parameters) for row in rows] == [
        ("InputLayer", 0),
        ("Conv2D", 40),
        ("BatchNormalization", 16),
        ("Reshape", 0),
        ("LSTM", 600),
        ("Dense", 18),
    ]


@pytest.mark.parametrize("ending", [".h5", ".npz", ".safetensors", ".ckpt"])
def test_names_and_values_are_kept_there_and_back(ending: str, tmp_path: Path) -> None:
    source = unpacked(tmp_path, "keras-2.2.h5")
    target = tmp_path / f"there{ending}"
    tfsmith.convert(source, target)
    back = tmp_path / "back.h5"
    tfsmith.save_weights(tfsmith.load_weights(target), back)
    for one in (target, back):
        assert set(tfsmith.load_weights(one)) == set(tfsmith.load_weights(source))
        assert all(found.verdict == "same" for found in tfsmith.compare_weights(source, one))
    if ending == ".h5":
        assert keras_of(target).config == keras_of(source).config
        assert [layer.name for layer in keras_of(target).layers] == [layer.name for layer in keras_of(source).layers]


def test_what_a_keras_archive_can_hold(tmp_path: Path) -> None:
    archive = unpacked(tmp_path, "tf-keras-2.19.keras")
    again = tmp_path / "again.keras"
    tfsmith.convert(archive, again)
    assert all(found.verdict == "same" for found in tfsmith.compare_weights(archive, again))
    assert keras_of(again).config == keras_of(archive).config
    plain = tmp_path / "plain.weights.h5"
    tfsmith.convert(archive, plain)
    assert all(found.verdict == "same" for found in tfsmith.compare_weights(archive, plain))
    old = unpacked(tmp_path, "keras-2.2.h5")
    with pytest.raises(
        UsageError, match=r"the config is of Keras 2\.2\.4, which a \.keras file of Keras 3 cannot hold"
    ):
        tfsmith.convert(old, tmp_path / "no.keras")
    with pytest.raises(UsageError, match=r"'conv2d_1/kernel' is none; write NAME\.h5"):
        tfsmith.convert(old, tmp_path / "no.weights.h5")
    with pytest.raises(UsageError, match="does not say in which order its layers are"):
        tfsmith.convert(plain, tmp_path / "no.h5")
    with pytest.raises(UsageError, match="come without a Keras config"):
        tfsmith.save_weights({"a": numpy.zeros(3, "float32")}, tmp_path / "no.keras")
    assert sorted(path.name for path in tmp_path.glob("no*")) == []


def test_weights_go_to_the_places_of_another_file(tmp_path: Path) -> None:
    archive = unpacked(tmp_path, "tf-keras-2.19.keras")
    trained = {key: tensor.numpy() + 1 for key, tensor in tfsmith.load_weights(archive).items()}
    there = tmp_path / "there.npz"
    tfsmith.save_weights(trained, there)
    made = tfsmith.convert(there, tmp_path / "back.keras", like=archive)
    assert made.out == tmp_path / "back.keras"
    assert keras_of(tmp_path / "back.keras").config == keras_of(archive).config
    assert all(one.verdict == "same" for one in tfsmith.compare_weights(there, tmp_path / "back.keras"))
    plain = tfsmith.convert(there, tmp_path / "plain.keras", like=archive, inference_only=True)
    of_training = {one for one in trained if one.startswith(("optimizer/", "metrics/"))}
    assert set(plain.model.variables) == set(trained) - of_training != set(trained)
    key = next(key for key in trained if key.endswith("vars/0") and key not in keras_of(archive).optimizer)
    scoped = {(f"model/{key}" if one == key else one): values for one, values in trained.items()}
    tfsmith.save_weights(scoped, tmp_path / "scoped.npz")
    found = tfsmith.convert(tmp_path / "scoped.npz", tmp_path / "scoped.keras", like=archive).model.variables
    assert (found[key].numpy() == trained[key]).all()


def test_weights_of_another_model_have_no_places(tmp_path: Path) -> None:
    archive, old = unpacked(tmp_path, "tf-keras-2.19.keras"), unpacked(tmp_path, "keras-2.2.h5")
    trained = {key: tensor.numpy() for key, tensor in tfsmith.load_weights(archive).items()}
    key = next(key for key in trained if key not in keras_of(archive).optimizer)
    more = {**trained, "more/vars/0": trained[key]}
    less = {one: values for one, values in trained.items() if one != key}
    wide = {**trained, key: numpy.zeros((7, 7, 7), "float32")}
    for values, says in ((more, "'more/vars/0' has no place"), (less, "is missing"), (wide, r"the shape \[7, 7, 7\]")):
        tfsmith.save_weights(values, tmp_path / "w.npz", force=True)
        with pytest.raises(TfsmithError, match=says):
            tfsmith.convert(tmp_path / "w.npz", tmp_path / "no.keras", like=archive)
    with pytest.raises(TfsmithError, match="is missing, like"):
        tfsmith.convert(old, tmp_path / "no.keras", like=archive)
    with pytest.raises(UsageError, match="no Keras file"):
        tfsmith.convert(archive, tmp_path / "no.keras", like=tmp_path / "w.npz")
    tfsmith.save_weights(trained, tmp_path / "w.npz", force=True)
    with pytest.raises(OutputError):  # what was read is never replaced
        tfsmith.convert(tmp_path / "w.npz", archive, like=archive, force=True)
    assert list(tmp_path.glob("no*")) == []


def test_an_archive_under_another_name_or_unpacked(tmp_path: Path) -> None:
    archive = unpacked(tmp_path, "tf-keras-2.19.keras")
    renamed = archive.rename(tmp_path / "model.zip")
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(renamed) as file:
        file.extractall(folder)
    for place in (renamed, folder):
        assert keras_of(place).form == "keras"
        assert keras_of(place).saved
    assert all(one.verdict == "same" for one in tfsmith.compare_weights(renamed, folder))
    (folder / "metadata.json").unlink()
    assert keras_of(folder).keras_version == ""
    (folder / "config.json").write_text("[")
    with pytest.raises(TfsmithError, match="no sound JSON"):
        tfsmith.load(folder)


def test_a_folder_with_one_keras_file(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    unpacked(tmp_path, "keras-2.2.h5").rename(tmp_path / "repository" / "tf_model.h5")
    (tmp_path / "repository" / "config.json").write_text("{}")
    assert keras_of(tmp_path / "repository").keras_version == "2.2.4"


def test_types_and_odd_layouts(tmp_path: Path) -> None:
    path = tmp_path / "odd.h5"
    values = numpy.arange(600, dtype="float32").reshape(20, 30)
    with h5py.File(path, "w") as file:
        group = file.create_group("layer")
        group.create_dataset("packed:0", data=values, compression="gzip", shuffle=True, chunks=(7, 11))
        group.create_dataset("turned:0", data=values.astype(">f8"))
        group.create_dataset("half:0", data=values.astype("float16"))
        group.create_dataset("flag:0", data=numpy.array(True))
        group.create_dataset("none:0", data=numpy.zeros((0, 3), "int32"))
        group.attrs["weight_names"] = [b"packed:0", b"turned:0", b"half:0", b"flag:0", b"none:0"]
        file.attrs["layer_names"] = [b"layer"]
    found = tfsmith.load_weights(path)
    assert list(found) == ["packed", "turned", "half", "flag", "none"]
    for name, kind in (("packed", "float32"), ("turned", "float64"), ("half", "float16")):
        assert found[name].dtype.name == kind
        assert (found[name].numpy() == values).all()
        assert b"".join(bytes(piece) for piece in found[name].parts() if isinstance(piece, bytes)) in (
            values.astype(kind).tobytes(),
            b"",
        )
    assert found["flag"].numpy() == numpy.array(True)
    assert found["none"].shape.dims == (0, 3)
    many = tmp_path / "many.h5"
    names = {f"layer_with_a_long_name_{number:05d}/kernel": numpy.array([number], "float32") for number in range(4000)}
    tfsmith.save_weights(names, many)  # more names than one attribute holds
    assert {name: tensor.numpy()[0] for name, tensor in tfsmith.load_weights(many).items()} == {
        name: value[0] for name, value in names.items()
    }


def weights_file(path: Path, fill: Any) -> Path:
    with h5py.File(path, "w") as file:
        group = file.create_group("a")
        group.attrs["weight_names"] = [b"w:0"]
        file.attrs["layer_names"] = [b"a"]
        fill(file, group)
    return path


def _external_data(file: Any, group: Any) -> None:
    group.create_dataset("w:0", (4,), "float32", external=[("/etc/hostname", 0, 16)])


def _virtual(file: Any, group: Any) -> None:
    layout = h5py.VirtualLayout((4,), "float32")
    layout[:] = h5py.VirtualSource("other.h5", "w", (4,))
    group.create_virtual_dataset("w:0", layout)


def _huge(file: Any, group: Any) -> None:
    group.create_dataset("w:0", (2**40,), "float32", chunks=(2**20,), compression="gzip")


def _never_written(file: Any, group: Any) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    h5py.h5d.create(group.id, b"w:0", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((2**40,)), plist)


def _big_chunk(file: Any, group: Any) -> None:
    group.create_dataset("w:0", (2**27,), "float32", chunks=(2**27,), compression="gzip", fillvalue=0)[:1] = 1


def _cycle(file: Any, group: Any) -> None:
    group["w:0"] = group


def _pickled(file: Any, group: Any) -> None:
    group.create_dataset("w:0", data=numpy.void(b"\x80\x04cos\nsystem\n."))


HOSTILE = [
    (lambda file, group: group.__setitem__("w:0", h5py.SoftLink("/b")), UnsupportedError, "a link by name"),
    (lambda file, group: group.__setitem__("w:0", h5py.ExternalLink("x.h5", "/b")), UnsupportedError, "another file"),
    (_external_data, UnsupportedError, "its values lie in other files"),
    (_virtual, UnsupportedError, "its values lie in other files"),
    (_huge, LimitError, "0 bytes are stored for a shape of 4398046511104"),
    (_never_written, CorruptFileError, "its shape takes 4398046511104 bytes, but 0 are stored"),
    (_big_chunk, LimitError, "in pieces of 536870912"),
    (_cycle, CorruptFileError, "a group is there twice"),
    (_pickled, UnsupportedError, "its values are no numbers"),
    (lambda f, g: g.create_dataset("w:0", data=g.ref, dtype=h5py.ref_dtype), UnsupportedError, "references to objects"),
    (lambda f, g: g.create_dataset("w:0", data="text"), UnsupportedError, "its values are no numbers"),
    (lambda f, g: g.attrs.__setitem__("x", f.ref), UnsupportedError, "is a reference to an object"),
    (lambda f, g: g.create_dataset("w:0", data=numpy.zeros(9, "f4"), scaleoffset=2, chunks=(9,)), UnsupportedError,
     "for which HDF5 would load a library"),
    (lambda f, g: None, CorruptFileError, "the weight 'w:0' is listed, but is not there"),
    (lambda f, g: f.attrs.__setitem__("layer_names", [b"gone"]), CorruptFileError, "the layer 'gone' is listed"),
    (lambda f, g: f.attrs.__setitem__("model_config", "[" * 5000), CorruptFileError, ""),
]  # fmt: skip


@pytest.mark.parametrize(("fill", "kind", "says"), HOSTILE)
def test_hostile_hdf5_is_refused(fill: Any, kind: type[TfsmithError], says: str, tmp_path: Path) -> None:
    path = weights_file(tmp_path / "evil.h5", fill)
    with pytest.raises(kind) as caught:
        tfsmith.load(path)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


def test_texts_that_share_one_place_are_bounded(tmp_path: Path) -> None:
    """A heap holds a text once, and thousands of names may be that text: a bomb that HDF5 would unpack in memory."""
    text = "x" * 2_000_000
    path = tmp_path / "bomb.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = numpy.array([text] + ["y"] * 3999, dtype=h5py.string_dtype())
    with pytest.raises(LimitError, match="may hold 4000 texts"):
        tfsmith.load(path)


def test_texts_that_are_one_text(tmp_path: Path) -> None:
    """The bomb itself: names of the second attribute all lead to the text of the first, whose heap was read by then."""
    path, count, size = tmp_path / "bomb.h5", 1000, 2_000_000
    with h5py.File(path, "w") as file:
        file.attrs["backend"] = "x" * size
        file.attrs["layer_names"] = numpy.array(["y"] * count, dtype=h5py.string_dtype())
    data = bytearray(path.read_bytes())

    def place_of(length: int, times: int) -> int:
        """Where so many references to texts of this length lie: the length, the address of a heap, the number in it."""
        at, wanted = -1, length.to_bytes(4, "little")
        while True:
            at = data.index(wanted, at + 1)
            heap = int.from_bytes(data[at + 4 : at + 12], "little")
            run = (data[at + 16 * number : at + 16 * number + 4] == wanted for number in range(times))
            if data[heap : heap + 4] == b"GCOL" and all(run):
                return at

    long, names = place_of(size, 1), place_of(1, count)
    data[names : names + 16 * count] = data[long : long + 16] * count
    path.write_bytes(data)
    with pytest.raises(LimitError, match="may hold 1000 texts of 2000"):
        tfsmith.load(path)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("texts", ["2.2.4", ["one", "2.2.4"]])
def test_a_text_that_claims_more_than_the_file_has(libver: str, texts: Any, tmp_path: Path) -> None:
    """HDF5 would ask for all of that memory before it looks at the text. The latest layout has a checksum over it."""
    path = tmp_path / "lie.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["layer_names"] = numpy.array([b"d"])
        file.create_group("d").attrs["weight_names"] = numpy.array([b"k"])
        file["d/k"] = numpy.ones(2, "float32")
        kind = h5py.string_dtype()
        file.attrs.create("keras_version", texts if isinstance(texts, str) else numpy.array(texts, kind), dtype=kind)
    data = bytearray(path.read_bytes())
    name = data.index(b"keras_version\0")
    assert tfsmith.load(path).variables
    assert _longest_text(bytes(data)) == 5
    if libver == "latest":
        return
    length = data.index((5).to_bytes(4, "little"), name + 40)
    data[length : length + 4] = (3 << 30).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="a text claims 3221225472 bytes, more than the file has"):
        tfsmith.load(path)


def test_a_large_config_is_no_bomb(tmp_path: Path) -> None:
    """As NASNet has it: a config of 700 kB in a heap of its own, and hundreds of names in others."""
    path = tmp_path / "large.h5"
    names = [f"layer_{number}" for number in range(1000)]
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(
            {"class_name": "Sequential", "config": {"layers": []}, "x": "y" * 700_000}
        )
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = numpy.array(names, dtype=h5py.string_dtype())
        for name in names:
            group.create_group(name).attrs["weight_names"] = numpy.zeros(0, "S1")
    assert keras_of(path).title == "Keras model (.h5)"


def test_hdf5_of_others_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["images"] = numpy.zeros((3, 4))
    with pytest.raises(WrongFileError, match="neither Keras' weights nor a model"):
        tfsmith.load(tmp_path / "data.h5")


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    (tmp_path / "f.pb").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(CorruptFileError, match=r"HDF5 cannot read it .*; the file is cut off or damaged"):
        tfsmith.load(tmp_path / "f.pb")
    with zipfile.ZipFile(tmp_path / "g.pb", "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, b"x")
    with pytest.raises(CorruptFileError, match=r"config\.json is no sound JSON"):
        tfsmith.load(tmp_path / "g.pb")


def test_hostile_archives_are_refused(tmp_path: Path) -> None:
    source = unpacked(tmp_path, "tf-keras-2.19.keras")
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def made(name: str, rows: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w", method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile warns of a name that is there twice
            for member, data in rows:
                archive.writestr(member, data)
        return tmp_path / name

    packed = made("packed.keras", list(members.items()), zipfile.ZIP_DEFLATED)
    assert all(one.verdict == "same" for one in tfsmith.compare_weights(source, packed))
    twice = made("twice.keras", [*members.items(), ("config.json", b"{}")])
    with pytest.raises(CorruptFileError, match="a file is in the archive twice"):
        tfsmith.load(twice)
    bomb = made("bomb.keras", [*[*members.items()][:2], ("model.weights.h5", bytes(70_000_000))], zipfile.ZIP_DEFLATED)
    with pytest.raises(TfsmithError):
        tfsmith.load(bomb)
    large = made("large.keras", [("config.json", b" " * 70_000_000), ("metadata.json", b"{}")], zipfile.ZIP_DEFLATED)
    with pytest.raises(LimitError, match="more than any real one"):
        tfsmith.load(large)
    lone = made("lone.keras", [("config.json", members["config.json"]), ("metadata.json", b"{}")])
    with pytest.raises(UnsupportedError, match=r"the archive has no model\.weights\.h5"):
        tfsmith.load(lone)


@pytest.mark.slow
def test_damaged_files_raise_errors_of_ours(tmp_path: Path) -> None:
    """Cut anywhere, or with bytes changed in their structure: an error, or weights, and no other exception."""
    data = lzma.decompress((DATA / "keras-1.2.h5.xz").read_bytes())
    random = numpy.random.default_rng(3)
    path = tmp_path / "m.h5"
    for number in range(60):
        bad = bytearray(data[: int(random.integers(100, len(data)))] if number % 2 else data)
        for at in random.integers(0, len(bad), 6):
            bad[at] = int(random.integers(0, 256))
        path.write_bytes(bytes(bad))
        try:
            for tensor in tfsmith.load(path).variables.values():
                tensor.numpy()
        except TfsmithError:
            continue


def test_what_needs_a_graph_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(tmp_path, "keras-1.2.h5")
    for verb in (["freeze", str(path), "-o", str(tmp_path / "f.pb")], ["run", str(path)], ["show", str(path), "--ops"]):
        assert main(verb) == 2
        told = capsys.readouterr().err
        assert "a Keras file holds layers and weights, but no graph" in told
        assert "export a SavedModel with Keras (model.export)" in told
        assert told.count("\n") == 1


def test_show_and_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(tmp_path, "keras-2.2.h5")
    assert main(["show", str(path)]) == 0
    told = capsys.readouterr().out
    for words in (
        "Keras model (.h5)",
        "Keras 2.2.4, backend tensorflow",
        "Sequential 'sequential_1', 5 layers",
        "optimizer Adam, learning rate 0.001, loss mse",
        "conv2d_1               Conv2D              kernel [3, 3, 1, 4], bias [4]",
        "are an optimizer's",
    ):
        assert words in told
    assert tfsmith.scan(path)
    assert main(["scan", str(path)]) == 0
    assert "5 layers looked at" in capsys.readouterr().out
    config = json.loads(keras_of(path).config)
    config["config"]["layers"][2] = {
        "class_name": "Lambda",
        "config": {"name": "l", "function": ["4wEAAA==", None, None]},
    }
    config["config"]["layers"][4]["class_name"] = "MyDense"
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = json.dumps(config)
    found = [(one.level, one.what) for one in tfsmith.scan(path).findings]
    assert ("dangerous", "Lambda layer 'l' holds compiled Python code") in found
    assert ("note", "layer 'answers' is of the user's own class 'MyDense'") in found
    assert main(["show", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["keras"]["runs_code"]) == 2


def test_without_h5py_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(tmp_path, "keras-1.2.h5")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'tfsmith\[keras\]'"):
        tfsmith.load(path)


def test_compare_does_not_call_other_weights_equal(tmp_path: Path) -> None:
    path = unpacked(tmp_path, "tf-keras-2.19.h5")
    values = {name: tensor.numpy() for name, tensor in tfsmith.load_weights(path, training=False).items()}
    changed = {f"other/{name}": value for name, value in values.items()}
    tfsmith.save_weights(changed, tmp_path / "same.npz")
    assert {
        one.verdict
        for one in tfsmith.compare_weights(tfsmith.load_weights(path, training=False), tmp_path / "same.npz")
    } == {"same"}
    name = "other/answers/kernel"
    changed[name] = changed[name] + numpy.float32(1e-3)
    tfsmith.save_weights(changed, tmp_path / "other.npz")
    found = tfsmith.compare_weights(tfsmith.load_weights(path, training=False), tmp_path / "other.npz")
    assert [one.verdict for one in found if one.verdict != "same"] == ["differs"]


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved_models")
    with tarfile.open(DATA / "tf-keras-2.19.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_the_metadata_of_a_saved_model(saved_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Layers inside of layers have their weights; a Lambda and a layer of the user's own are named, metrics are not."""
    assert main(["show", str(saved_models / "functional"), "--layers"]) == 0
    assert (
        capsys.readouterr().out
        == """\
Keras
  written by  Keras 2.19.0, backend tensorflow
  model       Functional 'model', 7 layers
  training    optimizer Custom>Adam, learning rate 0.001, loss mse
  runs code   Lambda layer 'twice' holds compiled Python code
  runs code   layer 'own' is of the user's own class 'Scale'

layers
  name                      class                   weights                        parameters
  input_1                   InputLayer
  first                     Conv2D                  kernel [3, 3, 1, 4], bias [4]          40
  global_average_pooling2d  GlobalAveragePooling2D
  inner                     Sequential                                                     42
    wide_input              InputLayer
    wide                    Dense                   kernel [4, 6], bias [6]                30
    deepest                 Sequential                                                     12
      norm_input            InputLayer
      norm                  LayerNormalization      gamma [6], beta [6]                    12
  twice                     Lambda
  own                       Scale                   scale [6]                               6
  answers                   Dense                   kernel [6, 2], bias [2]                14
"""
    )
    assert {one.what for one in tfsmith.scan(saved_models / "functional").findings} == {
        "Lambda layer 'twice' holds compiled Python code",
        "layer 'own' is of the user's own class 'Scale'",
    }
    assert main(["show", str(saved_models / "subclassed"), "--layers", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["keras"]
    assert [(row["name"], row["class"], row["parameters"]) for row in facts["layers"]] == [
        ("inside", "Dense", 15),
        ("answers", "Dense", 8),
    ]
    assert facts["runs_code"] == ["layer 'net' is of the user's own class 'Net'"]


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Path, Path]:
    """A model, and the same with one weight changed, as the frozen names of an export have it."""
    path = unpacked(tmp_path, "tf-keras-2.19.h5")
    values = {name: tensor.numpy() for name, tensor in tfsmith.load_weights(path, training=False).items()}
    values["answers/kernel"] = values["answers/kernel"] + numpy.float32(0.5)
    exported = {f"{name}_1": value for name, value in values.items()}
    exported["Variable_7"] = values["answers/kernel"]  # the copy that Keras 3 exports beside it
    tfsmith.save_weights(exported, tmp_path / "exported.npz")
    return path, tmp_path / "exported.npz"


def test_names_with_a_number_are_paired_though_values_differ(trained: tuple[Path, Path]) -> None:
    path, exported = trained
    found = tfsmith.compare_weights(tfsmith.load_weights(path, training=False), exported)
    assert len(found) == 12
    differing = {one.name: one.max_difference for one in found if one.verdict == "differs"}
    assert set(differing) == {"answers/kernel = answers/kernel_1", "answers/kernel = answers/kernel_1 = Variable_7"}
    assert list(differing.values()) == pytest.approx([0.5, 0.5])
    assert sum(one.verdict == "same" for one in found) == 10


def test_names_with_other_scopes_are_paired_though_values_differ(tmp_path: Path) -> None:
    path = unpacked(tmp_path, "tf-keras-2.19.h5")
    first = tfsmith.load_weights(path, training=False)
    tfsmith.save_weights(
        {f"model/{name}": tensor.numpy() + 1 for name, tensor in first.items()}, tmp_path / "other.npz"
    )
    found = tfsmith.compare_weights(first, tmp_path / "other.npz")
    assert {one.name for one in found} == {f"{name} = model/{name}" for name in first}
    assert {one.verdict for one in found} == {"differs"}


def test_diff_pairs_weights_as_compare_does(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path, exported = trained
    archive = unpacked(path.parent, "tf-keras-2.19.keras")
    found = tfsmith.diff(archive, path)
    assert {one.name.partition("/")[0] for one in found.weights} <= {"optimizer", "optimizer_weights", "metrics"}
    changed = tfsmith.diff(exported, path)
    names = {one.name for one in changed.weights if one.verdict == "differs"}
    assert names == {"answers/kernel_1 = answers/kernel", "answers/kernel_1 = answers/kernel = Variable_7"}
    assert main(["diff", str(path), str(path)]) == 0
    assert "no difference" in capsys.readouterr().out


def test_a_page_of_a_keras_file(tmp_path: Path) -> None:
    path = unpacked(tmp_path, "tf-keras-2.19.keras")
    model = tfsmith.load(path)
    facts = page_data(model)
    assert facts["summary"]["title"] == "Keras model (.keras)"
    assert {one["name"] for one in facts["variables"]} == set(model.variables)
    assert main(["view", str(path), "-o", str(tmp_path / "page.html"), "--scan", "--weights"]) == 0
    other = unpacked(tmp_path, "tf-keras-2.19.h5")
    assert view_model(path, diff=other, out=tmp_path / "both.html").overlays
    assert sorted(made.name for made in tmp_path.glob("*.html")) == ["both.html", "page.html"]


def test_converting_says_what_is_written_and_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(tmp_path, "tf-keras-2.19.keras")
    for ending, word in ((".h5", "weights"), (".npz", "weights"), (".ckpt", "checkpoint")):
        assert main(["convert", str(path), "-o", str(tmp_path / f"made{ending}")]) == 0
        assert f"({word}, " in capsys.readouterr().out
    for name in ("model.pb", "folder", "model.meta"):
        assert main(["convert", str(path), "-o", str(tmp_path / name)]) == 2
        assert "holds layers and weights, but no graph to convert; export a SavedModel" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
