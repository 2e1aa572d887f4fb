"""When a job may go on at its standby, and what becomes of its output."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from coordinator_trial import Played, entry, job

from towpath.composition.difference import difference
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.commands import RemoveJob, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, JobState, JobStatus, Standby
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec
from towpath.contracts.site import Capability, SiteState, SiteStatus
from towpath.contracts.standby import FailOverJob, HoldMirrors, KeepStandby
from towpath.coordinator.followed_outputs import plan_following
from towpath.coordinator.jobs.failover import plan_failover, prepare_failover
from towpath.coordinator.jobs.plans import Nothing, plan_remove, plan_update
from towpath.coordinator.jobs.topics import pipeline_with_current_sites, resolve_inputs
from towpath.coordinator.lost_sites import is_lost
from towpath.coordinator.pipelines.room import running_jobs
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


def test_failover_when_the_output_is_lost_too_then_its_copy_goes_on_at_the_standby_under_its_topic() -> None:
    before = with_standby(output_site="jfk")

    record = failed_over(played(before, "jfk"))

    after = record.entry_after
    assert after.output == before.output.model_copy(update={"site": "cloud", "first_site": "jfk"})
    assert after.spec.output_site == "cloud"
    assert table_of(record).name == "fail-over-with-output"


def test_failover_when_the_job_comes_back_the_same_way_then_its_output_is_where_it_began() -> None:
    there = failed_over(played(with_standby(output_site="jfk"), "jfk")).entry_after
    spec = there.spec.model_copy(update={"standby": Standby(site="jfk")})

    back = failed_over(played(there.model_copy(update={"spec": spec}), "cloud")).entry_after

    assert back.output == with_standby(output_site="jfk").output
    assert [each.site for each in back.closed] == ["cloud"]


def reader(at: str = "lga") -> JobEntry:
    """A job that reads what the job at jfk writes there."""
    made = entry(job("reader", "out/counts"), {"counts": with_standby(output_site="jfk")})
    return made.model_copy(update={"site": at})


def test_failover_when_the_output_goes_on_then_its_readers_are_told_where_and_keep_their_places() -> None:
    mesh = played(with_standby(output_site="jfk"), "jfk")
    mesh.entries["reader"] = reader()

    record = failed_over(mesh)
    mesh.entries["counts"] = record.entry_after
    asked = UpdateJob(spec=mesh.entries["reader"].spec)
    told = asyncio.run(plan_following(asked, mesh.situation))

    assert record.readers == ["lga"]
    assert table_of(told).name == "adjust"
    (before,), (after,) = mesh.entries["reader"].inputs, told.entry_after.inputs
    assert (after.place, after.current_site) == (before.place, "cloud")
    mesh.entries["reader"] = told.entry_after
    with pytest.raises(Nothing):
        asyncio.run(plan_following(asked, mesh.situation))
    with pytest.raises(Nothing):
        asyncio.run(plan_update(asked, mesh.situation))


def test_failover_when_it_begins_then_only_sites_of_readers_that_answer_hold_what_they_mirror() -> None:
    mesh = played(with_standby(output_site="jfk"), "jfk")
    mesh.entries |= {"near": reader("lga"), "lost": reader("jfk")}

    record = asyncio.run(prepare_failover(FailOverJob(job="counts"), mesh.situation))

    asked, held = mesh.requested
    assert isinstance(asked, KeepStandby)
    assert isinstance(held, HoldMirrors)
    assert (held.site, held.home_site, held.streams) == ("lga", "jfk", ["OUT_counts", "REJECTED_counts"])
    assert record.readers == ["lga"]


def test_failover_when_a_job_reads_what_goes_on_elsewhere_then_it_reads_on_there() -> None:
    writer = failed_over(played(with_standby(output_site="jfk"), "jfk")).entry_after
    lost = reader("jfk")
    spec = lost.spec.model_copy(update={"standby": Standby(site="cloud")})
    mesh = played(lost.model_copy(update={"spec": spec}), "jfk")
    mesh.entries["writer"] = writer

    (read,) = failed_over(mesh).entry_after.inputs

    assert read.current_site == "cloud"


def test_job_when_it_reads_an_output_that_outlived_its_site_then_finds_it_by_either_name() -> None:
    writer = failed_over(played(with_standby(output_site="jfk"), "jfk")).entry_after
    jobs = {"counts": writer}
    wanted = job("late", "out/counts").job_spec()

    by_home, by_site = (
        resolve_inputs(
            wanted.model_copy(update={"inputs": [wanted.inputs[0].model_copy(update={"site": site})]}), jobs
        )
        for site in ("jfk", "cloud")
    )

    assert [each.place for each in by_home] == [each.place for each in by_site]
    assert {each.current_site for each in (*by_home, *by_site)} == {"cloud"}


def operator(of: JobEntry, **described: Any) -> JobEntry:
    """The job with another operator."""
    return of.model_copy(
        update={"spec": JobSpec.model_validate({**of.spec.model_dump(), "operator": described})}
    )


def asks(of: JobEntry, field: str) -> JobEntry:
    """A job that needs this field of what it reads."""
    return operator(of, kind="filter", fields={field: "long"}, where="true")


def writes(of: JobEntry, field: str) -> JobEntry:
    """A job whose results have only this field."""
    return operator(of, kind="clean", fields={field: {"type": "long"}})


def gone_over() -> JobEntry:
    """A job whose output was at jfk, and is at cloud now. Its results have the field `delay`."""
    lost = writes(with_standby(output_site="jfk"), "delay")
    return failed_over(played(lost, "jfk")).entry_after


def test_job_when_it_names_the_former_site_of_an_output_then_the_fields_that_it_asks_for_must_be_there() -> (
    None
):
    jobs = {"counts": gone_over()}

    resolve_inputs(asks(reader(), "delay").spec, jobs)
    with pytest.raises(TowpathError) as refused:
        resolve_inputs(asks(reader(), "carrier").spec, jobs)

    assert refused.value.detail.code is ErrorCode.SCHEMA_MISMATCH


def test_update_when_readers_name_the_former_site_of_the_output_then_they_keep_the_fields_they_need() -> None:
    writer = gone_over()
    mesh = played(writer)
    mesh.entries["reader"] = asks(reader(), "delay")

    with pytest.raises(TowpathError) as refused:
        asyncio.run(plan_update(UpdateJob(spec=writes(writer, "carrier").spec), mesh.situation))

    assert refused.value.detail.code is ErrorCode.SCHEMA_MISMATCH


def test_pipeline_when_readers_elsewhere_name_the_former_site_then_they_keep_the_fields_they_need() -> None:
    writer = gone_over()
    running = running_jobs({"counts": writer, "reader": asks(reader(), "delay")}, [])
    mine, others = {"counts": running["counts"]}, {"reader": running["reader"]}
    sites = {site: SiteFacts(up=True) for site in ("jfk", "cloud", "lga")}

    def wrong(field: str) -> list[ErrorCode]:
        described = PipelineJob.model_validate(writes(writer, field).spec.model_dump())
        spec = PipelineSpec(name="delays", jobs=[described])
        return [error.code for error in problems(spec, sites=sites, mine=mine, others=others)]

    assert (wrong("delay"), wrong("carrier")) == ([], [ErrorCode.SCHEMA_MISMATCH])


def test_pipeline_when_an_output_has_failed_over_then_its_description_changes_nothing() -> None:
    jobs = {"counts": gone_over(), "reader": asks(reader(), "delay")}
    described = PipelineSpec(
        name="delays",
        jobs=[
            PipelineJob.model_validate({**entry.spec.model_dump(), "site": entry.site})
            for entry in jobs.values()
        ],
    )

    changes = difference(pipeline_with_current_sites(described, jobs), running_jobs(jobs, []), {})

    assert [change.actions for change in changes] == [[Action.KEEP]] * 2


@pytest.mark.parametrize(("named", "read_at"), [(None, "cloud"), ("cloud", "cloud"), ("jfk", "jfk")])
def test_pipeline_when_an_output_has_outlived_its_site_then_inputs_may_still_name_that(
    named: str | None, read_at: str
) -> None:
    jobs = {"counts": failed_over(played(with_standby(output_site="jfk"), "jfk")).entry_after}
    writer, reading = job("counts"), job("reader", "out/counts")
    described = writer.model_copy(update={"output": writer.output.model_copy(update={"site": named})})

    found = pipeline_with_current_sites(PipelineSpec(name="delays", jobs=[described, reading]), jobs)

    assert [each.inputs[0].site for each in found.jobs] == ["jfk", read_at]


@pytest.mark.parametrize("topic", ["out/counts", "out/counts/rejected"])
def test_pipeline_when_another_job_still_writes_the_topic_at_the_lost_site_then_inputs_stay_there(
    topic: str,
) -> None:
    other = job("other", writes="out/counts")
    jobs = {
        "counts": failed_over(played(with_standby(output_site="jfk"), "jfk")).entry_after,
        "other": entry(other),
    }
    reading = job("reader", topic)

    found = pipeline_with_current_sites(PipelineSpec(name="delays", jobs=[reading]), jobs)

    assert found.jobs[0].inputs[0].site == "jfk"


@pytest.mark.parametrize("can", [True, False], ids=["its copy is not whole", "it cannot copy outputs"])
def test_failover_when_the_standby_has_no_copy_of_the_output_then_the_results_begin_again_there(
    can: bool,
) -> None:
    before = with_standby(output_site="jfk")
    mesh = played(before, "jfk")
    mesh.has_output = False
    mesh.unable_to |= set() if can else {Capability.OUTPUT_COPY}

    after = failed_over(mesh).entry_after

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
