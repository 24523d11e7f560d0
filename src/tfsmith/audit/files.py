"""Files that lie beside a model, and bytes that begin like programs. Reads heads and lists; unpacks nothing to disk."""

from __future__ import annotations

import re
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType

from tfsmith.audit.findings import Finding
from tfsmith.ir.model import SideFile

__all__ = ["program_in", "side_file_findings"]

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
_ARCHIVES = MappingProxyType({b"PK\x03\x04": "a zip archive", b"\x1f\x8b\x08": "a gzip file", b"Rar!": "a rar archive"})
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_PICKLE_CALLS = re.compile(rb"[c\x93Ri\x81o]")
_HEAD = 4096
_MOST_MEMBERS = 10_000
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
    if _PICKLE.match(data) and _PICKLE_CALLS.search(data[2:]) and (len(data) >= _HEAD or data.endswith(b".")):
        return "a pickle"
    return ""


def side_file_findings(files: Iterable[SideFile]) -> Iterator[Finding]:
    """Programs, archives and links out of the folder, among the files beside a model."""
    for file in files:
        if file.leads_out:
            what = f"{file.name} is a link out of the model's folder"
            yield Finding("leads-out", "dangerous", what, "", file.name, when="at load")
            continue
        try:
            with open(file.path, "rb") as opened:
                head = opened.read(_HEAD)
        except OSError as error:
            what = f"{file.name} cannot be read ({error.strerror or error})"
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
    yield Finding("foreign-file", "note", f"{file.name} is {kind}", "", file.name, when="in the file")
    try:
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
        RuntimeError,
        NotImplementedError,
        zipfile.BadZipFile,
        tarfile.TarError,
    ) as error:
        what = f"{file.name} cannot be listed ({str(error)[:80]})"
        yield Finding("foreign-file", "suspicious", what, "", file.name, when="in the file")


def _members(path: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    if kind == "a zip archive":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist()[:_MOST_MEMBERS]:
                if not member.is_dir():
                    with archive.open(member) as opened:
                        yield member.filename, opened.read(_HEAD)
        return
    if kind != "a gzip file":
        return
    import gzip
    import zlib

    with gzip.open(path) as unpacked:
        try:
            first = unpacked.read(_HEAD)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if first[257:262] != b"ustar":
            yield path.name, first
            return
    with tarfile.open(path, "r|gz") as stream:
        for number, entry in enumerate(stream):
            if number >= _MOST_MEMBERS or entry.offset_data > _MOST_BYTES:
                raise ValueError("it is larger than a listing should be")
            if entry.issym() or entry.islnk():
                yield entry.name, b""
                yield entry.linkname, b""
            elif entry.isfile():
                content = stream.extractfile(entry)
                yield entry.name, b"" if content is None else content.read(_HEAD)
