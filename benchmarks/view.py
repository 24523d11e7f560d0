"""`tfsmith view` in a real Chromium: the first picture, opening 1,000 nodes, frames while panning.

Seconds are the browser's own, from the moment at which it is told the address; beside Netron and Model Explorer from
the start of the command to the picture. Needs Chromium and the package `playwright`. The other two are measured where
`netron` and `model-explorer` are on the path, such as by `PATH=peers/bin:$PATH python -m benchmarks --only view`, after
`python -m venv peers && peers/bin/pip install netron ai-edge-model-explorer`.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, faster, within
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "view"
_NODES = 50_000
_LARGE_SCOPE = """
import sys
from pathlib import Path
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ir.types import dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
kind = dtype_named("float32")
nodes = [Node("x", "Placeholder", (), {"dtype": kind}), Node("y", "Relu", ("scope/n_999",), {"T": kind})]
for at in range(1000):
    before = f"scope/n_{at - 1}" if at else "x"
    other = f"scope/n_{max(0, at - 7)}" if at > 1 else "x"
    nodes.append(Node(f"scope/n_{at}", "AddV2" if at % 3 else "Mul", (before, other), {"T": kind}))
Path(sys.argv[1]).write_bytes(plan_graph(Graph(tuple(nodes))).tobytes())
"""
_BROWSER = """
import shutil, sys, time
from playwright.sync_api import sync_playwright
flags = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync").split()
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
"""
_FIRST = """
    start = time.perf_counter()
    page.goto(sys.argv[1])
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    print(time.perf_counter() - start)
"""
_OPEN = """
    page.goto(sys.argv[1])
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    print(page.evaluate('''async () => {
        const view = tfsmithView.page.views[0];
        const group = view.tree.find("scope");
        if (group.isOpen) await view.toggle(group);
        Object.assign(group, { isArranged: false, isStale: true, placed: null });  // as if it had never been open
        const start = performance.now();
        await view.toggle(group);
        await new Promise(requestAnimationFrame);
        return (performance.now() - start) / 1000;
    }'''))
"""
_PAN = """
    page.goto(sys.argv[1])
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    print(page.evaluate('''async () => {
        const view = tfsmithView.page.views[0];
        const groups = view.tree.root.items.slice(0, 40).map((item) => item.group);
        for (const group of groups) if (group && !group.isOpen) view.tree.open(group);
        await view.relayout();
        const start = performance.now();
        for (let frame = 0; frame < 60; frame++) {
            view.pan(frame % 2 ? -9 : 11, -3);
            await new Promise(requestAnimationFrame);
        }
        return (performance.now() - start) / 60000;
    }'''))
"""
_SERVED = """
    import json, re, socket, subprocess, urllib.parse
    kind, program, model = sys.argv[1:4]
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    options = {"tfsmith": ["view", model, "--no-browser", "--port", str(port)],
               "netron": [model, "--host", "127.0.0.1", "--port", str(port)],
               "model-explorer": [model, "--host", "127.0.0.1", "--port", str(port), "--no_open_in_browser",
                                  "--skip_health_check"]}
    start = time.perf_counter()
    server = subprocess.Popen([program, *options[kind]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        root = f"http://127.0.0.1:{port}/"
        if kind == "tfsmith":
            root = next(line.strip() for line in server.stdout if line.startswith("http"))
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        # Netron asks for consent to report usage before it shows anything; this is what it keeps of the answer.
        page.context.add_cookies([{"name": "consent", "value": "1", "url": root}])
        query = urllib.parse.quote(json.dumps({"models": [{"url": model}]}))
        page.goto(f"{root}?data={query}" if kind == "model-explorer" else root, wait_until="commit")
        drawn = {"tfsmith": "html[data-ready]", "netron": "body.default svg .node", "model-explorer": "canvas"}
        page.wait_for_selector(drawn[kind], timeout=300_000, state="attached")
        print(time.perf_counter() - start)
    finally:
        server.terminate()
"""
_PEERS = {"netron": "Netron", "model-explorer": "Model Explorer"}


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic; none where there is no browser."""
    if shutil.which("chromium") is None or find_spec("playwright") is None:
        return []
    bert = setup.models.saved_model("ref")
    many = setup.models.graph(1_000 if setup.quick else _NODES)
    scope = setup.output("scope.pb")
    setup.compare({"scope": Command(python(_LARGE_SCOPE, scope))}, 1)
    pages = {name: setup.output(f"{name}.html") for name in ("bert", "many", "scope")}
    written = setup.compare(
        {
            name: Command(script("tfsmith", "view", model, "-o", pages[name], "--force"))
            for name, model in (("bert", bert), ("many", many), ("scope", scope))
        }
    )
    codes = {
        "bert": (_FIRST, pages["bert"]),
        "many": (_FIRST, pages["many"]),
        "open": (_OPEN, pages["scope"]),
        "pan": (_PAN, pages["many"]),
    }
    commands = {key: _in_browser(code, page.as_uri()) for key, (code, page) in codes.items()}
    found = setup.compare(commands)
    beside = _beside(setup, bert)
    return [
        Row(_TOPIC, "view -o, BERT-base", written["bert"]),
        Row(_TOPIC, f"view -o, {_NODES:,} nodes", written["many"]),
        Row(_TOPIC, "first picture, BERT-base", found["bert"], goals=[within(2, found["bert"])]),
        Row(_TOPIC, f"first picture, {_NODES:,} nodes", found["many"], goals=[within(5, found["many"])]),
        Row(_TOPIC, "opening a scope of 1,000 nodes", found["open"], goals=[within(1, found["open"])]),
        Row(_TOPIC, f"a frame while panning, {_NODES:,} nodes", found["pan"], goals=[within(1 / 30, found["pan"])]),
        *beside,
    ]


def _beside(setup: Setup, model: Path) -> list[Row]:
    """From the start of the command to the picture of BERT-base, beside those of the others that are there."""
    programs = {name: path for name in _PEERS if (path := shutil.which(name)) is not None}
    file = str(model / "saved_model.pb")
    ours = str(Path(sys.executable).with_name("tfsmith"))
    commands = {
        name: Command(python(_BROWSER + _SERVED, name, program, file), own_clock=True)
        for name, program in {"tfsmith": ours, **programs}.items()
    }
    found = setup.compare(commands, 1)
    what = "from the command to the picture, BERT-base"
    if not programs:
        return [Row(_TOPIC, what, found["tfsmith"])]
    return [
        Row(_TOPIC, what, found["tfsmith"], _PEERS[name], found[name], [faster(1, found["tfsmith"], found[name])])
        for name in programs
    ]


def _in_browser(code: str, address: str | Path) -> Command:
    return Command(python(_BROWSER + code, address), own_clock=True)
