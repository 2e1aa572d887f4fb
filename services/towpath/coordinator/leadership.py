"""Which of several coordinators acts: one leads, and a spare takes over when it is silent.

A term begins with an entry in the registry's log (`towpath.coordinator.registry.replica`). The coordinator
before finds that entry before it can write anything else, and its commands are refused at sites that have
heard of the new term (`towpath.bus.terms`). So silence decides only when a spare tries. It may be wrong, as
when the leader was paused, and does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from towpath.bus import Bus
from towpath.contracts.coordinators import CoordinatorLeads, Coordinators, ShowCoordinators
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event, now
from towpath.coordinator.registry.jobs import Registry

log = logging.getLogger(__name__)

SILENCE_S = 5.0
"""Silence after which a spare takes over. Ten seconds are allowed, and operations under way take some."""

ASK_EVERY_S = 0.5
ANSWER_S = 1.0


async def leader_is_silent(
    bus: Bus,
    name: str,
    *,
    is_first: bool,
    silence_s: float = SILENCE_S,
    gives_way_to: Callable[[str], bool] = lambda leader: True,
) -> None:
    """Wait, as a spare of this name, until no coordinator to which it gives way has answered for so long.

    The first of them does not wait if no one leads when it starts: the mesh starts, or its leader restarts.
    """
    heard_at = time.monotonic()
    leader: str | None = None
    while (silent_s := time.monotonic() - heard_at) < silence_s:
        try:
            answer = await bus.request(ShowCoordinators(spare=name), deadline_s=min(ANSWER_S, silence_s))
        except TowpathError as error:
            if is_first and leader is None and error.detail.code is ErrorCode.UNREACHABLE:
                return
        else:
            if gives_way_to(answer.leader):
                heard_at = time.monotonic()
            if leader != answer.leader:
                leader = answer.leader
                log.info("spare: %s leads in term %d", leader, answer.term)
        await asyncio.sleep(ASK_EVERY_S)
    log.info("no coordinator has answered for %.1f s", silent_s)


class Leadership:
    """This coordinator's term, and the spares that ask about it."""

    def __init__(
        self, name: str, registry: Registry, bus: Bus, publish: Callable[[Event], Awaitable[None]]
    ) -> None:
        self._name = name
        self._registry = registry
        self._bus = bus
        self._publish = publish
        self._since: datetime = now()
        self._spares: dict[str, float] = {}
        self._beginning = asyncio.Lock()

    async def begin(self, above: int = 0) -> None:
        """Begin a term with a number above this one, and say so."""
        self._bus.term = await self._registry.lead(self._name, above)
        self._since = now()
        log.info("%s leads in term %d", self._name, self._bus.term)
        await self._publish(CoordinatorLeads(coordinator=self._name, term=self._bus.term))

    async def serve(self) -> None:
        """Answer spares, and give way to a coordinator that leads in a later term."""
        self._bus.on_later_term = self._overtake
        await self._bus.subscribe(CoordinatorLeads, self._on_other)
        await self._bus.serve(ShowCoordinators, self.show)

    async def show(self, command: ShowCoordinators) -> Coordinators:
        """See `ShowCoordinators`."""
        assert self._bus.term is not None
        heard = time.monotonic()
        if command.spare is not None:
            self._spares[command.spare] = heard
        spares = sorted(name for name, at in self._spares.items() if heard - at < SILENCE_S)
        return Coordinators(leader=self._name, term=self._bus.term, since=self._since, spares=spares)

    async def _on_other(self, event: CoordinatorLeads) -> None:
        if event.term > (self._bus.term or 0):
            # Read where it counts: the event alone may be forged.
            await self._registry.bring_up()

    async def _overtake(self, later: int) -> None:
        """Begin a term above one that a site knows: the registry was lost with its log.

        Does not return if another coordinator leads.
        """
        async with self._beginning:
            if later >= (self._bus.term or 0):
                await self.begin(above=later)
