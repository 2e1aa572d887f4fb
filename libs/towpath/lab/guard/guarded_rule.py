"""One target rule as its guard sees it: when it acts, on what, and how often it did."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import LoadedRule, OnTarget, RuleCount
from towpath.lab.faults.conditions import Evaluation
from towpath.lab.faults.registry import Fault, StrikingFault, made
from towpath.lab.guard.held_record import Progress, RuleKey
from towpath.lab.guard.scopes import guard_name
from towpath.lab.guard.targets import BY_PROCESS, target_of
from towpath.mesh.home import Home

ERROR_CHARACTERS = 300

Shared = Callable[[str], float | None]


class GuardedRule:
    """A rule, with its condition compiled and its faults made."""

    def __init__(
        self, loaded: LoadedRule, home: Home, scope: str, shared: Shared, progress: Progress | None
    ) -> None:
        """Raises `TowpathError` when the rule cannot be carried out."""
        rule = loaded.rule
        assert isinstance(rule.event, OnTarget), "a guard is told of rules with a target only"
        self.key = RuleKey.of(loaded)
        self.event = rule.event
        self.actions = rule.actions
        self.target = target_of(home, rule.event)
        random = Random(rule.seed)
        self.faults: list[Fault] = [
            made(action, rule.event.target.value, random, f"actions.{place}")
            for place, action in enumerate(rule.actions)
        ]
        self.count = RuleCount(rule=rule.name, version=loaded.version)
        self._fields: dict[str, Any] = {
            "target": rule.event.target.value,
            "name": rule.event.name,
            "site": scope,
            "process": guard_name(scope),
        }
        self._evaluation = Evaluation(rule, loaded_at=loaded.loaded_at.timestamp(), shared=shared)
        self._before = progress or Progress(key=self.key, looked=0, acted=0)
        """How far an earlier guard has come with it."""
        if progress is not None:
            self._evaluation.resume(progress.looked, progress.acted)

    @property
    def progress(self) -> Progress:
        """How far it has come, with what earlier guards did."""
        looked, acted = self._before.looked + self.count.looked, self._before.acted + self.count.acted
        return Progress(key=self.key, looked=looked, acted=acted)

    def acts(self) -> bool:
        """Look once: whether it acts now. A condition that fails counts as one that does not hold.

        What has to be there to be struck is waited for: meanwhile the rule does not look.
        """
        strikes = any(isinstance(fault, StrikingFault) for fault in self.faults)
        if strikes and self.event.target in BY_PROCESS and not self.target.processes():
            return False
        holds = False
        try:
            holds = self._evaluation.holds(self._fields)
        except Exception as error:  # Whatever a condition does wrong: the rule is wrong, not the guard.
            self.failed(error)
        self._add(looked=1, acted=int(holds))
        return holds

    def failed(self, error: Exception) -> None:
        """Count an error, of the condition or of a fault."""
        text = error.detail.one_line() if isinstance(error, TowpathError) else repr(error)
        self._add(errors=1)
        self.count = self.count.model_copy(update={"last_error": text[:ERROR_CHARACTERS]})

    def _add(self, **more: int) -> None:
        sums = {name: getattr(self.count, name) + number for name, number in more.items()}
        self.count = self.count.model_copy(update=sums)
