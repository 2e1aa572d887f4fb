"""The choices of a seed: the same seed gives the same run."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from test_scenario_reading import document

from towpath.contracts.errors import TowpathError
from towpath.lab.scenarios.reading import LIBRARY, read, read_document
from towpath.lab.scenarios.variation import varied

VARY = [
    {"path": "timeline.0.at", "between": [0.5, 3.5]},
    {"path": "load.0.rate", "between": [50, 200]},
    {"path": "timeline.0.load.0.actions.0.fault", "one_of": ["drop", "duplicate"]},
]


def chosen(seed: int, **changes: Any) -> dict[str, Any]:
    return varied(document(vary=VARY, **changes), seed)[1]


def test_seed_when_the_same_then_chooses_the_same() -> None:
    assert chosen(7) == chosen(7)
    assert varied(document(vary=VARY), 7)[0] == varied(document(vary=VARY), 7)[0]


def test_seeds_when_different_then_choose_differently() -> None:
    assert len({str(chosen(seed)) for seed in range(1, 20)}) > 15


def test_choice_when_between_two_numbers_then_lies_between_them_and_is_in_the_scenario() -> None:
    for seed in range(1, 30):
        scenario, picked = varied(document(vary=VARY), seed)
        assert 0.5 <= picked["timeline.0.at"] <= 3.5
        assert scenario.timeline[0].at == picked["timeline.0.at"]
        assert scenario.load[0].rate == picked["load.0.rate"]


def test_seed_zero_when_used_then_everything_is_as_written() -> None:
    scenario, picked = varied(document(vary=VARY), 0)
    assert picked == {}
    assert scenario.timeline[0].at == 2.0


def test_document_when_varied_then_is_not_changed_itself() -> None:
    before = document(vary=VARY)
    varied(before, 3)
    assert before == document(vary=VARY)


def test_rules_when_they_have_no_seed_then_get_one_from_the_run() -> None:
    def seed_of(seed: int) -> int:
        rules = varied(document(), seed)[0].timeline[0].load
        assert rules is not None
        return rules[0].seed

    assert seed_of(4) == seed_of(4)
    assert seed_of(4) != seed_of(5)


@pytest.mark.parametrize("path", ["timeline.3.at", "nothing.0.at", "timeline.0.at.deeper", "timeline.x.at"])
def test_path_when_it_leads_nowhere_then_is_refused_with_its_place(path: str) -> None:
    with pytest.raises(TowpathError) as refused:
        varied(document(vary=[{"path": path, "one_of": [1]}]), 3)
    assert (refused.value.detail.field, refused.value.detail.value) == ("vary.0.path", path)


def test_choice_when_it_makes_the_scenario_invalid_then_is_refused() -> None:
    with pytest.raises(TowpathError) as refused:
        varied(document(vary=[{"path": "load.0.site", "one_of": ["mars"]}]), 3)
    assert refused.value.detail.field == "load.0.site"


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_scenario_when_varied_by_any_seed_then_stays_valid(name: str) -> None:
    document, expected = read_document(name), read(name).name
    for seed in range(12):
        scenario, _ = varied(deepcopy(document), seed, name)
        assert scenario.name == expected
