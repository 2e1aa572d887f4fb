"""Plan the operation of a move: its target, strategy and epochs."""

from __future__ import annotations

from towpath.contracts.commands import (
    DEFAULT_FACTOR,
    ConsistencyCheck,
    ForecastMigration,
    MigrateJob,
    MigrationForecast,
    OperationKind,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.coordinator.migrations.forecasts import forecast
from towpath.coordinator.situation import Situation, check_free, entry_of, record_of
from towpath.protocols.choice import choose
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.table import Strategy, strategies


async def plan_migrate(command: MigrateJob, situation: Situation) -> OperationRecord:
    """Plan a move.

    Raises `TowpathError` when the job cannot be moved there now, not by this strategy, or not in that time.
    """
    record, reason = await _decide(command, situation)
    expected = await forecast(record, reason, situation)
    check_time(command.at_most_s, expected)
    return record.model_copy(update={"forecast": expected})


async def forecast_migration(
    command: ForecastMigration, situation: Situation, spec: JobSpec | None = None
) -> MigrationForecast:
    """Return the forecast of a migration; with `spec`, of the job after its change to that description.

    Raises `TowpathError` when it would be refused.
    """
    record, reason = await _decide(command, situation, spec)
    expected = await forecast(record, reason, situation)
    check_time(command.at_most_s, expected)
    return expected


async def _decide(
    command: MigrateJob | ForecastMigration, situation: Situation, spec: JobSpec | None = None
) -> tuple[OperationRecord, str]:
    """Return the operation, and the reason for its strategy."""
    before = await _movable(command, situation)
    if spec is not None:
        before = before.model_copy(update={"spec": spec})
    strategy, reason = choose(before.spec, command.strategy)
    check_comparison(command, strategy)
    hold_s = command.hold_s if isinstance(command, MigrateJob) else None
    if hold_s is not None and not strategy.holds:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{command.job} would move by {strategy.name}, which never waits",
            field="hold_s",
            value=hold_s,
            allowed=[f"strategy {name}" for name, each in strategies().items() if each.holds],
        )
    factor = DEFAULT_FACTOR if command.factor is None else command.factor
    record = record_of(
        command,
        OperationKind.MIGRATE,
        command.job,
        before=before,
        after=_moved(before, command.to, strategy),
        strategy=strategy.name,
        progress=_progress(command.job, before, situation),
    )
    chosen = {"check": command.check, "factor": factor, "hold_s": hold_s}
    return record.model_copy(update=chosen), reason


async def _movable(command: MigrateJob | ForecastMigration, situation: Situation) -> JobEntry:
    """Return the job. Raises `TowpathError` unless it can be moved there now."""
    before = entry_of(await situation.registry.jobs(), command.job, "job")
    situation.sites.check_known(command.to, "to")
    await check_free(command.job, situation)
    if command.to == before.site:
        others = [name for name in situation.sites.names if name != before.site]
        raise TowpathError(
            ErrorCode.ALREADY_THERE, "the job runs there", field="to", value=command.to, allowed=others
        )
    await situation.sites.check_up(command.to, "to")
    await situation.sites.check_up(before.site, "job")
    await situation.sites.check_up(before.output.site, "job")
    return before


def _moved(before: JobEntry, to: str, strategy: Strategy) -> JobEntry:
    """Return the job as the target will own it."""
    return before.at_epoch(before.next_epoch(interim=strategy.interim_epoch)).model_copy(
        update={
            "site": to,
            "generation": before.generation + (1 if strategy.empty_beginning else 0),
            "running": True,
        }
    )


def check_time(at_most_s: float | None, expected: MigrationForecast) -> None:
    """Raise `TowpathError` (not allowed) when a move is expected to take longer than it may."""
    if at_most_s is not None and expected.total_s > at_most_s:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{expected.job} would move from {expected.source} to {expected.target} in "
            f"{expected.total_s:g} s ({expected.basis}), and may take {at_most_s:g} s; "
            f"it runs on at {expected.source}",
            field="at_most_s",
            value=at_most_s,
            allowed=f"{expected.total_s:g} s or more, or no limit",
        )


def check_comparison(command: MigrateJob | ForecastMigration, strategy: Strategy) -> None:
    """Raise `TowpathError` (not allowed) when the strategy cannot compare results as the command says."""
    check = command.check
    comparing = [f"`{name}`" for name, each in strategies().items() if check in each.checks]
    if strategy.checks and check not in strategy.checks:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "two runs of a processing-time window have no results of equal identity",
            field="check",
            value=check.value,
            allowed=[each.value for each in strategy.checks],
        )
    if check is ConsistencyCheck.RESULTS and not strategy.checks:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{command.job} would move by {strategy.name}, which compares nothing so",
            field="check",
            value=check.value,
            allowed=f"`{check}` with the strategy {' or '.join(comparing)}",
        )
    if command.factor is not None and check is not ConsistencyCheck.RESULTS:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"the check {check} lets no results differ",
            field="factor",
            value=command.factor,
            allowed=f"a factor with the check `{ConsistencyCheck.RESULTS}`",
        )


def _progress(job: str, entry: JobEntry, situation: Situation) -> dict[str, int]:
    """Return the owner's progress as last reported; empty if that was of an earlier job of that name."""
    status = situation.sites.job(entry.site, job)
    return status.serials if status is not None and status.epoch == entry.epoch else {}
