"""Stored values of all sites: joined to one answer, with the names of those that are silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from towpath.bus import Bus
from towpath.collector.near_reads import PlannedRead
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
    sites: Sites,
    copies: Mapping[str, list[str]] | None = None,
    plan: Mapping[str, PlannedRead] | None = None,
    *,
    enabled: bool = True,
) -> StoredValues:
    async def planned(owners: Sequence[str], share: float) -> Mapping[str, PlannedRead]:
        return plan or {}

    def copies_at(owner: str) -> Sequence[str]:
        return (copies or {}).get(owner, [])

    questions = SiteQuestions(cast("Bus", sites), lambda: [name for name in sites.answers if "@" not in name])
    return StoredValues(questions, StorageSpec(enabled=enabled), copies_at, planned)


SILENT = TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")


async def test_values_when_a_site_is_silent_then_it_is_named_beside_those_of_the_others() -> None:
    sites = Sites({"lga": values("lga", 1.0), "jfk": values("jfk", 2.0), "ewr": SILENT})

    found = await asking(sites).query(QueryValues())

    assert [each.site for each in found.series] == ["jfk", "lga"]
    assert list(found.unreached) == ["ewr"]


async def test_values_when_a_site_speaks_for_another_then_it_is_named_and_what_it_says_does_not_count() -> (
    None
):
    own = values("lga", 1.0)
    sites = Sites({"lga": own, "jfk": values("lga", 7.0), "ewr": values("ewr", 3.0)})
    sites.answers["ewr"] = values("ewr", 3.0).model_copy(
        update={"copies": {"lga": "ewr"}, "unreached": {"lga": ""}}
    )

    found = await asking(sites).query(QueryValues())

    assert [(each.site, each.points) for each in found.series] == [
        ("ewr", [(0.0, 3.0)]),
        ("lga", own.series[0].points),
    ]
    assert (list(found.unreached), found.copies) == (["jfk"], {})


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


async def test_values_when_one_site_alone_fills_an_answer_then_those_of_others_are_there() -> None:
    sites = Sites({"lga": values("lga", 1.0), "jfk": values("jfk", 2.0, 3.0, 4.0)})

    found = await asking(sites).query(QueryValues(wanted=Wanted.RANGE, limit=3))

    assert [each.site for each in found.series] == ["lga"]
    assert list(found.unreached) == ["jfk"]


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


NEAR = {"lga": PlannedRead(at="jfk")}
NOT_COMPLETE = TowpathError(ErrorCode.NOT_ALLOWED, "the copy of lga is not complete", field="of")


async def test_values_when_a_copy_is_nearer_then_come_from_it_and_the_site_is_not_asked() -> None:
    sites = Sites({"lga": values("lga", 1.0), "lga@jfk": values("lga", 2.0)})

    found = await asking(sites, {"lga": ["jfk"]}, NEAR).query(QueryValues(sites=["lga"]))

    assert [(each.site, each.of, each.complete) for each in sites.asked] == [("jfk", "lga", True)]
    assert (found.series[0].points, found.copies, found.nearer) == ([(0.0, 2.0)], {"lga": "jfk"}, ["lga"])


@pytest.mark.parametrize("reason", [SILENT, NOT_COMPLETE])
async def test_values_when_the_nearer_copy_cannot_answer_then_come_from_the_site(
    reason: TowpathError,
) -> None:
    sites = Sites({"lga": values("lga", 1.0), "lga@jfk": reason})

    found = await asking(sites, {"lga": ["jfk"]}, NEAR).query(QueryValues(sites=["lga"]))

    assert (found.series[0].points, found.copies, found.nearer) == ([(0.0, 1.0)], {}, [])


async def test_values_when_near_copy_and_site_do_not_answer_then_come_from_another_copy() -> None:
    sites = Sites({"lga": SILENT, "lga@jfk": SILENT, "lga@ewr": values("lga", 3.0)})

    found = await asking(sites, {"lga": ["jfk", "ewr"]}, NEAR).query(QueryValues(sites=["lga"]))

    assert [(each.site, each.complete) for each in sites.asked] == [
        ("jfk", True),
        ("lga", False),
        ("ewr", False),
    ]
    assert (found.copies, found.nearer, found.unreached) == ({"lga": "ewr"}, [], {})


async def test_values_when_the_site_fails_before_its_copy_is_complete_then_come_from_it() -> None:
    @dataclass
    class Incomplete(Sites):
        async def request(self, command: ReadValues, *, deadline_s: float) -> ValueSeriesList:
            if command.complete:
                raise NOT_COMPLETE
            return await super().request(command, deadline_s=deadline_s)

    sites = Incomplete({"lga": SILENT, "lga@jfk": values("lga", 2.0)})

    found = await asking(sites, {"lga": ["jfk"]}, NEAR).query(QueryValues(sites=["lga"]))

    assert (found.series[0].points, found.copies, found.nearer) == ([(0.0, 2.0)], {"lga": "jfk"}, [])


async def test_range_when_a_share_is_asked_for_then_each_site_is_asked_for_its_own() -> None:
    sites = Sites({"jfk": values("jfk", 1.0), "lga": values("lga", 1.0), "ewr": SILENT})
    plan = {"lga": PlannedRead(at="lga", share=0.5), "ewr": PlannedRead(at="ewr", share=0.9)}

    found = await asking(sites, plan=plan).query(QueryValues(wanted=Wanted.RANGE, share=0.8))

    assert {each.site: each.share for each in sites.asked} == {"jfk": 1.0, "lga": 0.5, "ewr": 0.9}
    assert found.shares == {"jfk": 1.0, "lga": 0.5}


@pytest.mark.parametrize("wanted", [Wanted.LATEST, Wanted.AGGREGATE, Wanted.LIST])
async def test_share_when_it_is_not_of_a_range_then_is_refused_with_its_name(wanted: Wanted) -> None:
    with pytest.raises(TowpathError) as refused:
        await asking(Sites({})).query(QueryValues(wanted=wanted, share=0.5))

    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value, detail.allowed) == (
        ErrorCode.INVALID,
        "share",
        0.5,
        "1; less only for a range",
    )
