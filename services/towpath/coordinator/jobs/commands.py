"""Answer the coordinator's commands: one method for each."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.commands import (
    AbortMigration,
    DeployJob,
    FinishMigration,
    ForecastMigration,
    JobList,
    JobView,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    MigrationForecast,
    OperationAnswer,
    OperationKind,
    OperationList,
    OperationState,
    OperationView,
    RemoveJob,
    ResumeFrom,
    ShowOperation,
    SiteList,
    UpdateJob,
)
from towpath.contracts.standby import FailOverJob, ForecastFailover, StandbyView
from towpath.coordinator.jobs.failover import plan_failover, prepare_failover
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.jobs.plans import Nothing, plan_deploy, plan_remove, plan_update
from towpath.coordinator.jobs.resumption import plan_resume
from towpath.coordinator.migrations.planning import forecast_migration, plan_migrate
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.situation import Situation
from towpath.coordinator.standbys import Standbys
from towpath.protocols.record import JobEntry, OperationRecord


class JobCommands:
    """Answers the coordinator's commands."""

    def __init__(self, situation: Situation, operations: Operations, standbys: Standbys) -> None:
        self._situation = situation
        self._operations = operations
        self._standbys = standbys

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(DeployJob, self.deploy)
        await bus.serve(UpdateJob, self.update)
        await bus.serve(ResumeFrom, self.resume)
        await bus.serve(RemoveJob, self.remove)
        await bus.serve(MigrateJob, self.migrate)
        await bus.serve(ForecastMigration, self.forecast)
        await bus.serve(FailOverJob, self.fail_over)
        await bus.serve(ForecastFailover, self.forecast_failover)
        await bus.serve(AbortMigration, self.abort)
        await bus.serve(FinishMigration, self.finish)
        await bus.serve(ListJobs, self.list_jobs)
        await bus.serve(ListSites, self.list_sites)
        await bus.serve(ShowOperation, self.show_operation)
        await bus.serve(ListOperations, self.list_operations)

    async def deploy(self, command: DeployJob) -> OperationAnswer:
        """See `DeployJob`."""
        job = command.spec.name
        try:
            return await self._operations.accept(
                command, job, lambda: plan_deploy(command, self._situation), wait=command.wait
            )
        except Nothing:
            return _nothing_to_do(command.id, job, OperationKind.DEPLOY, "the job runs already")

    async def update(self, command: UpdateJob) -> OperationAnswer:
        """See `UpdateJob`."""
        job = command.spec.name
        try:
            return await self._operations.accept(
                command, job, lambda: plan_update(command, self._situation), wait=command.wait
            )
        except Nothing:
            return _nothing_to_do(command.id, job, OperationKind.UPDATE, "the job is already so")

    async def resume(self, command: ResumeFrom) -> OperationAnswer:
        """See `ResumeFrom`."""
        return await self._operations.accept(
            command, command.job, lambda: plan_resume(command, self._situation), wait=command.wait
        )

    async def remove(self, command: RemoveJob) -> OperationAnswer:
        """See `RemoveJob`."""
        return await self._operations.accept(
            command, command.job, lambda: plan_remove(command, self._situation), wait=command.wait
        )

    async def migrate(self, command: MigrateJob) -> OperationAnswer:
        """See `MigrateJob`."""
        return await self._operations.accept(
            command, command.job, lambda: plan_migrate(command, self._situation), wait=command.wait
        )

    async def forecast(self, command: ForecastMigration) -> MigrationForecast:
        """See `ForecastMigration`."""
        return await in_time(forecast_migration(command, self._situation))

    async def fail_over(self, command: FailOverJob) -> OperationAnswer:
        """See `FailOverJob`."""
        return await self._operations.accept(
            command, command.job, lambda: prepare_failover(command, self._situation), wait=command.wait
        )

    async def forecast_failover(self, command: ForecastFailover) -> StandbyView:
        """See `ForecastFailover`."""
        record = await in_time(plan_failover(command, self._situation))
        view = await self._standbys.ask(record.entry_before)
        return view.model_copy(update={"note": record.note})

    async def abort(self, command: AbortMigration) -> OperationAnswer:
        """See `AbortMigration`."""
        return await self._operations.abort(command.operation, wait=command.wait)

    async def finish(self, command: FinishMigration) -> OperationAnswer:
        """See `FinishMigration`."""
        return await self._operations.finish(command.operation, wait=command.wait)

    async def list_jobs(self, _: ListJobs) -> JobList:
        """See `ListJobs`."""
        jobs = await in_time(self._situation.registry.jobs())
        locks = await in_time(self._situation.registry.locks())
        return JobList(jobs=[self._view(name, entry, locks.get(name)) for name, entry in jobs.items()])

    def _view(self, name: str, entry: JobEntry, operation: str | None) -> JobView:
        status = self._situation.sites.job(entry.site, name)
        return JobView(
            spec=entry.spec,
            site=entry.site,
            epoch=entry.epoch,
            state=status.state if status else None,
            operation=operation,
            status=status,
            inputs=entry.inputs,
            output=entry.output,
            pipeline=entry.pipeline,
        )

    async def list_sites(self, _: ListSites) -> SiteList:
        """See `ListSites`."""
        return SiteList(sites=[self._situation.sites.status(name) for name in self._situation.sites.names])

    async def show_operation(self, command: ShowOperation) -> OperationView:
        """See `ShowOperation`."""
        record, journal = await in_time(self._situation.registry.load(command.operation))
        return _operation_view(record).model_copy(update={"journal": journal})

    async def list_operations(self, command: ListOperations) -> OperationList:
        """See `ListOperations`."""
        wanted = command.limit if command.kind is None else ALL_KINDS
        records = await in_time(self._situation.registry.latest(wanted))
        kept = [r for r in records if command.kind is None or r.kind is command.kind]
        return OperationList(operations=[_operation_view(r) for r in kept[: command.limit]])


ALL_KINDS = 5000
"""Number of operations that are searched for those of one kind."""


def _nothing_to_do(command: str, job: str, kind: OperationKind, note: str) -> OperationAnswer:
    """No operation was needed; the command's own identifier stands in for one."""
    return OperationAnswer(
        operation=command, job=job, kind=kind, state=OperationState.COMPLETED, note=f"nothing to do: {note}"
    )


def _operation_view(record: OperationRecord) -> OperationView:
    return OperationView(
        operation=record.id,
        kind=record.kind,
        job=record.job,
        state=record.state,
        strategy=record.strategy_name,
        source=record.source,
        target=record.target,
        begun_at=record.begun_at,
        ended_at=record.ended_at,
        note=record.note,
        asked_by=record.asked_by,
        forecast=record.forecast,
        figures=record.figures,
    )
