"""`tfsmith fleet VERB PATTERN...`: one verb over thousands of models, a line of JSON for each."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tfsmith.errors import EngineError, TfsmithError, UsageError, worded
from tfsmith.records import record
from tfsmith.storage.place import write_file
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import checked, read_verb
from tfsmith.verbs._fleet_models import Found, find_models, out_of
from tfsmith.verbs._shared import Result
from tfsmith.view import Section, human_count, json_value, plural

if TYPE_CHECKING:
    from tfsmith.verbs._shared import FilePath, Many, Pairs, Progress

__all__ = ["FleetResult", "fleet", "run_one"]

_LINE, _TITLE = b'{"model": ', "<title>tfsmith fleet</title>"
"""How a line of the report begins, and the title of the page."""
_LEFT_OUT = frozenset({"fleet", "serve", "demo", "completion", "diff", "verify", "view"})
"""Verbs that take no model, two of them, or all of the terminal."""
_TASKS = 500
"""Models after which a process is replaced, so that what leaks stays small."""
_SHOWN = 20
_TELL_SECONDS = 3.0


@record
class FleetResult(Result):
    """What became of the models; true if each was done, and the verb's answer was yes.

    Attributes:
        done: How many models gave yes, no, an error, or ended their process.
        skipped: How many were done before, as the report says.
        failed: The models that failed, and why.
        report_path: Where the lines are.
        page: Where the page is.
        seconds: How long it took.
        notes: Nothing.
    """

    done: Mapping[str, int]
    skipped: int
    failed: tuple[tuple[str, str], ...]
    report_path: Path
    page: Path
    seconds: float
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return set(self.done) <= {"yes"}

    def report(self) -> Iterator[Section | str]:
        """A table of what became of them, and of the first that failed."""
        rows = [(status, human_count(count)) for status, count in self.done.items()]
        if self.skipped:
            rows.append(("done before", human_count(self.skipped)))
        yield Section("models", rows, ("status", "count"))
        if self.failed:
            yield Section("failed", list(self.failed[:_SHOWN]), ("model", "why"))
        total = sum(self.done.values())
        rate = total / self.seconds if self.seconds else 0.0
        took = f"{plural(total, 'model')} in {self.seconds:.1f} s ({rate:.1f} a second)"
        yield Section(f"{took}; {self.report_path}, {self.page}")

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "done": dict(self.done),
            "skipped": self.skipped,
            "failed": dict(self.failed),
            "report": str(self.report_path),
            "page": str(self.page),
            "seconds": self.seconds,
        }


@checked
def fleet(
    verb: str,
    patterns: Many,
    *,
    report: FilePath,
    jobs: int = 1,
    ray: str | None = None,
    options: Pairs | None = None,
    progress: Progress | None = None,
) -> FleetResult:
    """Runs a verb over many models: a line of JSON for each as it ends, and a page at the end.

    A model that is damaged, or that ends its process, is a line and not the end. Models that the report has already, by
    their path, size and time or etag, are left out, so that it goes on where it was stopped.

    Args:
        verb: Which verb.
        patterns: Paths, folders or globs of this machine, or URLs; `**` is for all folders below.
        report: The file of lines; what is there is kept and continued. The page is beside it, as `.html`.
        jobs: How many processes of this machine.
        ray: The address of a Ray cluster that does it in place of processes; `auto` for the one of this machine.
        options: The verb's own options, by their names in Python. An `out` has {stem}, {name} or {parent} of the model.
        progress: Is called with how many are done, how fast, and how long it will take.

    Returns:
        What became of them.

    Raises:
        UsageError: There is no such verb or option, or no model matches.

    Example:
        tfsmith fleet scan 'models/**' --report scan.jsonl --jobs 4
        tfsmith fleet show 's3://bucket/**' --report show.jsonl --ray auto
    """
    given = dict(options or {})
    _check(verb, jobs, ray, given)
    models = find_models(patterns)
    tasks = _tasks(verb, models, given)
    path = Path(report)
    page = _page_of(path)
    before = _done_before(path, verb, given)
    todo = [task for task in tasks if (task[0].path, task[0].size, task[0].etag) not in before]
    start = told = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[tuple[str, str]] = []
    lines = _on_ray(verb, todo, ray, given) if ray is not None else _in_processes(verb, todo, jobs, given)
    with _appended(path) as file:
        for number, line in enumerate(lines, 1):
            file.write(f"{json.dumps(line, allow_nan=False, default=str)}\n")
            file.flush()
            counts[line["status"]] += 1
            if line["status"] in ("error", "crashed"):
                failed.append((line["model"], line["error"]))
            if progress is not None and time.monotonic() - told >= _TELL_SECONDS:
                told = time.monotonic()
                rate = number / (told - start)
                left = (len(todo) - number) / rate
                progress(f"{number:,} of {len(todo):,} models, {rate:.1f} a second, {left:.0f} s left")
    write_file(page, _page(verb, path).encode(), force=True)
    done = {status: counts[status] for status in ("yes", "no", "error", "crashed") if counts[status]}
    skipped = len(tasks) - len(todo)
    return FleetResult(done, skipped, tuple(failed), path, page, time.monotonic() - start)


@contextmanager
def _appended(path: Path) -> Iterator[TextIO]:
    """The report, ready for more lines; a new one that gets none, as for a cluster that is not there, goes again."""
    try:
        if path.is_file():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)  # without a line that was cut off
        with open(path, "a", encoding="utf-8") as file:
            yield file
    finally:
        if path.is_file() and not path.stat().st_size:
            path.unlink()


def _check(verb: str, jobs: int, ray: str | None, options: Mapping[str, Any]) -> None:
    if verb not in VERBS or not VERBS[verb][0] or verb in _LEFT_OUT:
        raise UsageError(f"no fleet can {verb!r}", remedy="pass a verb that takes one model, such as scan or convert")
    if not 1 <= jobs <= 1000:
        raise UsageError(f"{{jobs={jobs}}} makes no sense", remedy="pass 1 to 1000")
    if ray is not None and jobs != 1:
        raise UsageError("{jobs} and {ray} both say who works", remedy="give one of them")
    known = {option.name for option in read_verb(verb, VERBS[verb][0]).options}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{verb} has no option {unknown!r}", remedy=f"help(tfsmith.{verb}) lists them")


Task = tuple[Found, dict[str, Any]]


def _tasks(verb: str, models: list[Found], options: Mapping[str, Any]) -> list[Task]:
    """Each model with its options; no two may have the same output."""
    tasks: list[Task] = []
    outs: dict[str, str] = {}
    for model in models:
        own = dict(options)
        if own.get("out") is not None:
            out = own["out"] = out_of(str(own["out"]), model.path)
            if out in outs:
                what = f"{model.path} and {outs[out]} would both be {out}"
                raise UsageError(what, remedy="use the parent's name in {out}, too")
            outs[out] = model.path
        tasks.append((model, own))
    return tasks


def _done_before(path: Path, verb: str, options: Mapping[str, Any]) -> set[tuple[str, int, str]]:
    """What the report has of this verb with these options. The last line may be cut off, as by a kill.

    Raises:
        UsageError: The file is no such report, so that nothing may be added to it.
    """
    if not path.is_file():
        return set()
    wanted = json.loads(json.dumps(dict(options), default=str))
    found: set[tuple[str, int, str]] = set()
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and line[: len(_LINE)] == _LINE[: len(line)]:
                break
            try:
                one = json.loads(line)
                if (one["verb"], one["options"]) == (verb, wanted):
                    found.add((one["model"], one["size"], one["etag"]))
            except (ValueError, KeyError, TypeError) as error:
                what = f"line {number} is not of a fleet's report"
                raise UsageError(what, path=path, remedy="pass another {report}") from error
    return found


def _page_of(report: Path) -> Path:
    """Where the page of a report is; one of its own, or nothing yet."""
    page = report.with_suffix(".html")
    if page == report or (page.is_file() and _TITLE.encode() not in page.read_bytes()[:1000]):
        what = "it would take the place of the report" if page == report else "it is no page of a fleet"
        raise UsageError(f"{page.name} is where the page goes, but {what}", path=report, remedy="pass another {report}")
    return page


def run_one(verb: str, model: Found, options: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The line of one model. Whatever happens, it is a line."""
    start = time.monotonic()
    line: dict[str, Any] = {"model": model.path, "size": model.size, "etag": model.etag, "verb": verb}
    line["options"] = json.loads(json.dumps(asked, default=str))
    try:
        out = options.get("out")
        if out is not None and "://" not in out:
            Path(out).parent.mkdir(parents=True, exist_ok=True)
        result = read_verb(verb, VERBS[verb][0]).function(model.path, **options)
        line |= {"status": "yes" if result else "no", "result": json_value(result.to_json())}
    except TfsmithError as error:
        line |= {"status": "error", "error": worded(str(error))}
    except Exception as error:
        line |= {"status": "error", "error": f"tfsmith failed: {error!r}", "trace": traceback.format_exc()}
    line["seconds"] = round(time.monotonic() - start, 4)
    return line


Work = Callable[[str, Found, dict[str, Any], dict[str, Any]], dict[str, Any]]


def _crashed(verb: str, model: Found, asked: dict[str, Any], why: str) -> dict[str, Any]:
    line = {"model": model.path, "size": model.size, "etag": model.etag, "verb": verb}
    options = json.loads(json.dumps(asked, default=str))
    return {**line, "options": options, "status": "crashed", "error": why, "seconds": 0.0}


def _in_processes(
    verb: str, tasks: list[Task], jobs: int, asked: dict[str, Any], work: Work = run_one
) -> Iterator[dict[str, Any]]:
    """Runs tasks in processes. Where one dies, what ran at that time runs again, alone, to see which it was."""
    from concurrent.futures import FIRST_COMPLETED, Future, wait
    from concurrent.futures.process import BrokenProcessPool

    waiting = list(reversed(tasks))
    suspects: list[Task] = []
    while waiting or suspects:
        alone = bool(suspects)
        running: dict[Future[dict[str, Any]], Task] = {}
        with _pool(1 if alone else jobs) as pool:
            while running or (waiting and not alone) or (alone and suspects):
                source = suspects if alone else waiting
                while source and len(running) < (1 if alone else 2 * jobs):
                    task = source.pop()
                    try:
                        running[pool.submit(work, verb, task[0], task[1], asked)] = task
                    except BrokenProcessPool:
                        source.append(task)
                        break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                broken = [future for future in finished if isinstance(future.exception(), BrokenProcessPool)]
                for future in finished:
                    task = running.pop(future)
                    if future not in broken:
                        yield future.result()
                    elif alone:
                        yield _crashed(verb, task[0], asked, "it ended its process")
                    else:
                        suspects.append(task)
                if broken:
                    suspects += running.values()
                    break


def _pool(jobs: int) -> Any:
    import multiprocessing
    import sys
    from concurrent.futures import ProcessPoolExecutor

    recycled: dict[str, Any] = {"max_tasks_per_child": _TASKS} if sys.version_info >= (3, 11) else {}
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), **recycled)


def _on_ray(verb: str, tasks: list[Task], address: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Has a Ray cluster run the tasks: it places them, and runs them again where a node is lost."""
    try:
        import ray
    except ImportError as error:
        raise EngineError("Ray is not installed", remedy="pip install 'tfsmith[ray]'") from error
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except Exception as error:
        said = " ".join(str(error).split())
        raise EngineError(f"no Ray cluster at {address!r} ({said})", remedy="start one, and check {ray}") from error
    try:
        work = ray.remote(max_retries=3)(run_one)
        running = {work.remote(verb, model, own, asked): model for model, own in tasks}
        while running:
            finished, _ = ray.wait(list(running), num_returns=1)
            for one in finished:
                model = running.pop(one)
                try:
                    yield ray.get(one)
                except ray.exceptions.RayError as error:
                    said = " ".join(str(error).split())[:200]
                    yield _crashed(verb, model, asked, f"it ended its process ({said})")
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuses an address where nobody listens; Ray itself would wait for minutes."""
    import socket

    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return  # such as "auto"
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise EngineError(f"no Ray cluster at {address!r} ({error})", remedy="start one, and check {ray}") from error


def _page(verb: str, report: Path) -> str:
    """The report as a page: a row for each model, the last line counts."""
    rows: dict[str, Any] = {}
    with open(report, encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            if one["verb"] == verb:
                rows[one["model"]] = one
    counts = Counter(one.get("status", "") for one in rows.values())
    head = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    body = "".join(
        f"<tr class='{escape(str(one.get('status')))}'><td>{escape(str(one.get('status')))}<td>{escape(name)}"
        f"<td>{one.get('size', 0):,}<td>{one.get('seconds', 0)}<td>{escape(str(one.get('error', '')))}"
        for name, one in sorted(rows.items(), key=lambda pair: (pair[1].get("status") == "yes", pair[0]))
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'>{_TITLE}"
        "<style>body{font:15px/1.5 "
        "system-ui,sans-serif;margin:2rem}td,th{text-align:left;padding:.1rem 1rem .1rem 0}.error td:first-child,"
        ".crashed td:first-child{color:#b00020}</style>"
        f"<h1>tfsmith fleet {escape(verb)}</h1><p>{escape(head)}</p>"
        f"<table><tr><th>status<th>model<th>bytes<th>seconds<th>error{body}</table></html>\n"
    )
