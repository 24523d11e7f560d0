"""`/`: a small page with the models of the server, an example request of each signature, and a form to try it."""

from __future__ import annotations

import json
from html import escape
from typing import Any
from urllib.parse import quote

from tfsmith.ir.model import Signature, TensorInfo
from tfsmith.server.answers import CLASSIFY, REGRESS
from tfsmith.server.lanes import RequestError
from tfsmith.server.repository import Repository, Servable

__all__ = ["example_request", "make_page"]

_MOST = 16
"""Values of an input in an example; of larger ones it has only an idea."""
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tfsmith serve</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ccc}h3{font-size:1rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.15rem .8rem .15rem 0;font-weight:normal}th{color:#555}
pre,textarea{background:#f6f6f4;padding:.6rem;overflow:auto;width:100%;box-sizing:border-box;border:1px solid #ddd}
textarea{min-height:5rem;font:13px/1.4 ui-monospace,monospace}
code,pre{font-family:ui-monospace,monospace;font-size:13px}
@media (prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre,textarea{background:#242424;border-color:#444;
color:#ddd}th{color:#aaa}}
</style></head><body><h1>tfsmith serve</h1>
"""
_TAIL = """<script>
for (const form of document.querySelectorAll("form")) form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = form.querySelector("pre");
  answer.textContent = "...";
  try {
    const found = await fetch(form.dataset.path, {method: "POST", body: form.querySelector("textarea").value});
    answer.textContent = found.status + "\\n" + await found.text();
  } catch (error) { answer.textContent = String(error); }
});
</script></body></html>
"""


def make_page(repository: Repository) -> str:
    """The page. All names of models, signatures and tensors are escaped."""
    parts = [_HEAD]
    for name in repository.names:
        parts.append(f"<h2>{escape(name)}</h2>")
        try:
            rows = "".join(
                f"<tr><td>{one.version}<td>{one.state}<td>{escape(one.error)}" for one in repository.status(name)
            )
            parts.append(f"<table><tr><th>version<th>state<th>{rows}</table>")
            with repository.use(name) as servable:
                for key, signature in servable.signatures.items():
                    parts.append(_signature(servable, key, signature))
        except RequestError as error:
            parts.append(f"<p>{escape(error.what)}</p>")
    parts.append('<p><a href="metrics">metrics</a></p>')
    return "".join([*parts, _TAIL])


def _signature(servable: Servable, key: str, signature: Signature) -> str:
    rows = "".join(
        f"<tr><td>{side}<td><code>{escape(name)}</code><td>{escape(str(info.dtype))}<td>{escape(str(info.shape))}"
        for side, infos in (("takes", signature.inputs), ("gives", signature.outputs))
        for name, info in infos.items()
    )
    method = {CLASSIFY: "classify", REGRESS: "regress"}.get(signature.method_name, "predict")
    path = f"v1/models/{quote(servable.name, safe='')}:{method}"
    body = json.dumps(example_request(key, signature))
    quoted = body.replace("'", "'\\''")
    return (
        f"<h3>signature <code>{escape(key)}</code></h3><table>{rows}</table>"
        f"<pre>curl -d '{escape(quoted)}' http://HOST:PORT/{escape(path)}</pre>"
        f'<form data-path="{escape(path)}"><textarea aria-label="request">{escape(body)}</textarea>'
        f"<button>Send</button><pre></pre></form>"
    )


def example_request(key: str, signature: Signature) -> dict[str, Any]:
    """A request that a signature takes, as far as it says what that is."""
    if signature.method_name in (CLASSIFY, REGRESS):
        return {"signature_name": key, "examples": [{"x": 1.0}]}
    inputs = {name: _value(info) for name, info in signature.inputs.items()}
    return {"signature_name": key, "inputs": inputs}


def _value(info: TensorInfo) -> Any:
    """Zeros in the shape of an input, unknown sizes 1; a large one is a list without values."""
    kind = info.dtype.base.name
    found: Any = "text" if kind == "string" else False if kind == "bool" else 1.0 if "float" in kind else 1
    count = 1
    for size in reversed(info.shape.dims or ()):
        many = max(1, size)
        count *= many
        if count > _MOST:
            return []
        found = [found] * many
    return found
