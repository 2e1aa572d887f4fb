"""The watch over mirrors looks again soon while an origin is out of reach."""

from __future__ import annotations

import asyncio
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


class Mirrors:
    def __init__(self, *away: set[str]) -> None:
        self.away = [*away]
        """Sites that are out of reach at each look."""
        self.looked_at: list[str] = []

    async def renew(self, entry: ResolvedInput, processed: int) -> bool:
        self.looked_at.append(entry.site)
        if entry.site in self.away[(len(self.looked_at) - 1) // len(INPUTS)]:
            raise TowpathError(ErrorCode.UNREACHABLE, "does not answer")
        return False


async def test_watch_when_an_origin_is_out_of_reach_then_looks_again_soon_and_at_the_others_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirrors = Mirrors(set(), {"train"}, {"train"}, set())
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(pauses) == len(mirrors.away):
            raise asyncio.CancelledError
        pauses.append(seconds)

    monkeypatch.setattr(
        mirror_watch,
        "asyncio",
        SimpleNamespace(sleep=sleep, gather=asyncio.gather, to_thread=asyncio.to_thread),
    )
    jobs = SimpleNamespace(
        streams=SimpleNamespace(site="cloud", mirrors=mirrors),
        assignments={"a": SimpleNamespace(inputs=INPUTS)},
        position=lambda assignment: {},
    )
    with pytest.raises(asyncio.CancelledError):
        await watch(cast("Any", jobs))

    assert pauses == [LOOK_EVERY_S, LOOK_EVERY_S, LOOK_AGAIN_S, LOOK_AGAIN_S]
    assert mirrors.looked_at == ["train", "jfk"] * 4
