"""Jobs that are observed while they are removed, and how soon they have results again."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.observation import observe
from towpath.contracts.scenario_load import StandardJob
from towpath.lab.harness.judge import StoredInput, identity_for
from towpath.lab.harness.observer import ObservedJob, ReceivedResult
from towpath.lab.harness.workload import spec_of

SPEC = spec_of(StandardJob(name="j", workload="cleaned", site="a", topic="site/x"))


def values(number: int) -> dict[str, Any]:
    return {"n": number, "key": "k", "at": "2026-01-01T00:00:00Z", "value": 0.0}


def result(serial: int) -> bytes:
    about = {"job": "j", "site": "a", "epoch": 1, "serial": serial, "stored_at": "2026-01-01T00:00:00Z"}
    return json.dumps({**about, "values": values(serial)}).encode()


class Collected:
    """Has received the results of the first two events."""

    observations = [observe(result(n), identity_for(SPEC), 0.0, 1, "drill/j") for n in (1, 2)]


async def test_job_when_it_was_removed_then_owes_the_results_up_to_its_stop_and_no_more() -> None:
    events = [StoredEvent(n, json.dumps(values(n)).encode()) for n in (1, 2, 3)]
    stored = StoredInput("a/site/x", True, events)
    nothing: Any = None
    lost: list[int] = []
    for ended_after in (2, 3):
        view: Any = type("View", (), {"inputs": [], "spec": SPEC})
        job = ObservedJob(nothing, SPEC, view, Collected(), [stored], {})  # type: ignore[arg-type]
        job.ended_after = {"a/site/x": ended_after}
        job.take_truth()
        lost.append((await job.verdict()).lost)
    assert lost == [0, 1]
    assert len(stored.events) == 3


@pytest.mark.parametrize(
    ("came", "recovered_s"),
    [
        ([(90.0, 1.0), (107.0, 8.0), (112.0, 2.0)], 12.0),
        ([(90.0, -3600.0), (112.0, -3500.0)], 12.0),
        ([], None),
    ],
    ids=["an old event before a new one", "a clock that was ahead", "none"],
)
async def test_recovery_when_it_is_asked_for_long_after_the_harm_then_is_when_a_result_of_a_later_event_came(
    came: list[tuple[float, float]], recovered_s: float | None
) -> None:
    nothing: Any = None
    job = ObservedJob(nothing, SPEC, nothing, SimpleNamespace(observations=[]), [], {})  # type: ignore[arg-type]
    job.arrivals += [ReceivedResult(at, latency, "a") for at, latency in came]

    assert await job.recovered_after(100.0, within_s=30.0) == recovered_s
