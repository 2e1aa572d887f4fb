"""`towpath up` waits for the sites, and not longer than it is told."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from towpath.cli import starting
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home


async def test_wait_when_a_question_forgets_the_cancellation_of_the_limit_then_ends_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Home] = []

    async def forgets(home: Home) -> None:
        asked.append(home)
        assert len(asked) < 4, "it goes on asking"
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)

    monkeypatch.setattr(starting, "_ask", forgets)
    monkeypatch.setattr(starting, "_check_supervisor", lambda home: None)
    monkeypatch.setattr(starting, "LOOK_EVERY_S", 0.01)

    with pytest.raises(TowpathError, match="the coordinator does not answer") as late:
        await starting.wait_until_up(Home(tmp_path), ["jfk"], 0.02, lambda text: None)

    assert late.value.detail.code is ErrorCode.DEADLINE
