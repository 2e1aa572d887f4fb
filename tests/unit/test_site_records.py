"""Records of sites: who failed, who came back, and what stays over a restart of the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from towpath.collector import site_records
from towpath.collector.site_records import SiteRecords
from towpath.contracts.site import SiteStatus

SILENT_S = 5.0


class Mesh:
    """Sites that are heard every second, and a clock."""

    def __init__(self, path: Path) -> None:
        self.now = 1_000.0
        self.path = path
        self.records = self.again()

    def again(self) -> SiteRecords:
        """Return the records of a collector that begins."""
        return SiteRecords(self.path, SILENT_S, lambda: self.now, lambda: self.now)

    async def hear(self, *sites: str, seconds: int = 1) -> None:
        """Let time pass while these sites are heard."""
        for _ in range(seconds):
            self.now += 1
            for site in sites:
                await self.records.hear(SiteStatus.model_validate({**SiteStatus.example, "site": site}))
            self.records.look(["jfk", "lga"])

    def history(self, site: str) -> tuple[Any, Any, Any]:
        """Return when a site began, failed and came back."""
        record = self.records.by_site[site]
        return record.start_s, record.failures_s, record.restarts_s


async def test_site_when_it_is_silent_and_heard_again_then_has_failed_once_and_come_back(
    tmp_path: Path,
) -> None:
    mesh = Mesh(tmp_path / "sites.json")

    await mesh.hear("jfk", "lga", seconds=2)
    await mesh.hear("lga", seconds=10)
    down = [node.name for node in mesh.records.nodes()]
    await mesh.hear("jfk", "lga", seconds=2)

    assert mesh.history("jfk") == (1_001.0, [1_007.0], [1_013.0])
    assert mesh.history("lga") == (1_001.0, [], [])
    samples = await mesh.records.measure(lambda: ["jfk", "lga"])
    assert [(each.entity, each.value < 1) for each in samples] == [("site:jfk", True)]
    assert (down, [node.name for node in mesh.records.nodes()]) == (["lga"], ["jfk", "lga"])


async def test_records_when_the_collector_begins_again_then_stay_and_no_site_has_failed(
    tmp_path: Path,
) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "lga")
    mesh.records.copied("jfk", "lga")
    mesh.records.near("lga", "jfk")
    mesh.records.save()
    mesh.now += 1_000

    mesh.records = mesh.again()
    await mesh.hear("lga", seconds=10)

    assert mesh.history("lga") == (1_001.0, [], [])
    assert (mesh.records.copies_at("jfk"), mesh.records.copies_at("lga")) == (["lga"], ["jfk"])
    assert [node.name for node in mesh.records.nodes()] == ["lga"]


async def test_site_when_the_mesh_has_it_no_longer_then_is_forgotten(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "ewr")

    assert set(mesh.records.by_site) == {"jfk"}


async def test_sites_when_the_collector_was_held_up_then_have_not_failed(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "lga")

    mesh.now += 60
    mesh.records.look(["jfk", "lga"])

    assert (mesh.history("jfk")[1], mesh.history("lga")[1]) == ([], [])


async def test_copy_when_it_is_made_for_being_near_then_is_no_complete_one_for_stability(
    tmp_path: Path,
) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "lga")

    mesh.records.near("jfk", "lga")

    node, _ = mesh.records.nodes()
    assert (node.copies_at, node.parts_at) == (frozenset(), {"lga"})


async def test_copy_when_it_has_both_reasons_then_stays_until_the_last_one_ends(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "lga")
    mesh.records.near("jfk", "lga")
    mesh.records.copied("jfk", "lga")

    twice = mesh.records.copies_at("jfk")
    mesh.records.dropped("jfk", "lga")
    once = mesh.records.copies_at("jfk")
    mesh.records.near("jfk", None)

    assert (twice, once, mesh.records.copies_at("jfk")) == (["lga"], ["lga"], [])


async def test_copies_when_the_disk_was_full_for_a_moment_then_the_next_collector_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    await mesh.hear("jfk", "lga")
    mesh.records.copied("jfk", "lga")
    with monkeypatch.context() as full:
        full.setattr(site_records, "write_atomically", Mock(side_effect=OSError("No space left on device")))
        with pytest.raises(OSError, match="No space"):
            await mesh.records.measure(lambda: ["jfk", "lga"])

    await mesh.records.measure(lambda: ["jfk", "lga"])

    assert mesh.again().copies_at("jfk") == ["lga"]


@pytest.mark.parametrize(
    ("kept", "begun"),
    [(b'{"jfk": {"start_s": 7.0, "of_a_later_version": 1}}', {"jfk": 7.0}), (b'{"jfk": {"sta', {})],
    ids=["of a later version", "damaged"],
)
def test_records_when_not_all_of_them_is_known_then_the_collector_begins_all_the_same(
    tmp_path: Path, kept: bytes, begun: dict[str, float]
) -> None:
    path = tmp_path / "sites.json"
    path.write_bytes(kept)

    records = Mesh(path).records

    assert {site: record.start_s for site, record in records.by_site.items()} == begun
    assert {*path.parent.iterdir()} == {path if begun else path.with_suffix(".damaged")}


async def test_site_when_the_clock_is_set_back_then_its_failures_stay_in_order(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path / "sites.json")
    mesh.records = SiteRecords(mesh.path, SILENT_S, lambda: wall[0], lambda: mesh.now)
    wall = [2e9]
    for _ in range(2):
        await mesh.hear("jfk", "lga")
        await mesh.hear("lga", seconds=7)
        wall[0] = 1.7e9
    await mesh.hear("jfk", "lga")

    availability = await mesh.records.measure(lambda: ["jfk", "lga"])

    assert [sample.entity for sample in availability] == ["site:jfk"]
    assert [len(node.history.failures_s) for node in mesh.again().nodes()] == []
    assert len(mesh.again().by_site["jfk"].history.failures_s) == 2
