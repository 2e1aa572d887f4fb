"""A run of the fog demonstration: both arrangements, then a pipeline that changes under load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.demonstration.fog import links
from towpath.lab.demonstration.fog.arrangement import Arrangement
from towpath.lab.demonstration.fog.change import ChangeUnderLoad
from towpath.lab.demonstration.fog.experiment import FogOptions, TurnFigures, turn
from towpath.lab.demonstration.fog.rates import differential_output_rate
from towpath.lab.demonstration.fog.report import ArrangementReport, DifferentialRate, FogReport, TurnReport
from towpath.lab.demonstration.pipeline import SITES
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.scenarios.playing import play_described
from towpath.lab.scenarios.report import RunReport


@dataclass
class FogDemonstration:
    """One run. `say` is told in a few words what is under way."""

    stage: Stage
    options: FogOptions
    output: Path
    """A directory; each scenario gets one in it, for its journal."""
    say: Say = quiet

    async def run(self) -> FogReport:
        """Everything, in order. Raises `TowpathError` when a command is refused or fails."""
        options = self.options
        self.say(
            f"site to site {links.SITE_TO_SITE_MS:g} ms, "
            f"{options.bandwidth_bytes_per_s / 1000:g} kB/s on each link, in each direction"
        )
        scenarios = [await self._arrangement(arrangement) for arrangement in Arrangement]
        await self._shape_links()
        change = await ChangeUnderLoad(self.stage, options.change_rate, self.say).run()
        return FogReport(
            site_to_site_ms=links.SITE_TO_SITE_MS,
            bandwidth_bytes_per_s=options.bandwidth_bytes_per_s,
            trigger_s=options.trigger_s,
            seconds_per_rate=options.seconds,
            scenarios=scenarios,
            differential=differential(*scenarios),
            change=change,
        )

    async def _arrangement(self, arrangement: Arrangement) -> ArrangementReport:
        played = [await self._turn(arrangement, rate) for rate in self.options.rates]
        return ArrangementReport(
            scenario=arrangement,
            jobs=len(played[0][0].verdicts),
            turns=[measured for _, measured in played],
            judgement=Judgement.together(v for run, _ in played for v in run.verdicts.values()),
            problems=[problem for run, _ in played for problem in run.problems],
        )

    async def _turn(self, arrangement: Arrangement, rate: float) -> tuple[RunReport, TurnReport]:
        """Play one arrangement at one rate. Raises `TowpathError` when the run gets stuck."""
        named = f"{arrangement}, {rate:g} events/s at each edge"
        figures = TurnFigures(self.stage, rate, self.options)
        await self._shape_links()
        played = await play_described(
            self.stage,
            turn(arrangement, rate, self.options),
            self.output / f"{arrangement}-{rate:g}",
            say=lambda text: self.say(f"{named}: {text}"),
            figures=figures,
        )
        played.report.check()
        if figures.report is None:
            raise TowpathError(ErrorCode.FAILED, f"{named}: nothing was measured")
        rates = ", ".join(f"{stage} {found.rate:.0f}/s" for stage, found in figures.report.stages.items())
        self.say(f"{named}: {rates}")
        return played.report, figures.report

    async def _shape_links(self) -> None:
        conditions = links.conditions(self.options.bandwidth_bytes_per_s)
        await links.shape(self.stage.bus, SITES, conditions)


def differential(fog: ArrangementReport, cloud: ArrangementReport) -> list[DifferentialRate]:
    """D at each input rate."""
    return [
        DifferentialRate(rate=f.rate, job_3=_of_stage("job 3", f, c), job_4=_of_stage("job 4", f, c))
        for f, c in zip(fog.turns, cloud.turns, strict=True)
    ]


def _of_stage(stage: str, fog: TurnReport, cloud: TurnReport) -> float | None:
    found = differential_output_rate(fog.stages[stage].rate, cloud.stages[stage].rate)
    return None if found is None else round(found, 1)
