"""Power and energy of nodes."""

from __future__ import annotations

import pytest

from towpath.contracts.topology import PowerProfile
from towpath.lab.topology.power import NodeMeter, Reading, power_w

PROFILE = PowerProfile(idle_w=5, active_w=15)


@pytest.mark.parametrize(("busy", "watts"), [(0, 5), (0.5, 10), (1, 15), (1.4, 15), (-0.1, 5)])
def test_power_when_so_much_is_busy_then_lies_straight_between_idle_and_active(
    busy: float, watts: float
) -> None:
    assert power_w(PROFILE, busy) == watts


def test_energy_when_a_node_is_half_busy_then_is_power_times_time() -> None:
    meter = NodeMeter(PROFILE)
    for at in range(11):
        meter.take(Reading(float(at), at * 0.25), cpus=0.5)
    assert meter.energy_j == pytest.approx(100)
    assert (meter.up_s, meter.utilisation) == (pytest.approx(10), pytest.approx(0.5))


def test_energy_when_readings_are_missed_then_is_the_same() -> None:
    often, rarely = NodeMeter(PROFILE), NodeMeter(PROFILE)
    taken = [0.0, 0.1, 0.7, 0.8, 1.5, 1.9, 2.0]
    for at, cpu_s in enumerate(taken):
        often.take(Reading(float(at), cpu_s), cpus=1.0)
    for at in (0, 3, 6):
        rarely.take(Reading(float(at), taken[at]), cpus=1.0)
    assert often.energy_j == pytest.approx(rarely.energy_j)


def test_energy_when_a_node_is_away_then_it_draws_nothing_meanwhile() -> None:
    meter = NodeMeter(PROFILE)
    for at, cpu_s in [(0, 10.0), (1, 10.0), (2, None), (60, None), (61, 0.5), (62, 0.5)]:
        meter.take(Reading(float(at), cpu_s), cpus=1.0)
    assert meter.energy_j == pytest.approx(5 + 5)
    assert meter.up_s == pytest.approx(2)


def test_energy_when_a_node_was_restarted_between_two_looks_then_is_never_negative() -> None:
    meter = NodeMeter(PROFILE)
    for at, cpu_s in [(0, 100.0), (2, 1.0), (4, 2.0)]:
        assert meter.take(Reading(float(at), cpu_s), cpus=1.0) >= 0
    assert meter.energy_j == pytest.approx(2 * 10)


def test_power_when_a_node_takes_more_than_its_share_while_it_starts_then_is_active_and_no_more() -> None:
    meter = NodeMeter(PROFILE)
    meter.take(Reading(0.0, 0.0), cpus=0.5)
    assert meter.take(Reading(1.0, 1.9), cpus=0.5) == 15
