"""Stored values of all sites: joined to one answer, with the names of those that are silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from towpath.bus import Bus
from towpath.collector.site_questions import SiteQuestions
from towpath.collector.stored_values import StoredValues
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import (
    QueryValues,
    ReadValues,
    StorageSpec,
    ValueSeries,
    ValueSeriesList,
    ValueSummary,
    Wanted,
)


@dataclass
class Sites:
    """A bus whose other end are sites."""

    answers: dict[str, ValueSeriesList | TowpathError]
    asked: list[ReadValues] = field(default_factory=list)

    async def request(self, command: ReadValues, *, deadline_s: float) -> ValueSeriesList:
        self.asked.append(command)
        answer = self.answers[command.site if command.of is None else f"{command.of}@{command.site}"]
        if isinstance(answer, TowpathError):
            raise answer
        return answer


def values(site: str, *numbers: float) -> ValueSeriesList:
    points = [(float(at), number) for at, number in enumerate(numbers)]
    return ValueSeriesList(series=[ValueSeries(site=site, entity="node", metric="cpu", points=points)])


def summary(site: str, count: int, total: float) -> ValueSeriesList:
    found = ValueSummary(count=count, sum=total, min=0.0, max=total)
    series = ValueSeries(site=site, entity="node", metric="cpu", summary=found)
    return ValueSeriesList(series=[series], summary=found)


def asking(
    sites: Sites, copies: Mapping[str, list[str]] | None = None, *, enabled: bool = True
) -> StoredValues:
    questions = SiteQuestions(cast("Bus", sites), lambda: sites.answers)
    return StoredValues(questions, StorageSpec(enabled=enabled), lambda owner: (copies or {}).get(owner, []))


SILENT = TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")


async def test_values_when_a_site_is_silent_then_it_is_named_beside_those_of_the_others() -> None:
    sites = Sites({"lga": values("lga", 1.0), "jfk": values("jfk", 2.0), "ewr": SILENT})

    found = await asking(sites).query(QueryValues())

    assert [each.site for each in found.series] == ["jfk", "lga"]
    assert list(found.unreached) == ["ewr"]


async def test_aggregate_when_sites_answer_then_the_mean_is_weighed_by_their_numbers() -> None:
    sites = Sites({"lga": summary("lga", 1, 10.0), "jfk": summary("jfk", 3, 2.0)})

    found = (await asking(sites).query(QueryValues(wanted=Wanted.AGGREGATE))).summary

    assert found is not None
    assert (found.count, found.sum, found.mean) == (4, 12.0, 3.0)


async def test_values_when_sites_are_named_then_no_other_is_asked() -> None:
    sites = Sites({"lga": values("lga", 1.0), "jfk": values("jfk", 2.0)})

    await asking(sites).query(QueryValues(sites=["jfk"], metrics=["cpu"]))

    assert [(each.site, each.metrics) for each in sites.asked] == [("jfk", ["cpu"])]


async def test_values_when_sites_have_more_than_the_limit_together_then_are_refused() -> None:
    sites = Sites({"lga": values("lga", 1.0, 2.0), "jfk": values("jfk", 2.0, 3.0)})

    with pytest.raises(TowpathError) as refused:
        await asking(sites).query(QueryValues(wanted=Wanted.RANGE, limit=3))

    assert refused.value.detail.field == "limit"


async def test_values_when_the_mesh_stores_none_then_are_refused_with_the_setting() -> None:
    with pytest.raises(TowpathError) as refused:
        await asking(Sites({}), enabled=False).query(QueryValues())

    assert (refused.value.detail.code, refused.value.detail.field) == (
        ErrorCode.NOT_ALLOWED,
        "storage.enabled",
    )


async def test_values_when_a_silent_site_has_copies_then_the_first_that_answers_counts() -> None:
    answers = {"jfk": values("jfk", 2.0), "lga": SILENT, "lga@ewr": SILENT, "lga@jfk": values("lga", 1.0)}
    sites = Sites(answers)
    asked = asking(sites, {"lga": ["ewr", "jfk"]})

    found = await asked.query(QueryValues(sites=["jfk", "lga"]))

    assert [(each.site, each.points) for each in found.series] == [
        ("jfk", [(0.0, 2.0)]),
        ("lga", [(0.0, 1.0)]),
    ]
    assert (found.copies, found.unreached) == ({"lga": "jfk"}, {})
