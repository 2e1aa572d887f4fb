"""One target rule as its guard sees it: when it acts, on what, and how often it did."""

from __future__ import annotations

from towpath.contracts.faults import LoadedRule, RuleCount
from towpath.lab.faults.registry import StrikingFault
from towpath.lab.faults.rule_at_work import ProcessContext, TargetRule
from towpath.lab.guard.held_record import RuleProgress
from towpath.lab.guard.targets import BY_PROCESS, target_of
from towpath.mesh.home import Home


class GuardedRule(TargetRule):
    """One loading of a rule that a guard carries out."""

    def __init__(
        self, loaded: LoadedRule, context: ProcessContext, home: Home, progress: RuleProgress | None
    ) -> None:
        """`progress` is how far an earlier guard came. Raises `TowpathError` if no guard can carry it out."""
        super().__init__(loaded, context)
        self.actions = loaded.rule.actions
        self.target = target_of(home, self.event)
        self._before = progress or RuleProgress(key=self.key, looked=0, acted=0)
        self.evaluation.resume(self._before.looked, self._before.acted)

    @property
    def progress(self) -> RuleProgress:
        """Its progress, with what earlier guards did."""
        return RuleProgress(key=self.key, looked=self.evaluation.looked, acted=self.evaluation.acted)

    def count(self) -> RuleCount:
        """Return how often it looked and acted in this guard: earlier ones have reported theirs."""
        count, before = super().count(), self._before
        own = {"looked": count.looked - before.looked, "acted": count.acted - before.acted}
        return count.model_copy(update=own)

    def acts(self) -> bool:
        """Return true if it acts now. What has to be there to be struck is waited for without a look."""
        strikes = any(isinstance(fault, StrikingFault) for fault in self.faults)
        if strikes and self.event.target in BY_PROCESS and not self.target.processes():
            return False
        return self.holds()
