"""Queries in an engine's Spark session: panes by stock operators, answers, timeouts, and a restart."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from running.engine import DEVICE, UPSTREAM, Site, assignment
from running.promises import promise
from running.query_answers import is_close
from running.waiting import WITHIN_S
from towpath.contracts.result import Result
from towpath.engines.spark import layout
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event, answers
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing

pytestmark = pytest.mark.timeout(900)

TEXT = """
s = STREAM FROM topic(topic="site/a", time="at", delay="20 SECONDS", value="v", fields="n:long");
odd = STREAM FROM topic(topic="site/a", time="at", k="o%");
mean = COMPUTE AVG(s, 10 SECONDS) EVERY 5 SECONDS BY k;
spread = COMPUTE SDEV(s, 20 SECONDS, 5 SECONDS) + 0 * VARIANCE(s WHEN > 1, 10 SECONDS) EVERY 5 SECONDS;
share = COMPUTE 100 * COUNT(s WHEN > 2 AND "k" FROM (s) IN ("one", "two"), 10 SECONDS) / COUNT(s, 10 SECONDS)
        EVERY 10 SECONDS BY GEOHASH[3](lat, lon);
some = COMPUTE SUM("v" FROM (odd), 10 SECONDS) / COUNT("v" FROM (odd), 10 SECONDS)
       EVERY 10 SECONDS WITH SAMPLE 0.5;
middle = COMPUTE MEDIAN(SQRT("v" FROM (s)) % 3, 30 SECONDS) EVERY 15 SECONDS BY n;
newest = COMPUTE MAX("v" FROM (s), 4 EVENTS) EVERY 3 EVENTS BY k;
jump = COMPUTE s - RUNNING_MEAN(s) WHEN > RUNNING_SDEV(s);
top = COMPUTE TOP_K[2]("k" FROM (s), 30 SECONDS) EVERY 10 SECONDS;
far = COMPUTE OUTLIER_DETECTION(s, 30 SECONDS) EVERY 10 SECONDS WITH ALGORITHM pmcod AND K=2 AND R=0.4;
highest = COMPUTE MAX(mean WHEN < 100, 20 SECONDS) EVERY 10 SECONDS;
here = COMPUTE EWMA[0.5](s) EVERY 10 SECONDS BY site;
"""

COUNT = (
    's = STREAM FROM topic(topic="site/a", time="at", value="v", fields="v:double");\n'
    "q = COMPUTE COUNT(s, 10 SECONDS) EVERY 10 SECONDS"
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LAST_S = 300.0
SENT = 400


def history() -> list[dict[str, Any]]:
    """Return events with disorder, gaps, equal times, nulls and keys that come and go."""
    random, events, at = Random(5), [], 0.0
    for number in range(120):
        at += random.choice([0, 0.25, 0.5, 1.0, 40.0 if number == 60 else 0.5])
        key = random.choice(["one", "two", "odd"][: 2 + number // 60])
        event = {
            "at": (BEGIN + timedelta(seconds=at - random.choice([0, 0, 0, 3.5]))).isoformat(),
            "k": key,
            "v": random.choice([random.gauss(3, 2), 1.0, 4.0]),
            "n": random.randrange(3),
            "lat": random.choice([40.6, -33.9, 95.0]),
            "lon": random.choice([-73.8, 151.2]),
        }
        missing = random.choice(["v", "k", "lat", "n", "", "", "", "", "", ""])
        events.append({name: value for name, value in event.items() if name != missing})
    return events


def expected_until(events: list[dict[str, Any]], until: datetime) -> list[Answer]:
    seen = [Event("jfk", "site/a", serial, 0, event) for serial, event in enumerate(events, 1)]
    return answers(check(parse(TEXT)), seen, round(until.timestamp() * 1e6))


def told(result: Result) -> tuple[str, int, tuple[tuple[str, Any], ...]]:
    """Return query, moment in milliseconds, and key."""
    assert result.key is not None
    assert result.window is not None
    key = {name: value for name, value in result.key.items() if name != "query"}
    return result.key["query"], round(result.window.end.timestamp() * 1e3), tuple(key.items())


@promise("queries")
async def test_queries_when_their_job_restarts_then_all_answers_are_those_of_the_reference(
    site: Site,
) -> None:
    made = compiled(Asked("q", "jfk", TEXT, {}, ["jfk"]))
    panes, answering = (job.operator.model_dump(mode="json") for job in made.pipeline.jobs)
    chain = {"kind": "chain", "steps": [*panes["steps"], {**answering, "name": "answers"}]}
    job = assignment(chain, max_events_per_batch=25)
    events = history()
    # Time goes on, so that all windows of the history are past.
    ends = [{"at": (BEGIN + timedelta(seconds=LAST_S + 30 + second)).isoformat()} for second in (0, 1, 2)]
    expected = expected_until(events, BEGIN + timedelta(seconds=LAST_S))
    assert {answer.query for answer in expected} == {query.name for query in made.meaning.queries}

    await site.put("site.a", *events[:70])
    async with site.running(job):
        await site.until(lambda results: len(results) >= 20)
    await site.put("site.a", *events[70:])
    async with site.running(job):
        for end in ends:
            await site.put("site.a", end)
        results = await site.until(lambda results: len(results) >= len(expected))

    found = sorted(results, key=lambda result: (told(result), result.serial))
    wanted = sorted(expected, key=lambda one: (one.query, one.moment // 1000, one.key, one.moment))
    assert [told(result) for result in found] == [(one.query, one.moment // 1000, one.key) for one in wanted]
    wrong = [
        (one, result.values)
        for one, result in zip(wanted, found, strict=True)
        if not is_close(one.value, result.values["value"])
    ]
    assert not wrong[:3]


async def test_query_without_keys_when_panes_are_complete_then_is_answered_in_their_micro_batch(
    site: Site,
) -> None:
    made = compiled(Asked("q", "jfk", COUNT, {}, ["jfk"]))
    _, answering = (job.operator.model_dump(mode="json") for job in made.pipeline.jobs)
    (kept,) = made.sites[0].plan.kept
    ends = [(BEGIN + timedelta(seconds=10 * number)).isoformat() for number in range(4)]
    panes = [
        {"window": {"start": start, "end": end}, "count": 1, "values": {kept.name: number}}
        for number, (start, end) in enumerate(pairwise(ends), 1)
    ]
    punctuations = [{"window": {"start": end, "end": end}, "count": 0, "values": {}} for end in ends[1:]]

    await site.jetstream.add_stream(name="OUT_clean", subjects=["sink.jfk.jfk.clean.1"], allow_direct=True)
    await site.put("sink.jfk.jfk.clean.1", *panes[:2], punctuations[1])
    async with site.running(assignment(answering, UPSTREAM)):
        results = await site.until(lambda results: len(results) >= 2)
        assert [result.values["value"] for result in results] == [1, 2]
        assert layout.newest_commit(site.checkpoint) in (None, 0)
        await site.put("sink.jfk.jfk.clean.1", panes[2], punctuations[2])
        results = await site.until(lambda results: len(results) >= 3)
    assert results[2].values["value"] == 3


async def test_estimates_when_windows_are_known_then_fewer_events_are_read_and_a_restart_goes_on_so(
    site: Site,
) -> None:
    text = (
        's = STREAM FROM topic(topic="site/a", time="at", value="v", fields="v:double")\n'
        "q = COMPUTE COUNT(s, 10 SECONDS) EVERY 10 SECONDS WITH MAX_ERROR 0.2 AND CONFIDENCE 0.9"
    )
    made = compiled(Asked("q", "jfk", text, {}, ["jfk"]))
    panes, _ = made.pipeline.jobs
    thinning = panes.inputs[0].thinning
    assert thinning is not None
    job = assignment(
        panes.operator.model_dump(mode="json"), {**DEVICE, "thinning": thinning.model_dump(mode="json")}
    )
    column = next(iter(made.sites[0].plan.arguments))

    async def window(number: int) -> list[Result]:
        """Send the events of a window. They close the one before it, whose results come."""
        times = [BEGIN + timedelta(seconds=10 * number + 9 * n / SENT) for n in range(SENT)]
        await site.put("site.a", *({"at": at.isoformat(), "v": 1.0} for at in times))
        if number == 0:
            return []
        return await site.until(lambda results: sum(bool(one.count) for one in results) >= number)

    async with site.running(job):
        for number in range(6):
            await window(number)
    async with site.running(job):
        found = [one for one in await window(6) if one.count]

    read = [one.values[f"{column}_count"] for one in found]
    stand_for = [one.values[f"{column}_weight"] for one in found]
    assert read[0] == stand_for[0] == SENT
    assert min(read[4:]) < SENT / 2
    assert read[5] < SENT / 2
    assert all(abs(each - SENT) < 0.2 * SENT for each in stand_for)


async def test_punctuation_when_the_broker_was_away_for_it_then_the_next_run_publishes_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    panes, _ = compiled(Asked("q", "jfk", COUNT, {}, ["jfk"])).pipeline.jobs
    query = site.query(assignment(panes.operator.model_dump(mode="json")))
    store, failed = query.sink._store, list[int]()

    def without_punctuation(batch: int, stream: str, messages: list[Outgoing]) -> int:
        if any(json.loads(message.body).get("count") == 0 for message in messages):
            failed.append(batch)
            raise Unpublished("the broker is away")
        return store(batch, stream, messages)

    monkeypatch.setattr(query.sink, "_store", without_punctuation)
    await site.put("site.a", *({"at": (BEGIN + timedelta(seconds=n)).isoformat(), "v": 1.0} for n in (5, 12)))
    await asyncio.to_thread(query.start)
    async with asyncio.timeout(WITHIN_S):
        while query.is_active():
            await asyncio.sleep(0.05)
    monkeypatch.undo()
    await asyncio.to_thread(query.start)
    try:
        results = await site.until(lambda results: any(result.count == 0 for result in results))
    finally:
        await asyncio.to_thread(query.halt, 10.0)
    assert len(failed) == 1
    assert [result.count for result in results] == [1, 0]
