"""The railway demonstration: its data model finds the flat wheel and no other, and its report says so."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.checker.accepted import StoredEvent
from towpath.contracts.commands import OperationState
from towpath.contracts.errors import ErrorCode
from towpath.lab.demonstration.edge.jobs import SITES, TRAIN, data_model, delivered, ride
from towpath.lab.demonstration.edge.report import Asked, ContactReport, Detection, EdgeReport
from towpath.lab.demonstration.edge.report_page import detected
from towpath.lab.demonstration.edge.truth import expected_events
from towpath.lab.harness.judge import judged
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.workload.journey import WHEELS, Call, Journey, Stop

CLEAN = Judgement(expected=7, results=7)
TWO_SECTIONS = (
    Stop("Aspen", stands_s=1, section_s=18),
    Stop("Birch", stands_s=1, section_s=18),
    Stop("Cedar", stands_s=1),
)
CALL = Call(Stop("Cedar", stands_s=8), 72.0, 80.0)


@pytest.mark.parametrize("seed", [Journey().seed, 1])
def test_data_model_when_a_wheel_gets_a_flat_spot_then_only_the_flat_wheel_has_alarms_and_soon(
    seed: int,
) -> None:
    journey = Journey(line=TWO_SECTIONS, flat_from_s=26.0, seed=seed)
    stored = [StoredEvent(number, each.payload) for number, each in enumerate(journey.reports(), start=1)]
    events = [*expected_events(data_model().model, stored).values()]

    assert len(events) == journey.count
    alarms = [event for event in events if event["state"] == "alarm"]
    assert {event["wheel"] for event in alarms} == {journey.flat_wheel}
    first = min(event["id"] for event in alarms)
    assert journey.first_impact is not None
    delay_s = (first - journey.first_impact) / len(WHEELS) / journey.rate_hz
    assert 0 < delay_s < 5


def test_jobs_when_described_then_fit_together_and_can_be_judged() -> None:
    model = data_model()
    events = model.model.output.topic
    for job in (ride(events), delivered(events)):
        assert judged(job)
        assert [(entry.site, entry.topic) for entry in job.inputs] == [(model.model.node, events)]
        assert job.site in SITES
    assert ride(events).output.site == TRAIN


def contact(*came: tuple[float, float], **changes: Any) -> ContactReport:
    return ContactReport.of(CALL, 100.0, came, changes.get("asked"))


def test_contact_when_a_backlog_comes_then_tells_the_first_and_the_first_that_is_new() -> None:
    found = contact((99.0, 80.0), (101.5, 81.0), (102.0, 99.0), (103.0, 102.5))
    assert (found.delivered, found.first_after_s, found.caught_up_after_s) == (3, 1.5, 3.0)


def test_contact_when_nothing_comes_in_time_then_says_so() -> None:
    found = contact((99.0, 80.0))
    assert (found.delivered, found.first_after_s, found.caught_up_after_s) == (0, None, None)


def test_request_when_refused_then_the_table_says_why_the_job_stays() -> None:
    asked = Asked(at_most_s=3.0, target="train", refusal="…", refused_as=ErrorCode.NOT_ALLOWED)
    assert asked.outcome([]) == "stays: does not fit into 3 s"
    busy = asked.model_copy(update={"refused_as": ErrorCode.BUSY})
    assert busy.outcome([]) == "is still on its way"


def test_request_when_accepted_then_the_table_tells_the_way_and_both_durations() -> None:
    asked = Asked(at_most_s=14.0, target="trackside", operation="m1", forecast_s=5.0)
    way: dict[str, Any] = {"strategy": "handover", "source": "train", "target": "trackside"}
    move = MoveReport(operation="m1", job="ride", state=OperationState.COMPLETED, total_s=6.04, **way)
    assert asked.outcome([move]) == "train → trackside, completed, 6.0 s, forecast 5.0 s"


def report(**changes: Any) -> EdgeReport:
    return EdgeReport(
        **{
            "reports": 7,
            "reports_per_s": 700.0,
            "begun_at": 0.0,
            "detection": Detection(
                wheel="3-left", first_impact_at=10.0, alarm_at=13.0, known_at=24.0, impacts=9
            ),
            "alarms": {"1-left": 0, "3-left": 5},
            "contacts": [contact(asked=Asked(at_most_s=3.0, target="train", refusal="too long"))],
            "migrations": [],
            "judgements": {"wheels": CLEAN, "ride": CLEAN, "delivered": CLEAN},
            **changes,
        }
    )


def test_report_when_all_is_well_then_is_clean_and_tells_when_the_flat_wheel_was_found() -> None:
    assert report().clean
    told = detected(report())
    assert "3.0 s after its first impact" in told
    assert "14.0 s after it" in told


@pytest.mark.parametrize(
    "changes",
    [
        {"alarms": {"1-left": 0, "3-left": 0}},
        {"alarms": {"1-left": 1, "3-left": 5}},
        {"judgements": {"wheels": Judgement(expected=7, results=6, lost=1)}},
        {"judgements": {"wheels": CLEAN, "ride": Judgement(expected=7, results=8, duplicated=1)}},
        {"judgements": {"wheels": CLEAN, "delivered": Judgement(expected=7, results=7, wrong=1)}},
        {"problems": ["3 reports were acknowledged and are not stored"]},
    ],
    ids=["not found", "false alarm", "lost", "twice", "wrong", "problem"],
)
def test_report_when_anything_is_wrong_then_is_not_clean(changes: dict[str, Any]) -> None:
    assert not report(**changes).clean
