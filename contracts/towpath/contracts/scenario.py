"""Scenarios: load, faults and commands in time, what steady state is, and what is expected.

A run has three phases. *Before*: jobs run under load until steady state holds. *During*: the timeline is
played. *After*: everything loaded is unloaded, and steady state must come back. Then the results are judged.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.commands import ConsistencyCheck, StrategyName
from towpath.contracts.faults import Rule, RuleName
from towpath.contracts.job import JobSpec
from towpath.contracts.message import JobName, Model, SiteName
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.scenario_expectations import Expectations
from towpath.contracts.scenario_foresight import Announcement, Discharge
from towpath.contracts.scenario_gateways import RollOut, ScenarioGateways
from towpath.contracts.scenario_load import Load, ScenarioJob, Seconds
from towpath.contracts.scenario_nodes import NodeStep
from towpath.contracts.scenario_strikes import HubTrouble, Interception, Strike
from towpath.contracts.site import Durability

ScenarioName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
"""It becomes part of paths and of the names of devices."""


class ScenarioMesh(Model):
    """The mesh that a run needs. A mesh that runs already must be like this."""

    sites: list[SiteName] = Field(default=["jfk", "cloud"], min_length=1)
    emulate_links: bool = True
    """For rules whose target is a link."""
    durability: Durability = Durability.FAST
    """Of all sites."""
    encrypted: bool = False
    """A mesh of the run's own encrypts, as one that spans machines."""
    autopilot: AutopilotMode = AutopilotMode.OFF
    """Of a mesh of the run's own. It may move jobs while the timeline is played."""
    jobs: list[JobName] = []
    """Jobs that run there already. They may be looked at, moved and changed, as far as that can be put back
    in the end; they are neither judged nor removed."""
    topology: str | None = None
    """An emulated topology, by its file or by a name that `towpath fog list` shows: its nodes are the sites.
    Null: sites are processes of this machine, and no step is about nodes."""


class ThroughputProbe(Model):
    """Events processed per second, against those the load is to send, or, in a scenario without a load, those
    that were stored meanwhile."""

    probe: Literal["throughput"] = "throughput"
    job: JobName
    within_percent: float = Field(gt=0)
    over_s: Seconds = 3.0
    """Measured over so long."""


class OutputGapProbe(Model):
    """Age of the newest result that reached a subscriber."""

    probe: Literal["output_gap"] = "output_gap"
    job: JobName
    at_most_s: Seconds


class LatencyProbe(Model):
    """Median time from storing the newest event in a result to its receipt."""

    probe: Literal["latency"] = "latency"
    job: JobName
    at_most_s: Seconds
    over_s: Seconds = 3.0


class LagProbe(Model):
    """Events stored and not yet processed."""

    probe: Literal["lag"] = "lag"
    job: JobName
    at_most_events: int = Field(ge=0)


class SiteProbe(Model):
    """The site is up."""

    probe: Literal["site_up"] = "site_up"
    site: SiteName


class MetricProbe(Model):
    """The newest value of a metric, such as one that an `emit` rule measures."""

    probe: Literal["metric"] = "metric"
    name: str
    entity: str | None = None
    """Null: any."""
    at_least: float | None = None
    at_most: float | None = None
    max_age_s: Seconds = 15.0
    """An older value counts as none: its process may be gone."""


class RestProbe(Model):
    """The status of an answer of the REST interface."""

    probe: Literal["rest"] = "rest"
    path: str = Field(pattern=r"^/")
    status: int | Annotated[list[int], Field(min_length=1)] = 200
    """Or several, of which any will do."""


class StandbyProbe(Model):
    """Age of the copy of a job's state at its standby. 0 while the job runs there itself."""

    probe: Literal["standby"] = "standby"
    job: JobName
    at_most_s: Seconds


Probe = Annotated[
    ThroughputProbe
    | OutputGapProbe
    | LatencyProbe
    | LagProbe
    | SiteProbe
    | MetricProbe
    | RestProbe
    | StandbyProbe,
    Field(discriminator="probe"),
]


class Trigger(Model):
    """An event of the mesh that a step of the timeline waits for."""

    event: str = Field(pattern=r"^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*(\.>)?$")
    """Subject behind `towpath.v1.event.`, such as `operation.*.step`; `*` and `>` as NATS has them."""
    where: dict[str, Any] = {}
    """Fields of the event and the values they must have: `step: launch-retrieve`, `phase: begun`."""
    after_s: Seconds = 0.0
    """Wait so long behind it."""
    within_s: Seconds = 30.0
    """The run has failed when it does not come within so long, from the beginning of `during`."""
    unless_ended: JobName | None = None
    """Leave the step out if an operation on this job ends before."""


class Migration(Model):
    """Move a job."""

    job: JobName
    to: SiteName | None = None
    """Null: the other site, where there are two."""
    strategy: StrategyName = StrategyName.AUTO
    check: ConsistencyCheck = ConsistencyCheck.SERIALS
    factor: int | None = Field(default=None, ge=0)
    hold_s: Seconds | None = None
    """All four as in `MigrateJob`."""
    retry_within_s: Seconds | None = None
    """Ask again for so long while the job or a site is not ready, and when the migration was rolled back; the
    step is done when it has completed. Null: ask once, and do not wait for its end. Migrations of one job
    that are retried come one after another."""


class Update(Model):
    """Change a running job into this one."""

    spec: JobSpec
    drop_state: bool = False
    wait: bool = True
    """The step is done when the job has changed. False: ask once, and expect of its end what is expected of
    migrations."""


class Scaling(Model):
    """Change how much a job takes at a time, and how often."""

    job: JobName
    trigger_s: float | None = Field(default=None, ge=0, le=3600)
    max_events_per_batch: int | None = Field(default=None, gt=0)


class Pace(Model):
    """Let devices send faster or slower."""

    rate: float = Field(gt=0, le=100_000)
    """The `rate` of each load from now on, in events per second. A `peak` stays."""
    site: SiteName | None = None
    """Only of the loads at this site; null: of all."""


class Removal(Model):
    """Stop a job."""

    job: JobName
    drain: bool = False
    wait: bool = True
    """As in `Update`. Without waiting, the results up to the job's stop are judged."""


class Failover(Model):
    """Let a job go on at its standby. Its site must be out of reach by then: the command is repeated while it
    is refused."""

    job: JobName
    within_s: Seconds = 60.0


class SiteUpgrade(Model):
    """Restart a site with the version that is installed, by `towpath upgrade`: its jobs move away, and come
    back. The command is called again until it ends well: what was interrupted goes on."""

    site: SiteName
    to: SiteName | None = None
    """Where its jobs are meanwhile. Null: where there is room."""
    within_s: Seconds = 300.0


class ProcessRun(Model):
    """Run a program beside the mesh. Only on demand: a scenario from elsewhere could bring anything."""

    path: str
    arguments: list[str] = []
    timeout_s: Seconds = 30.0


class Step(Model):
    """One line of the timeline: when, and what. Exactly one of each."""

    at: Seconds | None = None
    """Behind the beginning of `during`."""
    on: Annotated[
        Trigger | None, BeforeValidator(lambda given: {"event": given} if isinstance(given, str) else given)
    ] = None
    load: list[Rule] | None = Field(default=None, min_length=1)
    """Load fault rules."""
    unload: list[RuleName] | None = Field(default=None, min_length=1)
    strike: Strike | None = None
    intercept: Interception | None = None
    hub: HubTrouble | None = None
    migrate: Migration | None = None
    deploy: ScenarioJob | None = None
    update: Update | None = None
    scale: Scaling | None = None
    pace: Pace | None = None
    apply: PipelineSpec | None = None
    remove: Removal | None = None
    fail_over: Failover | None = None
    upgrade: SiteUpgrade | None = None
    roll_out: RollOut | None = None
    process: ProcessRun | None = None
    node: NodeStep | None = None
    announce: Announcement | None = None
    discharge: Discharge | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Step:
        if (self.at is None) == (self.on is None):
            raise ValueError("a step takes exactly one of at and on")
        given = [name for name in STEP_ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a step takes exactly one of {', '.join(STEP_ACTIONS)}")
        return self

    @property
    def action(self) -> str:
        """Which of `STEP_ACTIONS` it is."""
        return next(name for name in STEP_ACTIONS if getattr(self, name) is not None)

    @property
    def given(self) -> Any:
        """The part that says what to do: the field called `action`."""
        return getattr(self, self.action)


STEP_ACTIONS = tuple(name for name in Step.model_fields if name not in ("at", "on"))


class Phases(Model):
    """Durations of the phases."""

    before_s: Seconds = 2.0
    """From the moment when steady state holds."""
    begin_within_s: Seconds = 60.0
    """At most, for steady state to come about in the first place."""
    during_s: Seconds = 6.0
    """Longer, when a step of the timeline comes later."""
    after_s: Seconds = 45.0
    """At most: it ends when steady state has held for `steady_s`."""
    steady_s: Seconds = 1.5
    drain_s: Seconds = 40.0
    """At most, for the results of each job to come once the load has ended."""


class Collection(Model):
    """Records in the journal besides the probes."""

    metrics: list[str] = []
    """Names of metrics; `*` for all."""
    rule_counts: bool = True
    results: list[JobName] = []
    """Names of jobs: time, latency and site of each of their results."""


class Variation(Model):
    """Choices by a run's seed. Seed 0 leaves everything as it is written."""

    path: str
    """Of a value in this file, such as `timeline.0.load.0.actions.0.parameters.ms`."""
    between: tuple[float, float] | None = None
    one_of: list[Any] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_choice(self) -> Variation:
        if (self.between is None) == (self.one_of is None):
            raise ValueError("a variation takes exactly one of between and one_of")
        return self


class Scenario(Model):
    """A scenario as it stands in a file."""

    name: ScenarioName
    description: str = ""
    mesh: ScenarioMesh = ScenarioMesh()
    jobs: list[ScenarioJob] = []
    """Deployed before, removed in the end. A job of such a name may not be there yet."""
    pipeline: PipelineSpec | None = None
    """Applied before, deleted in the end. One that was there before the run is rolled back instead; it may
    neither lose a job nor change what a job reads and writes."""
    gateways: ScenarioGateways | None = None
    load: list[Load] = []
    steady_state: list[Probe] = Field(min_length=1)
    phases: Phases = Phases()
    timeline: list[Step] = []
    expect: Expectations = Expectations()
    collect: Collection = Collection()
    vary: list[Variation] = []
