"""When a source ends what it sends. Redis, the engine and the checkpoint are played."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.agent import roles as roles_module
from towpath.agent.roles import Roles
from towpath.checkpoints.transfer import Sent
from towpath.contracts.errors import TowpathError
from towpath.contracts.migration import ResetRole, ShipCheckpoint, Shipped
from towpath.tasks import end

SHIP = ShipCheckpoint(site="jfk", operation="m1", job="hourly", rounds=1)
RESET = ResetRole(site="jfk", operation="m1", job="hourly", keep_job=True)
SENT = Sent(files=1, state_bytes=10, inventory={"a": "1"}, digest="d")


class Copying:
    """A shipment whose copy takes until `may_go_on`, in a thread, as a large one does."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.copies, self.send = 0, AsyncMock(return_value=SENT)

    def shipment(self, checkpoint: Path, directory: Path) -> Any:
        return MagicMock(renew=self.renew, copy=directory / "copy", keep_every_s=0.5)

    def renew(self) -> int:
        self.copies += 1
        self.begun.set()
        self.may_go_on.wait(WITHIN_S)
        return 7


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Copying:
    played = Copying()
    monkeypatch.setattr(roles_module, "send", played.send)
    return played


@pytest.fixture
def roles(tmp_path: Path, copying: Copying) -> Roles:
    jobs: Any = MagicMock(assignments={})
    jobs.store.checkpoints.shipment = copying.shipment
    jobs.store.checkpoints.paused.return_value = MagicMock(serials={"IN": 5})
    jobs.lock.side_effect = lambda job: nullcontext()
    jobs.store.outgoing.return_value = tmp_path / "outgoing"
    return Roles("jfk", jobs, AsyncMock(), AsyncMock())


async def begun(copying: Copying) -> None:
    assert await asyncio.to_thread(copying.begun.wait, WITHIN_S)
    copying.begun.clear()


def is_called_off(job: str) -> bool:
    return any(task.get_name() == f"send {job}" and task.cancelling() for task in asyncio.all_tasks())


async def test_shipment_when_called_off_while_it_copies_then_ends_without_sending(
    roles: Roles, copying: Copying
) -> None:
    shipping = asyncio.create_task(roles.ship_checkpoint(SHIP))
    await begun(copying)
    resetting = asyncio.create_task(roles.reset(RESET))
    try:
        await eventually(lambda: is_called_off(SHIP.job))
        copying.may_go_on.set()
        await asyncio.wait_for(resetting, WITHIN_S)
        with pytest.raises(TowpathError, match="was cancelled"):
            await asyncio.wait_for(shipping, WITHIN_S)
    finally:
        copying.may_go_on.set()
        await end([shipping, resetting])
    copying.send.assert_not_awaited()


async def test_shipment_when_that_of_an_earlier_migration_still_copies_then_begins_after_its_end(
    roles: Roles, copying: Copying
) -> None:
    earlier = asyncio.create_task(roles.ship_checkpoint(SHIP))
    await begun(copying)
    later = asyncio.create_task(roles.ship_checkpoint(SHIP.model_copy(update={"operation": "m2"})))
    try:
        await asyncio.sleep(0)
        assert copying.copies == 1
        copying.may_go_on.set()
        with pytest.raises(TowpathError, match="was cancelled"):
            await asyncio.wait_for(earlier, WITHIN_S)
        assert isinstance(await asyncio.wait_for(later, WITHIN_S), Shipped)
    finally:
        copying.may_go_on.set()
        await end([earlier, later])
