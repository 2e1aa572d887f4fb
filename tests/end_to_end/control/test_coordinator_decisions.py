"""The coordinator's decisions about commands: refusals, repetitions, inputs, names."""

from __future__ import annotations

from typing import Any

import pytest
from nats.js import JetStreamContext

from running.coordinator import COUNT_BY_CARRIER, FILTER, Trial, spec
from running.waiting import WITHIN_S
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationState,
    RemoveJob,
    ResumeFrom,
    ShowOperation,
    UpdateJob,
)
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.errors import ErrorCode
from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.message import Command, new_identifier, now
from towpath.contracts.site import Retention
from towpath.streams.pages import page
from towpath.streams.streams import SiteStreams

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def streams_of_jfk(trial: Trial) -> JetStreamContext:
    """Make the stream of what devices send to jfk."""
    streams = SiteStreams(trial.agents.buses["jfk"].connection, "jfk", Retention())
    await streams.ensure_in()
    return streams.jetstream


async def test_input_when_latest_is_asked_for_then_is_pinned_to_the_serial_it_means_now(trial: Trial) -> None:
    streams = await streams_of_jfk(trial)
    async with trial.running.device("jfk") as device:
        for number in range(3):
            await device.publish("site/departures", str(number), qos=1, timeout=WITHIN_S)
    latest = [{"site": "jfk", "topic": "site/departures", "start": "latest"}]
    await trial.ask(DeployJob(spec=spec("fresh", inputs=latest)))
    assignment = trial.agents.mesh.sites["jfk"].hosted["fresh"].assignment
    newest = (await streams.stream_info("IN")).state.last_seq
    assert assignment.inputs[0].after_serial == newest >= 3


async def test_job_when_it_is_told_to_go_on_elsewhere_then_only_what_is_clear_and_counts_nothing_twice(
    trial: Trial,
) -> None:
    streams = await streams_of_jfk(trial)
    two = [{"site": "jfk", "topic": "site/departures"}, {"site": "jfk", "topic": "site/arrivals"}]
    await trial.ask(DeployJob(spec=spec("late", inputs=two)))
    await trial.ask(DeployJob(spec=spec("counts")))
    async with trial.running.device("jfk") as device:
        for number in range(100):
            await device.publish("site/departures", str(number), qos=1, timeout=WITHIN_S)
        begun = now()
        await device.publish("site/departures", "100", qos=1, timeout=WITHIN_S)
    newest = (await streams.stream_info("IN")).state.last_seq

    unclear = (await trial.refusal(ResumeFrom(job="late", start="now"))).detail
    unknown = (await trial.refusal(ResumeFrom(job="counts", start="now", inputs=["jfk/site/other"]))).detail
    beyond = (await trial.refusal(ResumeFrom(job="counts", start=newest + 1))).detail

    assert (unclear.field, unclear.allowed) == ("inputs", ["jfk/site/arrivals", "jfk/site/departures"])
    assert (unknown.field, unknown.value) == ("inputs", "jfk/site/other")
    assert (beyond.field, beyond.value) == ("start", newest + 1)
    for start, expected in ((begun, newest - 1), ("now", newest)):
        await trial.ask(ResumeFrom(job="counts", start=start))
        derived = trial.agents.mesh.sites["jfk"].hosted["counts"].assignment.derived
        assert derived is not None
        assert derived.serials == {"jfk/site/departures": expected}


async def test_job_when_its_stream_lost_its_end_then_goes_on_behind_what_is_left_of_what_it_has_processed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = await streams_of_jfk(trial)
    await trial.ask(DeployJob(spec=spec("counts")))
    async with trial.running.device("jfk") as device:
        for number in range(20):
            await device.publish("site/departures", str(number), qos=1, timeout=WITHIN_S)
    newest, name = (await streams.stream_info("IN")).state.last_seq, "jfk/site/departures"
    (known,) = await page(trial.agents.buses["jfk"].connection, "jfk", "IN", newest - 5, 1)
    failed = JobStatus(
        job="counts",
        epoch=1,
        state=JobState.FAILED,
        serials={name: newest + 100},
        stored_at={name: known.headers[STORED_AT_HEADER]},
        error=f"EventsRenumbered: the job has processed IN up to serial {newest + 100}, and so on",
    )
    site = trial.agents.mesh.sites["jfk"]
    monkeypatch.setattr(type(site), "_on_report_progress", lambda *_: failed)

    refused = (await trial.refusal(ResumeFrom(job="counts", start=newest - 6))).detail
    await trial.ask(ResumeFrom(job="counts", start="earliest"))

    assert (refused.code, refused.field) == (ErrorCode.NOT_ALLOWED, "start")
    assignment = site.hosted["counts"].assignment
    assert assignment.derived is not None
    assert assignment.derived.serials == {name: newest - 5}
    assert assignment.inputs[0].numbering == 1


async def test_stateful_job_when_its_inputs_change_then_its_state_goes_on_unless_it_is_dropped(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    other = spec("counts", inputs=[{"site": "lga", "topic": "site/departures"}])
    assert (await trial.ask(UpdateJob(spec=other))).state is OperationState.COMPLETED
    assignment = trial.agents.mesh.sites["jfk"].hosted["counts"].assignment
    assert (assignment.epoch, assignment.generation) == (2, 2)
    assert assignment.derived is not None
    assert (assignment.derived.generation, assignment.derived.inputs) == (1, ["jfk/site/departures"])
    back = spec("counts")
    assert (await trial.ask(UpdateJob(spec=back, drop_state=True))).state is OperationState.COMPLETED
    assignment = trial.agents.mesh.sites["jfk"].hosted["counts"].assignment
    assert (assignment.generation, assignment.derived) == (3, None)
    assert (await trial.job("counts")).epoch == 3


async def test_job_when_its_trigger_changes_then_keeps_its_state(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    assert (await trial.ask(UpdateJob(spec=spec("counts", trigger_s=2.5)))).state is OperationState.COMPLETED
    assignment = trial.agents.mesh.sites["jfk"].hosted["counts"].assignment
    assert (assignment.spec.trigger_s, assignment.epoch, assignment.generation) == (2.5, 2, 1)
    trial.check_nothing_lost("counts")


async def test_stateful_job_when_its_window_changes_then_needs_drop_state(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    other = spec("counts", operator={**COUNT_BY_CARRIER, "size_s": 60})
    refused = (await trial.refusal(UpdateJob(spec=other))).detail
    assert (refused.code, refused.field) == (ErrorCode.NOT_ALLOWED, "operator")
    assert (await trial.ask(UpdateJob(spec=other, drop_state=True))).state is OperationState.COMPLETED
    assert trial.agents.mesh.sites["jfk"].hosted["counts"].assignment.generation == 2


async def test_job_when_others_read_it_then_its_results_are_not_purged(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    reading = {"inputs": [{"site": "jfk", "topic": "departures/counts"}], "operator": {"kind": "forward"}}
    await trial.ask(DeployJob(spec=spec("copy", **reading)))
    refused = (await trial.refusal(RemoveJob(job="counts", purge=True))).detail
    assert (refused.code, refused.field) == (ErrorCode.NOT_ALLOWED, "purge")
    assert (await trial.ask(RemoveJob(job="counts"))).state is OperationState.COMPLETED


async def test_name_when_used_again_then_its_epochs_go_on(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    await trial.ask(RemoveJob(job="counts"))
    await trial.ask(DeployJob(spec=spec("counts")))
    assert (await trial.job("counts")).epoch == 2
    assert trial.owners("counts") == ["jfk"]


async def test_command_when_sent_again_or_already_fulfilled_then_changes_nothing(trial: Trial) -> None:
    command = DeployJob(id=new_identifier(), spec=spec("counts"))
    first = await trial.ask(command)
    assert (await trial.ask(command)).operation == first.operation
    same = await trial.ask(DeployJob(spec=spec("counts")))
    assert same.note.startswith("nothing to do")
    assert trial.agents.reached.count("jfk start-job") == 1


async def test_command_when_wrong_then_error_names_field_value_and_what_is_allowed(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    downstream = {"inputs": [{"site": "jfk", "topic": "departures/counts"}]}
    cases: list[tuple[Command[Any], ErrorCode, str, Any]] = [
        (MigrateJob(job="counts", to="mars"), ErrorCode.UNKNOWN_SITE, "to", "mars"),
        (MigrateJob(job="counts", to="jfk"), ErrorCode.ALREADY_THERE, "to", "jfk"),
        (MigrateJob(job="nothing", to="lga"), ErrorCode.UNKNOWN_JOB, "job", "nothing"),
        (RemoveJob(job="nothing"), ErrorCode.UNKNOWN_JOB, "job", "nothing"),
        (DeployJob(spec=spec("counts", trigger_s=7.0)), ErrorCode.NAME_IN_USE, "name", "counts"),
        (DeployJob(spec=spec("new", site="mars")), ErrorCode.UNKNOWN_SITE, "site", "mars"),
        (
            DeployJob(spec=spec("new", inputs=[{"site": "jfk", "topic": "departures/none"}])),
            ErrorCode.UNKNOWN_TOPIC,
            "inputs.0.topic",
            "departures/none",
        ),
        (
            DeployJob(spec=spec("new", operator=FILTER, **downstream)),
            ErrorCode.SCHEMA_MISMATCH,
            "inputs.0",
            "delay",
        ),
        (UpdateJob(spec=spec("counts", site="lga")), ErrorCode.NOT_ALLOWED, "site", "lga"),
        (ShowOperation(operation="none"), ErrorCode.UNKNOWN_MIGRATION, "operation", "none"),
    ]
    for command, code, where, value in cases:
        detail = (await trial.refusal(command)).detail
        assert (detail.code, detail.field, detail.value) == (code, where, value)
        assert detail.allowed or code is ErrorCode.UNKNOWN_MIGRATION or "nothing" in str(value)
    assert trial.owners("counts") == ["jfk"]
    assert (await trial.job("counts")).epoch == 1


async def test_second_operation_when_one_is_under_way_then_is_refused_as_busy(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    refused = await trial.refusal(RemoveJob(job="counts"))
    assert refused.detail.code is ErrorCode.BUSY
    trial.let_go("pause-transfer", "counts")
    assert (await asking).state is OperationState.COMPLETED
