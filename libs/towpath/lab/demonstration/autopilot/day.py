"""The day as a scenario: real departures of one day, compressed to minutes, and what happens meanwhile.

Devices and results are at jfk, a small site with one core. Jobs run there and at three neighbours that can
go away. The cloud has room for all, and is far.

    jfk     risk, crew      each takes long for an event: at rush hour the core is not enough for both
    train   gates, hourly   has no link in a tunnel, as the timetable says
    drone   belts           its battery runs down; then it is away until it is charged
    van     bags            fails again and again
    cloud                   30 ms away
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.autopilot import AutopilotMode, AutopilotSpec
from towpath.contracts.faults import AtPoint, DataPoint, OnTarget, Rule, RuleAction, TargetKind, Where
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Chain, Operator
from towpath.contracts.scenario import Collection, Phases, Scenario, ScenarioMesh, SiteProbe, Step
from towpath.contracts.scenario_expectations import ANY, Expectations
from towpath.contracts.scenario_foresight import Announcement, Discharge
from towpath.contracts.scenario_load import ReplayLoad
from towpath.contracts.scenario_strikes import Strike
from towpath.contracts.site import EngineSpec, EngineStart, FaultSettings, MeshSpec, PowerSpec, SiteSpec
from towpath.lab.demonstration.pipeline import CLEAN, DEVICE_TOPIC, hourly
from towpath.lab.harness.stage import ENGINE

AIRPORT, TRAIN, DRONE, VAN, CLOUD = SITES = ("jfk", "train", "drone", "van", "cloud")

PLACES = {
    **{"risk": AIRPORT, "crew": AIRPORT},
    **{"gates": TRAIN, "hourly": TRAIN},
    **{"belts": DRONE, "bags": VAN},
}
"""Job → the site where it begins."""

SLOW_JOBS, EVENT_MS = ("risk", "crew"), 130.0
"""Jobs that take so long for each event, as if they asked a model or a database."""

DELAYS_MS = {TRAIN: 5.0, DRONE: 5.0, VAN: 8.0, CLOUD: 30.0}
"""Delay of links to the hub, in one direction."""

DEPARTURES = 842
"""Of the first day of 2013."""

GOAL_S = 8.0
"""Seconds from a departure to a result, with micro-batches every two seconds."""

TRIGGER_S = 2.0

WARM = ENGINE.model_copy(update={"start": EngineStart.ALWAYS})
"""An engine that runs before it has jobs."""

SMALL = EngineSpec.model_validate({**ENGINE.model_dump(), "spark_master": "local[1]"})

AUTOPILOT = AutopilotSpec(
    mode=AutopilotMode.ACT,
    latency_s=GOAL_S,
    horizon_s=240,
    interval_s=2,
    settled_s=6,
    rest_s=20,
    moves_per_hour=60,
)


DISORDER_S = 86_400.0
"""Departures come as the timetable has them, and some left half a day late."""

HOURLY = Chain(steps=[CLEAN.model_copy(update={"identity": []}), hourly(DISORDER_S)])
"""Departures and delays by carrier and hour: its windows close when the day is over."""


@dataclass(frozen=True)
class Threat:
    """A time in which a site does not serve its jobs."""

    what: str
    site: str
    begin_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        """Seconds after the beginning of the day."""
        return self.begin_s + self.seconds


TUNNEL = Threat("tunnel", TRAIN, 60, 35)
EMPTY = Threat("battery empty", DRONE, 115, 40)
FAILURES = tuple(
    Threat("failure", VAN, at, seconds) for at, seconds in ((105, 7), (130, 7), (155, 7), (195, 30))
)
THREATS = (TUNNEL, EMPTY, *FAILURES)

CHARGE_PERCENT, EMPTY_PERCENT = 60.0, 4.0
"""The drone's charge at the beginning, and when it is away."""


def day_mesh(home: Path, *, autopilot: bool) -> MeshSpec:
    """Return the mesh: `home` is where the drone's charge is told."""
    power = {DRONE: PowerSpec(battery=True, charge_file=str(charge_file(home)))}
    sites = [
        SiteSpec(name=name, engine=SMALL if name == AIRPORT else WARM, power=power.get(name, PowerSpec()))
        for name in SITES
    ]
    return MeshSpec(
        sites=sites,
        emulate_links=True,
        faults=FaultSettings(enabled=True),
        autopilot=AUTOPILOT if autopilot else AutopilotSpec(),
    )


def charge_file(home: Path) -> Path:
    """Return the file that has the drone's charge."""
    return home / "drone-charge"


def day_scenario(seconds: float, *, autopilot: bool) -> Scenario:
    """Return the day: departures come within `seconds`. Windows are announced if there is an autopilot."""
    load = ReplayLoad(
        replay="departures",
        site=AIRPORT,
        topic=DEVICE_TOPIC,
        rate=DEPARTURES / seconds,
        events=DEPARTURES,
        timetable=True,
    )
    return Scenario(
        name="autopilot-day",
        description="Departures of a day, while sites are overloaded, in a tunnel, empty, and failing.",
        mesh=ScenarioMesh(sites=[*SITES]),
        jobs=[_job(name, site) for name, site in PLACES.items()],
        load=[load],
        steady_state=[SiteProbe(site=AIRPORT)],
        phases=Phases(before_s=1.0, during_s=max(each.end_s for each in THREATS) + 5, after_s=60.0),
        timeline=[*_steps(autopilot=autopilot)],
        expect=Expectations(recovers_within_s=None, in_order=True, out_of_order=ANY),
        collect=Collection(results=[*PLACES]),
    )


def _job(name: str, site: str) -> JobSpec:
    operator: Operator = HOURLY if name == "hourly" else CLEAN
    return JobSpec(
        name=name,
        site=site,
        inputs=[Input(site=AIRPORT, topic=DEVICE_TOPIC, start="latest")],
        output=Output(site=AIRPORT, topic=f"departures/{name}"),
        operator=operator,
        trigger_s=TRIGGER_S,
    )


def _steps(*, autopilot: bool) -> Iterator[Step]:
    yield Step(at=0, load=[*_rules()])
    if autopilot:
        window = Announcement(site=TRAIN, in_s=TUNNEL.begin_s, lasts_s=TUNNEL.seconds, note=TUNNEL.what)
        yield Step(at=0, announce=window)
    drained = Discharge(
        site=DRONE, from_percent=CHARGE_PERCENT, to_percent=EMPTY_PERCENT, over_s=EMPTY.begin_s
    )
    yield Step(at=0, discharge=drained)
    # A rule, because it adds to the rule that makes the link slow.
    yield Step(
        at=TUNNEL.begin_s, load=[_link_rule(TUNNEL.what, TRAIN, RuleAction(fault="cut"), TUNNEL.seconds)]
    )
    for threat in (EMPTY, *FAILURES):
        yield _away(threat)
    charged = Discharge(site=DRONE, from_percent=100, to_percent=100, over_s=0)
    yield Step(at=EMPTY.end_s, discharge=charged)


def _away(threat: Threat) -> Step:
    strike = Strike(fault="pause", target=TargetKind.MACHINE, name=threat.site, for_s=threat.seconds)
    return Step(at=threat.begin_s, strike=strike)


def _rules() -> Iterator[Rule]:
    for job in SLOW_JOBS:
        yield Rule(
            name=f"slow-{job}",
            event=AtPoint(point=DataPoint.OPERATOR_EVENT),
            where=Where(job=job),
            actions=[RuleAction(fault="delay", parameters={"ms": EVENT_MS})],
        )
    for site, delay_ms in DELAYS_MS.items():
        yield _link_rule(f"far-{site}", site, RuleAction(fault="slow", parameters={"delay_ms": delay_ms}))


def _link_rule(name: str, site: str, action: RuleAction, seconds: float | None = None) -> Rule:
    target = OnTarget(target=TargetKind.LINK, name=site)
    return Rule(name=name, event=target, actions=[action], for_s=seconds)
