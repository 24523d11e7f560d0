"""Files that lie beside a model, and bytes that begin like programs. Reads heads and lists; unpacks nothing to disk."""

from __future__ import annotations

import base64
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType

from tfsmith.audit.findings import Finding
from tfsmith.audit.keras import keras_findings
from tfsmith.errors import TfsmithError
from tfsmith.ir.model import SideFile
from tfsmith.storage import Span, open_file

__all__ = ["program_in", "side_file_findings", "unpacked_forms"]

_MAGIC = MappingProxyType(
    {
        b"\x7fELF": "an ELF program",
        b"\xfe\xed\xfa\xce": "a Mach-O program",
        b"\xfe\xed\xfa\xcf": "a Mach-O program",
        b"\xce\xfa\xed\xfe": "a Mach-O program",
        b"\xcf\xfa\xed\xfe": "a Mach-O program",
        b"\xca\xfe\xba\xbe": "a Java class",
        b"\x00asm\x01\x00\x00\x00": "a WebAssembly module",
        b"dex\n03": "an Android program",
        b"#!/": "a script",
    }
)
_ARCHIVES = MappingProxyType(
    {
        b"PK\x03\x04": "a zip archive",
        b"\x1f\x8b\x08": "a gzip file",
        b"Rar!\x1a\x07": "a rar archive",
        b"7z\xbc\xaf\x27\x1c": "a 7z archive",
        b"\xfd7zXZ\x00": "an xz archive",
        b"BZh": "a bzip2 archive",
    }
)
_LISTED = ("a zip archive", "a gzip file", "a tar archive")
"""Archives that can be looked into."""
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_PICKLE_CALLS = re.compile(rb"[c\x93Ri\x81o]")
_HEAD = 4096
_LEAST_PACKED = 24
_MOST_LAYERS = 4
"""So often a text is unpacked."""
_MOST_UNPACKED = 1 << 24
"""So much of a packed text is unpacked, to see what it is."""
_BASE64 = re.compile(rb"[A-Za-z0-9_+/-]+={0,2}")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_MOST_MEMBERS = 10_000
_ZIP_LINK = 0xA
"""The kind of a member that is a symbolic link, as Unix puts it into a zip archive."""
_MOST_BYTES = 1 << 28
"""So much of a compressed archive is unpacked in memory to list it, piece by piece."""
_CODE = (".py", ".pyc", ".so", ".dll", ".dylib", ".exe", ".sh", ".bat", ".ps1", ".js", ".jar", ".pkl", ".pickle")


def program_in(data: bytes, *, whole: bool = False) -> str:
    """What kind of program or archive these bytes begin like, in words; empty if none.

    Args:
        data: The first bytes, 4,096 or fewer where there are more.
        whole: Whether they are a whole file or text: then archives and pickles count too.
    """
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            return name
    if data.startswith(b"MZ") and len(data) >= 64:
        place = struct.unpack_from("<I", data, 60)[0]
        if data[place : place + 4] == b"PE\0\0":
            return "a Windows program"
    if not whole:
        return ""
    for magic, name in _ARCHIVES.items():
        if data.startswith(magic):
            return name
    if data[257:262] == b"ustar":
        return "a tar archive"
    if _PICKLE.match(data) and _PICKLE_CALLS.search(data[2:]) and (len(data) >= _HEAD or data.endswith(b".")):
        return "a pickle"
    return ""


def unpacked_forms(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What a text holds if it is packed as TensorFlow's own ops unpack it, once or some times over."""
    waiting = [("", data)]
    for _ in range(_MOST_LAYERS):
        waiting = [(form, inner) for _, outer in waiting for form, inner in _unpacked(outer)]
        yield from waiting


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What is in gzip, zlib, deflate or base64."""
    if len(data) < _LEAST_PACKED:
        return
    if data[:2] == b"\x1f\x8b" or data[:1] in (b"\x78", b"\x58", b"\x68"):
        unpacked = _inflated(data, 47)
        if unpacked:
            yield "compressed", unpacked
    elif _BASE64.fullmatch(data[:_HEAD]):
        try:
            yield "base64", base64.urlsafe_b64decode(data.translate(_URL_SAFE) + b"===")
        except ValueError:
            return
    elif data[0] & 6 in (2, 4):  # a deflate block that is compressed
        unpacked = _inflated(data, -15)
        if unpacked:
            yield "compressed", unpacked


def _inflated(data: bytes, window: int) -> bytes:
    try:
        return zlib.decompressobj(window).decompress(data, _MOST_UNPACKED)
    except zlib.error:
        return b""


def side_file_findings(files: Iterable[SideFile]) -> Iterator[Finding]:
    """Programs, archives and links out of the folder, among the files beside a model."""
    for file in files:
        if file.leads_out:
            what = f"{file.name} is a link out of the model's folder"
            yield Finding("leads-out", "dangerous", what, "", file.name, when="at load")
            continue
        try:
            whole = open_file(file.path)  # which waits for no pipe
            head = Span(whole.source, 0, min(_HEAD, len(whole))).tobytes()
        except TfsmithError as error:
            what = f"{file.name} cannot be read ({error.what})"
            yield Finding("foreign-file", "suspicious", what, "", file.name, when="in the file")
            continue
        program = program_in(head, whole=True)
        if program.endswith(("archive", "gzip file")):
            yield from _archive(file, program)
        elif program:
            what = f"{file.name} is {program}"
            yield Finding("foreign-file", "dangerous", what, "", file.name, when="in the file")
        elif file.name.lower().endswith(_CODE):
            what = f"{file.name} is named like a program"
            yield Finding("foreign-file", "suspicious", what, "", file.name, when="in the file")


def _archive(file: SideFile, kind: str) -> Iterator[Finding]:
    is_listed = kind in _LISTED
    what = f"{file.name} is {kind}" if is_listed else f"{file.name} is {kind}, which is not looked into"
    yield Finding("foreign-file", "note" if is_listed else "suspicious", what, "", file.name, when="in the file")
    try:
        yield from keras_findings(_configs(file, kind))
        for member, head in _members(file.path, kind):
            name = f"{file.name}!{member}"
            if member.startswith(("/", "\\")) or ".." in re.split(r"[\\/]", member):
                yield Finding("leads-out", "dangerous", f"{name} leads out of the folder it is unpacked in", "", name,
                              when="in the file")  # fmt: skip
            program = program_in(head, whole=True)
            if program and not program.endswith(("archive", "gzip file")):
                yield Finding("foreign-file", "dangerous", f"{name} is {program}", "", name, when="in the file")
            elif program:
                yield Finding("foreign-file", "suspicious", f"{name} is {program} in an archive", "", name,
                              when="in the file")  # fmt: skip
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,  # a compression that is not known, a password
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
    ) as error:
        what = f"{file.name} cannot be listed ({str(error)[:80]})"
        yield Finding("foreign-file", "suspicious", what, "", file.name, when="in the file")


def _configs(file: SideFile, kind: str) -> Iterator[tuple[str, str]]:
    """The configs of Keras files: an archive may be one, or hold one."""
    if kind == "a zip archive":
        with zipfile.ZipFile(file.path) as archive:
            for member in archive.infolist()[:_MOST_MEMBERS]:
                if member.filename.rpartition("/")[2] == "config.json":
                    with archive.open(member) as opened:
                        text = opened.read(_MOST_UNPACKED).decode("utf-8", "replace")
                    yield f"{file.name}!{member.filename}", text


def _members(path: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    if kind == "a zip archive":
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise ValueError("it has more members than a listing should have")
            for member in members:
                if member.external_attr >> 28 == _ZIP_LINK:
                    yield member.filename, b""
                    with archive.open(member) as link:
                        target = link.read(_HEAD).decode("utf-8", "replace")
                    yield target, b""
                elif not member.is_dir():
                    with archive.open(member) as opened:
                        yield member.filename, opened.read(_HEAD)
        return
    if kind not in _LISTED:
        return
    if kind == "a gzip file":
        import gzip

        with gzip.open(path) as unpacked:
            first = unpacked.read(_HEAD)
        if first[257:262] != b"ustar":
            yield path.name, first
            return
    with tarfile.open(path, "r|gz" if kind == "a gzip file" else "r|") as stream:
        for number, entry in enumerate(stream):
            if number >= _MOST_MEMBERS or entry.offset_data > _MOST_BYTES:
                raise ValueError("it is larger than a listing should be")
            if entry.issym() or entry.islnk():
                yield entry.name, b""
                yield entry.linkname, b""
            elif entry.isfile():
                content = stream.extractfile(entry)
                yield entry.name, b"" if content is None else content.read(_HEAD)
