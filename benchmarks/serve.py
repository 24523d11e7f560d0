"""What `tfsmith serve` costs: its overhead over the bare engine, and how many requests it takes.

`python -m benchmarks --only serve` takes a minute; `python -m benchmarks.serve --minutes 10` is the long test, with
reloads and malformed requests.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tfsmith
from benchmarks.measure import Figures
from benchmarks.report import Row, at_most
from benchmarks.setup import Setup
from tfsmith.testing.half_plus import write_half_plus

__all__ = ["long_test", "rows"]

_HALF = "/v1/models/half_plus_two:predict"
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


def overhead(model: Path, feeds: dict[str, Any], repeat: int = 15) -> tuple[float, float]:
    """Seconds of one run, by the bare runner and over HTTP, medians of runs that take turns."""
    body = json.dumps({"inputs": {key: array.tolist() for key, array in feeds.items()}}).encode()
    bare: list[float] = []
    served: list[float] = []
    with tfsmith.compile(model) as runner, server(str(model), "--name", "model") as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for turn in range(repeat + 2):
            start = time.perf_counter()
            runner.run(feeds)
            middle = time.perf_counter()
            status, text = post(connection, "/v1/models/model:predict", body)
            end = time.perf_counter()
            if status != 200:
                raise RuntimeError(text)
            if turn >= 2:  # the first ones warm up
                bare.append(middle - start)
                served.append(end - middle)
    return median(bare), median(served)


def rate(port: int, clients: int, seconds: float) -> tuple[float, int]:
    """Requests a second of half_plus_two, and how many were wrong."""
    wanted, body = [[2.5], [3.0], [4.5]], json.dumps({"instances": [[1.0], [2.0], [5.0]]}).encode()
    counts, wrong = [0] * clients, [0] * clients
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.monotonic() < end:
            status, text = post(connection, _HALF, body)
            counts[number] += 1
            wrong[number] += status != 200 or json.loads(text)["predictions"] != wanted

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - start), sum(wrong)


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
        return {**counts, "wrong": wrong[:5], "memory_mb": [round(memory[0], 1), round(memory[-1], 1)]}


def rows(setup: Setup) -> list[Row]:
    """BERT-base at batch 1 beside the bare runner, and half_plus_two with 1, 4 and 16 clients."""
    generator = np.random.default_rng(0)
    feeds = {key: generator.integers(0, 2, (1, 128)).astype("int32")
             for key in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip
    bare, served = overhead(setup.models.saved_model("ref"), feeds, 1 if setup.quick else 15)
    ours, theirs = (Figures((seconds,), 0) for seconds in (served, bare))
    goal = at_most(1.1, ours, theirs, "the bare engine")
    made = [Row("serve", "serve, BERT-base, batch 1, over HTTP", ours, "the bare runner", theirs, (goal,))]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "half_plus_two"
        base.mkdir()
        write_half_plus(base / "1", 2.0)
        with server(str(base)) as (port, process):
            for clients in (1, 4, 16):
                found, wrong = rate(port, clients, 1 if setup.quick else 5)
                what = f"serve, half_plus_two, {clients} clients: {found:,.0f} requests/s, {wrong} wrong"
                made.append(Row("serve", what, Figures((1 / found,), int(resident(process) * 2**20))))
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    print(json.dumps(long_test(parser.parse_args().minutes), indent=2))
