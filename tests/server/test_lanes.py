"""Queues, batches and limits, on runners that can be made to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from tfsmith.engines.protocol import Port
from tfsmith.engines.runner import Runner
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.server.lanes import Lane, Limits, RequestError

Array = np.ndarray[Any, Any]


class Fake:
    """A runner that doubles its input, waits for a gate, and notes what it was given."""

    engine, version = "fake", "1"

    def __init__(self, compute: Callable[[Array], Array] = lambda x: 2 * x, dims: tuple[int, ...] = (-1, 2)) -> None:
        self.inputs = {"x": Port("x:0", dtype_named("float32"), Shape(dims))}
        self.outputs = {"y": Port("y:0", dtype_named("float32"), Shape(dims))}
        self.gate = threading.Event()
        self.gate.set()
        self.sizes: list[int] = []
        self.threads: list[int] = []
        self.is_closed = False
        self._compute = compute

    def run(self, feeds: Mapping[str, Array], *, warn: bool = True) -> dict[str, Array]:
        return self.run_bound(feeds)

    def run_bound(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        self.gate.wait(10)
        self.threads.append(threading.get_ident())
        self.sizes.append(len(feeds["x"]))
        if np.isnan(feeds["x"]).any():
            raise ValueError("a NaN")
        return {"y": self._compute(feeds["x"])}

    def close(self) -> None:
        self.is_closed = True


@contextmanager
def lane_of(*runners: Fake, steady: bool = False, **limits: Any) -> Iterator[Lane]:
    fakes = [cast(Runner, one) for one in runners]
    lane = Lane("test", fakes, Limits(**limits), lambda event, **facts: None, steady=steady)
    for one in runners:
        one.sizes.clear()
    try:
        yield lane
    finally:
        for one in runners:
            one.gate.set()
        lane.close()


def rows(*values: float) -> dict[str, Array]:
    return {"x": np.array([[value, value] for value in values], np.float32)}


def submit(lane: Lane, feeds: dict[str, Array]) -> Future[dict[str, Array]]:
    """A request that a worker runs."""
    found = lane.submit(feeds)
    assert isinstance(found, Future)
    return found


def test_requests_that_wait_run_together_and_each_gets_its_own_rows() -> None:
    fake = Fake()
    with lane_of(fake, batch=8, wait=0.5) as lane:
        fake.gate.clear()
        futures = [submit(lane, rows(number, number + 0.5)) for number in range(4)]
        fake.gate.set()
        for number, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(10)["y"], 2 * rows(number, number + 0.5)["x"])
        assert max(fake.sizes) > 2, fake.sizes
        assert sum(fake.sizes) == 8
    assert fake.is_closed


def test_a_request_that_fails_does_not_fail_the_others_of_its_batch() -> None:
    fake = Fake()
    with lane_of(fake, batch=8, wait=0.5) as lane:
        good, bad = submit(lane, rows(1.0)), submit(lane, rows(float("nan")))
        np.testing.assert_array_equal(good.result(10)["y"], 2 * rows(1.0)["x"])
        with pytest.raises(ValueError, match="a NaN"):
            bad.result(10)


@pytest.mark.parametrize(
    "fake",
    [
        Fake(lambda x: x - x.mean(axis=0)),  # rows depend on each other
        Fake(lambda x: x[:1]),  # not a row for each row
        Fake(dims=(1, 2)),  # a fixed batch
    ],
)
def test_models_whose_rows_do_not_run_alone_are_not_batched(fake: Fake) -> None:
    with lane_of(fake, batch=8, wait=0.2) as lane:
        assert not lane.batches
        futures = [submit(lane, rows(number)) for number in range(3)]
        for future in futures:
            future.result(10)
        assert fake.sizes == [1, 1, 1]


def test_more_requests_than_the_queue_holds_are_refused() -> None:
    fake = Fake()
    fake.gate.clear()
    with lane_of(fake, queue=2) as lane:
        futures = [submit(lane, rows(1.0))]
        while lane.waiting:  # until the worker has it
            pass
        futures += [submit(lane, rows(2.0)), submit(lane, rows(3.0))]
        with pytest.raises(RequestError) as error:
            lane.submit(rows(4.0))
        assert error.value.code == "UNAVAILABLE"
        fake.gate.set()
        assert [future.result(10)["y"][0, 0] for future in futures] == [2.0, 4.0, 6.0]


def test_workers_run_at_the_same_time() -> None:
    first, second = Fake(), Fake()
    first.gate.clear()
    second.gate.clear()
    with lane_of(first, second, workers=2, queue=1) as lane:
        futures = [submit(lane, rows(1.0)), submit(lane, rows(2.0))]
        while lane.waiting:
            pass
        first.gate.set()
        second.gate.set()
        assert [future.result(10)["y"][0, 0] for future in futures] == [2.0, 4.0]
        assert first.sizes == second.sizes == [1]


def test_a_request_that_was_given_up_does_not_run() -> None:
    fake = Fake()
    fake.gate.clear()
    with lane_of(fake) as lane:
        running = submit(lane, rows(1.0))
        while lane.waiting:
            pass
        assert submit(lane, rows(2.0)).cancel()
        fake.gate.set()
        running.result(10)
    assert fake.sizes == [1]


def test_a_closed_lane_finishes_what_it_has_and_takes_no_more() -> None:
    fake = Fake()
    lane = Lane("test", [cast(Runner, fake)], Limits(), lambda event, **facts: None)
    future = submit(lane, rows(1.0))
    lane.close()
    assert future.result(0)["y"][0, 0] == 2.0
    with pytest.raises(RequestError) as error:
        submit(lane, rows(1.0))
    assert error.value.code == "UNAVAILABLE"


def test_feeds_that_do_not_fit_are_refused_before_they_wait() -> None:
    with lane_of(Fake()) as lane:
        for bad in ({}, {"x": np.zeros((1, 3), np.float32)}, {"x": np.zeros((1, 2))}, {"z": np.zeros((1, 2))}):
            with pytest.raises(RequestError) as error:
                lane.submit(bad if "x" not in bad else {"x": bad["x"] + 1e-9})
            assert error.value.code == "INVALID_ARGUMENT"


def test_a_lone_request_waits_for_nobody_and_those_of_many_clients_do() -> None:
    fake = Fake()
    with lane_of(fake, batch=2, wait=60) as lane:
        for _ in range(3):
            while lane.busy:
                pass
            assert submit(lane, rows(1.0)).result(10)["y"][0, 0] == 2.0
        while lane.busy:
            pass
        fake.gate.clear()
        futures = [submit(lane, rows(0.0))]
        while lane.waiting:
            pass
        futures.append(submit(lane, rows(1.0)))
        fake.gate.set()
        futures.append(submit(lane, rows(2.0)))  # for whom the second waits
        assert [future.result(10)["y"][0, 0] for future in futures] == [0.0, 2.0, 4.0]
        assert fake.sizes == [1, 1, 1, 1, 2]


def test_short_runs_of_known_shapes_need_no_worker() -> None:
    fake = Fake()
    here = threading.get_ident()
    with lane_of(fake, steady=True) as lane:
        found = lane.submit(rows(1.0))
        while isinstance(found, Future):  # until one was short, and the worker is back
            found.result(10)
            found = lane.submit(rows(1.0))
        assert found["y"][0, 0] == 2.0
        assert fake.threads[-1] == here != fake.threads[0]
        assert isinstance(lane.submit(rows(1.0, 2.0)), Future)  # other shapes
    with lane_of(fake) as lane:
        fake.threads.clear()
        for _ in range(20):
            submit(lane, rows(1.0)).result(10)
        assert here not in fake.threads


def test_shapes_whose_runs_turn_out_long_go_to_the_worker_again() -> None:
    fake = Fake()
    with lane_of(fake, steady=True) as lane:
        while isinstance(found := lane.submit(rows(1.0)), Future):
            found.result(10)
        fake.gate.clear()
        threading.Timer(0.1, fake.gate.set).start()
        assert isinstance(lane.submit(rows(1.0)), dict)
        assert isinstance(lane.submit(rows(1.0)), Future)
