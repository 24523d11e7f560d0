"""Reading and writing the text format: ours against google.protobuf's, on the `graph.pbtxt` of a BERT."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Command, Figures, python
from benchmarks.report import Row, faster
from benchmarks.setup import Setup

__all__ = ["rows"]

_READ = """
import sys, time
from google.protobuf import text_format
from tfsmith.wire import new
from tfsmith.wire.text_reader import text_to_wire
text = open(sys.argv[1]).read()
new("GraphDef")
start = time.perf_counter()
if sys.argv[2] == "ours":
    text_to_wire(text, "GraphDef")
else:
    text_format.Parse(text, new("GraphDef"))
print(time.perf_counter() - start)
"""
_WRITE = """
import sys, time
from google.protobuf import text_format
from tfsmith.storage import from_bytes
from tfsmith.wire import message_class
from tfsmith.wire.text_reader import text_to_wire
from tfsmith.wire.text_writer import write_text
wire = text_to_wire(open(sys.argv[1]).read(), "GraphDef")
class Sink(list):
    def write(self, data): self.append(data)
    def write_span(self, span): self.append(span.tobytes())
start = time.perf_counter()
if sys.argv[2] == "ours":
    write_text("GraphDef", from_bytes(wire), Sink())
else:
    text_format.MessageToString(message_class("GraphDef").FromString(wire))
print(time.perf_counter() - start)
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    path = setup.models.checkpoint("ref").with_name("graph.pbtxt")
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    ours, peer = _both(setup, _READ, path)
    written, peers_written = _both(setup, _WRITE, path)
    name = "google.protobuf.text_format"
    return [
        Row("text_format", f"text format, read graph.pbtxt of {size}", ours, name, peer, [faster(5, ours, peer)]),
        Row("text_format", f"text format, write graph.pbtxt of {size}", written, name, peers_written),
    ]


def _both(setup: Setup, code: str, path: Path) -> tuple[Figures, Figures]:
    """Each in processes of its own, but timed inside them: the work alone."""
    commands = {who: Command(python(code, path, who), own_clock=True, turns=3) for who in ("ours", "peer")}
    found = setup.compare(commands)
    return found["ours"], found["peer"]
