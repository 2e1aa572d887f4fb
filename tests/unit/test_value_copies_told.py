"""The collector tells storages which copies to keep, and from which sources their owners have values."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from towpath.bus import Bus
from towpath.collector.near_reads import NearReads
from towpath.collector.site_questions import SiteQuestions
from towpath.collector.site_records import SiteRecords
from towpath.collector.value_copies import ValueCopies
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import SiteStatus
from towpath.contracts.storage import CopiesKept, KeepCopies, StorageSpec, ValueStream
from towpath.telemetry.metric_store import MetricStore

SPEC = StorageSpec(enabled=True, beta_s=5.0)
METRICS = [ValueStream(name="METRICS", created="2026-01-01T00:00:00Z")]
SOURCES = {"METRICS 2026-01-01T00:00:00Z": 1.0}


class Sites:
    """A bus whose other end are storages."""

    def __init__(self) -> None:
        self.told: dict[str, KeepCopies] = {}
        self.silent: set[str] = set()

    async def request(self, command: KeepCopies, *, deadline_s: float) -> CopiesKept:
        """Note what a storage is told."""
        if command.site in self.silent:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")
        self.told[command.site] = command
        return CopiesKept(owners=[], sources=SOURCES)


class Trial:
    """A collector's copies, with the storages that hear of them."""

    def __init__(self, directory: Path) -> None:
        self.sites = Sites()
        self.records = SiteRecords(directory / "sites.json", 5.0)
        self.directory = directory
        self.copies = self.begun()

    def begun(self) -> ValueCopies:
        """Return the copies of a collector that begins."""
        bus = cast("Bus", self.sites)
        near = NearReads(MetricStore(self.directory / "metrics.db"), self.records, SPEC)
        questions = SiteQuestions(bus, lambda: ["cloud", "jfk"])
        return ValueCopies(bus, questions, self.records, SPEC, near)

    async def tell(self) -> list[tuple[str, object, object]]:
        """Tell, and return the copies that `cloud` hears of."""
        self.sites.told.clear()
        await self.copies._tell()
        return [(copy.owner, copy.streams, copy.sources) for copy in self.sites.told["cloud"].copies]


@pytest.fixture
async def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    async def streams_of(self: ValueCopies, owner: str) -> list[ValueStream]:
        return METRICS

    monkeypatch.setattr(ValueCopies, "_streams_of", streams_of)
    made = Trial(tmp_path)
    for site in ("cloud", "jfk"):
        await made.records.hear(SiteStatus.model_validate({**SiteStatus.example, "site": site}))
    return made


async def test_copy_when_it_is_near_then_its_holder_is_told_with_the_owners_sources(trial: Trial) -> None:
    trial.records.near("jfk", "cloud")

    first, second = await trial.tell(), await trial.tell()

    assert (first, second) == ([("jfk", METRICS, None)], [("jfk", METRICS, SOURCES)])


async def test_copy_when_it_has_two_reasons_then_is_told_once(trial: Trial) -> None:
    trial.records.near("jfk", "cloud")
    trial.records.copied("jfk", "cloud")

    assert await trial.tell() == [("jfk", METRICS, None)]


async def test_copy_when_it_ends_then_its_holder_is_told_of_none(trial: Trial) -> None:
    trial.records.near("jfk", "cloud")
    await trial.tell()

    trial.records.near("jfk", None)

    assert await trial.tell() == []


async def test_sources_when_the_owner_does_not_answer_then_are_those_of_before(trial: Trial) -> None:
    trial.records.near("jfk", "cloud")
    await trial.tell()
    trial.sites.silent = {"jfk"}
    await trial.tell()

    assert await trial.tell() == [("jfk", METRICS, SOURCES)]


async def test_sources_when_the_collector_restarts_then_are_left_to_the_holder(trial: Trial) -> None:
    trial.records.near("jfk", "cloud")
    await trial.tell()

    trial.copies = trial.begun()

    assert await trial.tell() == [("jfk", METRICS, None)]
