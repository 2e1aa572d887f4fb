"""The watch over mirrors looks again soon while an origin is out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.agent import mirror_watch
from towpath.agent.mirror_watch import LOOK_AGAIN_S, LOOK_EVERY_S, watch
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedInput

INPUTS = [
    ResolvedInput(name=f"{site}/a", site=site, stream="OUT_a", subject=None, from_device=False)
    for site in ("train", "jfk")
]


EACH_S = round(LOOK_EVERY_S / LOOK_AGAIN_S)
"""Seconds between two looks, while all is well."""


class Mirrors:
    def __init__(self, looks: int, away: Collection[int] = (), stalled: Collection[int] = ()) -> None:
        self.looks = looks
        """Looks after which the trial ends."""
        self.away = away
        """Looks at which the train is out of reach."""
        self.stalled = stalled
        """Seconds at which a mirror is not fed."""
        self.looked_at: list[str] = []
        self.looked_after: list[int] = []
        """Seconds that had passed at each look."""
        self.passed = 0

    async def sleep(self, seconds: float) -> None:
        if len(self.looked_after) == self.looks:
            raise asyncio.CancelledError
        self.passed += round(seconds / LOOK_AGAIN_S)

    async def are_stalled(self, inputs: Sequence[ResolvedInput]) -> bool:
        assert inputs == INPUTS
        return self.passed in self.stalled

    async def renew(self, entry: ResolvedInput, processed: int) -> bool:
        self.looked_at.append(entry.site)
        if entry.site == "jfk":
            return False
        self.looked_after.append(self.passed)
        if len(self.looked_after) - 1 in self.away:
            raise TowpathError(ErrorCode.UNREACHABLE, "does not answer")
        return False


async def watched(
    mirrors: Mirrors,
    monkeypatch: pytest.MonkeyPatch,
    position: Callable[[Any], dict[str, int]] = lambda assignment: {},
) -> None:
    own = SimpleNamespace(sleep=mirrors.sleep, gather=asyncio.gather, to_thread=asyncio.to_thread)
    monkeypatch.setattr(mirror_watch, "asyncio", own)
    jobs = SimpleNamespace(
        streams=SimpleNamespace(site="cloud", mirrors=mirrors),
        assignments={"a": SimpleNamespace(inputs=INPUTS)},
        position=position,
    )
    with pytest.raises(asyncio.CancelledError):
        await watch(cast("Any", jobs))


async def test_watch_when_an_origin_is_out_of_reach_then_looks_again_soon_and_at_the_others_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirrors = Mirrors(looks=4, away={1, 2})

    await watched(mirrors, monkeypatch)

    assert mirrors.looked_after == [EACH_S, 2 * EACH_S, 2 * EACH_S + 1, 2 * EACH_S + 2]
    assert mirrors.looked_at == ["train", "jfk"] * 4


async def test_watch_when_a_mirror_is_not_fed_then_looks_at_its_origin_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirrors = Mirrors(looks=4, stalled={2, 3})

    await watched(mirrors, monkeypatch)

    assert mirrors.looked_after == [2, 3, 3 + EACH_S, 3 + 2 * EACH_S]


async def test_watch_when_a_checkpoint_is_just_changing_then_its_mirrors_are_looked_at_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirrors, asked = Mirrors(looks=1), list[Any]()

    def position(assignment: Any) -> dict[str, int]:
        asked.append(assignment)
        if len(asked) == 1:
            raise FileNotFoundError("offsets/7")
        return {}

    await watched(mirrors, monkeypatch, position)

    assert mirrors.looked_after == [2 * EACH_S]
