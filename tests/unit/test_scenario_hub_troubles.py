"""Troubles of the hub: the data that Redis has after it was killed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.scenario_strikes import HubTrouble
from towpath.lab.scenarios.hub_troubles import armed_trouble
from towpath.mesh.home import Home


async def test_redis_when_it_comes_from_yesterday_then_has_the_data_of_that_moment_and_its_configuration(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    data = home.redis / "appendonlydir"
    data.mkdir(parents=True)
    (home.redis / "redis.conf").write_text("as it is today")
    (data / "1.aof").write_text("yesterday")
    stage: Any = SimpleNamespace(home=home)
    async with AsyncExitStack() as exits:
        trouble = await armed_trouble(stage, HubTrouble.REDIS_FROM_YESTERDAY, exits)
        (data / "1.aof").write_text("today")
        (data / "2.aof").write_text("today")

        await trouble()

    assert [path.name for path in data.iterdir()] == ["1.aof"]
    assert (data / "1.aof").read_text() == "yesterday"
    assert (home.redis / "redis.conf").read_text() == "as it is today"


async def test_second_coordinator_when_it_never_led_then_no_harm_was_done_and_that_is_told(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.logs.mkdir()
    stage: Any = SimpleNamespace(home=home)
    async with AsyncExitStack() as exits:
        trouble = await armed_trouble(stage, HubTrouble.SECOND_COORDINATOR, exits)
        with pytest.raises(TowpathError, match="ended with exit code 2"):
            await trouble()
