"""Brings the rules of a scope to their points in this process, and takes them away again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from towpath.contracts.faults import AtPoint, LoadedRule, OnTarget, RuleSet, TargetKind
from towpath.hooks.points import POINTS
from towpath.lab.faults.point_rule import PointRule
from towpath.lab.faults.registry import HeldFault, Target
from towpath.lab.faults.reports import Reports, report_file
from towpath.lab.faults.rule_at_work import ProcessContext, RulesAtWork, TargetRule

_EXECUTOR = "--executor-id"
"""Spark starts every executor with this option, whatever the cluster's manager."""


class ClockRule(TargetRule):
    """One loading of a rule about the clock of this process."""

    def keep(self, *, is_loaded: bool) -> None:
        """Hold its faults if its condition, looked at now, holds. Release them otherwise."""
        # The owner of what the fault holds is the rule, so that two of them add up.
        target = Target(TargetKind.CLOCK, f"{self.event.name} {self.loaded.rule.name}", processes=list)
        wanted = is_loaded and self.holds()
        for fault in self.faults:
            assert isinstance(fault, HeldFault)
            (fault.hold if wanted else fault.release)(target)


class ProcessRules:
    """The rules at work in one process. Used by one thread."""

    def __init__(self, scope: str, process: str, reports: Path) -> None:
        self._reports = Reports(report_file(reports, process))
        self._shared: Mapping[str, float] = {}
        """Figures of the whole mesh, as last told."""
        self._context = ProcessContext(scope, process, lambda key: self._shared.get(key), executor())
        self._rules = RulesAtWork[PointRule | ClockRule](self._take_up)

    def apply(self, rules: RuleSet | None) -> None:
        """Have exactly these rules at work, as far as they are about this process."""
        if rules is not None:
            self._shared = rules.shared
        ended = self._rules.follow(filter(self._concerns, rules.rules if rules is not None else ()))
        for rule in self._rules:
            if isinstance(rule, PointRule) and rules is not None:
                rule.expires_at = rules.expires_at
        self._place(ended)
        self._rules.report(self._reports, at_once=rules is None)

    def _take_up(self, loaded: LoadedRule) -> PointRule | ClockRule:
        if isinstance(loaded.rule.event, OnTarget):
            return ClockRule(loaded, self._context)
        return PointRule(loaded, self._context, self._reports)

    def _concerns(self, loaded: LoadedRule) -> bool:
        where, here = loaded.rule.where, self._context
        if isinstance(loaded.rule.event, OnTarget):
            event = loaded.rule.event
            return event.target is TargetKind.CLOCK and event.name == here.process
        return (
            where.site in (None, here.scope)
            and where.process in (None, here.process)
            and where.worker in (None, here.worker)
        )

    def _place(self, ended: Iterable[PointRule | ClockRule]) -> None:
        """Put each rule where it looks, before those that have ended let go."""
        passing: dict[str, list[PointRule]] = defaultdict(list)
        for rule in self._rules:
            if isinstance(rule, PointRule) and isinstance(rule.loaded.rule.event, AtPoint):
                passing[rule.loaded.rule.event.point.value].append(rule)
        for name, point in POINTS.items():
            point.rules = tuple(passing[name])
        for rule in ended:
            if isinstance(rule, PointRule):
                rule.end()
            else:
                rule.keep(is_loaded=False)
        for rule in self._rules:
            if isinstance(rule, ClockRule):
                rule.keep(is_loaded=True)


def executor() -> str | None:
    """Return the number of the Spark executor that this process belongs to. None outside of a cluster."""
    try:
        for process in psutil.Process().parents():
            command = process.cmdline()
            if _EXECUTOR in command[:-1]:
                return command[command.index(_EXECUTOR) + 1]
    except psutil.Error:
        return None  # A parent has ended, and this process is about to.
    return None
