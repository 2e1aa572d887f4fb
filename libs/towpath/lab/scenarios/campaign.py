"""Many runs on one mesh, each with a seed of its own: what was survived, and how fast."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario, ScenarioMesh
from towpath.contracts.site import Durability
from towpath.lab.harness.load import chance
from towpath.lab.harness.stage import Say, Stage, Stages, mesh_for, quiet
from towpath.lab.scenarios.playing import Play, play_on
from towpath.lab.scenarios.reading import LIBRARY, parse, read_document
from towpath.lab.scenarios.report import RunReport
from towpath.mesh.home import Home

log = logging.getLogger(__name__)

SETTLE_S = 45.0
"""For a mesh to be in order again between two runs."""

RUN_S = 600.0
"""Longer than any run takes whose waits all end, without its timeline."""

LARGEST_SEED = 10**6


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a campaign."""

    scenario: str
    """A file, or a name of the library."""
    seed: int

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"{Path(self.scenario).stem}-{self.seed}"


def plan(scenarios: Sequence[str], runs: int, seed: int) -> list[PlannedRun]:
    """Which scenario with which seed, in which order: the same for the same seed.

    Each scenario comes as often as any other, or once more. Raises `TowpathError` for none.
    """
    if not scenarios:
        raise TowpathError(
            ErrorCode.INVALID, "no scenario", field="scenarios", allowed="names of `towpath scenario list`"
        )
    draw = chance("campaign", seed, "plan")
    planned: list[PlannedRun] = []
    while len(planned) < runs:
        round_ = list(scenarios)
        draw.shuffle(round_)
        planned += [PlannedRun(name, draw.randrange(1, LARGEST_SEED)) for name in round_]
    return planned[:runs]


def together(names: Sequence[str]) -> ScenarioMesh:
    """One mesh that has what all these scenarios need. Raises `TowpathError` for one that there is not."""
    needs = [parse(read_document(name), name).mesh for name in names]
    emulated = next((name for name, need in zip(names, needs, strict=True) if need.topology), None)
    if emulated is not None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "a campaign has one mesh of processes, and this needs a topology of its own",
            field="scenarios",
            value=emulated,
            allowed=f"`towpath fog run {emulated}`",
        )
    sites = list(dict.fromkeys(site for need in needs for site in need.sites))
    is_safe = any(need.durability is Durability.POWER_SAFE for need in needs)
    return ScenarioMesh(
        sites=sites,
        emulate_links=any(need.emulate_links for need in needs),
        durability=Durability.POWER_SAFE if is_safe else Durability.FAST,
        encrypted=any(need.encrypted for need in needs),
        autopilot=next(
            (need.autopilot for need in needs if need.autopilot is not AutopilotMode.OFF), AutopilotMode.OFF
        ),
    )


def chosen_scenarios(given: str | None) -> list[str]:
    """Names or files separated by commas; null is all of the library that one mesh of processes can have."""
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [name for name in LIBRARY.names() if parse(read_document(name), name).mesh.topology is None]


def timeline_s(scenario: Scenario) -> float:
    """Return the seconds that the waits and faults of a timeline take at most, one after another."""
    steps = scenario.timeline
    waits = (step.at or (step.on.within_s + step.on.after_s if step.on else 0.0) for step in steps)
    lasts = (getattr(step.given, "for_s", None) or 0.0 for step in steps)
    return sum(waits) + sum(lasts)


@dataclass
class Campaign:
    """Runs that are played one after another."""

    planned: Sequence[PlannedRun]
    output: Path
    say: Say = quiet
    """Shows people in a few words what is under way."""
    stages: Stages | None = None
    """None until it has begun."""

    @property
    def restarts(self) -> int:
        """Restarts of the mesh, because a run left it broken."""
        return self.stages.restarts if self.stages else 0

    async def run(self) -> AsyncGenerator[RunReport, None]:
        """Yield the report of each run when it is over. Close the iterator to end early.

        Raises `TowpathError` when the mesh cannot be brought up.
        """
        left = list(self.planned)
        needs = await asyncio.to_thread(together, list(dict.fromkeys(run.scenario for run in left)))
        self.stages = Stages(Home((self.output / "mesh").absolute()), mesh_for(needs), self.say)
        async with aclosing(self.stages.until_empty(left)) as stages:
            async for up in stages:
                async for report in self._on(up, left):
                    yield report

    async def _on(self, up: Stage, left: list[PlannedRun]) -> AsyncGenerator[RunReport, None]:
        """Play runs off the list until none is left, or the mesh is broken."""
        while left:
            planned = left.pop(0)
            self.say(f"{Path(planned.scenario).stem}, seed {planned.seed}")
            report = await self._one(up, planned)
            settled = await self._settled(up, report)
            yield settled
            if settled.broken:
                return

    async def _one(self, up: Stage, planned: PlannedRun) -> RunReport:
        try:
            return await self._played(up, planned)
        except TowpathError as error:
            # What its seed chose is no scenario, or its file is gone: the others are not worse for that.
            return _stuck(planned, 0.0, str(error), broken=False)
        except Exception as error:  # A fault of the laboratory must not end the campaign.
            log.exception("%s failed", planned.name)
            return _stuck(planned, 0.0, f"the laboratory failed: {error!r}", broken=True)

    async def _played(self, up: Stage, planned: PlannedRun) -> RunReport:
        play = Play(read_document(planned.scenario), planned.scenario, planned.seed)
        longest_s = RUN_S + timeline_s(play.scenario)
        limit = asyncio.timeout(longest_s)
        try:
            async with limit:
                return await play_on(up, play, self.output / "runs" / planned.name)
        except TimeoutError:
            if not limit.expired():
                raise
            return _stuck(planned, longest_s, f"the run did not end within {longest_s:g} s", broken=True)

    async def _settled(self, up: Stage, report: RunReport) -> RunReport:
        """The report, with what it left behind: the next run needs a mesh in order."""
        if report.broken:
            return report
        try:
            await up.until_settled(None, SETTLE_S)
        except TowpathError as error:
            problem = f"the mesh was not in order afterwards: {error.detail.message}"
            return report.model_copy(update={"problems": [*report.problems, problem], "broken": True})
        return report


def _stuck(planned: PlannedRun, seconds: float, problem: str, *, broken: bool) -> RunReport:
    """The report of a run that has none of its own."""
    return RunReport(
        scenario=Path(planned.scenario).stem,
        source=planned.scenario,
        seed=planned.seed,
        seconds=seconds,
        problems=[problem],
        broken=broken,
    )
