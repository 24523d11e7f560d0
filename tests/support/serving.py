"""Starts `tfsmith serve` in a process of its own, and asks it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Server", "ask", "serving"]


class Server:
    """A running server: its addresses, its log, and how it ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[dict[str, Any]] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(120) or process.poll() is not None:
            raise RuntimeError(f"the server does not start: {self.log}")
        facts = next(one for one in self.log if one["event"] == "listening")
        self.rest, self.grpc = str(facts["rest"]), str(facts["grpc"])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = json.loads(line) if line.startswith("{") else {"event": "text", "line": line}
            self.log.append(found)
            if found["event"] == "listening":
                self._listening.set()
        self._listening.set()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Ends it by a signal, as a container's host does, or Ctrl-C; gives the exit code."""
        self.process.send_signal(by)
        code = self.process.wait(60)
        self._reader.join(10)
        return code

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was logged under this name."""
        return [one for one in self.log if one["event"] == name]


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """A server on free ports, as long as the block runs."""
    command = [sys.executable, "-m", "tfsmith", "serve", *arguments, "--port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            if process.poll() is None:
                process.kill()


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Gets a URL, or posts to it (JSON, or bytes as they are): the status, the JSON of the answer, the headers."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read()), dict(error.headers)
