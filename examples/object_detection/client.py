"""A client of TensorFlow Serving: sends a picture to its REST API, and shows what it finds there.

It needs no TensorFlow: what it says is JSON over HTTP.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from found import draw_found, read_answer
from pictures import read_png, write_png


class ServerError(Exception):
    """The server cannot be reached, or says no."""


def ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Gets a URL, or posts JSON to it; the answer is JSON too, also if it is an error.

    Raises:
        ServerError: What the server says, or why it does not.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise ServerError(f"{url}: {error.code}: {text}") from error
    except urllib.error.URLError as error:
        raise ServerError(f"{url}: {error.reason}") from error


def takes_files(metadata: dict[str, Any]) -> bool:
    """Whether a model takes whole image files, and not pixels: its signature says so."""
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    return bool(signature["inputs"]["inputs"]["dtype"] == "DT_STRING")


def detect(model: str, file: Path) -> dict[str, Any]:
    """Asks a model, given as `http://host:port/v1/models/NAME`, about a picture."""
    if takes_files(ask(f"{model}/metadata")):
        instance: Any = {"b64": base64.b64encode(file.read_bytes()).decode()}
    else:
        instance = read_png(file).tolist()
    answer = ask(f"{model}:predict", {"signature_name": "serving_default", "instances": [instance]})
    prediction: dict[str, Any] = answer["predictions"][0]
    return prediction


def main() -> int:
    """Asks, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, metavar="PICTURE.png")
    parser.add_argument("--server", default="http://localhost:8501")
    parser.add_argument("--model", default="shapes")
    parser.add_argument("-o", "--output", metavar="FOUND.png", help="the picture with the boxes")
    told = parser.parse_args()
    model = f"{told.server}/v1/models/{told.model}"
    try:
        status = ask(model)["model_version_status"][0]
        print(f"model {told.model}, version {status['version']}: {status['state']}")
        found = read_answer(detect(model, told.picture))
    except ServerError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    print(*found, sep="\n")
    if told.output:
        write_png(told.output, draw_found(read_png(told.picture), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
