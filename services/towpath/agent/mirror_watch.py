"""See to it that mirrors at this site hold the events of their origins, after those lost some."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.streams.mirrors import Mirrors

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0


async def watch(mirrors: Mirrors, assignments: Callable[[], Iterable[Assignment]]) -> None:
    """Compare all mirrors that jobs here read with their origins, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        inputs: dict[tuple[str, str], ResolvedInput] = {}
        for assignment in assignments():
            inputs |= {(entry.site, entry.stream): entry for entry in assignment.inputs}
        for entry in inputs.values():
            try:
                await mirrors.renew(entry)
            except (TowpathError, NatsError, OSError, TimeoutError) as error:
                log.debug("the mirror of %s at %s cannot be compared: %s", entry.stream, entry.site, error)
