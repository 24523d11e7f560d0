"""Serves a SavedModel over HTTP: by TensorFlow Serving if that is installed, by tfsmith, or by a small stand-in.

The flags are those of `tensorflow_model_server`. The stand-in is for trying out clients on your own machine, and for
the tests. It loads the model as the server does: by TensorFlow's own loader, with the tag `serve`, the highest number
below the base path, into one session that answers all requests. It speaks the server's REST API (status, metadata,
predict), but it does not batch, reload, or do anything else that makes the server worth installing.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROGRAM = "tensorflow_model_server"
KEY = "serving_default"
_SECONDS = 120


class RequestError(Exception):
    """A request that is answered with an error: the HTTP status, and what is wrong."""

    def __init__(self, status: int, what: str) -> None:
        """Keeps the status."""
        super().__init__(what)
        self.status = status


class Servable:
    """A model that TensorFlow has loaded, with the answers of the REST API."""

    def __init__(self, name: str, base: Path) -> None:
        """Loads the highest version. Takes seconds: TensorFlow is imported here."""
        import tensorflow.compat.v1 as tf

        versions = [int(path.name) for path in base.iterdir() if path.name.isdigit()]
        if not versions:
            raise SystemExit(f"error: {base} has no numbered folder; copy the SavedModel to {base}/1")
        self.name, self.version = name, max(versions)
        self._tf = tf
        self._session = tf.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            meta = tf.saved_model.load(self._session, ["serve"], str(base / str(self.version)))
        self._signatures = meta.signature_def

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def status(self) -> dict[str, Any]:
        """The answer to GET /v1/models/NAME."""
        fine = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": str(self.version), "state": "AVAILABLE", "status": fine}]}

    def metadata(self) -> dict[str, Any]:
        """The answer to GET /v1/models/NAME/metadata."""
        from google.protobuf.json_format import MessageToDict

        shown = {
            key: MessageToDict(signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
            for key, signature in self._signatures.items()
        }
        spec = {"name": self.name, "signature_name": "", "version": str(self.version)}
        return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": shown}}}

    def predict(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to POST /v1/models/NAME:predict, by rows (`instances`) or by columns (`inputs`).

        Raises:
            RequestError: The request does not fit the model.
        """
        key = body.get("signature_name", KEY)
        if key not in self._signatures:
            raise RequestError(400, f"Serving signature key {key!r} not found.")
        signature = self._signatures[key]
        if ("instances" in body) == ("inputs" in body):
            raise RequestError(400, "The request must have either 'instances' or 'inputs'.")
        columns = _columns(body, list(signature.inputs))
        feeds = {info.name: self._tensor(columns, name, info) for name, info in signature.inputs.items()}
        names = {name: info.name for name, info in signature.outputs.items()}
        try:
            answers = self._session.run(names, feeds)
        except self._tf.errors.OpError as error:
            raise RequestError(400, error.message) from error
        found = {name: value.tolist() for name, value in answers.items()}
        if "inputs" in body:
            return {"outputs": found if len(found) > 1 else next(iter(found.values()))}
        rows = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        return {"predictions": rows if len(found) > 1 else [next(iter(row.values())) for row in rows]}

    def _tensor(self, columns: dict[str, Any], name: str, info: Any) -> Any:
        import numpy as np

        if name not in columns:
            raise RequestError(400, f"The request lacks the input {name!r}.")
        dtype = self._tf.as_dtype(info.dtype).as_numpy_dtype
        try:
            return np.array(_decoded(columns[name]), dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise RequestError(400, f"Input {name!r} is not {np.dtype(dtype).name}: {error}") from error


def _columns(body: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The inputs by their names; where there is one only, its name may be left out."""
    if "inputs" in body:
        inputs = body["inputs"]
        return inputs if isinstance(inputs, dict) and set(inputs) != {"b64"} else {names[0]: inputs}
    rows = body["instances"]
    if not isinstance(rows, list) or not rows:
        raise RequestError(400, "'instances' must be a list, and not empty.")
    if all(isinstance(row, dict) and set(row) != {"b64"} for row in rows):
        return {name: [row[name] for row in rows] for name in names if all(name in row for row in rows)}
    return {names[0]: rows}


def _decoded(value: Any) -> Any:
    """A value with bytes in place of `{"b64": ...}`, which JSON has in place of bytes."""
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return [_decoded(one) for one in value]
    return value


def make_server(servable: Servable, port: int) -> ThreadingHTTPServer:
    """The stand-in, ready to serve; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server wants
            """Status and metadata."""
            known = {f"/v1/models/{servable.name}": servable.status}
            known[f"/v1/models/{servable.name}/metadata"] = servable.metadata
            if self.path in known:
                self._answer(200, known[self.path]())
            else:
                self._answer(404, {"error": f"Malformed request or unknown model: GET {self.path}"})

        def do_POST(self) -> None:
            """Predict."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                if self.path != f"/v1/models/{servable.name}:predict":
                    raise RequestError(404, f"Malformed request or unknown model: POST {self.path}")
                self._answer(200, servable.predict(_parse(body)))
            except RequestError as error:
                self._answer(error.status, {"error": str(error)})

        def log_message(self, format: str, *arguments: Any) -> None:
            """To stderr, as it is, without the name of the machine."""
            sys.stderr.write(f"{format % arguments}\n")

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return ThreadingHTTPServer(("localhost", port), Handler)


def _parse(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise RequestError(400, f"JSON Parse error: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(400, "The request must be a JSON object.")
    return found


@contextlib.contextmanager
def stand_in(told: argparse.Namespace) -> Iterator[str]:
    """The stand-in in a thread of this process; gives its address."""
    servable = Servable(told.model_name, Path(told.model_base_path))
    server = make_server(servable, told.rest_api_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        servable.close()


@contextlib.contextmanager
def real_server(told: argparse.Namespace) -> Iterator[str]:
    """TensorFlow Serving, or tfsmith, in a process of its own; gives its address once it has loaded the model."""
    port = told.rest_api_port or _free_port()
    base = Path(told.model_base_path).absolute()
    flags = [f"--port={_free_port()}", f"--rest_api_port={port}", f"--model_name={told.model_name}"]
    command = [PROGRAM, *flags, f"--model_base_path={base}"]
    if told.tfsmith:
        command = [sys.executable, "-m", "tfsmith", "serve", str(base), f"--name={told.model_name}", f"--port={port}"]
        command.append("--grpc-port=-1")
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        try:
            _wait(process, f"http://localhost:{port}/v1/models/{told.model_name}")
            yield f"http://localhost:{port}"
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    """Asks for the status until the model is there."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if json.load(answer)["model_version_status"][0]["state"] == "AVAILABLE":
                return
        time.sleep(0.2)
    raise SystemExit(f"error: the server does not serve {url}")


def main() -> int:
    """Serves until it is stopped, or as long as a command runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name", required=True)
    parser.add_argument("--model_base_path", required=True, help="the folder that has the numbered versions")
    parser.add_argument("--rest_api_port", type=int, default=None, help="(default: 8501; a free one with --run)")
    parser.add_argument("--run", metavar="COMMAND", help="serve as long as this runs; in it, $SERVER is the address")
    parser.add_argument("--tfsmith", action="store_true", help="by `tfsmith serve`, which needs no TensorFlow")
    parser.add_argument("--stand_in", action="store_true", help="even if TensorFlow Serving is installed")
    told = parser.parse_args()
    if told.rest_api_port is None:
        told.rest_api_port = 0 if told.run else 8501
    is_real = told.tfsmith or (shutil.which(PROGRAM) is not None and not told.stand_in)
    with (real_server if is_real else stand_in)(told) as address:
        kind = "tfsmith serve" if told.tfsmith else PROGRAM if is_real else f"a stand-in for {PROGRAM}"
        print(f"served by {kind}" if told.run else f"{address}: served by {kind}; Ctrl-C ends it", flush=True)
        if told.run:
            return subprocess.run(told.run, shell=True, env=os.environ | {"SERVER": address}, check=False).returncode
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
