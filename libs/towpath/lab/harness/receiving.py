"""Subscribe to many topics, and wait for results. Results that do not come in time count as lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from towpath.checker.collector import ResultCollectors
from towpath.checker.identity import IdentityOf
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.errors import TowpathError
from towpath.lab.harness.observer import subscriber
from towpath.mesh.state import MeshState


def subscribers(mesh: MeshState, places: Iterable[tuple[str, str]], identity: IdentityOf) -> ResultCollectors:
    """A subscriber for each site and topic. Were several topics one session, they would share the broker's
    limit of unacknowledged messages, and a burst in one would delay, and so reorder, another.
    """
    return ResultCollectors(
        *(
            subscriber(mesh, site, [topic], f"checker-{site}-{topic.replace('/', '-')}", identity)
            for site, topic in places
        )
    )


def received(collectors: ResultCollectors) -> int:
    """Return the number of messages that have come so far."""
    return sum(len(collector.observations) for collector in collectors.collectors)


async def together(*work: Coroutine[Any, Any, object]) -> None:
    """Do all of it at once; if one fails, the others are cancelled. Raises the first one's `TowpathError`."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except* TowpathError as errors:
        raise _first(errors) from None


def _first(errors: ExceptionGroup[TowpathError]) -> TowpathError:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


class Fresh:
    """Messages that come from now on, each once."""

    def __init__(self, collectors: ResultCollectors) -> None:
        self._collectors = collectors.collectors
        self._taken = [len(collector.observations) for collector in self._collectors]

    def take(self) -> list[ReceivedMessage]:
        """Return the messages that came since the last call."""
        came: list[ReceivedMessage] = []
        for number, collector in enumerate(self._collectors):
            came += collector.observations[self._taken[number] :]
            self._taken[number] = len(collector.observations)
        return came


async def until(collectors: ResultCollectors, complete: Callable[[], bool], within_s: float) -> bool:
    """Wait until everything has come. Return false if it does not in time."""
    with contextlib.suppress(TowpathError):
        await collectors.wait_until(complete, within_s)
    for collector in collectors.collectors:
        collector.check()
    return complete()


async def until_quiet(collectors: ResultCollectors, quiet_s: float) -> None:
    """Wait until nothing came for `quiet_s`, because a result that comes twice is as wrong as a lost one."""
    count = -1
    while received(collectors) > count:
        count = received(collectors)
        await asyncio.sleep(quiet_s)
