"""Queries of the collector: one answer of what the sites say, and who did not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from towpath.bus import Bus
from towpath.bus.bus import parse_reply
from towpath.collector import site_questions
from towpath.collector.federation import Federation, SavedSites
from towpath.collector.site_questions import SILENT_SITE_S, SITE_S, SiteQuestions
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import QueryMetrics, ReadMetrics, Sample, Series, SeriesList
from towpath.contracts.reply import Reply
from towpath.contracts.site import MeshSpec, SiteSpec, SiteStatus
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import MeshState
from towpath.telemetry.metric_store import MetricStore

NOW = 1_000_000.0


def series(site: str, metric: str = "job.backlog", points: int = 1) -> Series:
    values = [(NOW + number, 1.0) for number in range(points)]
    return Series(site=site, entity="job:late", metric=metric, unit="1", points=values)


@dataclass
class Sites:
    """A bus whose other end are sites."""

    answers: dict[str, list[Series] | TowpathError]
    deadlines: dict[str, float] = field(default_factory=dict)
    asked: list[ReadMetrics] = field(default_factory=list)

    async def request(self, command: ReadMetrics, *, deadline_s: float) -> SeriesList:
        self.deadlines[command.site] = deadline_s
        self.asked.append(command)
        answer = self.answers[command.site]
        if isinstance(answer, TowpathError):
            raise answer
        reply = Reply[SeriesList](ok=True, result=SeriesList(series=answer))
        return parse_reply(command, reply.model_dump_json(by_alias=True).encode())


@pytest.fixture
def store(tmp_path: Path) -> MetricStore:
    kept = MetricStore(tmp_path / "metrics.db", clock=lambda: NOW)
    kept.add([Sample(entity="process:hub", metric="process.memory.usage", at=NOW, value=5.0)])
    return kept


def federation(store: MetricStore, sites: Sites) -> Federation:
    return Federation(SiteQuestions(cast("Bus", sites), lambda: sites.answers), store)


async def refused(asked: Federation, **wrong: Any) -> TowpathError:
    with pytest.raises(TowpathError) as error:
        await asked.query(QueryMetrics(**wrong))
    return error.value


async def test_query_when_all_answer_then_series_are_sorted_and_the_hubs_are_there(
    store: MetricStore,
) -> None:
    sites = Sites({"lga": [series("lga")], "jfk": [series("jfk", "job.events"), series("jfk")]})
    found = await federation(store, sites).query(QueryMetrics())
    assert [(each.site, each.metric) for each in found.series] == [
        ("hub", "process.memory.usage"),
        ("jfk", "job.backlog"),
        ("jfk", "job.events"),
        ("lga", "job.backlog"),
    ]
    assert found.unreached == {}


async def test_query_when_a_site_does_not_answer_then_is_named_and_the_others_are_there(
    store: MetricStore,
) -> None:
    silent = TowpathError(ErrorCode.DEADLINE, "no answer in time")
    found = await federation(store, Sites({"lga": [series("lga")], "jfk": silent})).query(QueryMetrics())
    assert {each.site for each in found.series} == {"hub", "lga"}
    assert found.unreached == {"jfk": "no answer in time"}


async def test_query_when_a_site_was_silent_for_long_then_is_waited_for_less(
    store: MetricStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = Sites({"lga": [], "jfk": []})
    questions = SiteQuestions(cast("Bus", sites), lambda: sites.answers)
    asked = Federation(questions, store)
    later = site_questions.time.monotonic() + 100
    monkeypatch.setattr(site_questions.time, "monotonic", lambda: later)
    await questions.hear(SiteStatus.model_validate({**SiteStatus.example, "site": "lga"}))
    await asked.query(QueryMetrics())
    assert sites.deadlines == {"lga": SITE_S, "jfk": SILENT_SITE_S}


async def test_query_when_sites_are_named_then_only_they_are_asked_for_the_same(store: MetricStore) -> None:
    sites = Sites({"lga": [], "jfk": []})
    command = QueryMetrics(metrics=["job.*"], entities=["job:late"], limit=7, sites=["lga"])
    await federation(store, sites).query(command)
    [read] = sites.asked
    assert (read.site, read.metrics, read.entities, read.limit) == ("lga", ["job.*"], ["job:late"], 7)


async def test_query_when_all_points_together_are_too_many_then_says_what_would_fit(
    store: MetricStore,
) -> None:
    sites = Sites({"lga": [series("lga", points=6)], "jfk": [series("jfk", points=6)]})
    error = await refused(federation(store, sites), limit=11, since="1970-01-12T13:46:40Z")
    assert (error.detail.code, error.detail.field, error.detail.value) == (ErrorCode.INVALID, "limit", 11)
    assert "step_s" in str(error.detail.allowed)


async def test_query_when_each_site_refuses_it_then_is_refused(store: MetricStore) -> None:
    sites = Sites({"jfk": TowpathError(ErrorCode.INVALID, "more points than limit", field="limit")})
    assert (await refused(federation(store, sites))).detail.field == "limit"


async def test_query_when_a_point_has_no_date_then_it_is_left_out(store: MetricStore) -> None:
    dateless = series("jfk").model_copy(update={"points": [(1.7e12, 1.0)]})
    sites = Sites({"jfk": [dateless, series("jfk", "job.events")]})

    found = await federation(store, sites).query(QueryMetrics())

    assert [each.metric for each in found.series if each.site == "jfk"] == ["job.events"]


@pytest.mark.parametrize(
    "lie",
    [
        TowpathError(ErrorCode.INVALID, "more points than limit", field="limit"),
        [series("lga")],
        [series("jfk"), series("hub")],
        [series("jfk", points=21)],
        [series("jfk", points=20)],
        [series("jfk").model_copy(update={"points": [(NOW, float("nan"))]})],
    ],
    ids=["refuses", "speaks for another", "speaks for the hub", "floods", "fills", "no number"],
)
async def test_query_when_a_site_lies_then_is_named_and_those_of_others_are_there(
    store: MetricStore, lie: list[Series] | TowpathError
) -> None:
    sites = Sites({"jfk": lie, "lga": [series("lga")]})

    found = await federation(store, sites).query(QueryMetrics(limit=20))

    assert [each.site for each in found.series] == ["hub", "lga"]
    assert list(found.unreached) == ["jfk"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"metrics": ["job.latncy"]}, ErrorCode.INVALID), ({"sites": ["mars"]}, ErrorCode.UNKNOWN_SITE)],
)
async def test_query_when_it_names_what_is_not_there_then_no_one_is_asked(
    store: MetricStore, wrong: dict[str, Any], code: ErrorCode
) -> None:
    sites = Sites({"jfk": []})
    error = await refused(federation(store, sites), **wrong)
    assert (error.detail.code, sites.asked) == (code, [])
    assert error.detail.allowed


async def test_query_when_one_site_hangs_then_the_others_are_asked_meanwhile(store: MetricStore) -> None:
    sites = Sites({"jfk": [], "lga": []})
    both = asyncio.Barrier(2)

    async def together(command: ReadMetrics, *, deadline_s: float) -> SeriesList:
        await both.wait()
        return SeriesList(series=[series(command.site)])

    sites.request = together  # type: ignore[method-assign]
    found = await federation(store, sites).query(QueryMetrics(metrics=["job.*"]))
    assert {each.site for each in found.series} == {"jfk", "lga"}


def test_saved_sites_when_asked_again_then_the_mesh_is_read_only_if_it_has_changed(tmp_path, monkeypatch):
    home, read = Home(tmp_path), []
    new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")])).save(home)
    load = MeshState.load
    monkeypatch.setattr(MeshState, "load", lambda home: read.append(home) or load(home))
    saved = SavedSites(home)

    before = [saved.names(), saved.names(), [spec.name for spec in saved.specs()]]
    new_mesh(MeshSpec(sites=[SiteSpec(name="jfk"), SiteSpec(name="lga")])).save(home)

    assert before == [["jfk"]] * 3
    assert len(read) == 1
    assert saved.names() == ["jfk", "lga"]


def test_saved_sites_when_the_mesh_is_gone_then_that_is_said_although_it_was_read_before(tmp_path):
    home = Home(tmp_path)
    new_mesh(MeshSpec(sites=[SiteSpec(name="jfk")])).save(home)
    saved = SavedSites(home)
    saved.names()
    home.state.unlink()

    with pytest.raises(TowpathError, match="no mesh here"):
        saved.names()
