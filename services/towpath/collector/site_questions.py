"""Ask several sites one question, each with a deadline of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import nats.errors

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Model
from towpath.contracts.site import SiteStatus

Answer = TypeVar("Answer", bound=Model)

SITE_S = 3.0
"""Deadline for a site's answer."""

SILENT_SITE_S = 0.5
"""The same for a site that was not heard lately, so that other sites need not wait long for it."""

SILENT_AFTER_S = 5.0
"""Age of the last heartbeat that makes a site silent. Heartbeats come every second."""


class SiteQuestions:
    """Knows which sites there are, and which are silent."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks, because it reads the mesh's state."""
        self._heard: dict[str, float] = {}
        """Site → arrival of its last heartbeat, by the monotonic clock."""
        self._began = time.monotonic()

    async def hear(self, heartbeat: SiteStatus) -> None:
        """Note that a site is there."""
        self._heard[heartbeat.site] = time.monotonic()

    async def scopes(self, wanted: Sequence[str] | None, beside: Sequence[str] = ()) -> list[str]:
        """Return the sites that are `wanted`, or all, with the scopes `beside` them.

        Raises `TowpathError` for one that does not exist.
        """
        known = [*beside, *sorted(await asyncio.to_thread(self._sites))]
        chosen = known if wanted is None else list(dict.fromkeys(wanted))
        for scope in chosen:
            if scope not in known:
                raise TowpathError.unknown("site", scope, known, field="sites")
        return chosen

    async def ask(self, site: str, question: Command[Answer]) -> Answer | TowpathError:
        """Return a site's answer, or the reason why there is none."""
        deadline_s = self._deadline_s(site)
        try:
            # Sending has a deadline, too, because the hub may be away.
            async with asyncio.timeout(deadline_s + SILENT_SITE_S):
                return await self._bus.request(question, deadline_s=deadline_s)
        except TowpathError as error:
            return error
        except (TimeoutError, nats.errors.Error, OSError) as error:
            return TowpathError(ErrorCode.UNREACHABLE, f"not read: {error!r}")

    def _deadline_s(self, site: str) -> float:
        silent_s = time.monotonic() - self._heard.get(site, self._began)
        return SITE_S if silent_s < SILENT_AFTER_S else SILENT_SITE_S
