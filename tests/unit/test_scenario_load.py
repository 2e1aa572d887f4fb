"""Loads: the events of a seed, and their truth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.credential import Credential
from towpath.contracts.job import JobSpec
from towpath.contracts.scenario_load import LoadShape, ReplayLoad, StandardJob, SyntheticLoad
from towpath.contracts.site import SiteSpec
from towpath.lab.harness import load as load_module
from towpath.lab.harness.events import EventClock
from towpath.lab.harness.judge import JobTruth, StoredInput, disorder_s, identity_for, unstored
from towpath.lab.harness.load import Device, DueEvent, chance, recorded, synthetic
from towpath.lab.harness.load_shapes import due_times, planned, rate_at
from towpath.lab.harness.workload import spec_of
from towpath.lab.workload.replay import ReplayReport
from towpath.lab.workload.text import lines
from towpath.mesh.state import SiteAccess

LOAD = SyntheticLoad(site="jfk", rate=100, keys=3)
SPEC = spec_of(StandardJob(name="counted", workload="windows", site="jfk"))


def held(inputs: list[StoredEvent]) -> StoredInput:
    return StoredInput("jfk/site/scenario", True, inputs)


def truth(inputs: list[StoredEvent], spec: JobSpec = SPEC) -> JobTruth:
    return JobTruth.of(spec, [held(inputs)])


def events(load: SyntheticLoad, count: int, seed: int = 1) -> list[DueEvent]:
    sent: list[DueEvent] = []
    for event in synthetic(load, chance("test", seed, "load"), EventClock(), lambda: len(sent) >= count):
        sent.append(event)
    return sent


def stored(load: SyntheticLoad, count: int) -> list[StoredEvent]:
    return [StoredEvent(serial, e.payload) for serial, e in enumerate(events(load, count), start=1)]


def results(inputs: list[StoredEvent]) -> list[ReceivedMessage]:
    """Return the results of a job without faults: windows counted by hand."""
    windows: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for event in inputs:
        body = json.loads(event.payload)
        if body["key"] != "closing":
            second = body["at"][:19]
            windows.setdefault((second, body["key"]), []).append((event.serial, body["value"]))
    observations = []
    for (second, key), inside in sorted(windows.items()):
        ends = f"{second[:17]}{int(second[17:]) + 1:02d}"
        body = {
            "job": "counted",
            "input": None,
            "site": "jfk",
            "epoch": 1,
            "serial": max(serial for serial, _ in inside),
            "count": len(inside),
            "stored_at": "2026-01-01T00:00:00Z",
            "window": {"start": f"{second}Z", "end": f"{ends}Z"},
            "key": {"key": key},
            "values": {"events": len(inside), "total": sum(value for _, value in inside)},
        }
        observations.append(observe(json.dumps(body).encode(), identity_for(SPEC), 0.0, 1, "drill/counted"))
    return observations


def test_events_when_the_seed_is_the_same_then_are_the_same() -> None:
    assert events(LOAD, 200, seed=5) == events(LOAD, 200, seed=5)
    assert events(LOAD, 200, seed=5) != events(LOAD, 200, seed=6)


def test_events_when_stopped_then_one_follows_that_closes_all_windows() -> None:
    *_, last = events(LOAD, 100)
    assert json.loads(last.payload)["key"] == "closing"


def test_events_when_repeats_are_likely_then_some_come_twice_with_the_same_number() -> None:
    load = LOAD.model_copy(update={"repeats": 0.3})
    numbers = [json.loads(event.payload)["n"] for event in events(load, 300)]
    assert 30 < len(numbers) - len(set(numbers)) < 150


def test_events_when_out_of_order_then_not_beyond_what_the_job_waits_for() -> None:
    inputs = stored(LOAD.model_copy(update={"disorder_s": 1.0}), 500)
    times = [json.loads(event.payload)["at"] for event in inputs]
    assert times != sorted(times)
    assert disorder_s(SPEC, [held(inputs)]) == 0


def test_disorder_when_beyond_the_watermark_then_is_told() -> None:
    assert disorder_s(SPEC, [held(stored(LOAD.model_copy(update={"disorder_s": 4.0}), 900))]) > 1


@pytest.mark.parametrize(
    ("shape", "at_s", "rate"),
    [
        ({"shape": LoadShape.CONSTANT}, 5.0, 100.0),
        ({"shape": LoadShape.RAMP, "peak": 300, "period_s": 10}, 5.0, 200.0),
        ({"shape": LoadShape.RAMP, "peak": 300, "period_s": 10}, 50.0, 300.0),
        ({"shape": LoadShape.BURST, "peak": 400, "period_s": 4, "burst_s": 1}, 4.5, 400.0),
        ({"shape": LoadShape.BURST, "peak": 400, "period_s": 4, "burst_s": 1}, 5.5, 100.0),
        ({"shape": LoadShape.DIURNAL, "peak": 300, "period_s": 12}, 6.0, 300.0),
        ({"shape": LoadShape.DIURNAL, "peak": 300, "period_s": 12}, 12.0, 100.0),
    ],
)
def test_rate_when_a_load_has_a_shape_then_follows_it(
    shape: dict[str, object], at_s: float, rate: float
) -> None:
    load = SyntheticLoad.model_validate({"site": "jfk", "rate": 100, **shape})
    assert rate_at(load, at_s) == pytest.approx(rate)


def test_due_times_when_a_load_bursts_then_as_many_are_due_as_planned() -> None:
    load = SyntheticLoad.model_validate(
        {"site": "jfk", "shape": "burst", "rate": 50, "peak": 500, "period_s": 4, "burst_s": 1}
    )
    within = [at for at in islice(due_times(lambda: load), 5_000) if at < 8.0]
    assert len(within) == pytest.approx(planned(load, 0.0, 8.0), rel=0.02)
    assert planned(load, 0.0, 8.0) == pytest.approx(2 * (500 + 3 * 50), rel=0.02)


def test_recorded_lines_when_their_number_is_given_then_the_text_begins_again_and_nothing_closes() -> None:
    load = ReplayLoad(replay="lines", site="jfk", rate=10, events=len(lines()) + 1)
    sent = [json.loads(event.payload) for event in recorded(load, lambda: False)]
    assert sent == [{"line": line} for line in (*lines(), lines()[0])]


def test_lines_when_they_are_asked_for_an_airport_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="only departures"):
        ReplayLoad(replay="lines", site="jfk", airport="JFK")


def test_due_times_when_the_pace_changes_then_the_next_events_follow_it() -> None:
    load = LOAD
    times = due_times(lambda: load)
    before = [next(times) for _ in range(3)]
    load = LOAD.model_copy(update={"rate": 10.0})
    assert before == pytest.approx([0.0, 0.01, 0.02])
    assert [next(times) for _ in range(2)] == pytest.approx([0.12, 0.22])


async def test_planned_events_when_the_pace_changed_then_each_time_has_its_own_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("towpath.lab.harness.load.time.time", lambda: now[0])
    login = Credential(user="devices", password="secret")
    device = Device(LOAD, SiteAccess.model_construct(spec=SiteSpec(name="jfk"), device=login), "test")
    device.start()
    now = [1010.0]
    device.change_pace(20.0)
    await device.cancel()
    assert device.planned(1008.0, 1013.0) == pytest.approx(2 * 100 + 3 * 20)
    assert device.planned(900.0, 1001.0) == pytest.approx(100)


async def test_load_when_its_next_event_is_due_later_than_it_may_take_to_stop_then_that_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login = Credential(user="devices", password="secret")
    device = Device(LOAD, SiteAccess.model_construct(spec=SiteSpec(name="jfk"), device=login), "test")

    async def replay(events: Iterator[DueEvent], take: Any) -> ReplayReport:
        next(events)
        await asyncio.sleep(0.3)
        return ReplayReport(sent=1)

    monkeypatch.setattr(device, "_replay", SimpleNamespace(run=replay))
    monkeypatch.setattr(load_module, "synthetic", lambda *_: iter([DueEvent(b"{}", 60.0)]))
    device.start()
    await asyncio.sleep(0)
    assert (await device.stop(0.01)).sent == 1


def test_verdict_when_all_windows_came_right_then_is_clean_and_complete() -> None:
    inputs = stored(LOAD, 300)
    observations = results(inputs)
    found = truth(inputs).verdict(observations)
    assert found.clean
    assert found.expected == len(observations) > 10
    assert truth(inputs).complete({observation.identity for observation in observations})


def test_verdict_when_a_window_is_missing_then_it_is_lost_and_not_complete() -> None:
    inputs = stored(LOAD, 300)
    observations = results(inputs)[1:]
    assert truth(inputs).verdict(observations).lost == 1
    assert not truth(inputs).complete({observation.identity for observation in observations})


def test_verdict_when_an_event_was_not_read_then_a_window_is_wrong() -> None:
    inputs = stored(LOAD, 300)
    assert truth(inputs).verdict(results(inputs[:50] + inputs[51:])).wrong == 1


def test_cleaned_events_when_a_device_repeats_one_then_one_result_is_expected() -> None:
    spec = spec_of(StandardJob(name="cleaned", workload="cleaned", site="jfk"))
    inputs = stored(LOAD, 50)
    assert truth([*inputs, *inputs[:10]], spec).verdict([]).lost == len(inputs)


def test_verdict_when_windows_of_a_key_come_in_another_order_then_counts_it_only_if_asked() -> None:
    inputs = stored(LOAD, 300)
    turned = results(inputs)[::-1]
    assert truth(inputs).verdict(turned).out_of_order == 0
    assert truth(inputs).verdict(turned, in_order=True).out_of_order > 0


def test_unstored_when_the_input_lacks_one_of_two_equal_events_then_returns_it() -> None:
    sent = [b"a", b"b", b"b"]
    assert unstored(sent, held([StoredEvent(1, b"b"), StoredEvent(2, b"a")])) == [b"b"]
    assert unstored(sent, held([StoredEvent(n, body) for n, body in enumerate([*sent, b"b"])])) == []


def test_recorded_events_when_their_number_is_given_then_malformed_and_closing_ones_come_besides() -> None:
    load = ReplayLoad(replay="departures", site="jfk", airport="JFK", rate=10, events=6, malformed_every=3)
    sent = list(recorded(load, lambda: False))
    assert load.length == 8
    assert [event.at for event in sent[:8]] == pytest.approx([n / 10 for n in range(8)])
    assert [b"~~" in event.payload for event in sent] == [False] * 8 + [True]
    assert planned(load, 0.0, 60.0) == pytest.approx(8)
