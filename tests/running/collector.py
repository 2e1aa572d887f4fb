"""The collector as a process, on real servers, with agents that measure but do nothing else."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from running.mesh import Mesh
from running.waiting import WITHIN_S
from towpath.bus import Bus
from towpath.contracts.message import Command, now
from towpath.contracts.metrics import Echo, EchoAnswer, ReadMetrics, Sample, SeriesList
from towpath.contracts.site import SiteState, SiteStatus
from towpath.tasks import end
from towpath.telemetry.metric_store import MetricStore

SAMPLE_EVERY_S = 0.2
BEAT_S = 0.3


@dataclass
class MeasuringAgent:
    """A site's own samples, and its answers to the collector."""

    site: str
    bus: Bus
    store: MetricStore

    async def serve(self) -> None:
        await self.bus.serve(ReadMetrics, self._read, site=self.site)
        await self.bus.serve(Echo, self._echo, site=self.site)

    async def work(self) -> None:
        """Measure, and send heartbeats of the site, until cancelled."""
        beaten_at = 0.0
        while True:
            value = time.time()
            sample = Sample(entity="site", metric="site.cpu.utilization", at=value, value=1.0)
            await asyncio.to_thread(self.store.add, [sample])
            if value - beaten_at >= BEAT_S:
                beaten_at = value
                await self.bus.publish(self._heartbeat())
            await asyncio.sleep(SAMPLE_EVERY_S)

    def _heartbeat(self) -> SiteStatus:
        return SiteStatus(
            site=self.site,
            state=SiteState.UP,
            at=now(),
            nats_url="nats://127.0.0.1:4222",
            mqtt_host="127.0.0.1",
            mqtt_port=1883,
        )

    async def _read(self, command: ReadMetrics) -> SeriesList:
        return SeriesList(series=await asyncio.to_thread(self.store.read, command, self.site))

    async def _echo(self, command: Echo) -> EchoAnswer:
        return EchoAnswer(payload=command.payload)


@dataclass
class Collecting:
    """A collector that can be killed, agents, and a client."""

    running: Mesh
    agents: dict[str, MeasuringAgent]
    client: Bus
    process: asyncio.subprocess.Process | None = None

    async def start(self, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "towpath.collector", "--home", str(self.running.home.root)]
        with self.running.home.log("collector").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, env=environment
            )

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def ask(self, command: Command[Any]) -> Any:
        return await self.client.request(command, deadline_s=WITHIN_S)


@asynccontextmanager
async def collecting(running: Mesh) -> AsyncIterator[Collecting]:
    """Run a collector over the sites of `running`, each with an agent that measures."""
    state = running.state
    async with AsyncExitStack() as stack:
        agents: dict[str, MeasuringAgent] = {}
        for name, site in state.sites.items():
            bus = await stack.enter_async_context(
                await Bus.connect(
                    site.nats_url, site.login("agent").user, site.login("agent").password, name=name
                )
            )
            store = MetricStore(running.home.site(name) / "metrics.db")
            stack.callback(store.close)
            agents[name] = MeasuringAgent(name, bus, store)
            await agents[name].serve()
        user = state.operator
        client = await stack.enter_async_context(
            await Bus.connect(state.hub_url, user.user, user.password, name="client")
        )
        working = [asyncio.create_task(agent.work()) for agent in agents.values()]
        made = Collecting(running, agents, client)
        try:
            await made.start()
            yield made
        finally:
            await made.kill()
            await end(working)
