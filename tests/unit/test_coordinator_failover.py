"""When a job may go on at its standby, and what becomes of its output."""

from __future__ import annotations

import asyncio

import pytest
from coordinator_trial import Played, entry, job

from towpath.contracts.commands import RemoveJob, UpdateJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobState, JobStatus, Standby
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.standby import FailOverJob
from towpath.coordinator.jobs.failover import plan_failover
from towpath.coordinator.jobs.plans import plan_remove, plan_update
from towpath.coordinator.lost_sites import is_lost
from towpath.coordinator.reconciliation import differences
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.table import table_of


def with_standby(output_site: str = "lga") -> JobEntry:
    """A job at jfk whose results go to `output_site`, and which may go on at cloud."""
    made = entry(job("counts"))
    output = made.spec.output.model_copy(update={"site": output_site})
    spec = made.spec.model_copy(update={"standby": Standby(site="cloud"), "output": output})
    return made.model_copy(
        update={"spec": spec, "output": made.output.model_copy(update={"site": output_site})}
    )


def played(of: JobEntry, *down: str) -> Played:
    return Played(entries={"counts": of}, names=("jfk", "cloud", "lga"), down={*down})


def failed_over(mesh: Played, to: str | None = None) -> OperationRecord:
    return asyncio.run(plan_failover(FailOverJob(job="counts", to=to), mesh.situation))


def test_failover_when_the_output_lives_then_it_keeps_its_stream_and_the_standby_owns_the_job() -> None:
    before = with_standby()

    record = failed_over(played(before, "jfk"))

    assert record.entry_after.site == "cloud"
    assert record.entry_after.epoch == before.epoch + 1
    assert record.entry_after.output == before.output
    assert table_of(record).name == "fail-over"


def test_failover_when_the_output_is_lost_too_then_it_begins_again_at_the_standby_under_its_topic() -> None:
    before = with_standby(output_site="jfk")

    after = failed_over(played(before, "jfk")).entry_after

    assert (after.output.site, after.output.topic) == ("cloud", before.output.topic)
    assert after.output.stream != before.output.stream
    assert after.closed == [before.output]
    assert after.spec.output_site == "cloud"


@pytest.mark.parametrize(
    ("down", "to", "field"), [((), None, "job"), (("jfk",), "lga", "to")], ids=["site answers", "no copy"]
)
def test_failover_when_it_is_not_needed_or_not_possible_then_is_refused(
    down: tuple[str, ...], to: str | None, field: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        failed_over(played(with_standby(), *down), to)
    assert refused.value.detail.field == field


def test_failover_when_the_agent_of_the_standby_cannot_take_over_then_nothing_is_asked_of_it() -> None:
    mesh = played(with_standby(), "jfk")
    mesh.unable.add("cloud")

    with pytest.raises(TowpathError, match="standby") as refused:
        failed_over(mesh)

    assert refused.value.detail.field == "to"


def test_failover_when_the_job_has_no_standby_then_the_refusal_says_what_to_do() -> None:
    with pytest.raises(TowpathError, match="no standby") as refused:
        failed_over(played(entry(job("counts")), "jfk"))
    assert "remove --force" in str(refused.value.detail.allowed)


@pytest.mark.parametrize(("silence_s", "lost"), [(29.0, False), (31.0, True)])
def test_site_when_it_is_silent_for_long_then_counts_as_lost(silence_s: float, lost: bool) -> None:
    mesh = played(with_standby(), "jfk")
    mesh.silence_s = silence_s
    assert is_lost(mesh.entries["counts"], mesh.situation, 30.0) is lost


def test_site_when_the_standby_is_down_too_then_nothing_goes_on_there() -> None:
    mesh = played(with_standby(), "jfk", "cloud")
    mesh.silence_s = 1000.0
    assert not is_lost(mesh.entries["counts"], mesh.situation, 30.0)


@pytest.mark.parametrize(
    ("site", "state", "found"),
    [
        ("cloud", JobState.STANDBY, []),
        ("lga", JobState.STANDBY, ["elsewhere"]),
        ("cloud", JobState.RUNNING, ["elsewhere"]),
    ],
    ids=["the standby", "a former standby", "a zombie"],
)
def test_reconciliation_when_a_site_has_a_copy_then_only_the_standby_keeps_it(
    site: str, state: JobState, found: list[str]
) -> None:
    status = SiteStatus(
        site=site,
        state=SiteState.UP,
        nats_url="",
        mqtt_host="",
        mqtt_port=0,
        jobs=[JobStatus(job="counts", epoch=1, state=state)],
    )
    assert [each.what for each in differences({"counts": with_standby()}, [status])] == found


def test_update_when_the_output_is_lost_then_only_force_lets_the_results_go_elsewhere() -> None:
    mesh = played(with_standby(), "lga")
    elsewhere = {"output": mesh.entries["counts"].spec.output.model_copy(update={"site": "cloud"})}
    spec = mesh.entries["counts"].spec.model_copy(update=elsewhere)

    asked = asyncio.run(plan_update(UpdateJob(spec=spec), mesh.situation))
    forced = asyncio.run(plan_update(UpdateJob(spec=spec, force=True), mesh.situation))
    mesh.down.clear()
    needless = asyncio.run(plan_update(UpdateJob(spec=spec, force=True), mesh.situation))

    tables = [table_of(record).name for record in (asked, forced, needless)]
    assert tables == ["redirect", "redirect-from-lost", "redirect"]


def test_remove_when_it_is_forced_then_asks_no_lost_site_and_a_site_that_answers_as_ever() -> None:
    mesh = played(entry(job("counts")), "jfk")
    command = RemoveJob(job="counts", force=True)

    lost = asyncio.run(plan_remove(command, mesh.situation))
    mesh.down.clear()
    there = asyncio.run(plan_remove(command, mesh.situation))

    assert (table_of(lost).name, table_of(there).name) == ("remove-unseen", "remove")
