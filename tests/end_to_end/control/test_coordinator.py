"""Operations while coordinator, registry or sites are killed. Agents act, but run no Spark."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import zlib

import pytest
from nats.js.errors import NotFoundError

from running.coordinator import FILTER, Trial, running_coordinator, spec
from running.mesh import Mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.bus import follow_events
from towpath.contracts.commands import (
    DeployJob,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    OperationKind,
    OperationState,
    RemoveJob,
    ShowOperation,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import EVENTS_STREAM, CommandRefused, RegistryBehind, SiteChanged
from towpath.contracts.message import now
from towpath.contracts.registry import BackupRegistry, RebuildRegistry, RestoreRegistry
from towpath.contracts.site import SiteState

pytestmark = pytest.mark.asyncio(loop_scope="session")

GENERAL = StrategyName.GENERAL


async def test_job_when_deployed_migrated_and_removed_then_is_where_it_should_be(trial: Trial) -> None:
    assert (await trial.ask(DeployJob(spec=spec("counts")))).state is OperationState.COMPLETED
    assert trial.owners("counts") == ["jfk"]
    answer = await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL))
    assert answer.state is OperationState.COMPLETED
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")
    view = await trial.job("counts")
    assert (view.site, view.epoch, view.operation) == ("lga", 2, None)
    shown = await trial.ask(ShowOperation(operation=answer.operation))
    assert shown.figures.state_bytes == 100
    assert [e.step for e in shown.journal if e.phase == "confirmed"][-1] == "observe"
    assert (await trial.ask(RemoveJob(job="counts", purge=True))).state is OperationState.COMPLETED
    assert trial.owners("counts") == []
    assert await trial.job("counts") is None
    kinds = [o.kind for o in (await trial.ask(ListOperations())).operations]
    assert kinds == ["remove", "migrate", "deploy"]


@promise("late subscriber")
async def test_events_when_subscribed_to_after_they_were_told_then_come_in_their_order(trial: Trial) -> None:
    deployed = await trial.ask(DeployJob(spec=spec("counts")))
    moved = await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL))

    late = follow_events(trial.client, subject="towpath.v1.event.operation.>", from_start=True)
    told: list[tuple[str, ...]] = []
    async with contextlib.aclosing(late), asyncio.timeout(WITHIN_S):
        while (moved.operation, "ended") not in told:
            subject, _ = await anext(late)
            told.append(tuple(subject.split(".")[-2:]))
    assert [
        each for each in told if each[0] in (deployed.operation, moved.operation) and each[1] != "step"
    ] == [
        (deployed.operation, "begun"),
        (deployed.operation, "ended"),
        (moved.operation, "begun"),
        (moved.operation, "ended"),
    ]


async def test_job_when_moved_without_state_then_goes_on_where_the_source_stopped(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("late", operator=FILTER)))
    await trial.ask(MigrateJob(job="late", to="lga", strategy=StrategyName.RESTART))
    assert trial.owners("late") == ["lga"]
    trial.check_nothing_lost("late")


@promise("coordinator")
async def test_coordinator_when_killed_in_mid_migration_then_the_next_one_finishes_it(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    command, asking = await trial.migrate_in_background("counts")
    await trial.end_coordinator(signal.SIGKILL)
    await trial.start_coordinator()
    trial.let_go("pause-transfer", "counts")
    answer = await asking
    assert answer.state is OperationState.COMPLETED
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")
    again = await trial.ask(command)
    assert again.operation == answer.operation, "the repeated command is the same operation"


async def test_coordinator_when_told_to_end_in_mid_migration_then_the_next_one_finishes_it(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    assert await trial.end_coordinator(signal.SIGTERM) == 0
    trial.let_go("pause-transfer", "counts")
    await trial.start_coordinator()
    assert (await asking).state is OperationState.COMPLETED
    trial.check_nothing_lost("counts")


async def test_coordinator_when_killed_again_and_again_then_the_migration_ends_all_the_same(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    accepted = await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL, wait=False))
    for life_s in (0.0, 0.45, 0.5, 0.55, 0.6):
        # A coordinator that lives longer dies at a later line. The line matters, not the time.
        await asyncio.sleep(life_s)
        await trial.end_coordinator(signal.SIGKILL)
        await trial.start_coordinator()

    async def ended() -> bool:
        shown = await trial.ask(ShowOperation(operation=accepted.operation))
        return shown.state is OperationState.COMPLETED

    await eventually(ended)
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")


@pytest.mark.parametrize("loses_disk", [False, True], ids=["killed", "emptied"])
async def test_migration_when_redis_is_killed_then_only_waits_for_it(
    own_servers: Mesh, loses_disk: bool
) -> None:
    async with running_coordinator(own_servers) as trial:
        await trial.ask(DeployJob(spec=spec("counts")))
        _, asking = await trial.migrate_in_background("counts")
        await own_servers.kill("redis")
        if loses_disk:
            (own_servers.home.redis / "appendonly.aof").unlink()
        trial.let_go("pause-transfer", "counts")
        await own_servers.start("redis")
        assert (await asking).state is OperationState.COMPLETED
        trial.check_nothing_lost("counts")


async def test_command_when_redis_is_away_for_longer_than_its_sender_waits_then_is_never_carried_out(
    own_servers: Mesh,
) -> None:
    async with running_coordinator(own_servers) as trial:
        assert (await trial.ask(ListOperations())).operations == []
        await own_servers.kill("redis")
        late = DeployJob(spec=spec("late"))
        with pytest.raises(TowpathError) as unanswered:
            await trial.client.request(late, deadline_s=2.0)
        patient = trial.in_background(trial.ask(DeployJob(spec=spec("counts"))))
        await own_servers.start("redis")
        assert unanswered.value.detail.code is ErrorCode.DEADLINE
        log = trial.client.connection.jetstream()

        async def is_refused() -> bool:
            subject = CommandRefused.wildcard(command=late.id)
            with contextlib.suppress(NotFoundError):
                return b'"deadline"' in ((await log.get_last_msg(EVENTS_STREAM, subject)).data or b"")
            return False

        await eventually(is_refused)
        assert (await patient).state is OperationState.COMPLETED
        assert [view.job for view in (await trial.ask(ListOperations())).operations] == ["counts"]


async def test_migration_when_target_refuses_the_state_then_source_goes_on(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.refused = {"resume"}

    async def allow_undo() -> bool:
        return trial.agents.reached.count("jfk resume") > 0

    moving = trial.in_background(trial.refusal(MigrateJob(job="counts", to="lga", strategy=GENERAL)))
    await eventually(allow_undo)
    trial.agents.refused = set()
    error = await moving
    assert error.detail.code is ErrorCode.FAILED
    assert "lga refuses resume" in error.detail.message
    assert trial.owners("counts") == ["jfk"]
    trial.check_nothing_lost("counts")
    assert (await trial.job("counts")).epoch == 3


async def test_site_when_silent_then_is_down_and_takes_no_jobs(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.silent = {"lga"}

    async def down() -> bool:
        sites = (await trial.ask(ListSites())).sites
        return [s.site for s in sites if s.state is SiteState.DOWN] == ["lga"]

    await eventually(down)
    refused = await trial.refusal(MigrateJob(job="counts", to="lga", strategy=GENERAL))
    assert (refused.detail.code, refused.detail.allowed) == (ErrorCode.SITE_DOWN, ["jfk"])

    lga = SiteChanged(site="lga", state=SiteState.DOWN).to_subject()

    async def told() -> bool:
        told = trial.client.connection.jetstream().get_last_msg(EVENTS_STREAM, lga)
        return SiteChanged.model_validate_json((await told).data or b"").state is SiteState.DOWN

    await eventually(told)


async def test_site_when_it_lost_a_job_or_has_one_that_was_removed_then_is_set_right(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    sites = trial.agents.mesh.sites
    await trial.ask(DeployJob(spec=spec("removed", site="lga")))
    removed = sites["lga"].hosted["removed"]
    await trial.ask(RemoveJob(job="removed"))
    sites["lga"].hosted = {"removed": removed}
    del sites["jfk"].hosted["counts"]

    await eventually(lambda: trial.owners("counts") == ["jfk"] and not sites["lga"].hosted)
    trial.check_nothing_lost("counts")


async def test_job_when_its_site_adjusted_it_while_cut_off_then_the_registry_adopts_that(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.silent = {"jfk"}
    await eventually(lambda: is_down(trial, "jfk"))
    site = trial.agents.mesh.sites["jfk"]
    slower = site.hosted["counts"].assignment.spec.model_copy(update={"trigger_s": 9.0})
    site.adjust("counts", slower)
    await trial.end_coordinator(signal.SIGKILL)
    await trial.start_coordinator()
    trial.agents.silent = set()

    async def is_adopted() -> bool:
        return (await trial.job("counts")).spec == slower

    await eventually(is_adopted)
    assert site.hosted["counts"].assignment.spec == slower, "it was never brought back"

    async def adoption_has_ended() -> bool:
        (adopted, *_) = (await trial.ask(ListOperations())).operations
        return (adopted.kind, adopted.state) == (OperationKind.UPDATE, OperationState.COMPLETED)

    await eventually(adoption_has_ended)
    later = slower.model_copy(update={"trigger_s": 4.0})
    await trial.ask(UpdateJob(spec=later))
    assert site.hosted["counts"].assignment.version == (2, 0, 1)
    trial.check_nothing_lost("counts")


async def is_down(trial: Trial, site: str) -> bool:
    sites = (await trial.ask(ListSites())).sites
    return next(each for each in sites if each.site == site).state is SiteState.DOWN


async def test_registry_when_it_is_older_than_the_sites_then_touches_no_job_and_says_so(trial: Trial) -> None:
    for name in ("moved", "returned", "lost"):
        await trial.ask(DeployJob(spec=spec(name)))
    copy = await trial.registry_copy()
    await trial.ask(DeployJob(spec=spec("later")))
    for job, to in (("moved", "lga"), ("returned", "lga"), ("returned", "jfk")):
        await trial.ask(MigrateJob(job=job, to=to, strategy=GENERAL))

    await trial.restore_registry(copy)
    told: dict[str, tuple[int, int | None]] = {}
    events = follow_events(trial.client, subject=RegistryBehind.wildcard(), from_start=True)
    async with contextlib.aclosing(events), asyncio.timeout(WITHIN_S):
        while len(told) < 3:
            _, body = await anext(events)
            told[body["job"]] = (body["epoch"], body["known"])

    assert told == {"moved": (2, 1), "returned": (3, 1), "later": (1, None)}
    assert {job: trial.owners(job) for job in (*told, "lost")} == {
        "moved": ["lga"],
        "returned": ["jfk"],
        "later": ["jfk"],
        "lost": ["jfk"],
    }
    for command in (RemoveJob(job="moved"), DeployJob(spec=spec("later", site="lga"))):
        refused = await trial.refusal(command)
        assert (refused.detail.code, "older than the sites" in str(refused)) == (ErrorCode.NOT_ALLOWED, True)
    await trial.ask(MigrateJob(job="lost", to="lga", strategy=GENERAL))  # Others go on.

    rebuilt = await trial.ask(RebuildRegistry())
    assert {each.job: (each.site, each.epoch, each.adopted) for each in rebuilt.behind} == {
        "moved": ("lga", 2, True),
        "returned": ("jfk", 3, True),
        "later": ("jfk", 1, True),
    }
    await trial.ask(MigrateJob(job="moved", to="jfk", strategy=GENERAL))
    assert trial.owners("moved") == ["jfk"]
    for job in told:
        trial.check_nothing_lost(job)


async def test_registry_when_a_copy_is_restored_then_is_as_it_was_and_the_rest_comes_from_the_sites(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("stays")))
    copy = await trial.ask(BackupRegistry())
    await trial.ask(DeployJob(spec=spec("later")))

    restored = await trial.ask(RestoreRegistry(**copy.model_dump()))
    known = [job.spec.name for job in (await trial.ask(ListJobs())).jobs]
    await trial.ask(RebuildRegistry())

    assert (restored.jobs, [each.job for each in restored.behind]) == (1, ["later"])
    assert known == ["stays"]
    assert [job.spec.name for job in (await trial.ask(ListJobs())).jobs] == ["later", "stays"]


async def test_restore_when_the_file_is_no_copy_then_is_refused_and_nothing_changes(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("stays")))
    forged = zlib.compress(json.dumps([["CONFIG", "SET", "dir", "/"]]).encode())
    command = RestoreRegistry(written_at=now(), jobs=0, content=base64.b64encode(forged).decode())

    refused = await trial.refusal(command)

    assert (refused.detail.field, refused.detail.value) == ("content", "CONFIG SET")
    assert [job.spec.name for job in (await trial.ask(ListJobs())).jobs] == ["stays"]
