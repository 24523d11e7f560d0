"""Spans are checked; outputs appear whole or not at all; copies inside the kernel equal those through memory."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
import pytest
from tests.support import planted
from tests.support.helpers import files_of, graph_def, node_def, somebody, write_files

import tfsmith
from tfsmith import storage as storage_module
from tfsmith.errors import OutputError, TruncatedFileError, UnreadableFileError, UsageError
from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.storage import (
    FileSink,
    FileSource,
    Span,
    crc32c,
    extend,
    from_bytes,
    mask,
    open_file,
    span_crc32c,
    stream_crc32c,
    unmask,
)
from tfsmith.storage.place import Output, write_file

LARGE = bytes(range(256)) * 4096  # a mebibyte: more than what is gathered in memory
HEAD = b"head" * 1024
"""A page: what follows lies in the new file as in the old one."""


# Sources and spans


def test_span_is_checked() -> None:
    span = from_bytes(b"0123456789", "f.bin")
    assert span.sub(2, 5).tobytes() == b"234"
    assert span.sub(2, 8).sub(1, 3).tobytes() == b"34"
    assert bytes(span.sub(3, 3).view()) == b""
    with pytest.raises(TruncatedFileError, match=r"f\.bin, byte 4: the name reaches to byte 11, past the end"):
        span.sub(4, 11, "the name")
    for start, stop in [(-1, 2), (5, 4), (0, 11)]:
        with pytest.raises(TruncatedFileError, match=r"f\.bin, byte"):
            span.sub(start, stop)
        with pytest.raises(TruncatedFileError, match="but the file ends at 10"):
            Span(span.source, start, stop)


def test_inner_span_does_not_reach_out_of_its_parent() -> None:
    inner = from_bytes(b"0123456789").sub(2, 6)
    with pytest.raises(TruncatedFileError):
        inner.sub(0, 5)
    with pytest.raises(TruncatedFileError):
        inner.sub(-2, 1)


@pytest.mark.parametrize("data", [b"", b"x", LARGE])
def test_file_is_mapped(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    span = open_file(tmp_path / "f")
    assert len(span) == len(data)
    assert span.tobytes() == data
    assert b"".join(span.chunks(1000)) == data
    assert max((len(chunk) for chunk in span.chunks(1000)), default=0) <= 1000
    assert span.view().readonly
    assert span_crc32c(span) == stream_crc32c(span) == crc32c(data)


def test_pieces_of_a_large_file(tmp_path: Path) -> None:
    """They are read in another way than those of a small one."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(40_000_000)  # takes no space
        file.seek(20_000_000)
        file.write(LARGE)
    span = open_file(tmp_path / "f")
    assert span.sub(20_000_000, 20_000_000 + len(LARGE)).tobytes() == LARGE
    assert span.sub(19_999_999, 20_000_003).tobytes() == b"\x00\x00\x01\x02"
    assert span.sub(40_000_000, 40_000_000).tobytes() == b""
    assert b"".join(span.sub(20_000_010, 20_500_000).chunks()) == LARGE[10:500_000]
    assert span_crc32c(span.sub(20_000_000, 20_000_000 + len(LARGE))) == crc32c(LARGE)


def test_file_stays_readable_when_its_name_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(LARGE)
    span = open_file(path)
    path.unlink()
    assert span.tobytes() == LARGE
    assert b"".join(span.chunks()) == LARGE


def test_descriptors_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_SMALL_FILE", 0)
    (tmp_path / "f").write_bytes(b"x")
    source = FileSource(tmp_path / "f")
    descriptor = source.fileno()
    assert descriptor is not None
    os.fstat(descriptor)
    del source
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="this is a folder; pass the path of a file"):
        open_file(tmp_path)
    with pytest.raises(UnreadableFileError, match="there is no such file; check the path"):
        open_file(tmp_path / "gone")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    def wake(number: int, frame: FrameType | None) -> None:
        raise AssertionError("waited for a named pipe")

    os.mkfifo(tmp_path / "pipe")
    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(10)
    try:
        with pytest.raises(UnreadableFileError, match="not a regular file"):
            open_file(tmp_path / "pipe")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_file_without_permission(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(0)
    with somebody(), pytest.raises(UnreadableFileError, match="check its permissions"):
        open_file(tmp_path / "f")


def test_checksums() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert extend(crc32c(b"1234"), b"56789") == 0xE3069283
    for value in (0, 1, 0xFFFFFFFF, 0xE3069283):
        assert unmask(mask(value)) == value
    assert span_crc32c(from_bytes(b"56789"), crc32c(b"1234")) == 0xE3069283


# Sinks


def _mixed(sink: FileSink, span: Span) -> bytes:
    """Writes of all sizes, in an order that mixes them."""
    sink.write(HEAD)
    sink.write_span(span)
    sink.write_span(span.sub(10, 20))
    sink.write(LARGE[:300_000])
    sink.write_span(span.sub(1, 600_001))
    sink.write(b"")
    sink.write(b"tail")
    data = span.tobytes()
    return HEAD + data + data[10:20] + LARGE[:300_000] + data[1:600_001] + b"tail"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Span:
    monkeypatch.setattr(storage_module, "_SMALL_FILE", 0)
    (tmp_path / "source").write_bytes(LARGE)
    return open_file(tmp_path / "source")


def _copy(path: Path, head: bytes, span: Span) -> None:
    with FileSink(path) as sink:
        sink.write(head)
        sink.write_span(span)


@pytest.mark.parametrize("size", [len(LARGE) - 1, 1000, 0])
def test_a_file_that_shrinks_is_an_error(tmp_path: Path, source: Span, size: int) -> None:
    """To look into the map of a file that was cut off would end this process (SIGBUS)."""
    os.truncate(tmp_path / "source", size)
    says = r"source, byte \d+: the file became shorter while it was in use; let nothing write to it, and begin again"
    with pytest.raises(TruncatedFileError, match=says):
        source.view()
    with pytest.raises(TruncatedFileError, match=says):
        source.tobytes()
    with pytest.raises(TruncatedFileError, match=says):
        span_crc32c(source)
    for head in (b"", b"head"):
        with pytest.raises(TruncatedFileError, match=says):
            _copy(tmp_path / "out", head, source)
    assert not (tmp_path / "out").exists()


def test_a_small_file_is_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    span = open_file(tmp_path / "f")
    os.truncate(tmp_path / "f", 0)
    assert (span.tobytes(), bytes(span.view()), span.source.fileno()) == (b"data", b"data", None)


def test_values_of_a_file_that_shrinks_are_an_error(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "m", {"w": ArrayTensor.of(numpy.ones((1 << 21,), "f4"))})
    model = tfsmith.load(tmp_path / "m")
    os.truncate(tmp_path / "m.data-00000-of-00001", 1 << 20)
    with pytest.raises(TruncatedFileError):
        model.variables["w"].numpy()
    for name in ("out.ckpt", "out.npz", "out.safetensors"):
        with pytest.raises(TruncatedFileError):
            tfsmith.save(model, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.data-00000-of-00001", "m.index"]


def test_kernel_copy_equals_copy_through_memory(tmp_path: Path, source: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    real = storage_module._copy_in_kernel

    def count(descriptor: int, target: int, start: int, length: int) -> int:
        copied.append(real(descriptor, target, start, length))
        return copied[-1]

    monkeypatch.setattr(storage_module, "_copy_in_kernel", count)
    with FileSink(tmp_path / "kernel") as sink:
        expected = _mixed(sink, source)
        assert sink.tell() == len(expected)
    assert len(copied) == 1  # the other does not lie alike
    monkeypatch.setattr(storage_module, "_copy_in_kernel", lambda *arguments: 0)
    with FileSink(tmp_path / "memory") as sink:
        _mixed(sink, source)
    assert (tmp_path / "kernel").read_bytes() == expected
    assert (tmp_path / "memory").read_bytes() == expected


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM])
@pytest.mark.parametrize("first", [0, 123_456])
def test_copy_goes_on_where_the_kernel_stops(
    tmp_path: Path, source: Span, number: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may refuse at once, or after some bytes, or give fewer than were asked for."""
    calls: list[int] = []

    def copy(descriptor: int, target: int, count: int, offset: int) -> int:
        calls.append(count)
        if len(calls) > 1 or not first:
            raise OSError(number, "refused")
        return os.write(target, os.pread(descriptor, first, offset))

    monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    with FileSink(tmp_path / "out") as sink:
        sink.write(HEAD)
        sink.write_span(source)
        sink.write(b"tail")
        assert sink.tell() == len(HEAD) + len(LARGE) + 4
    assert calls
    assert (tmp_path / "out").read_bytes() == HEAD + LARGE + b"tail"


@pytest.mark.parametrize("most", [0, 1000, 1 << 30])
def test_a_copy_by_a_buffer_goes_on_where_reading_stops(
    tmp_path: Path, source: Span, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the pages of two files do not lie alike. The system may read less than was asked for, or nothing."""
    real, counts = os.preadv, []

    def read(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        counts.append(real(descriptor, [buffers[0][:most]], offset) if most else 0)
        return counts[-1]

    monkeypatch.setattr(os, "preadv", read)
    monkeypatch.setattr(os, "copy_file_range", lambda *arguments: pytest.fail("copied in the kernel"), raising=False)
    with FileSink(tmp_path / "out") as sink:
        sink.write(b"head")
        sink.write_span(source)
        sink.write(b"tail")
        assert sink.tell() == len(LARGE) + 8
    assert sum(counts) == (len(LARGE) if most else 0)
    assert (tmp_path / "out").read_bytes() == b"head" + LARGE + b"tail"


def test_a_copy_without_preadv(tmp_path: Path, source: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "preadv")
    with FileSink(tmp_path / "out") as sink:
        sink.write(b"head")
        sink.write_span(source)
    assert (tmp_path / "out").read_bytes() == b"head" + LARGE


def test_copy_ends_when_the_kernel_gives_nothing(tmp_path: Path, source: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *arguments: 0, raising=False)
    with FileSink(tmp_path / "out") as sink:
        sink.write_span(source)
    assert (tmp_path / "out").read_bytes() == LARGE


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:1000]))
    write_file(tmp_path / "out", LARGE, force=True)
    assert (tmp_path / "out").read_bytes() == LARGE


# Outputs that appear whole or not at all


class _Trouble(Exception):
    pass


def _write_set(folder: Path, *names: str, trouble: bool = False) -> None:
    others = re.compile("|".join(names))
    with Output(folder / names[0], force=True, others=others) as output:
        for name in names:
            with FileSink(output.aside.with_name(name)) as sink:
                sink.write(b"new " + name.encode())
        if trouble:
            raise _Trouble


def _write_then_fail(path: Path) -> None:
    with Output(path, force=True) as output, FileSink(output.aside) as sink:
        sink.write(LARGE)
        raise _Trouble


def _make_then_fail(folder: Path) -> None:
    with Output(folder, force=True, folder=True) as output:
        output.aside.mkdir()
        (output.aside / "f").write_bytes(b"x")
        raise _Trouble


def test_file_appears_only_at_the_end(tmp_path: Path) -> None:
    with Output(tmp_path / "out") as output, FileSink(output.aside) as sink:
        sink.write(LARGE)
        assert not (tmp_path / "out").exists()
    assert files_of(tmp_path) == {"out": LARGE}


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(_Trouble):
        _write_then_fail(tmp_path / "out")
    assert files_of(tmp_path) == {"out": b"old"}


def _full(number: int) -> Any:
    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_full_disk_leaves_the_old_file_and_says_so(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_bytes(b"old")
    monkeypatch.setattr(os, call, _full(errno.ENOSPC))
    with pytest.raises(OutputError) as caught:
        write_file(tmp_path / "out", LARGE, force=True)
    monkeypatch.undo()
    expected = (
        f"{tmp_path / 'out'}: cannot be written (No space left on device); free some space or choose another disk"
    )
    assert str(caught.value) == expected
    assert files_of(tmp_path) == {"out": b"old"}


def test_full_disk_while_the_kernel_copies(tmp_path: Path, source: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", _full(errno.ENOSPC), raising=False)
    with pytest.raises(OutputError, match="free some space"), FileSink(tmp_path / "out") as sink:
        sink.write_span(source)
    assert sorted(files_of(tmp_path)) == ["source"]


def test_rename_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", _full(errno.EACCES))
    with pytest.raises(OutputError, match=r"check the permissions|check the path"):
        write_file(tmp_path / "out", b"new", force=True)
    monkeypatch.undo()
    assert files_of(tmp_path) == {"out": b"old"}


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="the output is an existing folder; pass the name of a file"):
        write_file(tmp_path / "folder", b"")
    with pytest.raises(OutputError, match="the output's folder does not exist; make it first"):
        write_file(tmp_path / "none" / "out", b"")
    with pytest.raises(OutputError, match="the output exists and is no file"):
        write_file("/dev/null", b"")
    with pytest.raises(OutputError, match="the output exists and is no file"):
        write_file("/dev/null", b"", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_longest_name_that_a_file_may_have(tmp_path: Path) -> None:
    name = "n" * 255
    write_file(tmp_path / name, b"data")
    assert files_of(tmp_path) == {name: b"data"}


def test_set_of_files_is_whole_or_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"old a"})
    with pytest.raises(_Trouble):
        _write_set(tmp_path, "a", "b", trouble=True)
    assert files_of(tmp_path) == {"a": b"old a"}
    _write_set(tmp_path, "a", "b")
    assert files_of(tmp_path) == {"a": b"new a", "b": b"new b"}


@pytest.mark.parametrize("links", [True, False])
def test_set_of_files_comes_back_when_a_rename_fails(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file is in its place already when the third cannot be moved there."""
    write_files(tmp_path, {"a": b"old a", "c": b"old c"})
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "c" and self.read_bytes() == b"new c":
            raise PermissionError(errno.EPERM, "no")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    if not links:
        monkeypatch.setattr(os, "link", _full(errno.EPERM))
    with pytest.raises(OutputError, match="c: cannot be written"):
        _write_set(tmp_path, "a", "b", "c")
    assert files_of(tmp_path) == {"a": b"old a", "c": b"old c"}


def test_folder_is_whole_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(_Trouble):
        _make_then_fail(target)
    assert list(tmp_path.iterdir()) == []
    with Output(target, folder=True) as output:
        write_files(output.aside, {"f": b"x"})
        assert not target.exists()
    assert files_of(tmp_path) == {"out/f": b"x"}


def test_existing_folder_is_only_replaced_when_asked(tmp_path: Path) -> None:
    write_files(tmp_path / "out", {"f": b"old"})
    with pytest.raises(OutputError, match="the output exists already; choose another, or pass force=True"):
        Output(tmp_path / "out", folder=True).check()
    with Output(tmp_path / "out", folder=True, force=True) as output:
        write_files(output.aside, {"g": b"new"})
    assert files_of(tmp_path) == {"out/g": b"new"}
    with pytest.raises(_Trouble):
        _make_then_fail(tmp_path / "out")
    assert files_of(tmp_path) == {"out/g": b"new"}


def test_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with Output(tmp_path / "out", folder=True) as output:
        write_files(output.aside, {"f": b"x"})
    assert files_of(tmp_path) == {"out/f": b"x"}


def test_old_folder_comes_back_when_the_new_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "out", {"f": b"old"})
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if (self / "g").exists():
            raise OSError(errno.EACCES, "no")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(
        "tfsmith.storage.place._exchange", lambda one, other: False
    )  # a system that cannot do it in one step
    with pytest.raises(OutputError), Output(tmp_path / "out", folder=True, force=True) as output:
        write_files(output.aside, {"g": b"new"})
    assert files_of(tmp_path) == {"out/f": b"old"}


# Models


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"g.pb": graph_def([node_def("a", "NoOp")])}) / "g.pb"


def test_model_is_not_written_over_itself(graph_file: Path) -> None:
    model = tfsmith.load(graph_file)
    hard, soft = graph_file.with_name("hard.pb"), graph_file.with_name("soft.pb")
    os.link(graph_file, hard)
    soft.symlink_to(graph_file)
    before = files_of(graph_file.parent)
    for target in (graph_file, graph_file.parent / "." / "x" / ".." / "g.pb", hard, soft, graph_file.parent):
        with pytest.raises(OutputError):
            tfsmith.save(model, target)
    with pytest.raises(OutputError, match="the output is also the input; choose another name"):
        tfsmith.save(model, graph_file)
    assert files_of(graph_file.parent) == before


def test_checkpoint_is_not_written_over_itself(tmp_path: Path, graph_file: Path) -> None:
    planted.write_variables(tmp_path / "m")
    before = files_of(tmp_path)
    model = tfsmith.load(graph_file, checkpoint=tmp_path / "m")
    for target in ("m", "m.meta"):
        with pytest.raises(OutputError, match="the output is also the input"):
            tfsmith.save(model, tmp_path / target, format="meta")
    with pytest.raises(OutputError, match="the output is also the input"):
        tfsmith.save(model, tmp_path / "m", format="checkpoint")
    assert files_of(tmp_path) == before
    tfsmith.save(model, tmp_path / "other", format="checkpoint")


def test_meta_becomes_text_beside_a_copy_of_its_checkpoint(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"m.meta": planted.meta_graph()})
    planted.write_variables(tmp_path / "in/m")
    before = files_of(tmp_path)
    model = tfsmith.load(tmp_path / "in/m.meta")
    with pytest.raises(OutputError, match="the output is also the input"):
        tfsmith.save(model, tmp_path / "in/m.pbtxt", format="keep")
    assert files_of(tmp_path) == before
    (tmp_path / "out").mkdir()
    tfsmith.save(model, tmp_path / "out/m.pbtxt", format="meta")
    again = tfsmith.load(tmp_path / "out/m.pbtxt")
    assert (again.kind, len(again.graph), sorted(again.variables)) == ("metagraph", 5, sorted(model.variables))


def test_saved_model_is_not_written_over_itself(tmp_path: Path) -> None:
    folder = planted.write_saved_model(tmp_path / "models/1")
    before = files_of(tmp_path)
    model = tfsmith.load(folder)
    for target in (folder, folder.parent, tmp_path, folder / "saved_model.pb", folder / "assets"):
        with pytest.raises(OutputError):
            tfsmith.save(model, target, force=True)
        with pytest.raises(OutputError):
            tfsmith.save(model, target, force=True, format="pb")
    assert files_of(tmp_path) == before


def test_only_a_saved_model_is_replaced_by_one(tmp_path: Path) -> None:
    model = tfsmith.load(planted.write_saved_model(tmp_path / "model"))
    write_files(tmp_path / "home", {"letter.txt": b"dear"})
    with pytest.raises(OutputError, match="the folder exists and is no SavedModel, so it is not replaced"):
        tfsmith.save(model, tmp_path / "home", force=True)
    assert files_of(tmp_path / "home") == {"letter.txt": b"dear"}
    tfsmith.save(model, tmp_path / "copy")
    write_files(tmp_path / "copy", {"stale": b""})
    with pytest.raises(OutputError, match="pass force=True"):
        tfsmith.save(model, tmp_path / "copy")
    tfsmith.save(model, tmp_path / "copy", force=True)
    assert files_of(tmp_path / "copy") == files_of(tmp_path / "model")


def test_file_that_is_mapped_elsewhere_may_be_replaced(tmp_path: Path, graph_file: Path) -> None:
    """Who has the old file open still sees the old bytes."""
    large = graph_def([node_def("big", "NoOp", attrs={"v": b"\x12" + b"\x90\x4e" + b"x" * 10_000})])
    (tmp_path / "other.pb").write_bytes(large)
    other = tfsmith.load(tmp_path / "other.pb")
    tfsmith.save(tfsmith.load(graph_file), tmp_path / "other.pb", force=True)
    assert (tmp_path / "other.pb").read_bytes() == graph_file.read_bytes()
    assert other.graph["big"].get("v") == b"x" * 10_000
    tfsmith.save(other, tmp_path / "again.pb")
    assert (tmp_path / "again.pb").read_bytes() == large


@pytest.mark.parametrize(
    ("name", "format"),
    [("out.pb", "pb"), ("out.pbtxt", "pbtxt"), ("out", "saved_model"), ("out.meta", "meta"), ("out", "checkpoint")],
)
def test_no_format_leaves_anything_on_a_full_disk(
    tmp_path: Path, graph_file: Path, name: str, format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    planted.write_variables(tmp_path / "in/m")
    model = tfsmith.load(graph_file, checkpoint=tmp_path / "in/m")
    before = files_of(tmp_path)
    monkeypatch.setattr(os, "write", _full(errno.ENOSPC))
    with pytest.raises(OutputError, match="free some space"):
        tfsmith.save(model, tmp_path / name, format=format)
    monkeypatch.undo()
    assert files_of(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.pb", "in"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_places_without_permission(tmp_path: Path) -> None:
    model = tfsmith.load(graph_def([node_def("a", "NoOp")]))
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o500)
    try:
        for target in (tmp_path / "closed/out.pb", tmp_path / "closed/x/out.pb"):
            with somebody(), pytest.raises(OutputError, match=r"check the permissions|does not exist"):
                tfsmith.save(model, target)
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_strange_formats_and_places(tmp_path: Path, graph_file: Path) -> None:
    model = tfsmith.load(graph_file)
    with pytest.raises(OutputError, match=r"there is no format 'x'; use pb, pbtxt, meta, saved_model, checkpoint, npz"):
        tfsmith.save(model, tmp_path / "x", format="x")  # type: ignore[arg-type]
    with pytest.raises(OutputError, match=r"only convert writes ONNX, to a name that ends in \.onnx; use \.pb"):
        tfsmith.save(model, tmp_path / "x", format="onnx")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the model has no variables, so it cannot become a checkpoint"):
        tfsmith.save(model, tmp_path / "x", format="checkpoint")
    for place in (".", "/"):
        with pytest.raises(OutputError):
            tfsmith.save(model, place)


def test_graph_over_two_gibibytes_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    from tfsmith.errors import LimitError
    from tfsmith.ir.graph import Graph
    from tfsmith.ir.node import Node
    from tfsmith.ir.tensor import SpanTensor
    from tfsmith.ir.types import Shape, dtype_named

    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(2**31)  # takes no space
    tensor = SpanTensor(dtype_named("uint8"), Shape((2**31,)), open_file(path))
    model = tfsmith.load(graph_def([node_def("a", "NoOp")]))
    model = model.replace_graph(Graph((Node("huge", "Const", attrs={"value": tensor, "dtype": tensor.dtype}),)))
    for name, form in (("out.pb", "pb"), ("out.meta", "meta"), ("out", "saved_model")):
        with pytest.raises(
            LimitError, match="no program can read a message over 2 GiB; keep the weights in a checkpoint"
        ):
            tfsmith.save(model, tmp_path / name, format=form)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["huge"]
