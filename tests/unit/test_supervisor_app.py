"""The supervisor reads the saved mesh again, and goes on where that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.waiting import eventually
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.state import MeshState
from towpath.supervisor import app


async def test_mesh_when_its_configuration_cannot_be_written_then_is_read_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    provision(home, MeshSpec(sites=[SiteSpec(name="jfk")]))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(app, "children", full)
    monkeypatch.setattr(app, "AGAIN_S", 0.0)
    read_again = asyncio.Event()

    nothing = cast("Any", SimpleNamespace(apply=None))
    await app._reload(nothing, home, nothing, read_again.set)

    await asyncio.wait_for(read_again.wait(), 5)


async def test_hub_when_its_port_has_changed_then_machines_join_and_its_server_is_watched_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    state = provision(home, MeshSpec(sites=[SiteSpec(name="jfk")]))
    moved = state.model_copy(update={"spec": state.spec.model_copy(update={"hub_port": 4333})})
    begun: list[str] = []
    at_work: list[str] = []

    async def work(name: str, state: MeshState) -> None:
        begun.append(f"{name} {state.hub_url}")
        at_work.append(begun[-1])
        try:
            await asyncio.Event().wait()
        finally:
            at_work.remove(f"{name} {state.hub_url}")

    monkeypatch.setattr(app, "admit", lambda state, *_: work("admit", state))
    monkeypatch.setattr(app, "_watch_node", lambda node, state, *_: work(node.name, state))
    watch = app._HubWatch(home, cast("Any", None), lambda: None)

    for saved in (state, state, moved):
        await watch.follow(saved)
        await eventually(lambda: len(at_work) == 2)

    assert len(begun) == 4
    assert set(at_work) == {f"admit {moved.hub_url}", f"hub {moved.hub_url}"}
    await watch.end()
    assert at_work == []
