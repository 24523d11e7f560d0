"""Loads that no usual model has: 10 GB of weights, a million nodes, a thousand models in one process, many threads.

    python -m benchmarks.load [--quick]

Prints one line for each, with time and peak memory, and fails where memory is over the bound that `docs/trust.md`
states.
The large checkpoint is a sparse file, which takes no room on most disks; it is removed afterwards.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import Command, compare, script

MB = 1 << 20
BOUNDS = {"checkpoint": 60 * MB, "verify": 60 * MB, "nodes": 900 * MB, "scan": 900 * MB}
"""Peak memory that each may have."""


def make_checkpoint(prefix: Path, gigabytes: float) -> Path:
    """A checkpoint of zeros with right checksums: tensors of 256 MB in one sparse file."""
    from tests.support.table_files import bundle_entry, header, table

    from tfsmith.storage import extend, mask

    size = 256 * MB if gigabytes >= 1 else MB
    count = max(1, int(gigabytes * 1024 * MB) // size)
    crc, zeros = 0, bytes(MB)
    for _ in range(size // MB):
        crc = extend(crc, zeros)
    entries = {}
    for number in range(count):
        entry = bundle_entry(1, [size // 4], b"", offset=number * size)
        entry.size, entry.crc32c = size, mask(crc)
        entries[f"w{number:04d}".encode()] = entry
    items = [(b"", header(1).SerializeToString()), *((key, one.SerializeToString()) for key, one in entries.items())]
    Path(f"{prefix}.index").write_bytes(table(items))
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.truncate(count * size)
    return prefix


def make_graph(path: Path, count: int) -> Path:
    """A graph of so many nodes, one after the other."""
    with open(path, "wb") as file:
        attr = b"\x2a\x07\n\x01T\x12\x020\x01"
        for number in range(count):
            name, before = b"node%d" % number, b"node%d" % (number - 1)
            body = b"\n" + bytes((len(name),)) + name + b"\x12" + (b"\x04Relu" if number else b"\x0bPlaceholder")
            body += b"\x1a" + bytes((len(before),)) + before + attr if number else b"\x2a\x0b\n\x05dtype\x12\x020\x01"
            file.write(b"\n" + bytes((len(body),)) + body)
    return path


def open_many(path: Path, count: int) -> tuple[int, int]:
    """Opens a model so many times, reads of it, and lets it go; how many descriptors and maps are left over."""
    import tfsmith

    def held() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text().count(str(path)[:60])
        return len(list(Path("/proc/self/fd").iterdir())), maps

    def once() -> None:
        model = tfsmith.load(path)
        next(iter(model.variables.values())).numpy()

    once()
    before = held()
    for _ in range(count):
        once()
    after = held()
    return after[0] - before[0], after[1] - before[1]


def read_by_threads(path: Path, threads: int, rounds: int) -> bool:
    """Whether threads that share one Model all read the same as one of them alone."""
    import tfsmith

    shared = tfsmith.load(path)

    def read(_: int) -> tuple[object, ...]:
        sums = tuple(float(tensor.numpy().sum()) for tensor in shared.variables.values())
        nodes = tuple(node.op for node in shared.graph.nodes) if shared.has_graph else ()
        return sums, nodes, str(tfsmith.show(shared, all=True))

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(read, range(threads * rounds)))
    return all(one == read(0) for one in found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small ones, to see that it works")
    quick = parser.parse_args().quick
    good = True
    with tempfile.TemporaryDirectory() as home:
        prefix = make_checkpoint(Path(home) / "large.ckpt", 0.01 if quick else 10)
        graph = make_graph(Path(home) / "large.pb", 1000 if quick else 1_000_000)
        commands = {
            "checkpoint": Command(script("tfsmith", "show", prefix)),
            "verify": Command(script("tfsmith", "show", prefix, "--verify")),
            "nodes": Command(script("tfsmith", "show", graph)),
            "scan": Command(script("tfsmith", "scan", graph)),
        }
        for name, figures in compare(commands, 1, warm=False).items():
            fits = figures.peak_bytes <= BOUNDS[name]
            good = good and fits
            print(f"{name}: {figures.best:.1f} s, {figures.peak_bytes / MB:.0f} MB (bound {BOUNDS[name] // MB} MB)")
        count = 10 if quick else 1000
        small = make_checkpoint(Path(home) / "small.ckpt", 0.02)
        descriptors, maps = open_many(small, count)
        same = read_by_threads(small, 16, 2)
        print(f"{count} models opened: {descriptors} descriptors and {maps} maps left")
        print(f"16 threads on one Model: {'all the same' if same else 'DIFFERENT'}")
        good = good and descriptors <= 0 and maps <= 0 and same
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
