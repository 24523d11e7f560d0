"""Models on stores and in archives: what is read, how much of it, and what is refused."""

from __future__ import annotations

import functools
import io
import re
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.formats.checkpoint.writer import _write_index
from tfsmith.storage import crc32c, mask
from tfsmith.testing.half_plus import write_half_plus
from tfsmith.wire import new

pytestmark = pytest.mark.slow

GIB = 2**30
FEEDS = {"x": [[1.0], [2.0]]}
WANTED = [[2.5], [3.0]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_half_plus(tmp_path_factory.mktemp("models") / "half_plus_two", 2.0)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 10 GiB, whose data file is a hole."""
    folder = tmp_path_factory.mktemp("large")
    index: dict[bytes, bytes] = {}
    for number in range(10):
        entry = new("BundleEntryProto")
        entry.dtype, entry.offset, entry.size = 1, number * GIB, GIB
        entry.shape.dim.add(size=GIB // 4)
        index[f"layer_{number}/kernel".encode()] = entry.SerializeToString()
    entry = new("BundleEntryProto")
    entry.dtype, entry.offset, entry.size, entry.crc32c = 3, 10 * GIB, 4, mask(crc32c(bytes(4)))
    index[b"step"] = entry.SerializeToString()
    _write_index(folder / "model.ckpt-7.index", 1, index)
    with open(folder / "model.ckpt-7.data-00000-of-00001", "wb") as file:
        file.truncate(10 * GIB + 4)
    return folder


class Ranged(SimpleHTTPRequestHandler):
    """A server that knows ranges, and counts what it sends."""

    sent = 0

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, stop = (int(asked[1]), min(int(asked[2] or size - 1), size - 1) + 1) if asked else (0, size)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        type(self).sent += len(data)
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def http(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Serves a folder: call it with the folder, and get its address and the handler that counts."""
    servers: list[ThreadingHTTPServer] = []

    def serve(folder: Path) -> tuple[str, type[Ranged]]:
        handler = type("Counting", (Ranged,), {"sent": 0})
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", handler

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_show_of_ten_gigabytes_over_http_reads_less_than_one_megabyte(large: Path, http: Any) -> None:
    url, handler = http(large)
    text = str(tfsmith.show(f"{url}/model.ckpt-7"))
    assert "10.0 GB" in text or "10 GB" in text or "10.7 GB" in text, text
    assert url in text
    assert "tfsmith-mounts" not in text
    assert 0 < handler.sent < 2**20


def test_only_the_weights_that_are_asked_for_are_read(large: Path, http: Any) -> None:
    url, handler = http(large)
    opened = tfsmith.load(f"{url}/model.ckpt-7")
    before = handler.sent
    assert opened.variables["step"].numpy().item() == 0
    assert 0 < handler.sent - before < 2**19


def test_a_saved_model_runs_from_http(model: Path, http: Any) -> None:
    url, _ = http(model.parent)
    assert tfsmith.run(f"{url}/half_plus_two", FEEDS)["y"].tolist() == WANTED
    assert tfsmith.run(f"{url}/half_plus_two/saved_model.pb", FEEDS)["y"].tolist() == WANTED


def test_reading_and_writing_in_memory(model: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.put(str(model), "/models/a", recursive=True)
    assert tfsmith.run("memory://models/a", FEEDS)["y"].tolist() == WANTED
    tfsmith.freeze("memory://models/a", outputs=["y"]).save("memory://models/frozen.pb")
    assert tfsmith.run("memory://models/frozen.pb", FEEDS, outputs=["y"])["y"].tolist() == WANTED
    with pytest.raises(TfsmithError, match="exists already"):
        tfsmith.freeze("memory://models/a", outputs=["y"]).save("memory://models/frozen.pb")
    for inside in ("memory://models/a", "memory://models/a/b"):
        with pytest.raises(TfsmithError, match="also the input"):
            tfsmith.convert("memory://models/a", inside, as_="saved_model", force=True)
    tfsmith.convert("memory://models/a", "memory://models/b")
    assert tfsmith.run("memory://models/b", FEEDS)["y"].tolist() == WANTED


def test_file_urls_are_paths_of_this_machine(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "frozen.pb"
    tfsmith.freeze(model.as_uri(), outputs=["y"]).save(out.as_uri())
    assert tfsmith.run(out.as_uri(), FEEDS, outputs=["y"])["y"].tolist() == WANTED
    before = out.read_bytes()
    with pytest.raises(TfsmithError, match="also the input"):
        tfsmith.freeze(out, outputs=["y"]).save(out.as_uri(), force=True)
    assert out.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["frozen.pb"]


def test_an_upload_that_fails_leaves_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    real = type(store).put_file

    def put_file(self: Any, source: str, target: str, **more: Any) -> None:
        if target.endswith("saved_model.pb"):
            raise OSError("the store is full")
        real(self, source, target, **more)

    monkeypatch.setattr(type(store), "put_file", put_file)
    with pytest.raises(TfsmithError, match="the store is full"):
        tfsmith.convert(model, "memory://full/model")
    assert store.find("/full") == []
    store.pipe("/full/model/saved_model.pb", b"the old one")
    with pytest.raises(TfsmithError, match="the store is full"):
        tfsmith.convert(model, "memory://full/model", force=True)
    assert store.cat("/full/model/saved_model.pb") == b"the old one"


def test_a_url_that_was_written_is_told_as_it_was_given(model: Path) -> None:
    found = tfsmith.freeze(model, out="memory://told/frozen.pb")
    assert "Wrote memory://told/frozen.pb" in str(found)
    assert found.to_json()["output"] == "memory://told/frozen.pb"


@pytest.mark.parametrize("form", ["zip", "tar", "gztar"])
@pytest.mark.parametrize("deep", [False, True])
def test_archives_open_as_what_they_hold(model: Path, tmp_path: Path, form: str, deep: bool) -> None:
    archive = shutil.make_archive(
        str(tmp_path / "model"), form, model.parent if deep else model, model.name if deep else "."
    )
    assert tfsmith.run(archive, FEEDS)["y"].tolist() == WANTED
    assert archive in str(tfsmith.show(archive))
    if form == "zip":
        inside = f"zip://{model.name}" if deep else "zip://"
        assert tfsmith.run(f"{inside}::{archive}", FEEDS)["y"].tolist() == WANTED
    elif deep:
        assert tfsmith.run(f"tar://{model.name}::{archive}", FEEDS)["y"].tolist() == WANTED


@pytest.mark.parametrize("name", ["../evil.pb", "/evil.pb", "a/../../evil.pb", "a\\..\\evil.pb"])
def test_members_that_would_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as made:
        info = zipfile.ZipInfo("x")
        info.filename = name
        made.writestr(info, b"x")
    with tarfile.open(tmp_path / "evil.tar", "w") as made_tar:
        member = tarfile.TarInfo(name)
        member.size = 1
        made_tar.addfile(member, io.BytesIO(b"x"))
    for ending in ("zip", "tar"):
        if ending == "zip" and name.startswith("a\\"):
            continue  # zipfile itself takes these for slashes on some systems
        with pytest.raises(TfsmithError, match="would leave the folder"):
            tfsmith.load(tmp_path / f"evil.{ending}")
    assert not (tmp_path.parent / "evil.pb").exists()


def test_links_in_archives_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret.pb").write_bytes(b"secret")
    with tarfile.open(tmp_path / "model.tar", "w") as made:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"saved_model{kind.decode()}.pb")
            link.type, link.linkname = kind, str(tmp_path / "secret.pb")
            made.addfile(link)
    with pytest.raises(TfsmithError, match="is empty"):
        tfsmith.load(tmp_path / "model.tar")


@pytest.mark.parametrize(
    "path",
    [
        "memory://nothing/here",
        "nosuch://x/y",
        "http://127.0.0.1:1/model",
        "zip://inside::nowhere.zip",
        "broken.zip",
        "broken.tar.gz",
    ],
)
def test_what_cannot_be_read_is_one_line(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("broken.zip", "broken.tar.gz"):
        Path(name).write_bytes(b"no archive")
    with pytest.raises(TfsmithError) as error:
        tfsmith.load(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_s3_and_a_fleet_over_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs and moto, which tfsmith[check-all] brings")
    import fsspec
    from moto.server import ThreadedMotoServer

    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        store = fsspec.filesystem("s3", endpoint_url=f"http://{host}:{port}")
        store.mkdir("bucket")
        store.put(str(model), "bucket/a", recursive=True)
        assert tfsmith.run("s3://bucket/a", FEEDS)["y"].tolist() == WANTED
        tfsmith.convert("s3://bucket/a", "s3://bucket/b")
        assert tfsmith.run("s3://bucket/b", FEEDS)["y"].tolist() == WANTED
        tfsmith.freeze("s3://bucket/a", outputs=["y"]).save("s3://bucket/frozen.pb")
        assert tfsmith.run("s3://bucket/frozen.pb", FEEDS, outputs=["y"])["y"].tolist() == WANTED
        with pytest.raises(TfsmithError):
            tfsmith.load("s3://no-such-bucket/a")

        monkeypatch.chdir(tmp_path)
        store.pipe("bucket/bad.pb", b"no model at all")
        store.mkdir("out")
        asked = {"outputs": ["y"], "out": "s3://out/frozen/{stem}.pb"}
        done = tfsmith.fleet("freeze", ["s3://bucket/**"], report="r.jsonl", options=asked)
        assert done.done == {"yes": 3, "error": 1}
        assert [name for name, _ in done.failed] == ["s3://bucket/bad.pb"]
        assert sorted(store.ls("out/frozen", detail=False)) == [
            f"out/frozen/{name}.pb" for name in ("a", "b", "frozen")
        ]
        store.put(str(model), "bucket/a2", recursive=True)
        store.pipe("bucket/bad.pb", b"another, with another etag")
        again = tfsmith.fleet("freeze", ["s3://bucket/**"], report="r.jsonl", options=asked)
        assert (again.done, again.skipped) == ({"yes": 1, "error": 1}, 3)
        assert {one.name for one in tmp_path.iterdir()} == {"r.jsonl", "r.html"}
    finally:
        server.stop()
