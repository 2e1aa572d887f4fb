"""The rules that are loaded: which, since when, until when, and how often they acted. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import RuleEnd, RuleView
from towpath.contracts.faults import LoadedRule, OnTarget, Rule, RuleCount, TargetKind
from towpath.contracts.message import now
from towpath.lab.guard.report_reader import total

MOST_RULES = 1_000
"""Loaded at the same time: every process of a scope looks through all of the scope's."""


@dataclass
class Loaded:
    """One version of a rule, and what came of it."""

    told: LoadedRule
    scopes: tuple[str, ...]
    """Where it is carried out."""
    ends_at: float | None = None
    """When its own time is over, seconds of the collection's clock; null: never."""
    lease_ends_at: float | None = None
    """When it ends unless its loader renews it; null: it need not."""
    counts: dict[str, RuleCount] = field(default_factory=dict)
    """By scope."""

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.told.rule.name

    @property
    def is_about_link(self) -> bool:
        """True if the injector carries it out by itself, through the links' service."""
        event = self.told.rule.event
        return isinstance(event, OnTarget) and event.target is TargetKind.LINK

    @property
    def over_at(self) -> float | None:
        """When it unloads itself as things stand; null: it does not."""
        return min((at for at in (self.ends_at, self.lease_ends_at) if at is not None), default=None)

    @property
    def count(self) -> RuleCount:
        """The sum over all scopes."""
        return total([RuleCount(rule=self.name, version=self.told.version), *self.counts.values()])


@dataclass(frozen=True)
class Ended:
    """A version of a rule that is not loaded any more."""

    loaded: Loaded
    why: RuleEnd
    at: datetime


@dataclass(frozen=True)
class Change:
    """The changes that a command has made."""

    loaded: tuple[Loaded, ...] = ()
    ended: tuple[Ended, ...] = ()

    @property
    def scopes(self) -> frozenset[str]:
        """Where rules came or went."""
        changed = (*self.loaded, *(each.loaded for each in self.ended))
        return frozenset(scope for each in changed for scope in each.scopes)


class LoadedRules:
    """All loaded rules by name.

    Invariant: what a rule's version stands for never changes, also when the injector restarts
    (`versions` come from the record): counts are kept by name and version.
    """

    def __init__(
        self, versions: Mapping[str, int] | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.versions = dict(versions or {})
        """Name → the newest version, also of rules that are not loaded any more."""
        self._clock = clock
        self._rules: dict[str, Loaded] = {}
        self._counted: dict[tuple[str, int], Loaded] = {}
        """By name and version, also what has ended and was not forgotten: its last counts may still come."""

    def __iter__(self) -> Iterator[Loaded]:
        return iter([loaded for _, loaded in sorted(self._rules.items())])

    def different(self, rules: Iterable[Rule]) -> list[Rule]:
        """Return those that are not loaded exactly so."""
        return [rule for rule in rules if not self._has(rule)]

    def load(self, rules: Mapping[str, tuple[Rule, Collection[str]]], lease_s: float | None) -> Change:
        """Load rules, given by name with their scopes; equal ones are only given the new lease.

        Raises `TowpathError` (not allowed), and loads none, when there would be too many.
        """
        if len(self._rules.keys() | rules.keys()) > MOST_RULES:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "too many rules",
                field="rules",
                value=len(self._rules.keys() | rules.keys()),
                allowed=f"{MOST_RULES} loaded at the same time",
            )
        lease_ends_at = None if lease_s is None else self._clock() + lease_s
        loaded: list[Loaded] = []
        ended: list[Ended] = []
        for rule, scopes in rules.values():
            if self._has(rule):
                self._rules[rule.name].lease_ends_at = lease_ends_at
                continue
            ended += self._end([rule.name], RuleEnd.REPLACED)
            loaded.append(self._load(rule, scopes, lease_ends_at))
        return Change(tuple(loaded), tuple(ended))

    def renew(self, versions: Mapping[str, int], lease_s: float) -> None:
        """Give another lease to those of these rules that are loaded in these versions."""
        for name, version in versions.items():
            loaded = self._rules.get(name)
            if loaded is not None and loaded.told.version == version:
                loaded.lease_ends_at = self._clock() + lease_s

    def unload(self, names: Collection[str] | None) -> Change:
        """Unload rules of these names, or all. Names that are not loaded are left out."""
        wanted = list(self._rules) if names is None else [name for name in names if name in self._rules]
        return Change(ended=tuple(self._end(wanted, RuleEnd.UNLOADED)))

    def expire(self) -> Change:
        """Unload rules that were not renewed, and those whose own time is over."""
        over = [each.name for each in self if each.over_at is not None and each.over_at <= self._clock()]
        return Change(ended=tuple(self._end(over, RuleEnd.EXPIRED)))

    def told(self, scope: str) -> list[LoadedRule]:
        """Return the rules that the processes of a scope carry out."""
        return [each.told for each in self if scope in each.scopes and not each.is_about_link]

    def about_links(self) -> list[Loaded]:
        """Return the rules that the injector carries out by itself."""
        return [each for each in self if each.is_about_link]

    def note(self, scope: str, count: RuleCount) -> None:
        """Take in how often a version of a rule acted in a scope so far."""
        counted = self._counted.get((count.rule, count.version))
        if counted is not None:
            counted.counts[scope] = count

    def forget(self, ended: Iterable[Ended]) -> None:
        """Take in no more counts of what has ended."""
        for each in ended:
            self._counted.pop((each.loaded.name, each.loaded.told.version), None)

    def views(self, unreached: Collection[str]) -> list[RuleView]:
        """Return all loaded rules, by name. `unreached` are scopes that do not take their rules."""
        return [self._view(each, unreached) for each in self]

    def _has(self, rule: Rule) -> bool:
        return rule.name in self._rules and self._rules[rule.name].told.rule == rule

    def _load(self, rule: Rule, scopes: Collection[str], lease_ends_at: float | None) -> Loaded:
        # Taken out first, so that names stand in the order of their last use.
        version = self.versions.pop(rule.name, 0) + 1
        self.versions[rule.name] = version
        ends_at = None if rule.for_s is None else self._clock() + rule.for_s
        told = LoadedRule(rule=rule, version=version, loaded_at=now())
        loaded = Loaded(told, tuple(scopes), ends_at, lease_ends_at)
        self._rules[rule.name] = self._counted[rule.name, version] = loaded
        return loaded

    def _end(self, names: Iterable[str], why: RuleEnd) -> list[Ended]:
        return [Ended(self._rules.pop(name), why, now()) for name in names if name in self._rules]

    def _view(self, loaded: Loaded, unreached: Collection[str]) -> RuleView:
        until = loaded.over_at
        return RuleView(
            rule=loaded.told.rule,
            version=loaded.told.version,
            loaded_at=loaded.told.loaded_at,
            until=None if until is None else now() + timedelta(seconds=max(0.0, until - self._clock())),
            scopes=list(loaded.scopes),
            unreached=[scope for scope in loaded.scopes if scope in unreached],
            count=loaded.count,
        )
