"""Commands and events of fault rules: load them into a running mesh, list them, unload them again.

The injector serves the commands, and tells each site with `SetRules` which rules it has. Rules live no longer
than their lease: those who carry one out forget it when no one renews it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.faults import LoadedRule, Rule, RuleCount, RuleName
from towpath.contracts.message import ROOT, Command, Event, Model, Scope, SiteName
from towpath.contracts.metrics import Metric

_INJECTOR = f"{ROOT}.command.injector"

LONGEST_LEASE_S = 300.0
DEFAULT_LEASE_S = 5.0
"""Longer than a short pause of the injector, shorter than people wait for a fault that no one holds."""


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
    """Ask for those `after` this serial number next. 0 when there is none. Smaller than one seen before: the
    injector has restarted, and counts again."""


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
    """At most so many: the newest, or with `after` the oldest."""


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
