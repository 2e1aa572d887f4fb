"""The strategy that `docs/extending/strategy.md` adds works as it says there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from operation_trial import SPEC, Trial, operation, succeeded

from towpath.contracts.commands import OperationState, StrategyName
from towpath.protocols import table
from towpath.protocols.choice import choose
from towpath.protocols.tables import parts

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "strategy.md"
NAME = "stop-first"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> table.Strategy:
    """The page's strategy, registered; its name is on the wire."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setattr(table.TABLES, "registered", dict(table.tables()))
    name = str.__new__(StrategyName, NAME)
    name._value_, name._name_ = NAME, "STOP_FIRST"
    monkeypatch.setitem(StrategyName._value2member_map_, NAME, name)
    module = ModuleType("stop_first")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return table.strategies()[NAME]


def trial() -> Trial:
    """A migration like one by `restart`, but by the page's strategy."""
    return Trial(operation("restart").model_copy(update={"strategy": NAME}))


async def test_strategy_of_the_page_when_nothing_goes_wrong_then_moves_the_job(
    added: table.Strategy,
) -> None:
    moving = trial()
    record = await moving.finish()
    assert succeeded(record)
    assert list(record.begun) == [step.name for step in added.steps]
    moving.check_end(record)


@pytest.mark.parametrize("fault", ["refused", "unheard", "unanswered"])
async def test_strategy_of_the_page_when_a_step_fails_then_completes_or_is_undone(
    added: table.Strategy, fault: str
) -> None:
    for step in added.steps:
        moving = trial()
        getattr(moving, fault).add(f"{moving.record.id}-{step.name}")
        record = await moving.finish()
        assert record.state in (OperationState.COMPLETED, OperationState.ROLLED_BACK)
        moving.check_end(record)


@pytest.mark.parametrize("moment", ["after {} begun", "before {} confirmed", "after {} confirmed"])
async def test_strategy_of_the_page_when_the_coordinator_is_killed_at_a_step_then_the_next_one_completes(
    added: table.Strategy, moment: str
) -> None:
    for step in added.steps:
        moving = trial()
        moving.killed_at = {moment.format(step.name)}
        record = await moving.finish()
        assert moving.killed_at == set(), "the coordinator was not killed"
        assert succeeded(record)
        moving.check_end(record)


def test_strategy_of_the_page_when_asked_for_then_may_be_taken_and_auto_does_not_take_it(
    added: table.Strategy,
) -> None:
    assert choose(SPEC, NAME)[0] is added
    assert choose(SPEC, StrategyName.AUTO)[0] is not added


def test_strategy_of_the_page_when_documented_then_has_a_table_and_a_picture(added: table.Strategy) -> None:
    assert "`ResumeJob(e+1, after_serials)`" in parts()[f"steps of {NAME}"]
    assert "coordinator->>source: 3 halt" in parts()[f"sequence of {NAME}"]
