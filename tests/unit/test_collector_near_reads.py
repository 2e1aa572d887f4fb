"""Reads of far sites: planned from measured latencies, with copies that live as long as they pay."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from towpath.collector.near_reads import MEASURED_S, NearReads, PlannedRead
from towpath.collector.site_records import SiteRecords
from towpath.contracts.metrics import Sample
from towpath.contracts.site import SiteStatus
from towpath.contracts.storage import StorageSpec
from towpath.telemetry.metric_store import MetricStore

SITES = ("cloud", "jfk", "lga")


class Hub:
    """The collector's knowledge of the sites."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "sites.json"
        self.store = MetricStore(directory / "metrics.db")
        self.records = SiteRecords(self.path, 5.0)
        self.at = time.time() - 60

    async def hear(self, *sites: str) -> None:
        """Hear these sites."""
        for site in sites:
            await self.records.hear(SiteStatus.model_validate({**SiteStatus.example, "site": site}))

    def measure(self, age_s: float | None = None, **latency_ms: float) -> None:
        """Take samples of links."""
        self.at += 1
        at = self.at if age_s is None else time.time() - age_s
        self.store.add(
            Sample(entity=f"link:{site}", metric="link.round_trip", at=at, value=2 * each / 1000)
            for site, each in latency_ms.items()
        )

    def reads(self, **spec: Any) -> NearReads:
        """Return the reads of a mesh with these settings."""
        return NearReads(self.store, self.records, StorageSpec(enabled=True, **{"beta_s": 5.0, **spec}))

    @property
    def near(self) -> dict[str, str]:
        """Return the copies that are near."""
        return {site: at for site, each in self.records.by_site.items() if (at := each.near_at) is not None}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    made = Hub(tmp_path)
    await made.hear(*SITES)
    yield made
    made.store.close()


async def test_copy_when_a_link_is_slow_then_is_begun_and_read_from(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)

    await hub.reads().decide()

    assert hub.near == {"jfk": "cloud"}
    planned = await hub.reads().plan(SITES, 1.0)
    assert {site: read.at for site, read in planned.items()} == {
        "cloud": "cloud",
        "jfk": "cloud",
        "lga": "lga",
    }


async def test_copy_when_the_collector_restarts_then_is_still_read_from(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    await hub.reads().decide()
    hub.records.save()

    hub.records = SiteRecords(hub.path, 5.0)
    before_any_is_heard = await hub.reads().plan(["jfk"], 1.0)
    await hub.hear(*SITES)

    assert before_any_is_heard == {}
    assert await hub.reads().plan(["jfk"], 1.0) == {"jfk": PlannedRead("cloud")}


async def test_copy_when_the_link_is_quick_again_then_ends(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    await hub.reads().decide()

    for _ in range(2):
        hub.measure(jfk=1.0, lga=1.0, cloud=1.0)
    await hub.reads().decide()

    assert hub.near == {}


async def test_copy_when_its_holder_is_silent_then_stays_and_is_not_read_from(hub: Hub) -> None:
    hub.measure(jfk=200.0, cloud=1.0)
    await hub.reads().decide()
    hub.records = SiteRecords(hub.path, 5.0)
    await hub.hear("jfk", "cloud")
    hub.records.near("jfk", "cloud")

    hub.records._heard.pop("cloud")
    await hub.reads().decide()

    assert hub.near == {"jfk": "cloud"}
    assert await hub.reads().plan(["jfk"], 1.0) == {"jfk": PlannedRead("jfk")}


async def test_copy_when_its_holder_is_silent_and_another_is_near_then_is_there(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    await hub.reads().decide()

    hub.records._heard.pop("cloud")
    await hub.reads().decide()

    assert hub.near == {"jfk": "lga"}


async def test_copy_when_its_owner_is_silent_then_stays(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    await hub.reads().decide()

    hub.records._heard.pop("jfk")
    await hub.reads().decide()

    assert (hub.near, await hub.reads().plan(["jfk"], 1.0)) == ({"jfk": "cloud"}, {})


async def test_copies_when_the_setting_is_taken_back_then_end(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    await hub.reads().decide()

    off = hub.reads(beta_s=None)
    planned = await off.plan(SITES, 1.0)
    await off.decide()

    assert (planned, hub.near) == ({}, {})


async def test_latency_when_it_was_measured_long_ago_then_is_not_known(hub: Hub) -> None:
    hub.measure(age_s=MEASURED_S + 5, jfk=200.0, lga=5.0, cloud=1.0)

    await hub.reads().decide()

    assert (hub.near, await hub.reads().plan(SITES, 1.0)) == ({}, {})


async def test_copy_for_stability_when_it_is_near_then_is_read_from_and_takes_no_place(hub: Hub) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)
    hub.records.copied("jfk", "lga")

    await hub.reads(copies_per_site=0).decide()

    assert hub.near == {"jfk": "lga"}
    assert hub.records.by_site["jfk"].held_at == ["lga"]


async def test_shares_when_less_than_all_is_wanted_then_slow_sites_drop_and_the_mean_is_kept(
    hub: Hub,
) -> None:
    hub.measure(jfk=200.0, lga=5.0, cloud=1.0)

    planned = await hub.reads(beta_s=None).plan(SITES, 0.8)

    shares = {site: read.share for site, read in planned.items()}
    assert (shares["cloud"], shares["lga"]) == (1.0, 1.0)
    assert shares["jfk"] == pytest.approx(0.4)
    assert {site: read.at for site, read in planned.items()} == {site: site for site in SITES}
