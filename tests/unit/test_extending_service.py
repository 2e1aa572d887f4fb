"""The service that `docs/extending/service.md` adds works as it says there."""

from __future__ import annotations

import asyncio
import logging
import re
import runpy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from service_trial import CHECKS, Check, home_in, mesh_in

from towpath.contracts.site import SiteStatus
from towpath.mesh import service_table

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "service.md"
NAME = "census"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service_table.Service:
    """The page's service, registered; its program can be imported."""
    files = re.findall(r"`([\w/]+\.py)`:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, code in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    monkeypatch.setattr(service_table.SERVICES, "registered", dict(service_table.services()))
    monkeypatch.syspath_prepend(tmp_path / "services")
    for module in ("towpath.census", "towpath.census.app", "towpath.census.settings"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    runpy.run_path(str(tmp_path / "libs/towpath/mesh/services/census.py"))
    return service_table.services()[NAME]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_service_of_the_page_when_checked_then_is_complete(
    added: service_table.Service, check: Check, tmp_path: Path
) -> None:
    check(added, home_in(tmp_path))


async def test_service_of_the_page_when_heartbeats_come_then_logs_how_many_sites_are_up(
    added: service_table.Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, stop = import_module(f"{added.module}.app"), asyncio.Event()
    mesh_in(home_in(tmp_path))
    settings = import_module(f"{added.module}.settings").CensusSettings.from_home(home_in(tmp_path).root)
    heard = [SiteStatus.model_validate({**SiteStatus.example, "site": site}) for site in ("jfk", "cloud")]

    async def subscribe(kind: type[SiteStatus], hear: Callable[[SiteStatus], Awaitable[None]]) -> None:
        for status in heard:
            await hear(status)
        stop.set()

    @asynccontextmanager
    async def at_hub(*of: Any) -> AsyncIterator[Any]:
        assert of == (settings, stop)
        yield SimpleNamespace(subscribe=subscribe)

    monkeypatch.setattr(app, "at_hub", at_hub)
    with caplog.at_level(logging.INFO):
        await app.run(settings, stop)
    assert settings.hub_user == "hub.census"
    assert caplog.messages == ["1 of 1 sites are up", "2 of 2 sites are up"]
