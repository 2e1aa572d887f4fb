"""The guard of a scope: carries out its rules about processes, machine, disks and containers.

It is a process of its own because what renews the rules may be what they hit. It looks about four times a
second: at the file of rules, whose lease may be over, and at every rule's condition. It can be killed at any
line: what it holds is in its record, or ends with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from threading import Event

from towpath.contracts.faults import LoadedRule, TargetKind
from towpath.lab.faults.registry import Fault, HeldFault, StrikingFault
from towpath.lab.faults.reports import Reports, report_file
from towpath.lab.faults.rule_at_work import ProcessContext, RuleKey, RulesAtWork
from towpath.lab.faults.rule_set_file import RuleSetFile
from towpath.lab.guard.guarded_rule import GuardedRule
from towpath.lab.guard.held_record import Held, HeldRecord, ProgressRecord
from towpath.lab.guard.process import guard_name, held_path, progress_path
from towpath.lab.guard.sentinel import Sentinel
from towpath.lab.guard.targets import is_guarded
from towpath.lab.guard.undoing import undo
from towpath.lab.guard.watchdog import Watchdog
from towpath.mesh.home import Home
from towpath.processes.record import ProcessIdentity

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
IDLE_S = 3.0
"""Without anything to do, before a guard ends: rules are often loaded one after the other."""

LAST_RELEASES_S = 1.0
"""For a guard that is to end and cannot release something: the next one finds it in the record."""


class Guard:
    """Carries out the rules of one scope that have a target. Use it in one thread, and only one a scope."""

    def __init__(self, home: Home, scope: str, sentinel: Sentinel | None = None) -> None:
        """With a sentinel, this guard is restarted when it is killed while it holds something."""
        self._home = home
        self._scope = scope
        self._sentinel = sentinel
        self._file = RuleSetFile(home.fault_rules(scope))
        self._shared: Mapping[str, float] = {}
        """Figures of the whole mesh, as last told."""
        self._context = ProcessContext(scope, guard_name(scope), lambda key: self._shared.get(key))
        self._watchdog = Watchdog(home, scope)
        self._record = HeldRecord(held_path(home, scope))
        self._progress = ProgressRecord(progress_path(home, scope))
        self._rules = RulesAtWork(self._take_up)
        self._faults: dict[tuple[RuleKey, int], Fault] = {}
        """Those that hold something since this guard began."""
        self._unreleased: set[tuple[RuleKey, int]] = set()
        """Those that could not be released, which was logged."""
        self._reports = Reports(report_file(home.fault_reports(scope), guard_name(scope)))

    def run(self, stop: Event) -> None:
        """Look until `stop` is set, or nothing has been left for a while. Releases everything in the end."""
        idle_since = time.monotonic()
        while not stop.is_set() and time.monotonic() - idle_since < IDLE_S:
            try:
                if self.look():
                    idle_since = time.monotonic()
            except OSError as error:
                log.error("rules of %s: %s", self._scope, error)
                idle_since = time.monotonic()
            stop.wait(LOOK_EVERY_S)
        self.release_all()

    def look(self) -> bool:
        """Carry out what the rules say now. Returns whether any are loaded, or anything is held.

        Raises `OSError` when it cannot be written down that something is released: it is once more.
        """
        self._follow()
        acting = [rule for rule in self._rules if rule.acts()]
        # Releases first: what another rule holds, too, is held again at once.
        self._release_all_but({rule.key for rule in acting})
        for rule in acting:
            self._act(rule)
        self._rules.report(self._reports)
        return len(self._rules) > 0 or len(self._record) > 0

    def release_all(self) -> None:
        """End everything that is held, as far as that is possible now."""
        end = time.monotonic() + LAST_RELEASES_S
        while True:
            self._release_all_but(set())
            if not len(self._record) or time.monotonic() > end:
                break
            time.sleep(LOOK_EVERY_S)
        self._rules.report(self._reports, at_once=True)
        if self._sentinel is not None:
            self._sentinel.dismiss()

    def _follow(self) -> None:
        """Take up rules that came, drop those that went."""
        told = self._file.rules()
        self._shared = told.shared if told is not None else self._shared
        loaded = [each for each in told.rules if is_guarded(each, self._scope)] if told is not None else []
        self._rules.follow(loaded)
        if loaded:
            # Only then: a lease that was over for a moment must not make `once` happen again.
            self._progress.keep_only({RuleKey.of(each) for each in loaded})

    def _take_up(self, loaded: LoadedRule) -> GuardedRule:
        rule = GuardedRule(loaded, self._context, self._home, self._progress.get(RuleKey.of(loaded)))
        log.info(
            "rule %s, version %d: %s %s", rule.key.rule, rule.key.version, rule.event.target, rule.event.name
        )
        return rule

    def _act(self, rule: GuardedRule) -> None:
        for place, fault in enumerate(rule.faults):
            try:
                # First of all: what cannot be written down is not done.
                self._progress.put(rule.progress)
                held = self._record.get(rule.key, place) or self._begin(rule, place)
                if rule.event.target is TargetKind.CONTAINER:
                    self._watchdog.keep()  # Other containers outlive this process.
                if isinstance(fault, StrikingFault):
                    self._strike(rule, held, fault)
                elif isinstance(fault, HeldFault):
                    self._hold(rule, held, fault)
            except Exception as error:  # Whatever goes wrong with one: others go on.
                log.exception("rule %s: %s failed", rule.key.rule, fault.name)
                rule.failed(error)

    def _begin(self, rule: GuardedRule, place: int) -> Held:
        action = rule.actions[place]
        log.info("rule %s: %s of %s", rule.key.rule, action.fault, rule.event.name)
        remembered = self._record.remembered_by_others(rule.event, action.fault)
        return Held(key=rule.key, place=place, target=rule.event, action=action, remembered=remembered)

    def _strike(self, rule: GuardedRule, struck: Held, fault: StrikingFault) -> None:
        # Should this fail, or the guard be killed meanwhile, it is finished at a later look.
        self._record.put(struck)
        if self._sentinel is not None:
            self._sentinel.keep()
        fault.strike(rule.target)
        self._record.remove(struck)

    def _hold(self, rule: GuardedRule, before: Held, fault: HeldFault) -> None:
        remembered = dict(fault.remember(rule.target, before.remembered))
        known = [each for each in before.processes if each.process is not None]
        found = [ProcessIdentity.of(process) for process in rule.target.processes()]
        processes = known + [each for each in found if each not in known]
        self._record.put(before.model_copy(update={"processes": processes, "remembered": remembered}))
        if self._sentinel is not None:
            self._sentinel.keep()
        self._faults[before.key, before.place] = fault
        fault.hold(replace(rule.target, remembered=remembered))

    def _release_all_but(self, keys: set[RuleKey]) -> None:
        for held in self._record.all():
            if held.key not in keys:
                self._release(held)
        if not len(self._record) and self._sentinel is not None:
            self._sentinel.dismiss()

    def _release(self, held: Held) -> None:
        """End what is held, also what an earlier guard held. What fails is tried again at the next look."""
        try:
            undo(self._home, held, self._faults.get((held.key, held.place)))
        except Exception:
            if (held.key, held.place) not in self._unreleased:
                self._unreleased.add((held.key, held.place))
                log.exception("rule %s: %s is not released yet", held.key.rule, held.action.fault)
            return
        self._unreleased.discard((held.key, held.place))
        self._faults.pop((held.key, held.place), None)
        self._record.remove(held)
