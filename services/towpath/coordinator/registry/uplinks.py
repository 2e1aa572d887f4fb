"""Uplinks in Redis, beside the registry of jobs.

Keys: `towpath:uplinks` (name → uplink), `towpath:uplinks-purged` (`site/stream`), `towpath:uplinks-revision`.
"""

from __future__ import annotations

from collections.abc import Iterable

from towpath.contracts.data_plane import uplink_stream
from towpath.contracts.uplink import ResolvedUplink, SetUplinks
from towpath.coordinator.registry.contents import PREFIX
from towpath.coordinator.registry.jobs import Registry

UPLINKS, PURGED, REVISION = f"{PREFIX}uplinks", f"{PREFIX}uplinks-purged", f"{PREFIX}uplinks-revision"


class UplinkStore:
    """Uplinks in the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def all(self) -> dict[str, ResolvedUplink]:
        """Return all uplinks by name."""
        found = await self._registry.call("hgetall", UPLINKS)
        return {name: ResolvedUplink.from_json(found[name]) for name in sorted(found)}

    async def save(self, uplink: ResolvedUplink) -> None:
        """Add an uplink, or replace the one of its name."""
        name = uplink.spec.name
        await self._registry.write(
            ("INCR", REVISION),
            ("SREM", PURGED, f"{uplink.spec.to}/{uplink_stream(name)}"),
            ("HSET", UPLINKS, name, uplink.model_dump_json()),
        )

    async def remove(self, uplink: ResolvedUplink, *, purge: bool) -> None:
        """Forget an uplink."""
        name = uplink.spec.name
        purged = ("SADD", PURGED, f"{uplink.spec.to}/{uplink_stream(name)}")
        await self._registry.write(("INCR", REVISION), *([purged] if purge else []), ("HDEL", UPLINKS, name))

    async def outrun(self, revision: int) -> int:
        """Return a revision later than this one of a site: it has more than a registry that was restored from
        a copy, or from the sites, and would take nothing of it."""
        if revision >= int(await self._registry.call("get", REVISION) or 0):
            await self._registry.write(("SET", REVISION, str(revision + 1)))
        return int(await self._registry.call("get", REVISION) or 0)

    async def sets(self, sites: Iterable[str]) -> list[SetUplinks]:
        """Return what each of these sites has to do; nothing in a mesh that never had an uplink."""
        revision = int(await self._registry.call("get", REVISION) or 0)
        uplinks = (await self.all()).values()
        purged = [text.partition("/") for text in await self._registry.call("smembers", PURGED)]
        return [
            SetUplinks(
                site=site,
                revision=revision,
                sends=[uplink for uplink in uplinks if uplink.spec.site == site],
                receives=[uplink for uplink in uplinks if uplink.spec.to == site],
                purged=sorted(stream for where, _, stream in purged if where == site),
            )
            for site in sites
            if revision
        ]
