"""Fault rules: event – condition – action, loaded into a running mesh and out of it again.

A rule says at which *event* something is to be looked at, under which *condition* something is done, and
which *actions* that is (the shape is Byteman's). Rules live no longer than their lease: a process that
carries one out forgets it when no one renews it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import NAME_PATTERN, ROOT, Command, Event, JobName, Model, Scope, SiteName
from towpath.contracts.metrics import Metric

_INJECTOR = f"{ROOT}.command.injector"

LONGEST_LEASE_S = 300.0
DEFAULT_LEASE_S = 5.0
"""Longer than a short pause of the injector, shorter than people wait for a fault that no one holds."""

RuleName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class DataPoint(StrEnum):
    """A named point of the data path: where events, results, chunks and messages pass."""

    SOURCE_READ = "source.read"
    """Each event as a task reads it from its stream, in a Python worker of Spark."""
    OPERATOR_BATCH = "operator.batch"
    """Each bundle of events on its way into a job's operator, in a Python worker of Spark."""
    OPERATOR_EVENT = "operator.event"
    """Each event on its way into a job's operator, in a Python worker of Spark."""
    SINK_PUBLISH = "sink.publish"
    """Each result on its way into the output stream, in the engine."""
    ENGINE_PROGRESS = "engine.progress"
    """Each report of Spark on a micro-batch, as JSON, in the engine. What is made of it changes nothing."""
    CHECKPOINT_SHIP = "checkpoint.ship"
    """Each chunk of a checkpoint that leaves a site, in its agent."""
    AGENT_COMMAND = "agent.command"
    """Each command that an agent has received, before it is carried out."""
    BUS_SEND = "bus.send"
    """Each command, answer and event that a service sends; not measurements and spans."""
    BUS_RECEIVE = "bus.receive"
    """Each command, answer and event that a service receives as it is sent; not what it reads from a stream
    where events are kept."""


class AtPoint(Model):
    """Something passes a named point of the data path."""

    point: DataPoint


class TargetKind(StrEnum):
    """Kinds of targets outside of code."""

    PROCESS = "process"
    """A process of the mesh by its name, such as `jfk-engine`, `jfk-nats`, `coordinator`."""
    LINK = "link"
    """The emulated link between a site and the hub, by the site's name."""
    MACHINE = "machine"
    """CPU and memory where a scope's processes run, by the scope: `hub` or a site."""
    DISK = "disk"
    """The files that a process writes, by the process's name."""
    CLOCK = "clock"
    """The clock of a Python process of the mesh, by the process's name."""
    CONTAINER = "container"
    """A container by its name."""


class OnTarget(Model):
    """No event: the condition is looked at again and again, about four times a second."""

    target: TargetKind
    name: str = Field(min_length=1, max_length=200)
    """Which one; see `TargetKind`."""


def _kind_of_event(given: Any) -> str | None:
    kinds = ("point", "target")
    if isinstance(given, dict):
        return next((kind for kind in kinds if kind in given), None)
    return next((kind for kind in kinds if hasattr(given, kind)), None)


RuleEvent = Annotated[
    Annotated[AtPoint, Tag("point")] | Annotated[OnTarget, Tag("target")],
    Discriminator(
        _kind_of_event,
        custom_error_type="no_event",
        custom_error_message="needs one of: point, target",
    ),
]


class Where(Model):
    """In which processes an event counts; what is null does not matter."""

    site: SiteName | None = None
    """Processes of this scope: a site, or `hub`."""
    process: str | None = None
    """The process of this name: `jfk-engine` stands for the engine and its Python workers."""
    job: JobName | None = None
    """Events that pass a data point on behalf of this job."""
    worker: str | None = None
    """On a cluster: Python workers of this Spark executor (its number)."""


class RuleAction(Model):
    """The name of a fault and its parameters."""

    fault: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    parameters: dict[str, Any] = {}


class Rule(Model):
    """One fault or instrumentation rule."""

    name: RuleName
    description: str = ""
    event: RuleEvent
    where: Where = Where()
    every: int | None = Field(default=None, ge=1)
    """The rule considers each Nth occurrence only, in each process; null: all."""
    probability: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """It considers each of those with this probability; `seed` decides. Null: all."""
    condition: str = Field(default="true", max_length=2_000)
    """An expression in CEL, computed for those that are left; see the reference of conditions."""
    once: bool = False
    """It acts once at most, in each process."""
    actions: list[RuleAction] = Field(min_length=1, max_length=8)
    """Done one after the other."""
    for_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """The rule unloads itself after so many seconds; null: when it is told to."""
    seed: int = 0
    """Of everything random in the rule: the same seed, the same choices in each process."""


class LoadedRule(Model):
    """A rule as those hold it who carry it out."""

    rule: Rule
    version: int
    """Counts how often a rule of this name was loaded, from 1."""
    loaded_at: datetime


class RuleSet(Model):
    """All rules of one scope: a file that its processes read, rewritten with each renewal."""

    scope: Scope
    revision: int
    """Changes when the rules do; a renewal keeps it."""
    expires_at: float
    """After this moment no rule of the file counts, Unix seconds by the clock of the machine it lies on."""
    rules: list[LoadedRule] = []
    shared: dict[str, float] = {}
    """Functions of the whole mesh for conditions, such as `cpu_percent(jfk)`."""


class RuleCount(Model):
    """Counts of one version of a rule, in one process or in all: how often it was looked at, and acted."""

    rule: RuleName
    version: int
    looked: int = 0
    acted: int = 0
    errors: int = 0
    """Failures of a condition or an action: nothing was done then."""
    last_error: str | None = None


class RuleView(Model):
    """A loaded rule and what came of it."""

    rule: Rule
    version: int
    loaded_at: datetime
    until: datetime | None = None
    """Time at which it unloads itself, unless someone renews it; null: it does not."""
    scopes: list[str]
    """Where it is loaded."""
    unreached: list[str] = []
    """Scopes whose agent did not answer the last time: what they had ends with its lease."""
    count: RuleCount


class RuleList(Model):
    """All loaded rules, by name."""

    rules: list[RuleView]


class Explanation(Model):
    """Effects of a rule."""

    rule: RuleName
    text: str
    """In sentences."""
    processes: list[str]
    """Which run now and would look at it; the container that it would hit."""
    loadable: bool
    errors: list[ErrorDetail] = []


class FaultParameter(Model):
    """One parameter of a fault."""

    name: str
    meaning: str
    type: str
    default: Any = None
    required: bool


class FaultDescription(Model):
    """A fault that actions may name."""

    name: str
    meaning: str
    applies_to: list[str]
    """Kinds of events: `point`, or a kind of target."""
    parameters: list[FaultParameter]


class FaultCatalogue(Model):
    """The parts of rules."""

    points: dict[str, str]
    """Data point → what passes there."""
    targets: dict[str, list[str]]
    """Kind of target → those there are now."""
    faults: list[FaultDescription]
    functions: dict[str, str]
    """Function or name for conditions → its meaning."""


class RulesToLoad(Model):
    """Rules that are loaded together, and how long they stay."""

    rules: list[Rule] = Field(min_length=1, max_length=100)
    lease_s: float | None = Field(default=None, gt=0, le=LONGEST_LEASE_S, allow_inf_nan=False)
    """The rules unload themselves unless they are renewed, or loaded again by a command of its own, within so
    many seconds: for programs that may die. Null: they stay until unloaded."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise ValueError("two rules have the same name")
        return self


class LoadRules(RulesToLoad, Command[RuleList]):
    """Load rules, all or none. A rule of a loaded name replaces that one; an equal one is left alone.

    Answered when all scopes that are up have them: their processes follow within half a second.
    """

    exempt = True
    subject = f"{_INJECTOR}.load-rules"
    answer = RuleList
    example = {
        "id": "f1",
        "rules": [
            {
                "name": "slow-every-1000th",
                "event": {"point": "operator.event"},
                "where": {"job": "delays"},
                "every": 1000,
                "actions": [{"fault": "delay", "parameters": {"ms": 10}}],
            }
        ],
    }


class RenewRules(Command[RuleList]):
    """Give rules another lease; answers with all that are loaded. Loads nothing: what is not loaded any more,
    or in another version, is left as it is."""

    exempt = True
    subject = f"{_INJECTOR}.renew-rules"
    answer = RuleList
    example = {"id": "f8", "versions": {"slow-every-1000th": 1}, "lease_s": 12.0}

    versions: dict[RuleName, int] = Field(min_length=1, max_length=1_000)
    """Rule → the version that its loader was told."""
    lease_s: float = Field(gt=0, le=LONGEST_LEASE_S, allow_inf_nan=False)
    """As in `LoadRules`, from now on."""


class UnloadRules(Command[RuleList]):
    """Unload rules; answers with those that are left. Harmless when they are not loaded."""

    exempt = True
    subject = f"{_INJECTOR}.unload-rules"
    answer = RuleList
    example = {"id": "f2", "names": ["slow-every-1000th"]}

    names: list[RuleName] | None = None
    """Null: all."""


class ListRules(Command[RuleList]):
    """All loaded rules, and how often they acted."""

    exempt = True
    subject = f"{_INJECTOR}.list-rules"
    answer = RuleList
    example = {"id": "f3"}


class ExplainRule(Command[Explanation]):
    """Say what a rule would do, and what is wrong with it; nothing is loaded."""

    exempt = True
    subject = f"{_INJECTOR}.explain-rule"
    answer = Explanation
    example = {
        "id": "f4",
        "rule": {
            "name": "jfk-engine-dies",
            "event": {"target": "process", "name": "jfk-engine"},
            "once": True,
            "actions": [{"fault": "kill"}],
        },
    }

    rule: Rule


class DescribeFaults(Command[FaultCatalogue]):
    """List the parts of rules."""

    exempt = True
    subject = f"{_INJECTOR}.describe-faults"
    answer = FaultCatalogue
    example = {"id": "f5"}


class KeptMetric(Model):
    """A metric that the injector has heard."""

    serial: int
    """Counts the metrics heard since the injector started, from 1."""
    metric: Metric


class MetricList(Model):
    """Metrics in the order in which they were heard."""

    metrics: list[KeptMetric]
    last: int
    """Serial number of the last one heard, 0 when there is none. Smaller than one seen before: the injector
    has restarted, and counts again."""


class ListMetrics(Command[MetricList]):
    """The newest metrics that the injector has heard; it keeps ten thousand, in memory."""

    exempt = True
    subject = f"{_INJECTOR}.list-metrics"
    answer = MetricList
    example = {"id": "f7", "after": 0, "name": "batch_processing_s", "limit": 100}

    after: int = Field(default=0, ge=0)
    """Only those with a greater serial number."""
    name: str | None = None
    """Only metrics of this name."""
    entity: str | None = None
    """Only metrics of this entity."""
    site: Scope | None = None
    """Only metrics of this scope."""
    limit: int = Field(default=1_000, ge=1, le=10_000)
    """The newest so many of them."""


class RulesSet(Model):
    """An agent has written the rules down, and says what came of them."""

    scope: Scope
    counts: list[RuleCount] = []
    """By rule and version, over all processes of the scope, since each was loaded."""
    measured: dict[str, float] = {}
    """`cpu_percent` and `memory_percent` of the scope's processes."""


class SetRules(Command[RulesSet]):
    """Injector to agent: these are all rules of the site, for `lease_s` seconds from now.

    Sent again and again as long as there are any; an empty list ends what is left.
    """

    exempt = True
    subject = f"{ROOT}.command.{{site}}.set-rules"
    answer = RulesSet
    example = {"id": "f6", "site": "jfk", "revision": 3, "lease_s": 5.0, "rules": []}

    site: SiteName
    revision: int
    lease_s: float = Field(gt=0, le=LONGEST_LEASE_S, allow_inf_nan=False)
    rules: list[LoadedRule] = []
    shared: dict[str, float] = {}


class RuleEnd(StrEnum):
    """Why a rule is not loaded any more."""

    UNLOADED = "unloaded"
    EXPIRED = "expired"
    """Its time was over, or its loader did not renew it."""
    REPLACED = "replaced"
    INJECTOR_STARTED = "injector_started"
    """The injector started and found it: what an earlier one has loaded ends."""


class RuleLoaded(Event):
    """A rule was loaded."""

    exempt = True
    subject = f"{ROOT}.event.fault.{{rule}}.loaded"
    example = {"at": "2026-01-01T00:00:00Z", "rule": "slow-every-1000th", "version": 1, "scopes": ["jfk"]}

    rule: RuleName
    version: int
    scopes: list[str]


class RuleEnded(Event):
    """A rule is not loaded any more."""

    exempt = True
    subject = f"{ROOT}.event.fault.{{rule}}.ended"
    example = {
        "at": "2026-01-01T00:00:00Z",
        "rule": "slow-every-1000th",
        "version": 1,
        "why": "unloaded",
        "count": {"rule": "slow-every-1000th", "version": 1, "looked": 12_000, "acted": 12},
    }

    rule: RuleName
    version: int
    why: RuleEnd
    count: RuleCount


class RuleReport(Model):
    """A line that a process which carries rules out appends to its report file."""

    kind: Literal["count", "metric"]
    count: RuleCount | None = None
    """So far, in this process."""
    metric: Metric | None = None


FAULT_COMMANDS: tuple[type[Command[Any]], ...] = (
    LoadRules,
    RenewRules,
    UnloadRules,
    ListRules,
    ExplainRule,
    DescribeFaults,
    ListMetrics,
)
"""Served by the injector."""

RULE_COMMANDS: tuple[type[Command[Any]], ...] = (SetRules,)
"""Served by agents."""

FAULT_EVENTS: tuple[type[Event], ...] = (RuleLoaded, RuleEnded)
