"""Brings the rules of a scope to where they look in this process, and takes them away again."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import psutil

from towpath.contracts.faults import (
    AtPoint,
    LoadedRule,
    OnTarget,
    RuleCount,
    RuleSet,
    TargetKind,
)
from towpath.hooks.points import POINTS
from towpath.lab.faults.active import ActiveRule
from towpath.lab.faults.registry import Target
from towpath.lab.faults.reports import Reports
from towpath.lab.faults.surroundings import Surroundings

COUNT_S = 1.0
"""How often counts are reported, at most."""

_EXECUTOR = "--executor-id"
"""Spark starts every executor with this option, whatever the cluster's manager."""

_Key = tuple[str, int, float]


class LoadedRules:
    """The rules at work in one process. Used by one thread."""

    def __init__(self, scope: str, process: str, reports: Path) -> None:
        self._reports = Reports(reports / f"{process}-{os.getpid()}.jsonl")
        self._surroundings = Surroundings(scope, process, executor(), self._reports)
        self._active: dict[_Key, ActiveRule] = {}
        self._refused: dict[_Key, RuleCount] = {}
        """Rules this process does not understand, and what was told of them."""
        self._reported: dict[_Key, RuleCount] = {}
        self._reported_at = 0.0

    def apply(self, rules: RuleSet | None) -> None:
        """Have exactly these rules at work, those that are about this process."""
        wanted: dict[_Key, LoadedRule] = {}
        if rules is not None:
            self._surroundings.shared = rules.shared
            wanted = {_key(each): each for each in rules.rules if self._concerns(each)}
        ended = [self._active.pop(key) for key in list(self._active) if key not in wanted]
        self._refused = {key: count for key, count in self._refused.items() if key in wanted}
        for key, loaded in wanted.items():
            if key not in self._refused:
                self._renew(key, loaded, 0.0 if rules is None else rules.expires_at)
        self._place(ended)
        self._report(ended)

    def _concerns(self, loaded: LoadedRule) -> bool:
        where, here = loaded.rule.where, self._surroundings
        if isinstance(loaded.rule.event, OnTarget):
            event = loaded.rule.event
            return event.target is TargetKind.CLOCK and event.name == here.process
        return (
            where.site in (None, here.scope)
            and where.process in (None, here.process)
            and where.worker in (None, here.worker)
        )

    def _renew(self, key: _Key, loaded: LoadedRule, expires_at: float) -> None:
        rule = self._active.get(key)
        if rule is None:
            try:
                rule = self._active[key] = ActiveRule(loaded, self._surroundings)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                name, version, _ = key
                self._refused[key] = RuleCount(rule=name, version=version, errors=1, last_error=text)
                self._reports.count(self._refused[key])
                return
        rule.expires_at = expires_at

    def _place(self, ended: Iterable[ActiveRule]) -> None:
        """Put each rule where it looks, before those that have ended let go."""
        passing: dict[str, list[ActiveRule]] = defaultdict(list)
        clocks: list[ActiveRule] = []
        for rule in self._active.values():
            match rule.loaded.rule.event:
                case AtPoint(point=point):
                    passing[point.value].append(rule)
                case OnTarget():
                    clocks.append(rule)
        for name, point in POINTS.items():
            point.rules = tuple(passing[name])
        for rule in ended:
            rule.end()
        for rule in [*ended, *clocks]:
            if isinstance(rule.loaded.rule.event, OnTarget):
                rule.keep(_clock(rule, self._surroundings.process))

    def _report(self, ended: Iterable[ActiveRule]) -> None:
        """Tell the counts that changed; those of rules that have ended for the last time."""
        for rule in ended:
            self._count(rule)
            self._reported.pop(_key(rule.loaded), None)
        if monotonic() - self._reported_at >= COUNT_S:
            self._reported_at = monotonic()
            for rule in self._active.values():
                self._count(rule)
        self._reports.flush()

    def _count(self, rule: ActiveRule) -> None:
        key, count = _key(rule.loaded), rule.count()
        if count != self._reported.get(key, count.model_copy(update={"looked": 0, "acted": 0, "errors": 0})):
            self._reported[key] = count
            rule.tell()

    def close(self) -> None:
        """The process ends: tell the last counts."""
        self._reported_at = 0.0
        self._report([])


def _key(loaded: LoadedRule) -> _Key:
    return loaded.rule.name, loaded.version, loaded.loaded_at.timestamp()


def _clock(rule: ActiveRule, process: str) -> Target:
    # The owner of what the fault holds is the rule, so that two of them add up.
    return Target(TargetKind.CLOCK, f"{process} {rule.loaded.rule.name}", lambda: [])


def executor() -> str | None:
    """The number of the Spark executor that this process belongs to; none outside a cluster."""
    try:
        for process in psutil.Process().parents():
            command = process.cmdline()
            if _EXECUTOR in command[:-1]:
                return command[command.index(_EXECUTOR) + 1]
    except psutil.Error:
        return None  # A parent has ended, and this process is about to.
    return None
