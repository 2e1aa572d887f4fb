"""Back the registry up, bring a copy back, and take from sites what the registry does not know any more.

The log (`towpath.coordinator.registry.log`) keeps the registry when Redis is lost. This is for the loss of
both, and for going back to a copy.

A site is believed when someone asks for it, and not by itself: a stolen site could otherwise claim jobs of
others under a high epoch. What it says is taken whole, under its own epoch. The site that had the job before
is then stopped, or fenced, as after a migration.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState
from towpath.contracts.message import new_identifier, now
from towpath.contracts.registry import (
    MAX_COPY_CHARACTERS,
    BackupRegistry,
    RebuildRegistry,
    RegistryCopy,
    RegistryState,
    RestoredJob,
    RestoreRegistry,
)
from towpath.contracts.site_commands import ReportAssignment
from towpath.coordinator.overtaken import Overtaken, overtaken
from towpath.coordinator.registry.contents import is_content
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry

log = logging.getLogger(__name__)

ANSWER_S = 5.0


class RegistryCommands:
    """Answers commands about the registry as a whole."""

    def __init__(self, situation: Situation, pipelines: PipelineStore) -> None:
        self._situation = situation
        self._pipelines = pipelines
        self._registry = situation.registry

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(BackupRegistry, self.backup)
        await bus.serve(RestoreRegistry, self.restore)
        await bus.serve(RebuildRegistry, self.rebuild)

    async def backup(self, _: BackupRegistry) -> RegistryCopy:
        """See `BackupRegistry`."""
        commands, jobs = await in_time(self._registry.contents()), await in_time(self._registry.jobs())
        content = base64.b64encode(zlib.compress(json.dumps(commands).encode())).decode()
        if len(content) > MAX_COPY_CHARACTERS:
            raise TowpathError(
                ErrorCode.FAILED,
                "the registry is too large for one message: copy the directories `hub` and `redis` instead",
                field="content",
                value=len(content),
                allowed=f"at most {MAX_COPY_CHARACTERS} characters",
            )
        return RegistryCopy(written_at=now(), jobs=len(jobs), content=content)

    async def restore(self, command: RestoreRegistry) -> RegistryState:
        """See `RestoreRegistry`."""
        under_way = [
            *await in_time(self._registry.unfinished()),
            *await in_time(self._pipelines.unfinished()),
        ]
        if under_way:
            raise TowpathError(
                ErrorCode.BUSY,
                "an operation is under way",
                field="registry",
                value=under_way[0],
                allowed="when no operation and no apply is under way",
            )
        await in_time(self._registry.replace(commands_of(command)))
        log.warning("the registry was replaced by a copy of %s", command.written_at)
        await self._situation.sites.next_heartbeats()
        return RegistryState(jobs=len(await self._registry.jobs()), behind=await self._behind())

    async def rebuild(self, command: RebuildRegistry) -> RegistryState:
        """See `RebuildRegistry`."""
        await self._situation.sites.next_heartbeats()
        found = await self._behind()
        if not command.dry_run:
            found = [await self._adopted(each) for each in found]
        return RegistryState(jobs=len(await self._registry.jobs()), behind=found)

    async def _behind(self) -> list[RestoredJob]:
        jobs, heard = await self._registry.jobs(), self._situation.sites.heard()
        names = {status.job for site in heard for status in site.jobs}
        found = [overtaken(n, jobs.get(n), await self._registry.former(n), heard) for n in sorted(names)]
        return [_described(each) for each in found if each is not None]

    async def _adopted(self, behind: RestoredJob) -> RestoredJob:
        """Ask the site for the job, and let the registry take it."""
        asked = ReportAssignment(site=behind.site, operation=new_identifier(), job=behind.job)
        try:
            found = await self._situation.bus.request(asked, deadline_s=ANSWER_S)
            if found.desired is not DesiredState.RUNNING:
                note = f"a migration was under way: it is {found.desired.value} at {behind.site}"
                return behind.model_copy(update={"note": note})
            if not found.version.is_credible:
                note = f"{behind.site} names an epoch, or a revision, that it cannot have"
                return behind.model_copy(update={"note": note})
            entry = entry_from(found, behind.site, (await self._registry.jobs()).get(behind.job))
            await in_time(self._registry.adopt(entry))
        except TowpathError as error:
            return behind.model_copy(update={"note": error.detail.message})
        log.warning("job %s is adopted from site %s, epoch %d", behind.job, behind.site, behind.epoch)
        return behind.model_copy(update={"adopted": True})


def entry_from(found: Assignment, site: str, known: JobEntry | None) -> JobEntry:
    """Return the registry's entry of a job as its site describes it. What sites do not know is as before."""
    return JobEntry(
        spec=found.spec,
        site=site,
        epoch=found.epoch,
        generation=found.generation,
        revision=found.revision,
        adjustments=found.adjustments,
        inputs=found.inputs,
        output=found.output,
        artefact=found.artefact,
        closed=known.closed if known else [],
        pipeline=known.pipeline if known else None,
    )


def _described(behind: Overtaken) -> RestoredJob:
    return RestoredJob(job=behind.job, site=behind.site, epoch=behind.epoch, known=behind.known)


def commands_of(copy: RegistryCopy) -> list[tuple[str, ...]]:
    """Return the commands of a copy. Raises `TowpathError` if it is none."""
    try:
        commands = [tuple(command) for command in json.loads(zlib.decompress(copy.decoded()))]
    except (zlib.error, ValueError, TypeError) as error:
        commands = [("unreadable", str(error))]
    for command in commands:
        if not is_content(command):
            raise TowpathError(
                ErrorCode.INVALID,
                "this is no copy of a registry",
                field="content",
                value=" ".join(map(str, command[:2])),
                allowed="a file that `towpath registry backup` wrote",
            )
    return commands
