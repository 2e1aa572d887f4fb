"""The condition under which a target has caught up."""

from __future__ import annotations

import pytest

from towpath.monitor.identity_check import LEVEL_LEAST_S, LEVEL_TRIGGERS
from towpath.monitor.progress import CatchUp
from towpath.protocols.strategies.handover import CATCH_UP_S, CATCH_UP_TRIGGERS


def test_target_has_caught_up_when_it_is_where_the_source_was_one_interval_ago() -> None:
    catch_up = CatchUp(["a"], trigger_s=1.0)
    assert not catch_up.observe(0.0, {"a": 10}, {"a": 10})
    assert not catch_up.observe(0.5, {"a": 20}, {"a": 10})
    assert catch_up.observe(1.0, {"a": 30}, {"a": 10})
    assert not catch_up.observe(1.5, {"a": 40}, {"a": 19})
    assert catch_up.observe(1.6, {"a": 40}, {"a": 20})


def test_target_has_caught_up_at_once_when_it_has_worked_and_is_where_the_source_is() -> None:
    catch_up = CatchUp(["a", "b"], trigger_s=60.0)
    assert not catch_up.observe(0.0, {"a": 10, "b": 1}, {"a": 9, "b": 1}, worked=True)
    assert not catch_up.observe(0.5, {"a": 10, "b": 1}, {"a": 10, "b": 1}, worked=False)
    assert catch_up.observe(0.6, {"a": 10, "b": 1}, {"a": 10, "b": 1}, worked=True)


def test_target_has_not_caught_up_when_it_is_behind_in_one_of_two_inputs() -> None:
    catch_up = CatchUp(["a", "b"], trigger_s=0.0)
    catch_up.observe(0.0, {"a": 5, "b": 5}, {})
    assert not catch_up.observe(1.0, {"a": 5, "b": 5}, {"a": 9, "b": 4})
    assert catch_up.observe(2.0, {"a": 5, "b": 5}, {"a": 9, "b": 5})


def test_input_holds_no_one_up_when_the_source_has_processed_nothing_of_it() -> None:
    catch_up = CatchUp(["a", "idle"], trigger_s=0.5)
    catch_up.observe(0.0, {"a": 5}, {"a": 5})
    assert catch_up.observe(1.0, {"a": 5}, {"a": 5})


def test_two_reports_are_too_near_when_the_trigger_interval_is_zero() -> None:
    catch_up = CatchUp(["a"], trigger_s=0.0)
    catch_up.observe(0.0, {"a": 5}, {"a": 5})
    assert not catch_up.observe(0.2, {"a": 5}, {"a": 5})
    assert catch_up.observe(0.3, {"a": 5}, {"a": 5})


def test_distance_is_told_by_input_when_somebody_asks() -> None:
    catch_up = CatchUp(["a", "b"], trigger_s=1.0)
    catch_up.observe(0.0, {"a": 30, "b": 2}, {"a": 12})
    assert catch_up.distances() == {"a": 18, "b": 2}


@pytest.mark.parametrize("trigger_s", [1.0, 20.0, 120.0, 3600.0])
def test_wait_for_a_handover_when_triggers_are_far_apart_then_is_long_enough(trigger_s: float) -> None:
    """The source runs at multiples of its trigger, the target half an interval later."""
    catch_up = CatchUp(["a"], trigger_s)
    batches = [(n / 20, n // 20, (n + 10) // 20 - 1) for n in range(60)]
    caught_up_s = next(
        part * trigger_s
        for part, source, target in batches
        if catch_up.observe(part * trigger_s, {"a": source}, {"a": target})
    )
    level_s = max(LEVEL_TRIGGERS * trigger_s, LEVEL_LEAST_S)
    assert caught_up_s + level_s <= max(CATCH_UP_S, CATCH_UP_TRIGGERS * trigger_s)
