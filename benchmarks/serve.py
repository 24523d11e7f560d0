"""What `tfsmith serve` costs: its overhead over the bare engine, and how many requests it takes.

`python -m benchmarks --only serve` takes a minute; `python -m benchmarks.serve --minutes 10` is the long test, with
reloads and malformed requests.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Figures
from benchmarks.report import Row, at_most
from benchmarks.setup import Setup
from tfsmith.testing.half_plus import write_half_plus

__all__ = ["long_test", "rows"]

_HALF = "/v1/models/half_plus_two:predict"
_HALF_ANSWER = {"predictions": [[2.5], [3.0], [4.5]]}
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_BAD = (b"{", b"[]", b'{"instances": ["a"]}', b'{"instances": []}', b'{"inputs": {"z": 1}}')


@contextmanager
def server(*arguments: str) -> Iterator[tuple[int, int]]:
    """`tfsmith serve` in a process of its own: the port, and the process's id."""
    command = [sys.executable, "-m", "tfsmith", "serve", *arguments, "--port", "0", "--grpc-port", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found = json.loads(line)
                if found["event"] == "listening":
                    break
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(found["rest"].rpartition(":")[2]), process.pid
        finally:
            process.terminate()
            process.wait()


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    """One request on a kept connection."""
    connection.request("POST", path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def cpu_seconds(process: int) -> float:
    """The processor time that a process and its threads have taken."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def overhead(model: Path, feeds: dict[str, Any], rounds: int, each: int = 5) -> dict[str, tuple[Figures, Figures]]:
    """Wall time and processor time of one run, by bare OpenVINO and over HTTP, which take turns.

    OpenVINO computes in float32, as `tfsmith serve` has it do; left alone, it takes bfloat16 where the processor can.
    """
    import openvino

    body = json.dumps({"inputs": {key: array.tolist() for key, array in feeds.items()}}).encode()
    bare = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    unused = {one.any_name: np.zeros([1] * one.partial_shape.rank.get_length(), "int32")
              for one in bare.model_inputs if one.any_name not in feeds}  # fmt: skip
    with server(str(model), "--name", "model") as (port, process):
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def served() -> None:
            status, text = post(connection, "/v1/models/model:predict", body)
            if status != 200:
                raise RuntimeError(text)

        ways: dict[str, Callable[[], object]] = {"bare": lambda: bare.infer({**feeds, **unused}), "served": served}
        found: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in ways}
        for turn in range(rounds + 1):
            for way, run in ways.items():
                start, used = time.perf_counter(), cpu_seconds(os.getpid()) + cpu_seconds(process)
                for _ in range(each):
                    run()
                if turn:  # the first ones warm up
                    found[way][0].append((time.perf_counter() - start) / each)
                    found[way][1].append((cpu_seconds(os.getpid()) + cpu_seconds(process) - used) / each)
    return {way: (Figures(tuple(wall), 0), Figures(tuple(used), 0)) for way, (wall, used) in found.items()}


def rate(port: int, process: int, clients: int, seconds: float) -> tuple[float, float, int]:
    """Requests of half_plus_two a second, and a second of the server's processor time; and how many were wrong.

    One thread asks on all connections, by plain sockets: Python's HTTP client takes more time than the server.
    """
    body = json.dumps({"instances": [[1.0], [2.0], [5.0]]}).encode()
    asked = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (_HALF.encode(), len(body), body)
    count = wrong = 0
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(clients)]
        answers = [b""] * clients
        start, used = time.monotonic(), cpu_seconds(process)
        for number, connection in enumerate(connections):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, number)
            connection.send(asked)
        while time.monotonic() < start + seconds:
            for key, _ in selector.select(1):
                answers[key.data] += connections[key.data].recv(1 << 16)
                head, _, text = answers[key.data].partition(b"\r\n\r\n")
                if not text or len(text) < int(_LENGTH.findall(head)[0]):
                    continue
                count += 1
                wrong += not head.startswith(b"HTTP/1.1 200 ") or json.loads(text) != _HALF_ANSWER
                answers[key.data] = b""
                connections[key.data].send(asked)
        return count / (time.monotonic() - start), count / (cpu_seconds(process) - used), wrong


def resident(process: int) -> float:
    """The memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def long_test(minutes: float) -> dict[str, Any]:
    """Requests, malformed ones and reloads for so long: what was lost, what was wrong, and the memory."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "half_plus_two"
        base.mkdir()
        write_half_plus(base / "1", 2.0)
        wrong: list[str] = []
        counts = {"requests": 0, "malformed": 0, "reloads": 0}
        memory: list[float] = []
        done = threading.Event()
        with server(str(base), "--poll", "0.5", "--batch", "8") as (port, process):

            def good() -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                body = b'{"instances": [[1.0], [2.0]]}'
                while not done.is_set():
                    status, text = post(connection, _HALF, body)
                    counts["requests"] += 1
                    if status != 200 or json.loads(text) != {"predictions": [[2.5], [3.0]]}:
                        wrong.append(f"{status} {text!r}")

            def bad() -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                while not done.wait(0.02):
                    status, _ = post(connection, _HALF, _BAD[counts["malformed"] % len(_BAD)])
                    counts["malformed"] += 1
                    if status != 400:
                        wrong.append(f"malformed: {status}")

            threads = [threading.Thread(target=work) for work in (good, good, bad)]
            for thread in threads:
                thread.start()
            end = time.monotonic() + 60 * minutes
            while time.monotonic() < end:
                time.sleep(5)
                version = counts["reloads"] + 2
                shutil.copytree(base / str(version - 1), Path(name) / "new")
                (Path(name) / "new").rename(base / str(version))
                time.sleep(5)
                shutil.rmtree(base / str(version - 1))
                counts["reloads"] += 1
                memory.append(resident(process))
            done.set()
            for thread in threads:
                thread.join()
        return {**counts, "wrong": wrong[:5], "memory_mb": [round(one, 1) for one in memory]}


def rows(setup: Setup) -> list[Row]:
    """BERT-base at batch 1 beside bare OpenVINO, and half_plus_two with 1, 4 and 16 clients."""
    generator = np.random.default_rng(0)
    feeds = {key: generator.integers(0, 2, (1, 128)).astype("int32")
             for key in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip
    took = overhead(setup.models.saved_model("ref"), feeds, *((1, 1) if setup.quick else (6, 5)))
    made: list[Row] = []
    for number, what in enumerate(("over HTTP", "over HTTP, processor time")):
        ours, theirs = took["served"][number], took["bare"][number]
        goal = at_most(1.1, ours, theirs, "bare OpenVINO")
        made.append(Row("serve", f"serve, BERT-base, batch 1, {what}", ours, "bare OpenVINO", theirs, (goal,)))
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "half_plus_two"
        base.mkdir()
        write_half_plus(base / "1", 2.0)
        with server(str(base)) as (port, process):
            for clients in (1, 4, 16):
                found, busy, wrong = rate(port, process, clients, 1 if setup.quick else 5)
                what = (f"serve, half_plus_two, {clients} clients: {found:,.0f} requests/s, {busy:,.0f} a second of "
                        f"processor time, {wrong} wrong")  # fmt: skip
                made.append(Row("serve", what, Figures((1 / found,), int(resident(process) * 2**20))))
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    print(json.dumps(long_test(parser.parse_args().minutes), indent=2))
