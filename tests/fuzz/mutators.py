"""Structure-aware mutations: what comes out is well-formed on the outside, with right checksums and lengths.

Each mutator takes the bytes of a file and a `Random`, and returns other bytes. A file that it cannot take apart any
more (for a mutant may be mutated again) gets blind damage.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import h5py
from tests.support.helpers import field
from tests.support.mutate import byte_mutations, confuse, mutate
from tests.support.riegeli_files import RiegeliWriter
from tests.support.table_files import block, raw_table, snappy_compress, table

from tfsmith.errors import TfsmithError
from tfsmith.formats.checkpoint.table import SortedTable
from tfsmith.formats.cpb.riegeli import RecordFile
from tfsmith.storage import from_bytes
from tfsmith.wire import parse

__all__ = [
    "Mutator", "blind", "bundle_index", "hdf5", "keras_archive", "keras_metadata", "message", "npz", "riegeli",
    "safetensors", "snappy_table", "tar_members", "text", "version_1", "zip_members",
]  # fmt: skip

Mutator = Callable[[bytes, Random], bytes]
_NUMBERS = (0, 1, -1, 2, 127, 128, 255, 2**16, 2**31 - 1, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), 10**30)
_WORDS = (
    "{",
    "}",
    "<",
    ">",
    ":",
    '"',
    "'",
    "[",
    "]",
    ",",
    ";",
    "#",
    "nan",
    "inf",
    "-",
    "0x",
    "1e999",
    "\\",
    "\0",
    "\ufeff",
)
_PATHS = ("..", "../../x", "/etc/passwd", "a/../../b", "C:\\x", "", ".", "a//b", "\0", "y" * 5000, "a\nb", "\x1b[31m")


def blind(data: bytes, random: Random) -> bytes:
    """Damage that knows nothing of the format."""
    return next(byte_mutations(data or b"\0", random, 1))


def message(name: str) -> Mutator:
    """Valid messages of this kind with changed fields."""

    def change(data: bytes, random: Random) -> bytes:
        try:
            found = parse(name, data)
        except TfsmithError:
            return blind(data, random)
        graphs = [found] if name == "GraphDef" else [found.graph_def] if name == "MetaGraphDef" else []
        graphs += [meta.graph_def for meta in getattr(found, "meta_graphs", ())]
        names = [node.name for graph in graphs for node in graph.node]
        names += [made.signature.name for graph in graphs for made in graph.library.function]
        for _ in range(random.choice((1, 1, 2, 5))):
            if graphs and random.random() < 0.5:
                confuse(random.choice(graphs), random)
            else:
                mutate(random.choice([found, *graphs]), random, names)
        return bytes(found.SerializeToString())

    return change


def text(data: bytes, random: Random) -> bytes:
    """Text whose words and numbers change places, are lost or become others."""
    words = re.findall(rb"\s+|[\w.+-]+|.", data, re.DOTALL)
    if not words:
        return blind(data, random)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, other = random.randrange(len(words)), random.randrange(len(words))
        choice = random.randrange(6)
        if choice == 0:
            words[at], words[other] = words[other], words[at]
        elif choice == 1:
            words[at] = b""
        elif choice == 2:
            words[at] = str(random.choice(_NUMBERS)).encode()
        elif choice == 3:
            words[at] = random.choice(_WORDS).encode()
        elif choice == 4:
            words[at:at] = words[other : other + random.randrange(1, 30)]
        else:
            words[at] = words[at][:500] * random.choice((2, 50, 2000))
    return b"".join(words)


def _entries(data: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return list(SortedTable(from_bytes(data)).entries())
    except TfsmithError:
        return None


def _change_entries(entries: list[tuple[bytes, bytes]], random: Random, names: Sequence[str]) -> None:
    """Changes the messages of a table, or its keys; the order stays."""
    at = random.randrange(len(entries))
    key, value = entries[at]
    kind = "BundleHeaderProto" if key == b"" else "BundleEntryProto"
    deed = random.random()
    if deed < 0.6:
        try:
            found = parse(kind, value)
        except TfsmithError:
            entries[at] = key, blind(value, random)
            return
        mutate(found, random, names)
        entries[at] = key, bytes(found.SerializeToString())
    elif deed < 0.7:
        entries[at] = key, blind(value, random)
    elif deed < 0.8 and len(entries) > 1:
        del entries[at]
    elif deed < 0.9:
        entries[at] = key, random.choice(entries)[1]
    else:
        entries.append((random.choice((key + b"\0", b"\xff\xfe", b"w" * 3000, b"\0\1" + key)), value))


def bundle_index(data: bytes, random: Random) -> bytes:
    """Indexes with right checksums and wrong contents: other entries, or another layout of their block."""
    entries = _entries(data)
    if not entries:
        return blind(data, random)
    for _ in range(random.choice((1, 1, 2, 3))):
        if entries:
            _change_entries(entries, random, ["layer/kernel", "part", "words"])
    whole = table(sorted(dict(entries).items()), restart_interval=random.choice((1, 2, 16)))
    if random.random() < 0.7:
        return whole
    contents = bytearray(whole[: max(1, whole.rfind(b"\0\0\0\0\0", 0, -60))])
    return raw_table([(b"\xff", blind(bytes(contents), random))])


def version_1(data: bytes, random: Random) -> bytes:
    """Checkpoints of version 1 with other slices, types and values."""
    entries = _entries(data)
    if not entries:
        return blind(data, random)
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(entries))
        key, value = entries[at]
        try:
            found = parse("SavedTensorSlices", value)
        except TfsmithError:
            continue
        mutate(found, random, ["f", "s", "cut"])
        entries[at] = key, bytes(found.SerializeToString())
    return table(sorted(dict(entries).items()))


def snappy_table(data: bytes, random: Random) -> bytes:
    """Tables with a compressed block: right checksums around any snappy stream."""
    entries = _entries(data)
    if not entries:
        return blind(data, random)
    packed = bytearray(snappy_compress(block(table(entries)[:-100])))
    for _ in range(random.choice((1, 1, 3))):
        at = random.randrange(len(packed))
        packed[at] = random.choice((0, 0xFF, 0xFE, 0xFD, 0xF0, packed[at] ^ 1 << random.randrange(8)))
    if random.random() < 0.2:
        packed[:1] = bytes((0xFF, 0xFF, 0xFF, 0xFF, random.choice((0x07, 0x0F, 0x01))))
    return raw_table([(b"\xff", bytes(packed))], kind=random.choice((1, 1, 1, 2, 0)))


def riegeli(data: bytes, random: Random) -> bytes:
    """Split SavedModels in sound Riegeli chunks, with other metadata or other records."""
    try:
        file = RecordFile(from_bytes(data))
        metadata = parse("ChunkMetadata", file.last().join())
        records = [file.record(chunk.offset).join().tobytes() for chunk in metadata.chunks][:100]
    except TfsmithError:
        return blind(data, random)
    deed = random.random()
    if deed < 0.5 and records:
        at = random.randrange(len(records))
        records[at] = message("SavedModel")(records[at], random)
    writer = RiegeliWriter()
    kind = random.choice((0, 0, 0, 0, ord("b"), ord("z"), ord("s"), 7))
    for record, chunk in zip(records, metadata.chunks, strict=False):
        chunk.offset, chunk.size = writer.records([record], kind)[0], len(record)
    if deed > 0.4:
        mutate(metadata, random, [])
    last = bytes(metadata.SerializeToString())
    if random.random() < 0.1:
        count = random.choice((0, 2, 70_000))  # the writer pads the file to as many bytes
        writer.chunk(random.choice("rtsmp"), last, count, random.choice((0, 1, len(last), 2**50)))
    else:
        writer.records([last])
    return bytes(writer.data)


def npz(data: bytes, random: Random) -> bytes:
    """Archives of arrays with other headers, sizes, names and compression."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, zlib.error):
        return blind(data, random)
    if not members:
        return blind(data, random)
    at = random.randrange(len(members))
    name, content = members[at]
    deed = random.randrange(5)
    if deed == 0:
        members[at] = random.choice((*_PATHS[:-2], "w.npy", "w")) or "x", content
    elif deed == 1:
        members.append((f"{name}/{name}", content))
    else:
        end = content.find(b"\n") + 1
        head = text(content[10:end], random) if deed < 4 else content[10:end] * random.choice((1, 3))
        length = struct.pack("<H", random.choice((len(head), len(head), 0, 65535)) & 0xFFFF)
        members[at] = name, content[:8] + length + head + content[end:]
    return _zipped(members, random)


def _zipped(members: Sequence[tuple[str, bytes]], random: Random) -> bytes:
    made = io.BytesIO()
    kind = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, content in dict(members).items() if random.random() < 0.9 else members[:1]:
            info = zipfile.ZipInfo(name.replace("\0", "%00") or "x")
            info.compress_type = kind
            info.external_attr = random.choice((0, 0, 0xA1FF << 16))  # now and then a symbolic link
            archive.writestr(info, content)
    data = bytearray(made.getvalue())
    if random.random() < 0.3:  # the directory says something else than the members
        at = data.find(b"PK\x01\x02")
        field = random.choice((8, 10, 16, 20, 24, 28, 30, 32, 42))
        struct.pack_into("<H", data, at + field, random.choice((0, 1, 8, 99, 0xFFFF)))
    return bytes(data)


def zip_members(data: bytes, random: Random) -> bytes:
    """Archives whose members lead out, are links, are bombs or lie about themselves."""
    del data
    contents = (b"word\n", b"", bytes(1 << random.choice((4, 16, 22))), b"\x7fELF" + bytes(60), b"\x80\x04c.")
    members = [(random.choice(_PATHS) or "x", random.choice(contents)) for _ in range(random.randrange(1, 5))]
    made = _zipped(members, random)
    return blind(made, random) if random.random() < 0.3 else made


def tar_members(data: bytes, random: Random) -> bytes:
    """As `zip_members`, packed by tar and gzip; with links, devices and sizes that are not so."""
    del data
    made = io.BytesIO()
    with tarfile.open(
        fileobj=made, mode="w", format=random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    ) as archive:
        for _ in range(random.randrange(1, 5)):
            entry = tarfile.TarInfo((random.choice(_PATHS) or "x").replace("\0", ""))
            entry.type = random.choice(
                (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
            )
            entry.linkname = random.choice(("../..", "/etc/passwd", "x"))
            content = bytes(random.choice((0, 10, 1 << 22)))
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    plain = bytearray(made.getvalue())
    if random.random() < 0.3:
        plain[124:136] = random.choice((b"77777777777\0", b"\x80" + b"\xff" * 11, b"-0000000001\0", b"zzzzzzzzzzz\0"))
    packed = gzip.compress(bytes(plain), mtime=0)
    return blind(packed, random) if random.random() < 0.3 else packed


def safetensors(data: bytes, random: Random) -> bytes:
    """Headers of the right length that say something else."""
    try:
        size = struct.unpack_from("<Q", data)[0]
        head, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    except (struct.error, ValueError):
        return blind(data, random)
    if not isinstance(head, dict):
        return blind(data, random)
    _change_json(head, random)
    found = json.dumps(head).encode()
    if random.random() < 0.2:
        found = text(found, random)
    return struct.pack("<Q", len(found)) + found + rest


def _change_json(found: Any, random: Random) -> None:
    items: Any = list(found) if isinstance(found, dict) else range(len(found))
    if not items:
        return
    key = random.choice(list(items))
    if isinstance(found[key], (dict, list)) and random.random() < 0.8:
        _change_json(found[key], random)
    elif random.random() < 0.2:
        del found[key]
    else:
        found[key] = random.choice((*_NUMBERS, "F32", "I64", "Lambda", "", [], {}, None, True, 1.5, [[]] * 50))


def hdf5(data: bytes, random: Random) -> bytes:
    """Files of Keras in HDF5 whose attributes, links and datasets are others: sound for h5py, strange for us."""
    made = io.BytesIO(data)
    try:
        with h5py.File(made, "r+") as file:
            places: list[str] = []
            file.visit(places.append)
            for _ in range(random.choice((1, 1, 2, 4))):
                _change_object(file, random.choice(["/", *places]), random)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # what h5py itself refuses to make
        return blind(data, random)
    return made.getvalue()


def _change_object(file: Any, place: str, random: Random) -> None:
    found = file[place]
    names = sorted(found.attrs)
    deed = random.randrange(8)
    if deed < 3 and names:
        name = random.choice(names)
        value = found.attrs[name]
        text = value if isinstance(value, str) else None
        if text is not None and text[:1] == "{" and random.random() < 0.7:
            config = json.loads(text)
            _change_json(config, random)
            found.attrs[name] = json.dumps(config)
        else:
            found.attrs[name] = random.choice((*_PATHS[:-4], 7, 1.5, [1, 2], b"\xff", [b"a", b"\xfe"], h5py.Empty("f")))
    elif deed == 3 and names:
        del found.attrs[random.choice(names)]
    elif deed == 4 and place != "/":
        del file[place]
    elif deed == 5:
        name = f"new{random.randrange(99)}"
        links = (h5py.SoftLink(place), h5py.SoftLink("/gone"), h5py.ExternalLink("/etc/passwd", "/"), file["/"], found)
        file[random.choice((name, f"{place}/{name}") if isinstance(found, h5py.Group) else (name,))] = random.choice(
            links
        )
    elif place != "/":
        del file[place]
        shape = random.choice(((), (0,), (3,), (2**40,), (2**31, 2**31), (1,) * 33))
        kind = random.choice(("f4", "i8", "S3", "c8", h5py.string_dtype(), h5py.ref_dtype, [("a", "f4"), ("b", "i2")]))
        chunked = (
            {"chunks": True, "compression": random.choice((None, "gzip", "lzf"))} if shape and 0 not in shape else {}
        )
        more: dict[str, Any] = random.choice(({}, chunked, {"external": "/etc/passwd"} if shape == (3,) else {}))
        file.create_dataset(place, shape, kind, **more)


def keras_archive(data: bytes, random: Random) -> bytes:
    """`.keras` archives with another config, other metadata or other weights, or other members."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, zlib.error, NotImplementedError):
        return blind(data, random)
    if not members:
        return blind(data, random)
    name = random.choice(sorted(members))
    if random.random() < 0.1:
        members[random.choice(_PATHS[:-4]) or "x"] = members.pop(name)
    elif name.endswith(".h5"):
        members[name] = hdf5(members[name], random)
    else:
        try:
            found = json.loads(members[name])
            _change_json(found, random)
            members[name] = json.dumps(found).encode()
        except (ValueError, TypeError):
            members[name] = text(members[name], random)
    return _zipped(list(members.items()), random)


def keras_metadata(data: bytes, random: Random) -> bytes:
    """The metadata of Keras with other configs."""
    start = data.find(b"{")
    if start < 0:
        return blind(data, random)
    try:
        found = json.loads(data[start:])
    except ValueError:
        return blind(data, random)
    _change_json(found, random)
    body = json.dumps(found).encode()
    if random.random() < 0.3:
        body = text(body, random)
    return wrapped_metadata(body)


def wrapped_metadata(body: bytes) -> bytes:
    """JSON as a node of `keras_metadata.pb`."""
    return field(1, field(3, b"root") + field(5, body))
