"""The local server behind `view`: the page, statistics of weights, drafts of recipes. Loopback only, behind a token."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tfsmith.errors import TfsmithError, UsageError

__all__ = ["PageServer"]

_HOST = "127.0.0.1"
Answer = tuple[int, str, str]
"""Status, content type, text."""


class PageServer:
    """Serves one page to this machine alone. Who does not know the token in its address gets nothing.

    Args:
        make_page: Gives the page, for the address below which the server answers.
        answers: What else it answers, by the last word of the path; each takes the query.
        port: The port; 0 for any that is free.

    Attributes:
        url: The page's address.

    Raises:
        UsageError: The port is taken or cannot be used.
    """

    def __init__(
        self, make_page: Callable[[str], str], answers: Mapping[str, Callable[[dict[str, str]], Any]], port: int = 0
    ) -> None:
        token = secrets.token_urlsafe(18)
        handler = type("_Handler", (_Handler,), {"token": token, "answers": answers, "page": make_page(f"/{token}/")})
        try:
            self._server = ThreadingHTTPServer((_HOST, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "there is no such port"
            remedy = "leave {port} out: any free one will do"
            raise UsageError(f"{{port={port}}} cannot be used ({reason})", remedy=remedy) from error
        self._server.daemon_threads = True
        self.url = f"http://{_HOST}:{self._server.server_address[1]}/{token}/"

    def serve(self) -> None:
        """Serves until the process is interrupted, or `close` is called from another thread."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self._server.server_close()

    def close(self) -> None:
        """Ends `serve`."""
        self._server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    token = ""
    page = ""
    answers: Mapping[str, Callable[[dict[str, str]], Any]] = {}

    def do_GET(self) -> None:
        """Answers one request."""
        status, kind, text = self._answer()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> Answer:
        address = urlsplit(self.path)
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        words = address.path.split("/")
        # Another site may send a browser here under a name of its own; it knows neither the token nor this host.
        if (
            host not in (_HOST, "localhost")
            or len(words) != 3
            or not secrets.compare_digest(words[1].encode(), self.token.encode())
        ):
            return 404, "text/plain", "not found\n"
        if not words[2]:
            return 200, "text/html", self.page
        work = self.answers.get(words[2])
        if work is None:
            return 404, "text/plain", "not found\n"
        query = {key: values[0] for key, values in parse_qs(address.query, keep_blank_values=True).items()}
        try:
            found = work(query)
        except TfsmithError as error:
            return 400, "text/plain", f"{error}\n"
        return (200, "text/plain", found) if isinstance(found, str) else (200, "application/json", json.dumps(found))

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal belongs to the command."""
