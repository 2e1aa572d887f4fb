"""Broadcasts in Redis, beside the registry of jobs.

Keys: `towpath:broadcasts` (id → how far it got), `towpath:broadcast-contents` (id → what is sent, while a
site waits for it).
"""

from __future__ import annotations

from collections.abc import Callable

from towpath.contracts.broadcast import BroadcastState, BroadcastView, Content
from towpath.coordinator.registry.contents import PREFIX
from towpath.coordinator.registry.jobs import Registry

BROADCASTS, CONTENTS = f"{PREFIX}broadcasts", f"{PREFIX}broadcast-contents"

KEPT = 200
"""Broadcasts that are kept when no site waits for them any more, the newest."""


class BroadcastStore:
    """Broadcasts in the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def all(self) -> dict[str, BroadcastView]:
        """Return all broadcasts by id, in the order in which they were sent."""
        found = await self._registry.call("hgetall", BROADCASTS)
        views = [BroadcastView.from_json(text) for text in found.values()]
        return {view.broadcast: view for view in sorted(views, key=lambda view: view.sent_at)}

    async def get(self, broadcast: str) -> BroadcastView | None:
        """Return one broadcast; None if there is none of this id."""
        text = await self._registry.call("hget", BROADCASTS, broadcast)
        return None if text is None else BroadcastView.from_json(text)

    async def contents(self) -> dict[str, Content]:
        """Return what is sent, of all broadcasts for which a site waits."""
        found: dict[str, str] = await self._registry.call("hgetall", CONTENTS)
        return {name: Content.from_json(text) for name, text in found.items()}

    async def add(self, view: BroadcastView, content: Content, check: Callable[[], None]) -> None:
        """Accept a broadcast, unless `check` raises an error just before."""
        await self._registry.write(
            ("HSET", CONTENTS, view.broadcast, content.model_dump_json()),
            ("HSET", BROADCASTS, view.broadcast, view.model_dump_json()),
            check=check,
        )

    async def save(self, view: BroadcastView) -> None:
        """Keep how far a broadcast got. Forget its content when no site waits any more."""
        is_over = not view.count(BroadcastState.WAITING)
        await self._registry.write(
            ("HSET", BROADCASTS, view.broadcast, view.model_dump_json()),
            *([("HDEL", CONTENTS, view.broadcast)] if is_over else []),
        )
        if is_over:
            await self._forget_old()

    async def _forget_old(self) -> None:
        if await self._registry.call("hlen", BROADCASTS) <= KEPT:
            return
        over = [name for name, view in (await self.all()).items() if not view.count(BroadcastState.WAITING)]
        if over[:-KEPT]:
            await self._registry.write(("HDEL", BROADCASTS, *over[:-KEPT]))
