"""Numbered events through a job that passes them on, and an account of each event in the end."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import IN_STREAM, STORED_AT_HEADER, device_subject
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Input, JobSpec, Output, ResolvedOutput, Standby
from towpath.contracts.operators import Forward
from towpath.contracts.scenario_load import SyntheticLoad
from towpath.contracts.standby import ListStandbys
from towpath.lab.harness.load import Device
from towpath.lab.harness.stage import ASK_S, ATTEMPT_S, Stage
from towpath.streams.pages import StoredMessage, last_serial, read_after
from towpath.tasks import until

ENGINE_S = 300.0
"""Seconds for a deployment: the first at a site starts its engine."""

AWAY_S = 600.0
"""Seconds that devices wait for their site."""

STOP_S, READY_S, DRAINED_S = 120.0, 180.0, 240.0

FRESH_S = 30.0
"""Greatest age of a standby's copy before anything is struck."""

QUIET_S = 15.0
"""Seconds without a further result after which none is expected: several micro-batches."""

LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Account:
    """The events of a flow, and what became of them."""

    acknowledged: int
    """Events that the site's broker had acknowledged."""
    lost: int
    """Of them, those that no result has."""
    twice: int
    """Results beyond one for each stored event."""
    silent_s: float
    """Longest time between two results at the output once it was ready, by its server's clock."""
    input_silent_s: float
    """Longest time between two events at the input. 0 if it is gone."""


@dataclass
class Flow:
    """A job at one site that passes the events of its device on."""

    stage: Stage
    spec: JobSpec
    device: Device
    ready_at: float = 0.0
    """When it was ready, Unix seconds."""

    async def until_ready(self) -> None:
        """Wait until results come, and the standby, if there is one, has a fresh copy. Raises `NotInTime`."""

        async def is_ready() -> bool:
            bus = self.stage.bus
            standbys = (await bus.request(ListStandbys(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)).standbys
            ages = [each.behind_s for each in standbys if each.job == self.spec.name]
            is_copied = all(age is not None and age < FRESH_S for age in ages)
            return is_copied and await self._count() > 0

        await until(is_ready, READY_S, LOOK_EVERY_S)
        self.ready_at = time.time()

    async def stop(self) -> None:
        """Send no more, and return when the broker has acknowledged everything. Raises `TimeoutError`."""
        await self.device.stop(STOP_S)

    async def account(self, *, input_is_kept: bool) -> Account:
        """Wait for the last result, and return the account. Raises `TowpathError`.

        Call it when the device has stopped. `input_is_kept`: the site has its disk, so events that the device
        stored again are known.
        """
        sent = self.device.sent[: self.device.report.acknowledged]
        acknowledged = {_number(payload) for payload in sent}
        results = await self._drained(acknowledged)
        stored = await self._stored() if input_is_kept else []
        copies, came = Counter(_number(each.body) for each in stored), Counter(map(_result, results))
        return Account(
            acknowledged=len(acknowledged),
            lost=len(acknowledged - came.keys()),
            twice=sum(max(0, times - max(1, copies[n])) for n, times in came.items()),
            silent_s=longest_silence_s(results, self.ready_at),
            input_silent_s=longest_silence_s(stored, self.ready_at),
        )

    async def _drained(self, acknowledged: set[int]) -> list[StoredMessage]:
        """Return the results when they are complete, or when no more come."""
        loop = asyncio.get_running_loop()
        count, grown_at, end = 0, loop.time(), loop.time() + DRAINED_S
        while loop.time() < min(end, grown_at + QUIET_S):
            found = await self._count()
            if found > count:
                count, grown_at = found, loop.time()
                if count >= len(acknowledged) and acknowledged <= set(map(_result, await self._results())):
                    break
            await asyncio.sleep(LOOK_EVERY_S)
        return await self._results()

    async def _count(self) -> int:
        """Return the number of the newest result; 0 while its site is away."""
        try:
            output = await self._output()
            return await last_serial(self.stage.bus.connection, output.site, output.stream)
        except (TowpathError, TimeoutError):
            return 0

    async def _results(self) -> list[StoredMessage]:
        output = await self._output()
        return await read_after(self.stage.bus.connection, output.site, output.stream, 0)

    async def _output(self) -> ResolvedOutput:
        """Return the job's output: another one, if it was lost with its site."""
        return (await self.stage.ask_job(self.spec.name)).output

    async def _stored(self) -> list[StoredMessage]:
        """Return the events of the device that its site keeps."""
        (source,) = self.spec.inputs
        kept = await read_after(self.stage.bus.connection, source.site, IN_STREAM, 0)
        return [each for each in kept if each.subject == device_subject(source.topic)]


@asynccontextmanager
async def flowing(
    stage: Stage, name: str, rate: float, *, site: str, output: str, standby: str | None = None
) -> AsyncIterator[Flow]:
    """Deploy a job at `site` and let events flow through it within the block. Then end both.

    Its results are kept at `output`. Raises `TowpathError`.
    """
    spec = JobSpec(
        name=name,
        site=site,
        inputs=[Input(site=site, topic=f"site/{name}", start="latest")],
        output=Output(site=output, topic=f"bench/{name}"),
        operator=Forward(),
        trigger_s=1.0,
        standby=Standby(site=standby) if standby else None,
    )
    await stage.bus.request(DeployJob(spec=spec), deadline_s=ENGINE_S, attempt_s=ATTEMPT_S)
    load = SyntheticLoad(site=site, topic=f"site/{name}", rate=rate)
    device = Device(load, stage.mesh.site(site), name, give_up_after_s=AWAY_S)
    device.start()
    try:
        yield Flow(stage, spec, device)
    finally:
        await device.cancel()
    removal = RemoveJob(job=name, purge=True, force=True)
    await stage.bus.request(removal, deadline_s=ENGINE_S, attempt_s=ATTEMPT_S)


def longest_silence_s(messages: Iterable[StoredMessage], since: float) -> float:
    """Return the longest time between two messages after a moment, by the clock of their server."""
    stored = (datetime.fromisoformat(each.headers[STORED_AT_HEADER]).timestamp() for each in messages)
    times = sorted(at for at in stored if at >= since)
    return max((after - before for before, after in pairwise(times)), default=0.0)


def _number(payload: bytes) -> int:
    return json.loads(payload)["n"]


def _result(message: StoredMessage) -> int:
    """Return the number of the event that a result has."""
    return json.loads(message.body)["values"]["n"]
