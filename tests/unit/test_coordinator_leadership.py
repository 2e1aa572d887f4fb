"""Whom a spare coordinator waits for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from towpath.contracts.coordinators import Coordinators
from towpath.contracts.message import now
from towpath.coordinator import leadership
from towpath.coordinator.app import _gives_way
from towpath.coordinator.leadership import leader_is_silent


class LeaderElsewhere:
    """A bus on which one coordinator answers."""

    def __init__(self, leader: str) -> None:
        self._leader = leader

    async def request(self, command: Any, **_: Any) -> Coordinators:
        await asyncio.sleep(0)
        return Coordinators(leader=self._leader, term=1, since=now(), spares=[])


@pytest.mark.parametrize(
    ("number", "leader", "waits"),
    [
        (2, "coordinator", True),
        (4, "coordinator", True),
        (5, "coordinator-4", True),
        (1, "coordinator-4", False),
        (2, "coordinator-4", False),
    ],
)
async def test_coordinator_when_another_leads_then_waits_unless_that_is_a_spare_with_less(
    monkeypatch: pytest.MonkeyPatch, number: int, leader: str, waits: bool
) -> None:
    monkeypatch.setattr(leadership, "ASK_EVERY_S", 0.001)
    bus: Any = LeaderElsewhere(leader)
    waiting = leader_is_silent(
        bus,
        f"coordinator-{number}",
        is_first=number == 1,
        silence_s=0.05,
        gives_way_to=lambda found: _gives_way(number, found),
    )

    has_waited = False
    try:
        async with asyncio.timeout(0.3):
            await waiting
    except TimeoutError:
        has_waited = True

    assert has_waited == waits
