"""A run of the fog demonstration: both scenarios, then a pipeline that changes under load."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.demonstration.fog import links
from towpath.lab.demonstration.fog.arrangement import Arrangement
from towpath.lab.demonstration.fog.change import ChangeUnderLoad
from towpath.lab.demonstration.fog.experiment import ArrangementRun, Turn
from towpath.lab.demonstration.fog.load import turns_of_devices, watermark_s
from towpath.lab.demonstration.fog.rates import differential_output_rate
from towpath.lab.demonstration.fog.report import ArrangementReport, DifferentialRate, FogReport, TurnReport
from towpath.lab.demonstration.fog.truth import turn_truth
from towpath.lab.demonstration.pipeline import SITES
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.workload.departures import AIRPORTS

WARM_UP = (60.0, 4.0)
"""Events per second at each edge, and for how many seconds."""


@dataclass(frozen=True)
class FogOptions:
    """The size of a run. Raises `TowpathError` (invalid) for values that make no sense."""

    rates: tuple[float, ...] = (100.0, 200.0, 400.0)
    """Events per second at each edge."""
    seconds: float = 15.0
    """Seconds for which devices send at each rate."""
    bandwidth_bytes_per_s: int = links.BANDWIDTH_BYTES_PER_S
    """Of each link, in each direction."""
    change_rate: float = 100.0
    """Events per second while the pipeline changes."""
    trigger_s: float = 3.0
    """Thirteen jobs share two cores, and a micro-batch costs 0.2 to 0.4 core seconds however small it is."""
    settle_s: float = 180.0
    """Seconds that results may take after the last event of a rate."""

    def __post_init__(self) -> None:
        """Check the values before anything is started."""
        for name, values in (("rates", self.rates), ("seconds", (self.seconds,))):
            if not values or not all(value > 0 for value in values):
                shown = ", ".join(f"{value:g}" for value in values)
                raise TowpathError(
                    ErrorCode.INVALID, "must be positive", field=name, value=shown, allowed="above 0"
                )


@dataclass(frozen=True)
class Turns:
    """The events of each turn, with the expected results."""

    warm_up: Turn
    """Comes before the others in each scenario, and is judged like them, but not measured: the first
    micro-batches of a job start its Python workers, in the first scenario also compile half of Spark."""
    turns: list[Turn]
    watermark_s: float
    """Seconds of event time that the windows wait for late departures."""

    @classmethod
    def of(cls, options: FogOptions) -> Turns:
        """Raises `TowpathError` (invalid) when there are not so many departures."""
        wait_s = watermark_s(AIRPORTS)
        loads = [WARM_UP, *((rate, options.seconds) for rate in options.rates)]
        sent = turns_of_devices(AIRPORTS, loads, wait_s)
        turns = [Turn(rate, each, turn_truth(each)) for (rate, _), each in zip(loads, sent, strict=True)]
        return cls(turns[0], turns[1:], wait_s)


@dataclass
class FogDemonstration:
    """One run. `say` is told in a few words what is under way."""

    stage: Stage
    options: FogOptions
    workload: Turns
    say: Say = quiet

    async def run(self) -> FogReport:
        """Everything, in order. Raises `TowpathError` when a command is refused or fails."""
        options = self.options
        conditions = links.conditions(options.bandwidth_bytes_per_s)
        await links.shape(self.stage.bus, SITES, conditions)
        self.say(
            f"site to site {2 * conditions.delay_ms:g} ms, "
            f"{options.bandwidth_bytes_per_s / 1000:g} kB/s on each link, in each direction"
        )
        scenarios = [await self._scenario(scenario) for scenario in Arrangement]
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

    async def _scenario(self, scenario: Arrangement) -> ArrangementReport:
        run = ArrangementRun(
            self.stage,
            scenario,
            self.workload.warm_up,
            self.workload.turns,
            self.workload.watermark_s,
            self.options.trigger_s,
            self.options.settle_s,
            self.say,
        )
        return await run.run()


def differential(fog: ArrangementReport, cloud: ArrangementReport) -> list[DifferentialRate]:
    """D at each input rate."""
    return [
        DifferentialRate(rate=f.rate, job_3=_of_stage("job 3", f, c), job_4=_of_stage("job 4", f, c))
        for f, c in zip(fog.turns, cloud.turns, strict=True)
    ]


def _of_stage(stage: str, fog: TurnReport, cloud: TurnReport) -> float | None:
    found = differential_output_rate(fog.stages[stage].rate, cloud.stages[stage].rate)
    return None if found is None else round(found, 1)
