"""Rules reach their scopes at once and again and again, but not while a scope does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import RulesSet, SetRules
from towpath.contracts.faults import Rule, RuleCount
from towpath.lab.injector import courier
from towpath.lab.injector.distribution import Distribution
from towpath.lab.injector.loaded import LoadedRules


class Scope:
    """An agent that takes rules, or does not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.letters: list[SetRules] = []
        self.away = False
        self.measured: dict[str, float] = {}
        self.counts: list[RuleCount] = []

    async def deliver(self, letter: SetRules) -> RulesSet:
        if self.away:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")
        self.letters.append(letter)
        return RulesSet(scope=self.name, counts=self.counts, measured=self.measured)

    @property
    def rules(self) -> list[str]:
        return [told.rule.name for told in self.letters[-1].rules]


def rule(name: str, condition: str = "true") -> Rule:
    return Rule.model_validate(
        {
            "name": name,
            "event": {"point": "operator.event"},
            "condition": condition,
            "actions": [{"fault": "delay", "parameters": {"ms": 10}}],
        }
    )


class Trial:
    """Two sites, and the rules loaded for them."""

    def __init__(self) -> None:
        self.loaded = LoadedRules()
        self.distribution = Distribution(self.loaded, 1_000, self.loaded.note)
        self.jfk, self.lga = Scope("jfk"), Scope("lga")
        for scope in (self.jfk, self.lga):
            self.distribution.add(scope.name, scope.deliver)

    async def load(self, given: Rule, *scopes: str) -> None:
        change = self.loaded.load({given.name: (given, scopes)}, None)
        self.distribution.changed(change.scopes)
        await self.distribution.settled(change.scopes)

    async def unload(self) -> None:
        change = self.loaded.unload(None)
        self.distribution.changed(change.scopes)
        await self.distribution.settled(change.scopes)


@pytest.fixture
async def trial(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Trial]:
    for name, seconds in {"RENEW_S": 0.05, "RETRY_S": 0.02, "LAST_COUNTS_S": 0.1, "ATTEMPT_S": 0.3}.items():
        monkeypatch.setattr(courier, name, seconds)
    trial = Trial()
    await trial.distribution.settled(["jfk", "lga"])
    yield trial
    await trial.distribution.close()


async def test_every_scope_is_told_first_that_there_are_no_rules(trial: Trial) -> None:
    assert (trial.jfk.rules, trial.lga.rules) == ([], [])


async def test_only_scopes_of_a_rule_are_told_when_it_is_loaded(trial: Trial) -> None:
    before = len(trial.lga.letters)
    await trial.load(rule("slow"), "jfk")
    assert trial.jfk.rules == ["slow"]
    assert len(trial.lga.letters) == before


async def test_rules_are_renewed_under_the_same_revision_until_they_are_unloaded(trial: Trial) -> None:
    await trial.load(rule("slow"), "jfk")
    told = len(trial.jfk.letters)
    await eventually(lambda: len(trial.jfk.letters) > told + 3)
    assert len({letter.revision for letter in trial.jfk.letters[told - 1 :]}) == 1
    await trial.unload()
    assert trial.jfk.rules == []
    assert trial.jfk.letters[-1].revision > trial.jfk.letters[told].revision


async def test_nothing_is_sent_any_more_when_no_rule_is_left(trial: Trial) -> None:
    await trial.load(rule("slow"), "jfk")
    await trial.unload()
    quiet_s = 4 * courier.RENEW_S + courier.LAST_COUNTS_S

    async def is_quiet() -> bool:
        before = len(trial.jfk.letters)
        await asyncio.sleep(quiet_s)
        return len(trial.jfk.letters) == before

    await eventually(is_quiet)


async def test_revision_of_a_scope_stays_when_only_another_changes(trial: Trial) -> None:
    await trial.load(rule("slow"), "jfk")
    revision = trial.jfk.letters[-1].revision
    await trial.load(rule("loss"), "lga")
    told = len(trial.jfk.letters)
    await eventually(lambda: len(trial.jfk.letters) > told + 1)
    assert trial.jfk.letters[-1].revision == revision


async def test_scope_that_is_away_is_named_and_gets_its_rules_when_it_answers_again(trial: Trial) -> None:
    trial.lga.away = True
    await trial.load(rule("slow"), "jfk", "lga")
    assert trial.distribution.unreached == {"lga"}
    assert trial.jfk.rules == ["slow"]
    trial.lga.away = False
    await eventually(lambda: trial.lga.rules == ["slow"])
    await eventually(lambda: not trial.distribution.unreached)


async def test_rules_end_where_no_one_answered_when_the_scope_is_back_after_they_were_unloaded(
    trial: Trial,
) -> None:
    await trial.load(rule("slow"), "lga")
    trial.lga.away = True
    await trial.unload()
    assert trial.lga.rules == ["slow"]
    trial.lga.away = False
    await eventually(lambda: trial.lga.rules == [])


async def test_counts_reach_the_rule_when_a_scope_answers(trial: Trial) -> None:
    await trial.load(rule("slow"), "jfk")
    trial.jfk.counts = [RuleCount(rule="slow", version=1, looked=12, acted=3)]
    await eventually(lambda: trial.loaded.views(())[0].count.acted == 3)


async def test_what_a_condition_asks_of_another_scope_is_measured_there_and_passed_on(trial: Trial) -> None:
    trial.jfk.measured = {"cpu_percent": 81.5, "memory_percent": 40.0}
    await trial.load(rule("slow", 'cpu_percent("jfk") > 80.0'), "lga")
    await eventually(lambda: trial.lga.letters[-1].shared == {"cpu_percent(jfk)": 81.5})
    # The name alone makes jfk measure, though no rule of its own asks.
    assert trial.jfk.rules == []
    assert "cpu_percent(jfk)" in trial.jfk.letters[-1].shared
    await trial.unload()
    await eventually(lambda: trial.jfk.letters[-1].shared == {})
    assert trial.distribution.shared == {}


async def test_what_a_condition_asks_of_its_own_scope_is_told_to_each_by_its_name(trial: Trial) -> None:
    trial.jfk.measured, trial.lga.measured = {"cpu_percent": 10.0}, {"cpu_percent": 20.0}
    await trial.load(rule("slow", "cpu_percent(site) > 80.0"), "jfk", "lga")
    await eventually(lambda: trial.jfk.letters[-1].shared.get("cpu_percent(jfk)") == 10.0)
    await eventually(lambda: trial.lga.letters[-1].shared.get("cpu_percent(lga)") == 20.0)


async def test_load_does_not_wait_for_ever_when_a_scope_does_not_answer(trial: Trial) -> None:
    async def never(letter: SetRules) -> Any:
        await asyncio.Event().wait()

    trial.distribution.add("cloud", never)
    async with asyncio.timeout(WITHIN_S):
        await trial.load(rule("slow"), "cloud")
    assert trial.distribution.unreached == {"cloud"}
