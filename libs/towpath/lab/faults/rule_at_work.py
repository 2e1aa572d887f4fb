"""Loaded rules that one process carries out: taken up, looked at, counted, and dropped again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from time import monotonic
from typing import Any, Generic, TypeVar

from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import LoadedRule, OnTarget, RuleCount, RuleName
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.conditions import Evaluation, SharedValues
from towpath.lab.faults.registry import Fault, kind_of_event
from towpath.lab.faults.reports import Reports
from towpath.lab.faults.rule_actions import made

log = logging.getLogger(__name__)

RuleT = TypeVar("RuleT", bound="RuleAtWork")

REPORT_EVERY_S = 1.0
"""Between reports of counts that have changed."""

ERROR_CHARACTERS = 300


@dataclass(frozen=True)
class RuleKey:
    """One loading of a rule. An injector that lost its record begins with version 1, at another moment."""

    rule: RuleName
    version: int
    loaded_at: datetime

    @classmethod
    def of(cls, loaded: LoadedRule) -> RuleKey:
        """Return the key of a loaded rule."""
        return cls(rule=loaded.rule.name, version=loaded.version, loaded_at=loaded.loaded_at)


@dataclass(frozen=True)
class ProcessContext:
    """The process that carries rules out, as they see it."""

    scope: str
    process: str
    shared: SharedValues = lambda key: None
    """Figures of the whole mesh, such as `cpu_percent(jfk)`."""
    worker: str | None = None
    """The Spark executor that a Python worker belongs to."""

    def fields(self) -> dict[str, Any]:
        """Return what conditions may name everywhere."""
        return {"site": self.scope, "process": self.process, "worker": self.worker}


class RuleAtWork:
    """One loading of a rule in one process: its condition, its faults, and what is counted of it."""

    def __init__(self, loaded: LoadedRule, context: ProcessContext) -> None:
        """Raises `TowpathError` when this process does not understand the rule."""
        self.loaded = loaded
        self.key = RuleKey.of(loaded)
        self.faults = _faults_of(loaded)
        self.errors = 0
        self.last_error: str | None = None
        self.context = context
        self.evaluation = Evaluation(
            loaded.rule, loaded_at=loaded.loaded_at.timestamp(), shared=context.shared, clock=real_time
        )
        self._telling = threading.Lock()
        self._told = RuleCount(rule=loaded.rule.name, version=loaded.version)

    def failed(self, error: Exception) -> None:
        """Count that the rule itself went wrong. What it looked at is left alone."""
        text = said_of(error)
        if self.last_error != text:
            log.warning("rule %s: %s", self.loaded.rule.name, text)
        self.errors += 1
        self.last_error = text

    def count(self) -> RuleCount:
        """Return how often it looked and acted in this process so far."""
        return RuleCount(
            rule=self.loaded.rule.name,
            version=self.loaded.version,
            looked=self.evaluation.looked,
            acted=self.evaluation.acted,
            errors=self.errors,
            last_error=self.last_error,
        )

    def tell(self, reports: Reports) -> None:
        """Report its count, if that has changed."""
        with self._telling:  # The last line of a file counts: no older count may follow a newer one.
            before, self._told = self._told, self.count()
            if self._told != before:
                reports.count(self._told)


class TargetRule(RuleAtWork):
    """One loading of a rule with a target: its condition is looked at again and again."""

    def __init__(self, loaded: LoadedRule, context: ProcessContext) -> None:
        """Raises `TowpathError` when this process does not understand the rule."""
        super().__init__(loaded, context)
        event = loaded.rule.event
        assert isinstance(event, OnTarget), "those who carry out targets are told of rules with a target only"
        self.event = event
        self._fields = {**context.fields(), "target": event.target.value, "name": event.name}

    def holds(self) -> bool:
        """Look once. Return true if the condition holds now. One that cannot be computed does not."""
        try:
            return self.evaluation.holds(self._fields)
        except Exception as error:  # Whatever a condition does wrong: the rule is wrong, not the process.
            self.failed(error)
            return False


class RulesAtWork(Generic[RuleT]):
    """All rules that one process carries out. Used by one thread."""

    def __init__(self, take_up: Callable[[LoadedRule], RuleT]) -> None:
        """`take_up` begins with a rule. It raises an exception if this process does not understand it."""
        self._take_up = take_up
        self._rules: dict[RuleKey, RuleT] = {}
        self._refused: dict[RuleKey, RuleCount] = {}
        """Rules that this process does not understand."""
        self._ended: list[RuleT] = []
        """Those whose last counts have not been reported."""
        self._untold: list[RuleCount] = []
        """Refusals that have not been reported."""
        self._report_at = 0.0

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[RuleT]:
        return iter([*self._rules.values()])

    def follow(self, loaded: Iterable[LoadedRule]) -> list[RuleT]:
        """Have exactly these rules at work. Returns those that have ended."""
        wanted = {RuleKey.of(each): each for each in loaded}
        ended = [self._rules.pop(key) for key in [*self._rules] if key not in wanted]
        self._ended += ended
        self._refused = {key: count for key, count in self._refused.items() if key in wanted}
        for key, each in wanted.items():
            if key not in self._rules and key not in self._refused:
                self._begin(key, each)
        return ended

    def counts(self) -> list[RuleCount]:
        """Return the counts of all rules that are loaded, also of those that are not understood."""
        return [*(rule.count() for rule in self), *self._refused.values()]

    def report(self, reports: Reports, *, at_once: bool = False) -> None:
        """Report counts that have changed: once a second, and at once what has ended or was refused."""
        for rule in self._ended:
            rule.tell(reports)
        for count in self._untold:
            reports.count(count)
        self._ended, self._untold = [], []
        if at_once or monotonic() >= self._report_at:
            self._report_at = monotonic() + REPORT_EVERY_S
            for rule in self:
                rule.tell(reports)
        reports.flush()

    def _begin(self, key: RuleKey, loaded: LoadedRule) -> None:
        try:
            self._rules[key] = self._take_up(loaded)
        except Exception as error:  # Whatever is wrong with one rule: others go on.
            log.warning("rule %s cannot be carried out: %s", key.rule, error)
            count = RuleCount(rule=key.rule, version=key.version, errors=1, last_error=said_of(error))
            self._refused[key] = count
            self._untold.append(count)


def said_of(error: Exception) -> str:
    """Return what went wrong as a count tells it."""
    said = error.detail.one_line() if isinstance(error, TowpathError) else str(error)
    return f"{type(error).__name__}: {said}"[:ERROR_CHARACTERS]


def _faults_of(loaded: LoadedRule) -> list[Fault]:
    rule = loaded.rule
    kind = kind_of_event(rule.event)
    return [
        made(action, kind, Random(f"{rule.seed} {rule.name} {place}"), f"actions.{place}")
        for place, action in enumerate(rule.actions)
    ]
