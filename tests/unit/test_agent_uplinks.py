"""The uplinks of a site: what the coordinator has set stays, and an earlier set comes too late."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from towpath.agent.uplinks import Uplinks
from towpath.bus.connecting import Login
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.uplink import ReportUplinks, ResolvedUplink, SetUplinks, UplinkSpec


class Streams:
    site = "train"


def uplinks_at(directory: Path) -> Uplinks:
    return Uplinks(cast("Any", Streams()), directory, Login("nats://127.0.0.1:1", "u", "p"))


def wanted(revision: int, *names: str) -> SetUplinks:
    specs = [UplinkSpec(name=name, site="train", topic="a", to="cloud") for name in names]
    sends = [ResolvedUplink(spec=spec, stream="OUT_a") for spec in specs]
    return SetUplinks(site="train", revision=revision, sends=sends)


async def test_set_when_the_agent_starts_again_then_it_is_still_there(tmp_path: Path) -> None:
    await uplinks_at(tmp_path).set_uplinks(wanted(3, "axles"))

    again = uplinks_at(tmp_path)

    assert (await again.report(ReportUplinks(site="train"))).revision == 3


async def test_set_of_an_earlier_revision_when_it_comes_late_then_it_is_refused(tmp_path: Path) -> None:
    uplinks = uplinks_at(tmp_path)
    await uplinks.set_uplinks(wanted(3, "axles"))

    with pytest.raises(TowpathError) as refused:
        await uplinks.set_uplinks(wanted(2))

    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED
    assert refused.value.detail.field == "revision"


async def test_set_when_it_is_repeated_then_nothing_is_written(tmp_path: Path) -> None:
    uplinks = uplinks_at(tmp_path)
    await uplinks.set_uplinks(wanted(3, "axles"))
    before = (tmp_path / "set.json").stat().st_mtime_ns

    await uplinks.set_uplinks(wanted(3, "axles"))

    assert (tmp_path / "set.json").stat().st_mtime_ns == before
