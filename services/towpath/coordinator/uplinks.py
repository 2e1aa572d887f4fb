"""Uplinks as users want them: kept in the registry, checked, and told to both of their sites.

A site gets all that it has to do at once, again and again: a command that is lost, repeated or late changes
nothing for good.
"""

from __future__ import annotations

import asyncio
import logging

from towpath.bus import Bus
from towpath.contracts.data_plane import device_stream, device_subject
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.reply import Done
from towpath.contracts.site import SiteState
from towpath.contracts.uplink import (
    ApplyUplinks,
    ListUplinks,
    RemoveUplink,
    ReportUplinks,
    ResolvedUplink,
    SetUplinks,
    UplinkList,
    UplinkSpec,
    UplinkStart,
    UplinkState,
    UplinkStatus,
    UplinkView,
)
from towpath.coordinator.jobs.topics import known_topics, sources, writers
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.registry.uplinks import UplinkStore
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry
from towpath.streams.pages import last_serial

log = logging.getLogger(__name__)

TELL_EVERY_S = 10.0
TELL_S = 3.0
"""Deadline for a site's answer: the list must not wait long for one that is cut off."""


class UplinkCommands:
    """Answers commands about uplinks, and tells sites what they have to do."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._store = UplinkStore(situation.registry)
        self._changing = asyncio.Lock()

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(ApplyUplinks, self.apply)
        await bus.serve(ListUplinks, self.list_uplinks)
        await bus.serve(RemoveUplink, self.remove)

    async def apply(self, command: ApplyUplinks) -> UplinkList:
        """See `ApplyUplinks`."""
        async with self._changing:
            known = await in_time(self._store.all())
            jobs = await in_time(self._situation.registry.jobs())
            wanted: list[ResolvedUplink] = []
            for position, spec in enumerate(command.uplinks):
                uplink = await self._resolve(spec, known, jobs, f"uplinks.{position}")
                known[spec.name] = uplink
                wanted.append(uplink)
            for uplink in wanted:
                await in_time(self._store.save(uplink))
        await self._tell()
        return await self.list_uplinks(ListUplinks())

    async def list_uplinks(self, _: ListUplinks) -> UplinkList:
        """See `ListUplinks`."""
        uplinks, statuses = await in_time(self._store.all()), await self._tell()
        return UplinkList(
            uplinks=[
                UplinkView(uplink=uplink, status=statuses.get(name) or _unknown(name))
                for name, uplink in uplinks.items()
            ]
        )

    async def remove(self, command: RemoveUplink) -> Done:
        """See `RemoveUplink`."""
        async with self._changing:
            known = await in_time(self._store.all())
            if command.uplink not in known:
                raise TowpathError.unknown("uplink", command.uplink, sorted(known), field="uplink")
            await in_time(self._store.remove(known[command.uplink], purge=command.purge))
        await self._tell()
        return Done(note=f"{command.uplink} forwards no more")

    async def watch(self) -> None:
        """Tell sites what they have to do, again and again, until cancelled."""
        while True:
            await self._tell()
            await asyncio.sleep(TELL_EVERY_S)

    async def _tell(self) -> dict[str, UplinkStatus]:
        """Tell all sites that are up. Return the figures in their answers."""
        sites = self._situation.sites
        up = [site for site in sites.names if sites.state(site) is not SiteState.DOWN]
        found = await asyncio.gather(*(self._tell_one(each) for each in await self._store.sets(up)))
        return {status.name: status for statuses in found for status in statuses}

    async def _tell_one(self, wanted: SetUplinks) -> list[UplinkStatus]:
        bus = self._situation.bus
        try:
            try:
                return (await bus.request(wanted, deadline_s=TELL_S)).uplinks
            except TowpathError as error:
                if error.detail.field != "revision":
                    raise
            has = await bus.request(ReportUplinks(site=wanted.site), deadline_s=TELL_S)
            later = await self._store.outrun(has.revision)
            again = SetUplinks.model_validate({**wanted.model_dump(exclude={"id"}), "revision": later})
            return (await bus.request(again, deadline_s=TELL_S)).uplinks
        except TowpathError as error:
            log.warning("%s was not told of its uplinks: %s", wanted.site, error)
            return []

    async def _resolve(
        self, spec: UplinkSpec, known: dict[str, ResolvedUplink], jobs: dict[str, JobEntry], field: str
    ) -> ResolvedUplink:
        """Return an uplink with its stream. Raises `TowpathError` when it contradicts what there is."""
        self._situation.sites.check_known(spec.site, f"{field}.site")
        self._situation.sites.check_known(spec.to, f"{field}.to")
        _check_topics(spec, known, jobs, f"{field}.publish")
        stream, subject = _stream_of(spec, jobs, f"{field}.topic")
        before = known.get(spec.name)
        if before is None:
            after = await self._begin(spec, stream)
            return ResolvedUplink(spec=spec, stream=stream, subject=subject, after_serial=after)
        if (before.spec.site, before.spec.to, before.spec.topic) != (spec.site, spec.to, spec.topic):
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{spec.name} forwards {before.spec.topic} from {before.spec.site} to {before.spec.to}",
                field=f"{field}.name",
                value=spec.name,
                allowed=f"another name, or first `towpath uplink remove {spec.name} --purge`",
            )
        return before.model_copy(update={"spec": spec, "stream": stream, "subject": subject})

    async def _begin(self, spec: UplinkSpec, stream: str) -> int:
        if spec.start is UplinkStart.EARLIEST:
            return 0
        try:
            return await last_serial(self._situation.bus.connection, spec.site, stream, timeout_s=TELL_S)
        except TimeoutError as error:
            raise TowpathError(
                ErrorCode.SITE_DOWN, f"{spec.site} does not answer", field="start", value=spec.start
            ) from error


def _stream_of(spec: UplinkSpec, jobs: dict[str, JobEntry], field: str) -> tuple[str, str | None]:
    if spec.from_device:
        return device_stream(spec.topic), device_subject(spec.topic)
    found = sources(jobs, spec.site, spec.topic)
    if len(found) != 1:
        raise TowpathError(
            ErrorCode.UNKNOWN_TOPIC,
            f"{len(found) or 'no'} jobs write to this topic at {spec.site}",
            field=field,
            value=spec.topic,
            allowed=known_topics(jobs) if not found else "a topic that one job writes to",
        )
    (source,) = found
    return source.stream, None


def _check_topics(
    spec: UplinkSpec, known: dict[str, ResolvedUplink], jobs: dict[str, JobEntry], field: str
) -> None:
    """Raise `TowpathError` when someone else publishes a topic of the uplink at its destination."""
    others = [each.spec for name, each in known.items() if name != spec.name and each.spec.to == spec.to]
    for topic in spec.topics:
        taken = [other.name for other in others if topic in other.topics] + writers(jobs, spec.to, topic)
        if taken:
            raise TowpathError(
                ErrorCode.NAME_IN_USE,
                f"{taken[0]} publishes {topic} at {spec.to}",
                field=field,
                value=topic,
                allowed="another topic",
            )


def _unknown(name: str) -> UplinkStatus:
    return UplinkStatus(name=name, state=UplinkState.UNKNOWN, trouble="its site does not answer")
