"""A mesh under load: one operation after the other, most of them with a fault. Each result comes once.

TOWPATH_SOAK_S=7200 makes a measurement of the test.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, UP_S
from running.under_load import NOT_NOW, RECOVERED_S, Operations, Work, working
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.contracts.commands import (
    JobView,
    MigrateJob,
    OperationAnswer,
    OperationState,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, Command
from towpath.contracts.scenario_strikes import HubTrouble, Strike
from towpath.contracts.standby import FailOverJob
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.lab.scenarios import usual_strikes
from towpath.lab.scenarios.hub_troubles import armed_trouble
from towpath.lab.scenarios.strikes import armed_strike
from towpath.tasks import end

SOAK_S = float(os.environ.get("TOWPATH_SOAK_S", "180"))
SEED = int(os.environ.get("TOWPATH_SOAK_SEED", "12"))

pytestmark = pytest.mark.timeout(2 * MESH_TIMEOUT_S + 2 * SOAK_S)

INTAKE, OTHER, ARCHIVE = SITES = ("jfk", "cloud", "archive")
"""Events come in at the first, jobs run at the first two, and the third keeps the results."""

RATE = 100.0
"""Events per second. All that came in two hours are compared in the end."""

ASK_S = 5.0
"""For an answer. It may be lost with the process that was struck, and is asked for again."""

LATEST_FAULT_S = 3.0
"""Most seconds from the beginning of an operation to its fault."""

OUTAGE_S = 10.0

BROKER_PAUSE_S = 8.0
"""Less than ten seconds, after which a device gives a silent broker up and sends everything again."""

LOST_S = 45.0
"""Seconds for which the site of a failover is cut off."""

FAULTY = 0.75
"""Share of operations that meet a fault."""

SERVICES = (HUB_SCOPE, "redis", "coordinator", "monitor")
PROCESSES = (*(f"{site}-{part}" for site in SITES for part in ("agent", "nats")), *SERVICES)
ENGINES = (f"{INTAKE}-engine", f"{OTHER}-engine")

FILES_OF = tuple(name for name in PROCESSES if name not in ("coordinator", "monitor", f"{INTAKE}-nats"))
"""Processes whose disk may be full. With a full disk, the broker of the intake acknowledges for a moment what
it cannot write."""

Fault = Strike | HubTrouble

FAULTS: dict[str, list[Fault]] = {
    "kill": [usual_strikes.kill(name) for name in (*PROCESSES, *ENGINES)],
    "pause": [usual_strikes.pause(name, BROKER_PAUSE_S) for name in (*PROCESSES, *ENGINES)],
    "clock": [usual_strikes.clock_jump(name, OUTAGE_S) for name in (*PROCESSES, *ENGINES)],
    "disk": [usual_strikes.disk_full(name, OUTAGE_S) for name in FILES_OF],
    "link": [
        usual_strikes.cut(site, OUTAGE_S, only)
        for site in SITES
        for only in ("", "to_hub", "to_site", "from_redis")
    ],
    "sleep": [usual_strikes.pause_machine(site, BROKER_PAUSE_S) for site in SITES],
    "power": [usual_strikes.power(name) for name in (*SITES, HUB_SCOPE)],
    "hub": [*HubTrouble],
}
"""Faults of each kind. A kind is drawn, and then one of its faults."""


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[WholeMesh]:
    with whole_mesh(tmp_path, SITES) as running:
        yield running


async def test_jobs_when_operations_and_faults_go_on_and_on_then_each_result_comes_once(
    mesh: WholeMesh,
) -> None:
    async with (
        connected_stage(mesh.at) as stage,
        working(stage, "soaked", counts_arrivals=True, kept_at=ARCHIVE, standby=OTHER, rate=RATE) as work,
    ):
        await work.grows()
        soak = Soak(mesh, stage, work, random.Random(SEED))
        while time.monotonic() < soak.began + SOAK_S:
            await soak.round()
        await soak.several.end()
        print(f"{soak.outcomes.total()} operations: {dict(soak.outcomes)}; faults: {dict(soak.faults)}")


@dataclass
class Soak:
    """Operations and faults drawn by chance, and what became of them."""

    mesh: WholeMesh
    stage: Stage
    work: Work
    chance: random.Random
    began: float = field(default_factory=time.monotonic)
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    several: Operations = field(init=False)

    def __post_init__(self) -> None:
        self.several = Operations(self.work, self.chance)

    async def round(self) -> None:
        """Begin an operation, do a fault, and wait until all is well again."""
        operation = self.chance.choice(list(OPERATIONS))
        kind = self.chance.choice(list(FAULTS)) if self.chance.random() < FAULTY else None
        if operation == "failover" and kind in ("link", "sleep", "power"):
            kind = None  # Its site is lost already, and its standby must not be.
        fault = self.chance.choice(FAULTS[kind]) if kind else None
        began = time.monotonic()
        told = f"{began - self.began:.0f} s {operation}, {_named(fault)}"
        print(told, end=": ", flush=True)
        async with self._with(fault):
            outcome = await OPERATIONS[operation](self)
        for job in self.work.jobs:
            await self.stage.until_settled(job, RECOVERED_S)
        await self.work.grows()
        self.outcomes[f"{operation} {outcome}"] += 1
        self.faults[kind or "none"] += 1
        print(f"{outcome} after {time.monotonic() - began:.0f} s", flush=True)
        assert outcome != OperationState.NEEDS_OPERATOR, told

    @asynccontextmanager
    async def _with(self, fault: Fault | None) -> AsyncIterator[None]:
        """Do a fault some time after the beginning of the block, and wait until it is over."""
        async with AsyncExitStack() as exits, asyncio.TaskGroup() as group:
            if fault is not None:
                after_s = self.chance.uniform(0, LATEST_FAULT_S)
                group.create_task(self._struck(fault, after_s, exits))
            yield

    async def _struck(self, fault: Fault, after_s: float, exits: AsyncExitStack) -> None:
        armed = (
            await armed_strike(self.stage, fault)
            if isinstance(fault, Strike)
            else await armed_trouble(self.stage, fault, exits)
        )
        await asyncio.sleep(after_s)
        await armed()

    async def move(self) -> str:
        """Move one of the jobs by one of the strategies that suit it."""
        windows = self.chance.random() < 2 / 3
        strategies = (StrategyName.HANDOVER, StrategyName.GENERAL)
        job = self.chance.choice((self.work.copy, self.work.counts)) if windows else self.work.arrivals
        strategy = self.chance.choice(strategies) if windows else StrategyName.PARALLEL
        to = INTAKE if (await self._view(job)).site == OTHER else OTHER
        return await self._ended(MigrateJob(job=job, to=to, strategy=strategy, wait=False))

    async def change(self) -> str:
        """Change how often a job begins a micro-batch."""
        view = await self._view(self.chance.choice((self.work.copy, self.work.counts)))
        spec = view.spec.model_copy(update={"trigger_s": 2.5 - view.spec.trigger_s})
        return await self._ended(UpdateJob(spec=spec, wait=False))

    async def jobs_come_and_go(self) -> str:
        """Deploy, move and remove jobs at once."""
        async with self.several.under_way():
            await asyncio.sleep(LATEST_FAULT_S)
        await self.several.judge()
        return OperationState.COMPLETED

    async def failover(self) -> str:
        """Cut the site of a job off, and let the job go on at its standby."""
        job = self.chance.choice((self.work.copy, self.work.counts))
        if (await self._view(job)).site == OTHER:
            return await self._ended(MigrateJob(job=job, to=INTAKE, wait=False))
        cut = await armed_strike(self.stage, usual_strikes.cut(INTAKE, LOST_S))
        lost = asyncio.create_task(cut())
        try:
            outcome = await self._ended(FailOverJob(job=job, wait=False), early=ErrorCode.NOT_ALLOWED)
            await lost
        finally:
            await end([lost])
        return outcome

    async def upgrade(self) -> str:
        """Upgrade a site or the hub. Call it again until it has been done, as users do."""
        what = self.chance.choice((*SITES, HUB_SCOPE))
        options = {INTAKE: ("--to", OTHER), OTHER: ("--to", INTAKE)}.get(what, ())

        async def done() -> bool:
            ended = await asyncio.to_thread(self.mesh.call, "upgrade", what, *options, "--within", "120")
            if ended.returncode:
                print(f"upgrade {what}: {ended.stderr.strip().splitlines()[-1:]}", flush=True)
            return ended.returncode == 0

        await eventually(done, UP_S)
        return OperationState.COMPLETED

    async def _view(self, job: str) -> JobView:
        async def seen() -> JobView | None:
            with suppress(TowpathError):
                return await self.stage.find_job(job)
            return None

        return await eventually(seen, RECOVERED_S)

    async def _ended(self, command: Command[OperationAnswer], early: ErrorCode | None = None) -> str:
        """Send a command until it is accepted, and return the state in which its operation ended.

        A code that says `early` may pass, as may those of what is down. Return the last one if it did not.
        """

        async def begun() -> OperationAnswer | TowpathError | None:
            try:
                # The same id at each attempt: a repeated command is carried out once.
                return await self.stage.bus.request(command, deadline_s=ASK_S)
            except TowpathError as error:
                if error.detail.code not in (*NOT_NOW, ErrorCode.DEADLINE, early):
                    raise
                return error if time.monotonic() > last_try else None

        last_try = time.monotonic() + LOST_S
        answer = await eventually(begun, RECOVERED_S)
        if isinstance(answer, TowpathError):
            return f"refused: {answer.detail.code}"
        return await self.several.end_of(answer.operation)


OPERATIONS: dict[str, Callable[[Soak], Awaitable[str]]] = {
    "move": Soak.move,
    "change": Soak.change,
    "jobs come and go": Soak.jobs_come_and_go,
    "failover": Soak.failover,
    "upgrade": Soak.upgrade,
}


def _named(fault: Fault | None) -> str:
    if isinstance(fault, Strike):
        return " ".join([fault.fault, fault.name, *map(str, fault.parameters.values())])
    return str(fault or "no fault")
