"""Courses that once broke an invariant, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from protocol_world import reconcile, trial

from simulation.scenario import Scenario, outcome, parse_scenario
from simulation.weakness import Weakness
from towpath.contracts.errors import TowpathError

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
TEXTS = {path.stem: path.read_text() for path in SCENARIOS}
WEAK = [name for name, text in TEXTS.items() if parse_scenario(text).weak]


@pytest.mark.parametrize("name", TEXTS)
def test_scenario_when_replayed_then_ends_as_expected(name: str) -> None:
    scenario = parse_scenario(TEXTS[name])
    came = outcome(scenario, trial, reconcile)
    for expected in scenario.expected:
        assert any(word.startswith(expected) for word in came), f"{expected} expected, but {came}"


@pytest.mark.parametrize("name", WEAK)
def test_scenario_when_every_party_keeps_its_duties_then_holds(name: str) -> None:
    scenario = parse_scenario(TEXTS[name])
    kept = Scenario(weak=(), lines=scenario.lines, expected=("holds",))
    assert outcome(kept, trial, reconcile)[-1] == "holds"


def test_duties_when_each_is_neglected_then_some_scenario_shows_what_follows() -> None:
    shown = {weakness for text in TEXTS.values() for weakness in parse_scenario(text).weak}
    assert shown == set(Weakness)


@pytest.mark.parametrize(
    "text",
    ["", "expect: holds", "migrate general cloud", "migrate general cloud\nm1-missing: lose\nexpect: holds"],
)
def test_scenario_when_it_cannot_be_played_then_is_refused(text: str) -> None:
    with pytest.raises(TowpathError):
        outcome(parse_scenario(text), trial, reconcile)
