"""Migrations as users see them: chosen, forecast, aborted, several at once. Agents act, but run no Spark."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from running.coordinator import PROCESSING_WINDOW, Trial, second_coordinator, spec
from running.promises import promise
from running.waiting import eventually
from towpath.contracts.commands import (
    AbortMigration,
    ConsistencyCheck,
    DeployJob,
    ForecastMigration,
    MigrateJob,
    OperationState,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.coordinator.registry.jobs import ABORTS
from towpath.protocols.requests import ABORTED

pytestmark = pytest.mark.asyncio(loop_scope="session")

GENERAL, HANDOVER = StrategyName.GENERAL, StrategyName.HANDOVER


async def shown(trial: Trial, operation: str) -> OperationView:
    return await trial.ask(ShowOperation(operation=operation))


async def failure(asking: asyncio.Task[Any]) -> TowpathError:
    with pytest.raises(TowpathError) as failed:
        await asking
    return failed.value


async def under_way(trial: Trial, job: str) -> str:
    """Return the operation that holds the job."""
    operation = (await trial.job(job)).operation
    assert operation is not None
    return operation


async def test_job_when_no_strategy_is_named_then_moves_by_what_suits_its_operator(trial: Trial) -> None:
    for name, operator, strategy in (
        ("counts", None, HANDOVER),
        ("live", PROCESSING_WINDOW, StrategyName.PARALLEL),
    ):
        await trial.ask(DeployJob(spec=spec(name, **({"operator": operator} if operator else {}))))
        answer = await trial.ask(MigrateJob(job=name, to="lga"))
        assert answer.state is OperationState.COMPLETED
        view = await shown(trial, answer.operation)
        assert view.strategy is strategy
        assert view.forecast is not None
        assert view.forecast.strategy is strategy
        assert view.forecast.reason
        assert view.figures is not None
        assert view.figures.downtime_s == 0
        assert trial.owners(name) == ["lga"]
        trial.check_nothing_lost(name)
        # One epoch is left for the monitor, which publishes between the owners.
        assert (await trial.job(name)).epoch == 3


async def test_strategy_when_it_cannot_work_then_is_refused_and_nothing_is_begun(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    await trial.ask(DeployJob(spec=spec("live", operator=PROCESSING_WINDOW)))
    for command, field in (
        (MigrateJob(job="counts", to="lga", strategy=StrategyName.PARALLEL), "strategy"),
        (MigrateJob(job="live", to="lga", strategy=HANDOVER), "strategy"),
        (ForecastMigration(job="live", to="lga", strategy=HANDOVER), "strategy"),
        (MigrateJob(job="live", to="lga", check=ConsistencyCheck.IDENTITY), "check"),
    ):
        detail = (await trial.refusal(command)).detail
        assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, field)
        assert detail.allowed
    assert [(await trial.job(name)).epoch for name in ("counts", "live")] == [1, 1]


async def test_forecast_when_asked_for_then_changes_nothing_and_learns_from_what_moves_cost(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.state_bytes = 20_000_000
    question = ForecastMigration(job="counts", to="lga", strategy=GENERAL)
    plain = await trial.ask(question)
    assert (plain.source, plain.target, plain.strategy) == ("jfk", "lga", GENERAL)
    assert plain.state_bytes == 20_000_000
    assert plain.total_s == pytest.approx(4.5)
    assert "plain machine" in plain.basis
    assert trial.owners("counts") == ["jfk"]
    await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL))
    learnt = await trial.ask(ForecastMigration(job="counts", to="jfk", strategy=GENERAL))
    assert "last 1 general migration(s) of counts" in learnt.basis
    away = (await trial.refusal(ForecastMigration(job="counts", to="lga"))).detail
    assert away.code is ErrorCode.ALREADY_THERE


async def test_migration_when_it_would_take_longer_than_it_may_then_nothing_has_begun(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.state_bytes = 20_000_000
    for command in (MigrateJob, ForecastMigration):
        short = command(job="counts", to="lga", strategy=GENERAL, at_most_s=4.0)
        detail = (await trial.refusal(short)).detail
        assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, "at_most_s")
        assert "4.5 s" in detail.message
    assert trial.owners("counts") == ["jfk"]
    assert (await trial.job("counts")).epoch == 1
    answer = await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL, at_most_s=5.0))
    assert answer.state is OperationState.COMPLETED
    trial.check_nothing_lost("counts")


async def test_migration_when_the_source_does_not_say_its_size_then_begins_all_the_same(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.gates["measure-state"] = asyncio.Event()
    answer = await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL))
    assert answer.state is OperationState.COMPLETED
    forecast = (await shown(trial, answer.operation)).forecast
    assert forecast is not None
    assert forecast.state_bytes == 0
    assert "did not say" in forecast.basis


@pytest.mark.parametrize(
    ("strategy", "until_at"),
    [
        (GENERAL, "jfk pause-transfer"),
        (HANDOVER, "jfk ship-checkpoint"),
        pytest.param(HANDOVER, "monitor await-consistency", marks=promise("abort")),
    ],
)
async def test_migration_when_aborted_then_the_source_goes_on_and_asking_again_is_harmless(
    trial: Trial, strategy: StrategyName, until_at: str
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts", strategy=strategy, until_at=until_at)
    operation = await under_way(trial, "counts")
    answer = await trial.ask(AbortMigration(operation=operation))
    assert answer.state is OperationState.ROLLED_BACK
    assert ABORTED in answer.note
    assert ABORTED in (await failure(asking)).detail.message
    again = await trial.ask(AbortMigration(operation=operation))
    assert (again.operation, again.state) == (operation, OperationState.ROLLED_BACK)
    assert trial.owners("counts") == ["jfk"]
    trial.check_nothing_lost("counts")


async def test_migration_when_aborted_then_the_next_one_takes_an_epoch_no_one_was_told(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    await trial.ask(AbortMigration(operation=await under_way(trial, "counts")))
    await failure(asking)
    assert (await trial.job("counts")).epoch == 1, "the output was never told of another one"
    trial.let_go("pause-transfer", "counts")
    await trial.ask(MigrateJob(job="counts", to="lga", strategy=GENERAL))
    assert (await trial.job("counts")).epoch == 3
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")


@promise("abort")
async def test_abort_when_the_coordinator_dies_before_heeding_it_then_the_next_one_does(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    operation = await under_way(trial, "counts")
    await trial.end_coordinator(signal.SIGKILL)
    async with second_coordinator(trial.running) as registry:
        record, _ = await registry.load(operation)
        assert await registry.request(record, ABORTS)
        await trial.start_coordinator()
        assert ABORTED in (await failure(asking)).detail.message
        assert (await shown(trial, operation)).state is OperationState.ROLLED_BACK
        trial.check_nothing_lost("counts")

        async def nothing_is_left() -> bool:
            return not await registry.is_requested(operation, ABORTS)

        await eventually(nothing_is_left)


async def test_abort_when_the_coordinator_dies_while_going_back_then_the_next_one_goes_back(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    operation = await under_way(trial, "counts")
    trial.agents.gates["resume counts"] = asyncio.Event()
    await trial.ask(AbortMigration(operation=operation, wait=False))
    await eventually(lambda: trial.agents.was_reached("jfk resume"))
    await trial.end_coordinator(signal.SIGKILL)
    trial.let_go("resume", "counts")
    await trial.start_coordinator()
    assert (await trial.ask(AbortMigration(operation=operation))).state is OperationState.ROLLED_BACK
    assert ABORTED in (await failure(asking)).detail.message
    assert trial.owners("counts") == ["jfk"]
    trial.check_nothing_lost("counts")


async def test_abort_when_only_going_forward_is_safe_then_is_refused_and_the_migration_completes(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts", until_at="jfk reset")
    operation = await under_way(trial, "counts")
    too_late = (await trial.refusal(AbortMigration(operation=operation))).detail
    assert (too_late.code, too_late.field) == (ErrorCode.NOT_ALLOWED, "operation")
    assert "towpath migrate counts --to jfk" in str(too_late.allowed)
    trial.let_go("reset", "counts")
    assert (await asking).state is OperationState.COMPLETED
    ended = (await trial.refusal(AbortMigration(operation=operation))).detail
    assert ended.code is ErrorCode.NOT_ALLOWED
    unknown = (await trial.refusal(AbortMigration(operation="nothing"))).detail
    assert unknown.code is ErrorCode.UNKNOWN_MIGRATION
    assert trial.owners("counts") == ["lga"]


async def test_migrations_when_of_different_jobs_then_run_at_once_and_of_one_job_never(trial: Trial) -> None:
    for name in ("one", "two"):
        await trial.ask(DeployJob(spec=spec(name)))
    _, first = await trial.migrate_in_background("one")
    second = await refused_while_busy(trial, "one")
    assert second.detail.code is ErrorCode.BUSY
    _, other = await trial.migrate_in_background("two", strategy=HANDOVER, until_at="jfk ship-checkpoint")
    assert await under_way(trial, "one") != await under_way(trial, "two")
    trial.let_go("ship-checkpoint", "two")
    assert (await other).state is OperationState.COMPLETED
    assert not first.done()
    trial.let_go("pause-transfer", "one")
    assert (await first).state is OperationState.COMPLETED
    for name in ("one", "two"):
        assert trial.owners(name) == ["lga"]
        trial.check_nothing_lost(name)


async def refused_while_busy(trial: Trial, job: str) -> TowpathError:
    """Return the refusal that a second migration gets with every strategy."""
    refusals = [await trial.refusal(MigrateJob(job=job, to="lga", strategy=s)) for s in (GENERAL, HANDOVER)]
    refusals.append(await trial.refusal(ForecastMigration(job=job, to="lga")))
    assert {r.detail.code for r in refusals} == {ErrorCode.BUSY}
    return refusals[0]
