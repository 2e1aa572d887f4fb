"""The truth about the standard jobs of trials, over the events of a synthetic load."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.identity import RangeIdentity, WindowIdentity, named, utc
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.job import JobSpec
from towpath.contracts.scenario_load import StandardJob, SyntheticLoad
from towpath.lab.harness import judge
from towpath.lab.harness.events import WATERMARK_S, EventClock
from towpath.lab.harness.load import chance, synthetic
from towpath.lab.harness.workload import OPERATORS, spec_of

LOAD = SyntheticLoad(site="a", rate=200.0, keys=5, disorder_s=0.2)


def job(workload: str, name: str = "j-1") -> JobSpec:
    described = {"name": name, "workload": workload, "site": "a", "output_site": "out", "topic": "site/drill"}
    return spec_of(StandardJob.model_validate(described))


CLEANED = job("cleaned", "clean-1")


def payloads(seconds: float, *, closed: bool = True) -> list[bytes]:
    """Return the events that a load of this length sends."""
    count = int(seconds * LOAD.rate)
    given = itertools.count()
    events = synthetic(LOAD, chance("t", 0, "load"), EventClock(), lambda: next(given) >= count)
    sent = [event.payload for event in events]
    return sent if closed else sent[:-1]


def stored(sent: list[bytes]) -> list[StoredEvent]:
    return [StoredEvent(serial, payload) for serial, payload in enumerate(sent, start=1)]


def truth(spec: JobSpec, sent: list[bytes]) -> judge.JobTruth:
    return judge.JobTruth.of(spec, [judge.StoredInput("a/site/drill", True, stored(sent))])


def result(payload: bytes, serial: int) -> bytes:
    """Return the result that the clean job publishes for an event."""
    values = json.loads(payload)
    about = {"job": "clean-1", "site": "a", "epoch": 1, "serial": serial, "input": "a/site/drill"}
    return json.dumps({**about, "stored_at": values["at"], "values": values}).encode()


def cleaned(sent: list[bytes]) -> list[ReceivedMessage]:
    identity = judge.identity_for(CLEANED)
    return [observe(result(event.payload, event.serial), identity, 0.0) for event in stored(sent)]


def times(sent: list[bytes]) -> list[str]:
    return [json.loads(payload)["at"] for payload in sent]


def test_events_when_sent_then_are_out_of_order_within_the_watermark() -> None:
    sent = payloads(2, closed=False)
    assert times(sent) != sorted(times(sent))
    assert judge.disorder_s(job("windows"), truth(job("windows"), sent).inputs) == 0


def test_windows_when_load_has_ended_then_all_but_the_closing_one_are_expected() -> None:
    sent = payloads(2)
    expected = truth(job("windows"), sent).expected
    assert sum(values["events"] for values in expected.values()) == len(sent) - 1
    assert sum(values["total"] for values in expected.values()) == sum(
        json.loads(payload)["value"] for payload in sent[:-1]
    )


def test_windows_when_load_goes_on_then_open_ones_are_not_expected() -> None:
    sent = payloads(4, closed=False)
    expected = truth(job("windows"), sent).expected
    ends = [identity.end for identity in expected if isinstance(identity, WindowIdentity)]
    assert ends
    assert max(ends) <= utc(max(times(sent))) - timedelta(seconds=WATERMARK_S)


def test_cleaned_when_every_event_comes_once_then_verdict_is_clean() -> None:
    sent = payloads(0.5)
    verdict = truth(CLEANED, sent).verdict(cleaned(sent), in_order=True)
    assert verdict.clean
    assert verdict.out_of_order == 0
    assert verdict.results == len(sent)


def test_cleaned_when_device_sent_an_event_twice_then_one_result_is_right() -> None:
    sent = payloads(0.5)
    assert truth(CLEANED, [*sent, sent[5]]).verdict(cleaned(sent), in_order=True).clean


def test_cleaned_when_results_are_disturbed_then_verdict_counts_each_kind() -> None:
    sent = payloads(0.5)
    came = cleaned(sent)
    moved = [*came[:10], came[10], came[10], *came[12:20], *reversed(came[20:40]), *came[40:]]
    verdict = truth(CLEANED, sent).verdict(moved, in_order=True)
    assert (verdict.lost, verdict.duplicated) == (1, 1)
    assert verdict.out_of_order > 0


@pytest.mark.parametrize("workload", OPERATORS)
def test_workload_when_results_are_missing_then_is_not_complete(workload: str) -> None:
    assert not truth(job(workload), payloads(1)).complete(set())


def test_processing_when_a_window_in_the_middle_is_on_its_way_then_is_not_complete() -> None:
    sent = payloads(1)
    first, last = 0, len(sent)
    third = (last - first) // 3
    edges = [first, first + third, last - third, last]
    came = {RangeIdentity("j-1", a, b, named({"key": "k0"})) for a, b in itertools.pairwise(edges)}
    middle = RangeIdentity("j-1", edges[1], edges[2], named({"key": "k0"}))
    assert truth(job("processing"), sent).complete({*came})
    assert not truth(job("processing"), sent).complete(came - {middle})


@pytest.mark.parametrize("workload", OPERATORS)
def test_workload_when_asked_for_its_job_then_results_are_kept_at_a_third_site(workload: str) -> None:
    spec = job(workload)
    assert (spec.site, spec.output_site, spec.inputs[0].start) == ("a", "out", "latest")
