"""Decide which site may read which stream of another: what its jobs and uplinks need, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from towpath.contracts.data_plane import mirror_stream, rejected_stream, shadow_stream, uplink_stream
from towpath.contracts.reading import MayRead, ReadingDecision
from towpath.contracts.uplink import ResolvedUplink
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.registry.uplinks import UplinkStore
from towpath.protocols.record import JobEntry, OperationRecord


class Reading:
    """Answers the gates of the sites, from the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def decide(self, command: MayRead) -> ReadingDecision:
        """See `MayRead`."""
        return ReadingDecision(may_read=await self.may_read(command.site, command.reader, command.stream))

    async def may_read(self, site: str, reader: str, stream: str) -> bool:
        """Tell if a site needs a stream of another one. None needs one of the hub, but for its artefacts."""
        jobs = (await self._registry.jobs()).values()
        operations = await self._registry.records(await self._registry.unfinished())
        uplinks = (await UplinkStore(self._registry).all()).values()
        return (site, stream) in {*read_by(reader, jobs, operations, uplinks)}


def read_by(
    reader: str,
    jobs: Iterable[JobEntry],
    operations: Iterable[OperationRecord],
    uplinks: Iterable[ResolvedUplink],
) -> Iterator[tuple[str, str]]:
    """Yield sites and streams there that a site reads, as owner or standby of jobs, or as a party of
    operations on them.

    A job's owner also reads what its outputs hold, wherever they are: it must know what it has published.
    """
    for entry in jobs:
        standby = entry.spec.standby
        if reader == entry.site or (standby and reader == standby.site):
            yield from _needed(entry)
    for record in operations:
        entries = [entry for entry in (record.before, record.after) if entry is not None]
        if reader in {entry.site for entry in entries}:
            for entry in entries:
                yield from _needed(entry)
        if record.readers and reader == record.target:
            yield from _mirrors(record)
    for uplink in uplinks:
        if uplink.spec.site == reader:
            yield uplink.spec.to, uplink_stream(uplink.spec.name)


def _needed(entry: JobEntry) -> Iterator[tuple[str, str]]:
    for read in entry.inputs:
        yield read.origin, read.stream
    for output in (entry.output, *entry.closed):
        for stream in (output.stream, rejected_stream(output.stream), shadow_stream(entry.spec.name)):
            yield output.site, stream


def _mirrors(record: OperationRecord) -> Iterator[tuple[str, str]]:
    """Yield the mirrors of an output that may have more of it than the copy that goes on."""
    output = record.entry_after.output
    for stream in (output.stream, rejected_stream(output.stream)):
        for site in record.readers:
            yield site, mirror_stream(output.home_site, stream)
