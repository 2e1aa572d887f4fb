"""Watch the mesh for all followers: once for all of them, and not at all without any."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import nats.errors

from towpath.api.event_log import KeptEvent, KeptEventReader, span
from towpath.api.live_state import (
    LiveState,
    autopilot_told,
    jobs_told,
    operations_told,
    rules_told,
    sites_told,
    standbys_told,
    statuses_told,
    values_told,
)
from towpath.bus import Bus
from towpath.contracts.autopilot import AutopilotMode, AutopilotSpec, ShowAutopilot
from towpath.contracts.commands import ListJobs, ListOperations, ListSites
from towpath.contracts.errors import TowpathError
from towpath.contracts.fault_commands import ListRules
from towpath.contracts.message import now
from towpath.contracts.metrics import QueryMetrics
from towpath.contracts.standby import ListStandbys
from towpath.tasks import end

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""Between two looks at the mesh."""

MEASURED_EVERY_S = 2.0
"""Between two looks at samples and rules: sites take samples this often."""

ANSWER_S = 3.0
"""Deadline for one answer."""

AGAIN_S = 5.0
"""Pause before a service that did not answer is asked again."""

BEHIND = 120
"""Most messages that wait for one client. A client further behind is cut off and begins again."""

OPERATIONS = 60
"""Number of latest operations shown."""

DECISIONS = 20
"""Number of latest decisions shown."""

METRICS = [
    "job.event_rate",
    "job.result_rate",
    "job.backlog",
    "job.latency.end_to_end.p95",
    "job.state.memory",
    "process.cpu.utilization",
    "process.memory.usage",
    "link.*",
    "uplink.*",
]

Section = Mapping[str, Any]


class FeedFollower:
    """Messages that wait for one client."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        """Set while something waits, and when the client was cut off."""
        self.cut_off = False
        self._waiting: list[bytes] = []

    def put(self, message: bytes) -> None:
        """Queue a server-sent event. Cut the client off if it is too far behind."""
        self.cut_off = self.cut_off or len(self._waiting) >= BEHIND
        if not self.cut_off:
            self._waiting.append(message)
        self.arrived.set()

    def take(self) -> bytes:
        """Remove and return all waiting events, in order."""
        taken, self._waiting = b"".join(self._waiting), []
        self.arrived.clear()
        return taken


class LiveFeed:
    """Followers, and the tasks that watch the mesh while there are any."""

    def __init__(self, bus: Bus, autopilot: Callable[[], AutopilotSpec]) -> None:
        self._bus = bus
        self._autopilot = autopilot
        """Reads the autopilot's present settings. Blocks."""
        self._followers: set[FeedFollower] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._state = LiveState()
        self._looked = asyncio.Event()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[FeedFollower]:
        """Add a follower. It gets everything first, and then changes. With the last one the watching ends."""
        follower = FeedFollower()
        self._followers.add(follower)
        if len(self._followers) == 1:
            self._begin()
        try:
            await self._looked.wait()
            # Earlier events are left out, because the snapshot contains them.
            follower.take()
            follower.put(_message("snapshot", self._state.everything()))
            yield follower
        finally:
            self._followers.discard(follower)
            if not self._followers:
                await self._end()

    def _begin(self) -> None:
        self._state, self._looked = LiveState(), asyncio.Event()
        looks = (
            self._again("coordinator", self._look, EVERY_S),
            self._again("collector", self._measure, MEASURED_EVERY_S),
            self._again("injector", self._rules, MEASURED_EVERY_S),
            self._again("autopilot", self._look_ahead, MEASURED_EVERY_S),
            self._again("events", self._follow_events, 0.0),
        )
        self._tasks = [asyncio.create_task(look) for look in looks]

    async def _end(self) -> None:
        tasks, self._tasks = self._tasks, []
        await end(tasks)

    async def _again(self, service: str, look: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Look until cancelled. A failure is announced, and a longer pause follows it."""
        while True:
            try:
                await look()
            except (TowpathError, nats.errors.Error, OSError, TimeoutError, ValueError) as error:
                why = error.detail.one_line() if isinstance(error, TowpathError) else repr(error)
                self._tell(self._state.note(service, why))
                pause_s = AGAIN_S if self._looked.is_set() else EVERY_S
            else:
                self._tell(self._state.note(service, None))
                pause_s = every_s
            if service == "coordinator":
                self._looked.set()
            await asyncio.sleep(pause_s)

    async def _look(self) -> None:
        sites, jobs, operations = await asyncio.gather(
            self._ask(ListSites()), self._ask(ListJobs()), self._ask(ListOperations(limit=OPERATIONS))
        )
        # No one is asked about what no job has.
        has_standbys = any(job.spec.standby for job in jobs.jobs)
        standbys = (await self._ask(ListStandbys())).standbys if has_standbys else []
        # One message has both, so that a job is never at a site that is not known yet.
        self._tell(
            self._state.replace("sites", sites_told(sites.sites))
            | self._state.replace("jobs", jobs_told(jobs.jobs))
            | self._state.replace("statuses", statuses_told(jobs.jobs))
            | self._state.replace("standbys", standbys_told(standbys))
            | self._state.replace("operations", operations_told(operations.operations))
        )

    async def _measure(self) -> None:
        found = await self._ask(QueryMetrics(metrics=METRICS))
        self._tell(self._state.replace("values", values_told(found.series)))

    async def _rules(self) -> None:
        found = await self._ask(ListRules())
        self._tell(self._state.replace("rules", rules_told(found.rules)))

    async def _look_ahead(self) -> None:
        spec = await asyncio.to_thread(self._autopilot)
        # No one answers for an autopilot that is off.
        asked = spec.mode is not AutopilotMode.OFF
        found = await self._ask(ShowAutopilot(limit=DECISIONS)) if asked else None
        changed: dict[str, Section] = {}
        for section, entries in autopilot_told(spec, found).items():
            changed |= self._state.replace(section, entries)
        self._tell(changed)

    async def _follow_events(self) -> None:
        after = (await span(self._bus.connection)).last
        self._tell(self._state.note("events", None))
        reader = KeptEventReader(self._bus.connection, after=after, subject=None)
        async with aclosing(reader):
            while True:
                for event in await reader.page(within_s=15.0):
                    self._broadcast(_happened(event))

    async def _ask(self, command: Any) -> Any:
        async with asyncio.timeout(ANSWER_S * 2):
            return await self._bus.request(command, deadline_s=ANSWER_S, attempt_s=ANSWER_S)

    def _tell(self, changed: Mapping[str, Section]) -> None:
        if changed and self._looked.is_set():
            self._broadcast(_message("change", changed))

    def _broadcast(self, message: bytes) -> None:
        for follower in self._followers:
            follower.put(message)


def _message(kind: str, sections: Mapping[str, Section]) -> bytes:
    """Return a server-sent event with a `LiveChange`."""
    content = {"at": now().isoformat(), **sections}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _happened(event: KeptEvent) -> bytes:
    """Return a server-sent event with a `LiveEvent`."""
    text = json.dumps({"serial": event.serial, "subject": event.subject, "body": event.body})
    return f"event: happened\nid: {event.serial}\ndata: {text}\n\n".encode()
