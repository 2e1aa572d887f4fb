"""Chains on a real Spark session: the results of their steps as jobs, in one query."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from running import engine
from running.engine import Site
from running.operators import DEVICE, STREAM, UPSTREAM, Outcome, assignment, compiled, message, messages, run
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobState

pytestmark = [promise("operators"), pytest.mark.timeout(900)]

FIELDS = {"k": "string", "v": "double", "at": "timestamp"}
CLEAN = {
    "kind": "clean",
    "fields": {
        "k": {"type": "string", "one_of": ["a", "b", "c"]},
        "v": {"type": "double", "required": False, "minimum": -50},
        "at": {"type": "timestamp", "required": False},
    },
}
POSITIVE = {"kind": "filter", "name": "positive", "fields": FIELDS, "where": "v > 0 or v is null"}
SCALED = {
    "kind": "map",
    "fields": FIELDS,
    "select": {"k": "k", "v": "v * 10", "ratio": "1 / v", "n": "cast(v as bigint)", "at": "at"},
}
WINDOW = {
    "kind": "window",
    "fields": {**FIELDS, "n": "long"},
    "event_time": "at",
    "watermark_s": 1,
    "size_s": 10,
    "key": ["k"],
    "aggregates": {
        "total": {"function": "sum", "field": "v"},
        "whole": {"function": "sum", "field": "n"},
        "spread": {"function": "stddev", "field": "v"},
    },
}
LARGE = {
    "kind": "filter",
    "fields": {"k": "string", "total": "double", "count": "long", "window_end": "timestamp"},
    "where": "total > 300 and count > 1",
}
KNOWN = {"kind": "clean", "name": "known", "fields": {"total": {"type": "double", "maximum": 900}}}
STEPS = [CLEAN, POSITIVE, SCALED, WINDOW, LARGE]


def events(seed: int) -> list[Any]:
    chance = random.Random(seed)

    def event(n: int) -> Any:
        if chance.random() < 0.05:
            return chance.choice(["rubbish", "[1]", '{"k": 5}'])
        whole = {
            "k": chance.choice("abcd"),
            "v": chance.choice([None, 0, chance.uniform(-60, 60), chance.randrange(100)]),
            "at": f"2026-01-01T00:00:{n % 60:02}.{chance.randrange(1000):03}Z",
            "other": n,
        }
        return {name: value for name, value in whole.items() if chance.random() > 0.05}

    return [message(n, event(n)) for n in range(1, 301)]


def as_jobs(session: SparkSession, steps: list[dict[str, Any]], seed: int) -> tuple[list[Outcome], Outcome]:
    """The outcomes of the steps as jobs that read each other. The last comes second."""
    inputs, name, outcomes = messages(session, *events(seed)), DEVICE, []
    for step in steps:
        job = {key: value for key, value in step.items() if key != "name"}
        outcomes.append(run(job, inputs, names=(name,)))
        made = sorted(outcomes[-1].results.items(), key=lambda result: result[1].serial)
        bodies = [outcomes[-1].bodies[identity] for identity, _ in made]
        inputs, name = messages(session, *bodies), UPSTREAM
    return outcomes, outcomes[-1]


def counted(values: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(value.items())) for value in values)


@pytest.mark.parametrize("count", [3, 5])
def test_chain_when_its_steps_run_as_jobs_that_read_each_other_then_results_and_rejections_are_the_same(
    session: SparkSession, count: int
) -> None:
    steps, seed = STEPS[:count], count

    chained = run({"kind": "chain", "steps": steps}, messages(session, *events(seed)))

    outcomes, last = as_jobs(session, steps, seed)
    assert last.results
    assert counted(chained.values) == counted(last.values)
    assert Counter(chained.reasons) == Counter(r for each in outcomes for r in each.reasons)


def test_event_when_a_later_step_rejects_it_then_its_text_is_kept_and_the_step_is_named(
    session: SparkSession,
) -> None:
    steps = [POSITIVE, {**CLEAN, "name": "known"}]
    odd = {"k": "z", "v": 1, "at": "2026-01-01T00:00:00Z", "other": [1]}

    outcome = run({"kind": "chain", "steps": steps}, messages(session, odd, "rubbish"))

    first, second = (outcome.rejected[f"job/rejected/{STREAM}/{n}"] for n in (1, 2))
    assert (first.step, first.reason) == ("known", "field 'k': z is not one of a, b, c")
    assert '"other": [1]' in first.event
    assert (second.step, second.event) == ("positive", "rubbish")


def test_window_when_a_later_step_rejects_it_then_its_values_are_the_event(session: SparkSession) -> None:
    steps = [WINDOW, KNOWN]
    rows = [
        {"k": k, "v": v, "n": 1, "at": "2026-01-01T00:00:01Z"} for k, v in [("a", 1000), ("b", 5), ("c", 950)]
    ]

    outcome = run({"kind": "chain", "steps": steps}, messages(session, *rows))

    [small] = outcome.results.values()
    assert (small.key, small.values) == ({"k": "b"}, {"total": 5.0})
    assert small.window is not None
    assert sorted(r.event for r in outcome.rejected.values()) == ['{"total":1000.0}', '{"total":950.0}']
    assert {r.step for r in outcome.rejected.values()} == {"known"}


@pytest.mark.parametrize(
    ("steps", "field", "message"),
    [
        (
            [CLEAN, {**POSITIVE, "fields": {"w": "double"}}],
            "steps.1.fields.w",
            "the step before does not write it",
        ),
        (
            [CLEAN, {**POSITIVE, "fields": {"k": "long"}}],
            "steps.1.fields.k",
            "but the step before writes string",
        ),
        ([CLEAN, {**POSITIVE, "where": "v >"}], "steps.1.where", "yntax error"),
        ([CLEAN, {**SCALED, "select": {"a": "nothing"}}], "steps.1.select.a", "nothing"),
    ],
)
def test_chain_when_a_step_does_not_fit_the_one_before_then_the_error_names_its_place(
    session: SparkSession, steps: list[dict[str, Any]], field: str, message: str
) -> None:
    with pytest.raises(TowpathError, match=message) as refused:
        compiled(assignment({"kind": "chain", "steps": steps}), messages(session, {"k": "a"}))

    assert refused.value.detail.field == f"operator.{field}"


def test_user_code_before_a_window_when_there_are_two_inputs_then_is_refused(session: SparkSession) -> None:
    steps = [{"kind": "python", "fields": FIELDS, "entry": "own_code:run"}, WINDOW]
    job = assignment({"kind": "chain", "steps": steps}, "ewr/site/a", "jfk/site/a")

    with pytest.raises(TowpathError, match="merge the inputs first"):
        compiled(job, messages(session, {}), messages(session, {}))


def test_user_code_when_it_is_a_step_then_reads_and_makes_the_fields_of_its_neighbours(
    session: SparkSession, tmp_path: Path
) -> None:
    body = "return events.withColumn('v', events.v * parameters['by'])"
    (tmp_path / "own_steps.py").write_text(f"def doubled(events, parameters):\n    {body}\n")
    python = {
        "kind": "python",
        "fields": FIELDS,
        "entry": "own_steps:doubled",
        "artefact": str(tmp_path),
        "parameters": {"by": 2},
    }
    large = {"kind": "filter", "fields": {"k": "string", "v": "double"}, "where": "v > 10"}
    rows = [{"k": "a", "v": 3}, {"k": "b", "v": 7}, {"k": "z", "v": 9}]

    outcome = run({"kind": "chain", "steps": [CLEAN, python, large]}, messages(session, *rows))

    assert outcome.values == [{"k": "b", "v": 14.0}]
    assert list(outcome.results) == [f"job/{STREAM}/2"]


def second(n: int, k: str = "a", v: float = 1.0) -> dict[str, Any]:
    return {"k": k, "v": v, "at": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"}


async def test_chain_when_its_steps_change_then_the_window_goes_on_with_its_state(site: Site) -> None:
    aggregates = {"total": {"function": "sum", "field": "v"}, "n": {"function": "count"}}
    window = {**WINDOW, "fields": FIELDS, "aggregates": aggregates}
    total = {"kind": "map", "fields": {"total": "double"}, "select": {"total": "total"}}
    alone = engine.assignment(window)
    with_filter = engine.assignment({"kind": "chain", "steps": [POSITIVE, window, total]})
    longer = engine.assignment({"kind": "chain", "steps": [CLEAN, POSITIVE, window]})
    await site.put("site.a", second(1), second(2, v=-5))
    async with site.running(alone) as query:
        await site.put("site.a", second(3))
        await until_read(query, 3)
    await site.put("site.a", second(4), second(5, v=-5))
    async with site.running(with_filter) as query:
        await site.put("site.a", second(15), second(16))
        [first] = await site.until(lambda results: len(results) == 1)
        # Results are stored before the micro-batch that made them is counted.
        await eventually(lambda: counts(query) == {"positive": (4, 3), "window": (3, 1), "map": (1, 1)})
    await site.put("site.a", second(17, k="nowhere"), second(40))
    async with site.running(longer):
        results = await site.until(lambda results: len(results) == 2)

    assert first.values == {"total": 1.0 - 5.0 + 1.0 + 1.0}
    assert first.key == {"k": "a"}
    assert results[1].values == {"total": 2.0, "n": 2}
    assert [rejected.step for rejected in await site.rejected()] == ["clean"]


async def test_windows_of_a_chain_when_one_of_two_inputs_is_slow_then_wait_for_it(site: Site) -> None:
    other = {**engine.DEVICE, "name": "jfk/site/b", "subject": "site.b"}
    window = {**WINDOW, "fields": FIELDS, "key": [], "aggregates": {"n": {"function": "count"}}}
    job = engine.assignment({"kind": "chain", "steps": [POSITIVE, window]}, engine.DEVICE, other)
    await site.put("site.a", second(1), second(2, v=-1), second(100))
    await site.put("site.b", second(3), second(5))
    async with site.running(job) as query:
        await until_read(query, 5)
        early = await site.results()
        await site.put("site.b", second(50))
        [closed] = await site.until(lambda results: len(results) == 1)

    assert early == []
    assert closed.values == {"n": 3}


def counts(query: Any) -> dict[str, tuple[int, int]]:
    """Return how many events each step has taken, and how many results it has made of them."""
    return {step.name: (step.events, step.results) for step in query.steps.counts()}


async def until_read(query: Any, events: int) -> None:
    """Wait until the job has read so many events."""
    async with asyncio.timeout(WITHIN_S):
        while query.status(JobState.RUNNING).events < events:
            await asyncio.to_thread(query.take_in_progress)
            await asyncio.sleep(0.05)
