"""The job that a drill moves. Cells move it to and fro, each under a load of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from towpath.contracts.commands import RemoveJob
from towpath.contracts.scenario_load import StandardJob, SyntheticLoad
from towpath.lab.drill.matrix import INPUT_SITE, OTHER_SITE, Cell, output_site_of, workload_of
from towpath.lab.harness import judge
from towpath.lab.harness.events import EventClock
from towpath.lab.harness.load import Device
from towpath.lab.harness.observer import ObservedJob, observed_job
from towpath.lab.harness.stage import Stage
from towpath.lab.harness.workload import spec_of

LOAD = SyntheticLoad(site=INPUT_SITE, topic="site/drill", rate=200.0, keys=5, disorder_s=0.2)
REMOVE_S, ATTEMPT_S = 60.0, 10.0


@dataclass
class MovingJob:
    """A job from its deployment on."""

    observed: ObservedJob
    clock: EventClock
    first_number: int
    """The first event that is meant for it."""
    site: str = INPUT_SITE
    """Its present site."""
    given_up: set[int] = field(default_factory=set)
    """Events that the site's server acknowledged with a full disk, and did not store."""

    @property
    def name(self) -> str:
        """Of the job."""
        return self.observed.name

    @property
    def stage(self) -> Stage:
        """The stage that it runs on."""
        return self.observed.stage

    @property
    def elsewhere(self) -> str:
        """The site that it can move to."""
        return OTHER_SITE if self.site == INPUT_SITE else INPUT_SITE

    def device(self) -> Device:
        """A device that sends to it."""
        return Device(LOAD, self.stage.mesh.site(INPUT_SITE), self.name, clock=self.clock)

    def unstored(self) -> list[int]:
        """Return the acknowledged events that are not stored, in order, without those that were given up."""
        [device] = self.observed.inputs
        stored = judge.numbers_of(device.events) | self.given_up
        return [number for number in range(self.first_number, self.clock.number + 1) if number not in stored]

    def give_up_unstored(self) -> int:
        """Stop expecting events that are not stored. Return their number."""
        missing = self.unstored()
        self.given_up.update(missing)
        return len(missing)

    def input_faults(self) -> list[str]:
        """Return the faults before the job: missing events, or too much disorder."""
        missing = self.unstored()
        faults = [f"{len(missing)} acknowledged events are not stored, e.g. {missing[0]}"] if missing else []
        if late_s := judge.disorder_s(self.observed.spec, self.observed.inputs):
            faults.append(f"the load came {late_s:.1f} s later than the watermark waits")
        return faults

    async def remove(self) -> None:
        """Remove it with its output. Raises `TowpathError`."""
        command = RemoveJob(job=self.name, purge=True)
        await self.stage.bus.request(command, deadline_s=REMOVE_S, attempt_s=ATTEMPT_S)


@asynccontextmanager
async def moving_job(stage: Stage, cell: Cell, number: int, clock: EventClock) -> AsyncIterator[MovingJob]:
    """Deploy the job that a cell moves. It is not removed in the end: see `MovingJob.remove`.

    Raises `TowpathError`, and `TimeoutError` when the site of the input does not answer.
    """
    workload = workload_of(cell)
    described = StandardJob(
        name=f"{workload}-{number}",
        workload=workload,
        site=INPUT_SITE,
        output_site=output_site_of(cell),
        topic=LOAD.topic,
    )
    async with observed_job(stage, spec_of(described)) as observed:
        yield MovingJob(observed, clock, clock.number + 1)
