"""Jobs under load, and operations that are asked for meanwhile. Everything acknowledged is judged."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise, takewhile
from random import Random
from typing import Any

from nats.errors import Error as NatsError

from running.command_line import STEP_S
from running.flow import BY_ARRIVAL, FORWARD, WINDOW, event, job, move, numbers, stored
from running.kills import Numbered
from running.waiting import eventually
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationAnswer,
    OperationState,
    RemoveJob,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.data_plane import IN_STREAM, device_subject, output_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, Standby
from towpath.contracts.message import Command
from towpath.lab.harness.stage import Stage
from towpath.lab.workload.replay import Replay
from towpath.mesh.site_broker import site_broker
from towpath.protocols.record import ENDED
from towpath.streams.pages import last_serial, read_after

RECOVERED_S = 180.0
"""For a machine to start all its processes, while its disk is slow."""

PER_SECOND = 300

ATTEMPT_S = 5.0
"""For an answer, until a command is repeated: the coordinator may have died."""

ASKED_WITHIN_S = 1.0
"""Commands are asked for at random moments of so long a time."""

NOT_NOW = (ErrorCode.BUSY, ErrorCode.SITE_DOWN, ErrorCode.FAILED, ErrorCode.UNREACHABLE)
"""Refusals of an operation while something is down. What was refused was not accepted."""


@dataclass
class Work:
    """Jobs at jfk: one passes events on, one counts them in windows, and one, if wanted, as they arrive."""

    stage: Stage
    name: str
    counts_arrivals: bool = False
    kept_at: str = "jfk"
    """Site of their results."""

    @property
    def topic(self) -> str:
        return f"site/{self.name}"

    @property
    def copy(self) -> str:
        return f"{self.name}-copy"

    @property
    def counts(self) -> str:
        return f"{self.name}-counts"

    @property
    def arrivals(self) -> str:
        return f"{self.name}-arrivals"

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return the operator of each job."""
        operators = {self.copy: FORWARD, self.counts: WINDOW}
        return operators | ({self.arrivals: BY_ARRIVAL} if self.counts_arrivals else {})

    async def grows(self) -> None:
        """Wait until all jobs publish more than they had."""
        before = await eventually(self._results, RECOVERED_S)

        async def has_grown() -> bool:
            now = await self._results()
            return bool(now) and all(now[name] > before[name] for name in before)

        await eventually(has_grown, RECOVERED_S)

    async def judge(self, acknowledged: int) -> None:
        """Check that what was acknowledged is kept, and that each result came once and is right."""
        bus = self.stage.bus
        kept = await read_after(bus.connection, "jfk", IN_STREAM, 0)
        taken = [json.loads(m.body) for m in kept if m.subject == device_subject(self.topic)]
        numbers_taken = [each["n"] for each in taken]
        assert set(numbers_taken) == set(range(acknowledged)), "what was acknowledged is kept"

        async def is_complete() -> bool:
            return (await self._results()).get(self.copy, 0) >= len(taken) and (
                not self.counts_arrivals or await self._arrived() >= len(taken)
            )

        await eventually(is_complete, RECOVERED_S)
        # Not in their order: a large micro-batch has several tasks, whose results mix.
        copied = await numbers(bus, output_stream(self.copy), self.kept_at)
        assert Counter(copied) == Counter(numbers_taken)
        expected = Counter((each["at"][:19], each["key"]) for each in taken)
        results = await stored(bus, output_stream(self.counts), self.kept_at)
        found = [(r["window"]["start"][:19], r["key"]["key"]) for r in results]
        assert len(found) == len(set(found))
        assert [r["values"]["events"] for r in results] == [expected[window] for window in found]
        if self.counts_arrivals:
            arrivals = await stored(bus, output_stream(self.arrivals), self.kept_at)
            assert all(one["through"] == following["after"] for one, following in pairwise(arrivals))
            assert await self._arrived() == len(taken)
        print(f"{acknowledged:,} events acknowledged, {len(taken):,} kept, {len(found)} windows")

    async def _arrived(self) -> int:
        """Return how many events the windows of processing time have, all together."""
        arrivals = await stored(self.stage.bus, output_stream(self.arrivals), self.kept_at)
        return sum(result["values"]["events"] for result in arrivals)

    async def _results(self) -> dict[str, int]:
        """Return how many results each job has published; none while the site is away."""
        connection = self.stage.bus.connection
        with contextlib.suppress(TimeoutError, NatsError):
            return {n: await last_serial(connection, self.kept_at, output_stream(n)) for n in self.jobs}
        return {}


@asynccontextmanager
async def working(
    stage: Stage,
    name: str,
    *,
    counts_arrivals: bool = False,
    kept_at: str = "jfk",
    standby: str | None = None,
    rate: float = PER_SECOND,
) -> AsyncIterator[Work]:
    """Let events flow through jobs within the block, `rate` in a second. At its end, judge and remove them.

    Results are kept at the site `kept_at`. With `standby`, jobs that can have one have it at that site.
    """
    work, access = Work(stage, name, counts_arrivals, kept_at), stage.mesh.site("jfk")
    for called, operator in work.jobs.items():
        spec = JobSpec.model_validate(job(called, work.topic, f"{name}/{called}", operator))
        spec = spec.model_copy(
            update={
                "output": spec.output.model_copy(update={"site": kept_at}),
                "standby": Standby(site=standby) if standby and operator is not BY_ARRIVAL else None,
            }
        )
        await stage.bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
    replay = Replay(
        site_broker(access, access.device),
        work.topic,
        f"device-{name}",
        rate=rate,
        give_up_after_s=RECOVERED_S,
    )
    is_over = asyncio.Event()
    events = takewhile(lambda _: not is_over.is_set(), (Numbered(event(n)) for n in count()))
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(replay.run(events))
        try:
            yield work
        finally:
            is_over.set()
    await work.judge(sent.result().acknowledged)
    for called in work.jobs:
        await stage.bus.request(RemoveJob(job=called, purge=True), deadline_s=STEP_S)


@dataclass
class Operations:
    """Deploys, moves and removes jobs, and knows what the coordinator has accepted."""

    work: Work
    chance: Random
    accepted: int = 0
    """Operations that were accepted."""
    _asked: int = 0
    _open: dict[str, Command[OperationAnswer]] = field(default_factory=dict)
    """Operation → its command, of those that were accepted and not judged yet."""
    _jobs: list[str] = field(default_factory=list)
    """Jobs that were deployed and not removed."""

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        """Ask for a deployment, a removal and a move, at moments around those of the block."""
        self._asked += 1
        name, elsewhere = f"{self.work.name}-extra-{self._asked}", await self._elsewhere()
        spec = job(
            name, self.work.topic, f"{self.work.name}/{name}", site=self.chance.choice(("jfk", "cloud"))
        )
        commands: list[Command[OperationAnswer]] = [
            DeployJob(spec=JobSpec.model_validate(spec), wait=False),
            MigrateJob(job=self.work.counts, to=elsewhere, wait=False),
            *(RemoveJob(job=former, purge=True, wait=False) for former in self._jobs),
        ]
        async with asyncio.TaskGroup() as group:
            for command in commands:
                group.create_task(self._ask(command, self.chance.uniform(0, ASKED_WITHIN_S)))
            yield

    async def judge(self) -> None:
        """Check that each accepted operation was finished or undone, and that each job has one owner."""
        for operation, command in self._open.items():
            state = await self.end_of(operation)
            assert state in (OperationState.COMPLETED, OperationState.ROLLED_BACK), (command, state)
            if state is OperationState.COMPLETED and isinstance(command, DeployJob):
                self._jobs.append(command.spec.name)
            if state is OperationState.COMPLETED and isinstance(command, RemoveJob):
                self._jobs.remove(command.job)
        self._open.clear()
        expected = {*self._jobs, *self.work.jobs}
        known = {view.spec.name for view in await self.work.stage.ask_jobs()}
        # Others are of another test, should that one have failed.
        assert {name for name in known if name.startswith(f"{self.work.name}-")} == expected
        for name in sorted(expected):
            # Registry, sites and output agree on its epoch.
            await self.work.stage.until_settled(name, RECOVERED_S)

    async def end_of(self, operation: str) -> OperationState:
        """Wait until an operation that was accepted has ended. Return its state."""
        show: Any = ShowOperation(operation=operation)

        async def ended() -> OperationState | None:
            with contextlib.suppress(TowpathError):
                view = await self.work.stage.bus.request(show, deadline_s=RECOVERED_S, attempt_s=ATTEMPT_S)
                return view.state if view.state in ENDED else None
            return None

        return await eventually(ended, RECOVERED_S)

    async def end(self) -> None:
        """Move a job once more, which must work, and remove what was deployed."""
        bus = self.work.stage.bus
        await move(bus, self.work.counts, await self._elsewhere(), StrategyName.GENERAL)
        for name in self._jobs:
            await bus.request(RemoveJob(job=name, purge=True), deadline_s=STEP_S)

    async def _ask(self, command: Command[OperationAnswer], after_s: float) -> None:
        await asyncio.sleep(after_s)
        bus = self.work.stage.bus
        try:
            answer = await bus.request(command, deadline_s=RECOVERED_S, attempt_s=ATTEMPT_S)
        except TowpathError as error:
            if error.detail.code not in NOT_NOW:
                raise
            print(f"refused: {error}")
            return
        self._open[answer.operation] = command
        self.accepted += 1

    async def _elsewhere(self) -> str:
        views = {view.spec.name: view for view in await self.work.stage.ask_jobs()}
        return "cloud" if views[self.work.counts].site == "jfk" else "jfk"
