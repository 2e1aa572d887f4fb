"""What the drill expects of its jobs, and what it says when something is not so."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from towpath.checker.identity import RangeIdentity, WindowIdentity, named
from towpath.checker.observation import Observation, observe
from towpath.contracts.commands import JobView, OperationState, StrategyName
from towpath.contracts.job import JobState, JobStatus, ResolvedOutput
from towpath.contracts.site import SiteState, SiteStatus
from towpath.lab.drill.matrix import ActorName, FaultName
from towpath.lab.drill.report import CellReport, DrillReport
from towpath.lab.drill.table import cell_line, matrix_table
from towpath.lab.harness.events import RATE, TIME_LAPSE, WATERMARK_S, DrillEvent, EventClock
from towpath.lab.harness.stage import ownership_faults
from towpath.lab.harness.workload import CLEANED, PROCESSING, WINDOWS, Workload, disorder_s


def events(seconds: float, *, closed: bool = True, clock: EventClock | None = None) -> list[DrillEvent]:
    """What a load of this length sends."""
    clock = clock or EventClock()
    begun = clock.begin()
    sent = [clock.event(begun, position) for position in range(int(seconds * RATE))]
    return [*sent, clock.closing()] if closed else sent


def stored(sent: list[DrillEvent]) -> list[tuple[int, DrillEvent]]:
    return list(enumerate(sent, start=1))


def result(job: str, event: DrillEvent, serial: int) -> bytes:
    """What the clean job publishes of an event."""
    at = event.at.isoformat()
    values = {"n": event.number, "key": event.key, "at": at, "value": event.value}
    body = {"job": job, "site": "a", "epoch": 1, "serial": serial, "input": "a/site/drill", "stored_at": at}
    return json.dumps({**body, "values": values}).encode()


def cleaned(sent: list[DrillEvent]) -> list[Observation]:
    return [
        observe(result("clean-1", event, serial), CLEANED.identity, 0.0) for serial, event in stored(sent)
    ]


def test_events_when_loads_follow_each_other_then_numbers_and_windows_go_on() -> None:
    clock = EventClock()
    first, second = events(1, clock=clock), events(1, clock=clock)
    assert [e.number for e in (*first, *second)] == list(range(1, 2 * int(RATE) + 3))
    assert min(e.at for e in second) > max(e.at for e in first)


def test_events_when_sent_then_are_out_of_order_within_the_watermark() -> None:
    assert 0 < disorder_s(stored(events(2))) < WATERMARK_S / 2


def test_event_when_read_back_then_is_the_same() -> None:
    event = events(0.1)[3]
    assert DrillEvent.from_payload(event.payload) == event


def test_windows_when_load_has_ended_then_all_but_the_closing_one_are_expected() -> None:
    sent = events(2)
    expected = WINDOWS.expected("j", stored(sent))
    assert sum(values["events"] for values in expected.values()) == len(sent) - 1
    assert sum(values["total"] for values in expected.values()) == sum(e.value for e in sent[:-1])


def test_windows_when_load_goes_on_then_open_ones_are_not_expected() -> None:
    expected = WINDOWS.expected("j", stored(events(4, closed=False)))
    ends = [identity.end for identity in expected if isinstance(identity, WindowIdentity)]
    newest = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=2 + 4 * TIME_LAPSE)
    assert ends
    assert max(ends) <= newest - timedelta(seconds=WATERMARK_S)


def test_cleaned_when_every_event_comes_once_then_verdict_is_clean() -> None:
    sent = events(0.5)
    verdict = CLEANED.verdict("clean-1", stored(sent), cleaned(sent))
    assert verdict.clean
    assert verdict.out_of_order == 0
    assert verdict.results == len(sent)


def test_cleaned_when_device_sent_an_event_twice_then_one_result_is_right() -> None:
    sent = events(0.5)
    assert CLEANED.verdict("clean-1", stored([*sent, sent[5]]), cleaned(sent)).clean


def test_cleaned_when_results_are_disturbed_then_verdict_counts_each_kind() -> None:
    sent = events(0.5)
    came = cleaned(sent)
    moved = [*came[:10], came[10], came[10], *came[12:20], came[30], came[20], *came[21:30], *came[31:]]
    verdict = CLEANED.verdict("clean-1", stored(sent), moved)
    assert (verdict.lost, verdict.duplicated) == (1, 1)
    assert verdict.out_of_order > 0


@pytest.mark.parametrize("workload", [WINDOWS, CLEANED, PROCESSING], ids=lambda w: w.name)
def test_workload_when_results_are_missing_then_is_not_complete(workload: Workload) -> None:
    assert not workload.complete("j", stored(events(1)), set())


def test_processing_when_a_window_in_the_middle_is_on_its_way_then_is_not_complete() -> None:
    sent = stored(events(1))
    first, last = sent[0][0] - 1, sent[-1][0]
    third = (last - first) // 3
    edges = [first, first + third, last - third, last]
    came = {RangeIdentity("j", a, b, named({"key": "k0"})) for a, b in itertools.pairwise(edges)}
    middle = RangeIdentity("j", edges[1], edges[2], named({"key": "k0"}))
    assert PROCESSING.complete("j", sent, {*came})
    assert not PROCESSING.complete("j", sent, came - {middle})


@pytest.mark.parametrize("workload", [WINDOWS, CLEANED, PROCESSING], ids=lambda w: w.name)
def test_workload_when_asked_for_its_job_then_results_are_kept_at_a_third_site(workload: Workload) -> None:
    spec = workload.spec("j-1", "a", "a", "out")
    assert (spec.site, spec.output_site, spec.inputs[0].start) == ("a", "out", "latest")


def view(epoch: int = 3, operation: str | None = None) -> JobView:
    spec = CLEANED.spec("j-1", "a", "a", "out")
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
    ("job", "sites", "accepted", "fault"),
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
    job: JobView, sites: list[SiteStatus], accepted: list[int], fault: str
) -> None:
    (found,) = ownership_faults(job, sites, accepted)
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
