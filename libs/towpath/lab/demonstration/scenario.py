"""The demonstrations as scenarios: a job moves under load; a job leaves a site before it is lost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

from towpath.contracts.commands import StrategyName
from towpath.contracts.scenario import (
    Collection,
    Migration,
    Phases,
    Scenario,
    ScenarioMesh,
    SiteProbe,
    Step,
    Trigger,
)
from towpath.contracts.scenario_expectations import ANY, Expectations
from towpath.contracts.scenario_load import ReplayLoad
from towpath.contracts.scenario_nodes import FailNodes
from towpath.lab.demonstration.pipeline import (
    CLOUD,
    DEVICE_TOPIC,
    EDGES,
    LEAVING_DEVICES,
    LEAVING_JOB,
    MOVING_JOB,
    PACE_JOB,
    edge_of,
    leaving_job,
    pipeline,
)

MIGRATE_S = 180.0
"""Seconds for a migration, requested again where a process is killed meanwhile."""

LEAVE_AT_S = 10.0
"""Seconds of load before the job leaves its site."""

LEAVING_RATE = 100.0
"""Events per second for the job that leaves: so `LEAVING_DEPARTURES` last longer than any migration."""

PHASES = Phases(before_s=1.0, during_s=0.0, after_s=90.0, steady_s=1.0)
"""While the timeline is played, the load is sent to its end."""

EXPECT = Expectations(recovers_within_s=None, in_order=True, out_of_order=ANY)
"""Order is told, and nothing is held against it."""


@dataclass(frozen=True)
class DemonstrationOptions:
    """The size of a run."""

    per_airport: int = 18_000
    """Departures of each airport."""
    edges: tuple[str, ...] = EDGES
    """The airports that are sites of the mesh; that of the moving job is one of them."""
    rate: float = 200.0
    """Events per second at each airport."""
    malformed_every: int = 200
    """After so many departures one malformed record."""
    strategy: StrategyName = StrategyName.AUTO
    move_at: tuple[float, ...] = (0.55, 0.8)
    """Shares of the replay at which the job moves: to the cloud, and back."""
    trigger_s: float = 3.0
    """Seven jobs share two cores. A micro-batch of an engine that is a minute old costs 0.1 to 0.3 core
    seconds, however small it is."""

    @property
    def moving_job(self) -> str:
        """The job that changes site: one that the strategy is for."""
        return PACE_JOB if self.strategy is StrategyName.PARALLEL else MOVING_JOB

    @property
    def cleaning_jobs(self) -> list[str]:
        """The stateless jobs that read what devices send."""
        return [f"clean-{edge}" for edge in self.edges]

    @property
    def loads(self) -> list[ReplayLoad]:
        """The replays of the airports, one for each."""
        return [
            ReplayLoad(
                replay="departures",
                site=edge,
                topic=DEVICE_TOPIC,
                airport=edge.upper(),
                rate=self.rate,
                events=self.per_airport,
                malformed_every=self.malformed_every,
            )
            for edge in self.edges
        ]

    def moment(self, share: float) -> float:
        """Return the seconds after which a share of the load has been sent."""
        return round(share * self.loads[0].length / self.rate, 3)


def moving_scenario(options: DemonstrationOptions, topology: str | None = None) -> Scenario:
    """Return a pipeline under load, one job of which moves to the cloud and back.

    `topology` is the file of the emulated topology whose nodes are the sites, if they are.
    """
    job = options.moving_job
    sites = [*options.edges, CLOUD]
    targets = zip(options.move_at, cycle((CLOUD, edge_of(job))), strict=False)
    moves = [
        Step(at=options.moment(share), migrate=_move(job, to, options.strategy)) for share, to in targets
    ]
    return Scenario(
        name="demonstration",
        description=f"Real departures flow through a pipeline; {job} moves to the cloud and back.",
        mesh=ScenarioMesh(sites=sites, emulate_links=topology is not None, topology=topology),
        pipeline=pipeline(options.per_airport, options.trigger_s, options.edges, pace=job == PACE_JOB),
        load=[*options.loads],
        steady_state=[SiteProbe(site=site) for site in sites],
        phases=PHASES,
        timeline=moves,
        expect=EXPECT,
        collect=Collection(results=[job, *options.cleaning_jobs]),
    )


def leaving_scenario(devices: str, source: str, target: str, topology: str) -> Scenario:
    """Return a job that leaves a node of a topology, which is killed with everything on it right afterwards.

    Its devices and its results are at a third site. The devices send until the run ends, so results are due
    after the loss however long the migration takes.
    """
    moved = has_moved(LEAVING_JOB, LEAVE_AT_S)
    return Scenario(
        name="evacuation",
        description=f"A job leaves {source}, which is killed with everything on it right afterwards.",
        mesh=ScenarioMesh(sites=[devices, source, target], topology=topology),
        jobs=[leaving_job(devices, source)],
        load=[
            ReplayLoad(
                replay="departures",
                site=devices,
                topic=LEAVING_DEVICES,
                airport=devices.upper(),
                rate=LEAVING_RATE,
            )
        ],
        steady_state=[SiteProbe(site=devices), SiteProbe(site=target)],
        phases=PHASES,
        timeline=[
            Step(at=LEAVE_AT_S, migrate=_move(LEAVING_JOB, target, StrategyName.HANDOVER)),
            Step(on=moved, node=FailNodes(do="fail", nodes=[source])),
        ],
        expect=EXPECT,
        collect=Collection(results=[LEAVING_JOB]),
    )


def has_moved(job: str, within_s: float, after_s: float = 0.0) -> Trigger:
    """Return the moment `after_s` seconds after a migration of the job has completed.

    The migration is to begin within `within_s`.
    """
    return Trigger(
        event="operation.*.ended",
        where={"job": job, "kind": "migrate", "state": "completed"},
        after_s=after_s,
        within_s=within_s + MIGRATE_S,
    )


def _move(job: str, to: str, strategy: StrategyName) -> Migration:
    return Migration(job=job, to=to, strategy=strategy, retry_within_s=MIGRATE_S)
