"""Sites of several versions: the coordinator asks of none what its agent cannot do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event
from towpath.contracts.site import Capability, SiteStatus
from towpath.coordinator.sites import Sites
from towpath.mesh.version import installed_version


def heartbeat(site: str, **said: Any) -> SiteStatus:
    """Return a heartbeat as it was before agents told their version, and what this one says beside."""
    example = {name: value for name, value in SiteStatus.example.items() if name not in SAID_SINCE}
    return SiteStatus.model_validate({**example, "site": site, **said})


SAID_SINCE = {"version", "capabilities"}


async def hearing(*heartbeats: SiteStatus) -> Sites:
    async def publish(_: Event) -> None: ...

    settings = SimpleNamespace(sites=["jfk", "cloud"], down_after_s=5.0)
    sites = Sites(cast("Any", settings), publish)
    for each in heartbeats:
        await sites.on_heartbeat(each)
    return sites


async def test_site_when_its_agent_names_what_it_can_do_then_is_asked_for_that_alone() -> None:
    sites = await hearing(
        heartbeat("jfk", version="0.2.0", capabilities=[*Capability, "of-a-later-version"]),
        heartbeat("cloud", version="0.1.1", capabilities=[]),
    )

    sites.check_can("jfk", Capability.STANDBY, "to")
    with pytest.raises(TowpathError, match=r"cloud \(version 0.1.1\)") as refused:
        sites.check_can("cloud", Capability.STANDBY, "to")

    detail = refused.value.detail
    assert (detail.code, detail.field, detail.allowed) == (ErrorCode.NOT_ALLOWED, "to", ["jfk"])


async def test_site_when_its_agent_is_of_before_capabilities_then_is_asked_for_what_those_could_do() -> None:
    sites = await hearing(heartbeat("jfk"))

    sites.check_can("jfk", Capability.STANDBY, "to")

    assert sites.status("jfk").version == ""


def test_version_when_towpath_is_installed_then_is_that_of_the_package() -> None:
    assert installed_version()[0].isdigit()
