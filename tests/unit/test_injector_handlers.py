"""Commands that come to the injector at the same time. Without a bus, a mesh or a site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from running.waiting import WITHIN_S
from towpath.contracts.fault_commands import LoadRules, RenewRules, RulesSet, UnloadRules
from towpath.contracts.faults import Rule
from towpath.lab.faults.world import World
from towpath.lab.injector.handlers import InjectorHandlers
from towpath.lab.injector.metrics import Metrics
from towpath.lab.injector.record import InjectorRecord, Recorded
from towpath.lab.injector.rules import Rules
from towpath.tasks import end

SLOW = Rule.model_validate(
    {
        "name": "slow",
        "event": {"point": "operator.event"},
        "actions": [{"fault": "delay", "parameters": {"ms": 10}}],
    }
)


class SlowSurroundings:
    """Shows a mesh without sites, when it may."""

    def __init__(self) -> None:
        self.asked, self.may = asyncio.Event(), asyncio.Event()
        self.may.set()

    async def mesh(self) -> World:
        self.asked.set()
        await self.may.wait()
        return World()

    async def world(self, rules: list[Rule]) -> World:
        return await self.mesh()


class Trial:
    """An injector's handlers."""

    def __init__(self, directory: Path) -> None:
        bus: Any = AsyncMock()
        self.surroundings = SlowSurroundings()
        self.rules = Rules(bus, InjectorRecord(directory / "record.json"), Recorded())
        keeper: Any = AsyncMock()
        keeper.set_rules.return_value = RulesSet(scope="hub")
        surroundings: Any = self.surroundings
        self.handlers = InjectorHandlers(bus, keeper, self.rules, surroundings, Metrics())

    def loaded(self) -> list[str]:
        return [each.name for each in self.rules.loaded]


@pytest.fixture
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    made = Trial(tmp_path)
    yield made
    await made.rules.close()


async def test_unload_when_it_comes_while_the_same_rule_is_being_loaded_then_it_comes_after_it(
    trial: Trial,
) -> None:
    trial.surroundings.may.clear()
    loading = asyncio.create_task(trial.handlers.load(LoadRules(rules=[SLOW])))
    await trial.surroundings.asked.wait()
    unloading = asyncio.create_task(trial.handlers.unload(UnloadRules(names=["slow"])))
    trial.surroundings.may.set()
    try:
        await asyncio.wait_for(asyncio.gather(loading, unloading), WITHIN_S)
    finally:
        await end([loading, unloading])
    assert trial.loaded() == []


async def test_load_when_an_equal_rule_is_unloaded_meanwhile_then_it_is_not_loaded_again(
    trial: Trial,
) -> None:
    await trial.handlers.load(LoadRules(rules=[SLOW]))
    trial.surroundings.may.clear()
    trial.surroundings.asked.clear()
    again = asyncio.create_task(trial.handlers.load(LoadRules(rules=[SLOW], lease_s=5)))
    await trial.surroundings.asked.wait()
    unloading = asyncio.create_task(trial.handlers.unload(UnloadRules(names=["slow"])))
    trial.surroundings.may.set()
    try:
        await asyncio.wait_for(asyncio.gather(again, unloading), WITHIN_S)
    finally:
        await end([again, unloading])
    assert trial.loaded() == []
    assert trial.rules.loaded.versions == {"slow": 1}


async def test_renew_when_the_rule_is_unloaded_already_then_it_stays_unloaded(trial: Trial) -> None:
    await trial.handlers.load(LoadRules(rules=[SLOW], lease_s=5))
    await trial.handlers.unload(UnloadRules(names=["slow"]))
    answer = await trial.handlers.renew(RenewRules(versions={"slow": 1}, lease_s=5))
    assert answer.rules == []
    assert trial.loaded() == []
