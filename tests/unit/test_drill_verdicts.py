"""The truth about the standard jobs that a drill moves, and its report when results differ."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.checker.identity import RangeIdentity, WindowIdentity, named, utc
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.commands import JobView, OperationState, StrategyName
from towpath.contracts.job import JobSpec, JobState, JobStatus, ResolvedOutput
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.site import SiteState, SiteStatus
from towpath.lab.drill.matrix import WORKLOADS, ActorName, FaultName
from towpath.lab.drill.moving_job import LOAD
from towpath.lab.drill.report import CellReport, DrillReport, cell_line, matrix_table
from towpath.lab.harness import judge
from towpath.lab.harness.events import WATERMARK_S, EventClock
from towpath.lab.harness.load import chance, synthetic
from towpath.lab.harness.stage import ownership_faults
from towpath.lab.harness.workload import spec_of


def job(workload: str, name: str = "j-1") -> JobSpec:
    described = {"name": name, "workload": workload, "site": "a", "output_site": "out", "topic": "site/drill"}
    return spec_of(StandardJob.model_validate(described))


CLEANED = job("cleaned", "clean-1")


def payloads(seconds: float, *, closed: bool = True, clock: EventClock | None = None) -> list[bytes]:
    """Return the events that a load of this length sends."""
    count = int(seconds * LOAD.rate)
    given = itertools.count()
    events = synthetic(LOAD, chance("t", 0, "load"), clock or EventClock(), lambda: next(given) >= count)
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


def test_events_when_loads_follow_each_other_then_numbers_and_windows_go_on() -> None:
    clock = EventClock()
    first, second = payloads(1, clock=clock), payloads(1, clock=clock)
    numbers = [json.loads(payload)["n"] for payload in (*first, *second)]
    assert numbers == list(range(1, 2 * int(LOAD.rate) + 3))
    assert min(times(second)) > max(times(first))


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


@pytest.mark.parametrize("workload", WORKLOADS)
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


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workload_when_asked_for_its_job_then_results_are_kept_at_a_third_site(workload: str) -> None:
    spec = job(workload)
    assert (spec.site, spec.output_site, spec.inputs[0].start) == ("a", "out", "latest")


def view(epoch: int = 3, operation: str | None = None) -> JobView:
    spec = job("cleaned")
    output = ResolvedOutput(site="out", stream="OUT_j-1", topic="j", rejected_topic="j/rejected")
    return JobView(
        spec=spec, site="a", epoch=epoch, state=None, operation=operation, status=None, output=output
    )


def site(name: str, state: JobState | None = None, epoch: int = 3) -> SiteStatus:
    jobs = [JobStatus(job="j-1", epoch=epoch, state=state)] if state else []
    return SiteStatus(site=name, state=SiteState.UP, nats_url="", mqtt_host="", mqtt_port=0, jobs=jobs)


def test_ownership_when_registry_site_and_output_agree_then_has_no_fault() -> None:
    assert ownership_faults(view(), [site("a", JobState.RUNNING), site("b"), site("out")], [3]) == []


@pytest.mark.parametrize(
    ("owned", "sites", "accepted", "fault"),
    [
        (view(), [site("a", JobState.RUNNING), site("b")], [2], "accepts epochs"),
        (view(), [site("a", JobState.RUNNING), site("b")], [2, 3], "accepts epochs"),
        (view(), [site("a", JobState.RUNNING), site("b", JobState.HELD)], [3], "b has the job, too"),
        (view(), [site("a", JobState.RUNNING, epoch=2), site("b")], [3], "running at epoch 2"),
        (view(), [site("a", JobState.HELD), site("b")], [3], "held at epoch 3"),
        (view(), [site("a"), site("b")], [3], "unknown"),
        (view(operation="m1"), [site("a", JobState.RUNNING)], [3], "operation m1 is under way"),
    ],
    ids=["fenced", "two-epochs", "held-elsewhere", "old-epoch", "held", "missing", "under-way"],
)
def test_ownership_when_one_of_them_differs_then_says_what(
    owned: JobView, sites: list[SiteStatus], accepted: list[int], fault: str
) -> None:
    (found,) = ownership_faults(owned, sites, accepted)
    assert fault in found


def report(*reasons: str) -> CellReport:
    return CellReport(
        strategy=StrategyName.GENERAL,
        step="resume",
        fault=FaultName.KILL,
        actor=ActorName.REDIS,
        state=OperationState.COMPLETED,
        total_s=2.5,
        reasons=list(reasons),
    )


def test_report_when_a_cell_has_a_reason_then_drill_is_not_clean() -> None:
    assert DrillReport(cells=[report()], planned=1).clean
    assert not DrillReport(cells=[report(), report("2 results lost")], planned=2).clean


def test_report_when_cells_were_not_run_then_drill_is_not_clean() -> None:
    assert not DrillReport(cells=[report()], planned=2).clean
    assert not DrillReport().clean


def test_table_when_drill_is_over_then_has_a_row_for_each_step_that_was_run() -> None:
    table = matrix_table(DrillReport(cells=[report(), report("lost")], planned=2))
    assert table.row_count == 1
    assert "1 not clean" in str(table.caption)


def test_line_when_cell_is_not_clean_then_says_why() -> None:
    line = cell_line(report("2 results lost"))
    assert "general/resume/kill/redis: completed in 2.5 s" in line
    assert "2 results lost" in line
