"""The supervisor reads the saved mesh again, and goes on where that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
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

    await app._reload(cast("Any", SimpleNamespace(apply=None)), home, read_again.set)

    await asyncio.wait_for(read_again.wait(), 5)
