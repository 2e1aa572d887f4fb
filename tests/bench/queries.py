"""Queries: what it costs to plan them, what they share, what a sample saves, and how soon they answer.

CPU time is that of the site's engine, for each 1,000 events of the stream, less what the engine takes without
a query. So it does not matter how far jobs fall behind that share the cores.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median

from benchmark import EDGE, Benchmark, Say, Scale
from compositions_usage import usage_of
from figures import Case, Measured, Target, Value, rounded
from load_process import load
from measured_mesh import ATTEMPT_S, COMMAND_S, MeasuredMesh, until
from reports import TOPIC

from towpath.contracts.data_plane import output_stream
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, compiled
from towpath.queries.parsing import parse
from towpath.queries.planning import shared_plan
from towpath.streams.pages import pages_after

sys.path.append(str(Path(__file__).parents[1]))

from running.query_texts import query_text

TEXTS = 1_000
RATE = 5_000.0
SENSORS = 20
WARM_S, MEASURED_S, FIRST_S = 20.0, 40.0, 240.0
ENGINE = "engine"
CPU = "CPU ms per 1,000 events"
WITH_ENGINE = "with the engine's own"
SETTLED_S = 10.0
CostOf = Callable[[Sequence[str]], Awaitable[dict[str, Value]]]
"""Returns the cost of texts that run at once."""
EVENTS = "events/s"
AT_A_TIME = 4
PLANNED = "CPU s for 1,000"
FIRST = "first answer, median, s"
FIRST_ANSWERS = 10
STEADY_S = 3.0
RATIO = "ratio"

STREAM = f'r = STREAM FROM topic(topic="{TOPIC}", time="at", delay="2 SECONDS", value="value");\n'
NOW = f'''r = STREAM FROM topic(topic="{TOPIC}", time="at", value="value");
now = COMPUTE AVG(r, 1 SECONDS) EVERY 1 SECONDS;
'''
SIMPLE = "energy_10min = COMPUTE AVG(r, 10 MINUTES) EVERY 5 SECONDS;\n"
SECOND = "energy_plus_100_10min = COMPUTE AVG(r, 10 MINUTES) + 100 EVERY 5 SECONDS;\n"
WINDOWS = "means = COMPUTE AVG(r, 10 SECONDS) EVERY 1 SECONDS BY sensor;\n"
MAX_ERROR, CONFIDENCE = 0.05, 0.95
PROMISED = WINDOWS.replace(";\n", f" WITH MAX_ERROR {MAX_ERROR} AND CONFIDENCE {CONFIDENCE};\n")
KEPT = "share within the error"
ROUNDING = 1e-9
SAMPLED = "energy_10min = COMPUTE AVG(r, 10 MINUTES) EVERY 5 SECONDS WITH SAMPLE 0.2;\n"


def twenty() -> list[str]:
    """Return 20 different queries over one stream."""
    by = ["", " BY sensor"]
    functions = [
        "AVG(r, 60 SECONDS)",
        "MAX(r, 5 MINUTES)",
        "SUM(r, 30 SECONDS)",
        "COUNT(r WHEN > 20, 60 SECONDS)",
    ]
    functions += ["MIN(r, 60 SECONDS)", "SDEV(r, 60 SECONDS)", "MAX(r, 20 SECONDS) - MIN(r, 20 SECONDS)"]
    functions += ["100 * COUNT(r WHEN > 25, 60 SECONDS) / COUNT(r, 60 SECONDS)"]
    functions += ["AVG(ABS(value - 20), 60 SECONDS)", "RUNNING_MEAN(r)"]
    made = [f"COMPUTE {function} EVERY 10 SECONDS{each};\n" for function in functions for each in by]
    return [f"q{number} = {query}" for number, query in enumerate(made, 1)]


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Plan many texts, then run queries over one stream in different ways."""
    assert mesh is not None
    warm_s, seconds = (8.0, 10.0) if scale is Scale.QUICK else (WARM_S, MEASURED_S)
    measured.notes.append(f"{RATE:,.0f} reports/s of {SENSORS} sensors, CPU time over {seconds:.0f} s")
    say("plan 1,000 texts")
    measured.cases.append(_planned())
    say("the engine without a query")
    alone = await _alone(mesh, seconds)
    measured.notes.append(f"without a query the engine takes {1000 * alone:.0f} ms a second: not counted")
    cost = partial(_cost, mesh, warm_s=warm_s, seconds=seconds, alone=alone)
    say("twenty queries as one text")
    together = await cost(["".join(twenty())])
    say("twenty queries as twenty texts, four at a time")
    apart = await _apart(cost, twenty())
    _compared(measured, "20 queries in one text", together, "in 20 texts", apart, Target(at_most=0.2))
    say("one query, and a second one upon it")
    # By turns, because a machine is not equally fast all the time.
    before = await cost([SIMPLE])
    both = await cost([SIMPLE + SECOND])
    between = await cost([SIMPLE])
    one = _mean(before, between)
    _compared(measured, "two queries of one average", both, "the first alone", one, Target(at_most=1.05))
    say("a sample")
    sampled = await cost([SAMPLED])
    whole = _mean(between, await cost([SIMPLE]))
    _compared(measured, "the average of a sample of 0.2", sampled, "of all", whole, Target(at_most=0.4))
    say("first answers")
    measured.cases.append(await _first_answers(mesh))
    say("a promised error")
    measured.cases.append(await _promised(mesh, cost, warm_s + seconds))


def _planned() -> Case:
    texts = [query_text(seed, 1) for seed in range(TEXTS)]
    begun = time.process_time()
    for text in texts:
        asked = check(parse(text))
        shared_plan(asked, dict.fromkeys(asked.sources, (0,)), [EDGE.name])
    figures: dict[str, Value] = {PLANNED: rounded(time.process_time() - begun)}
    return Case("parse, check and plan", figures, {PLANNED: Target(at_most=2.0)})


def _compared(
    measured: Measured,
    name: str,
    figures: dict[str, Value],
    other_name: str,
    others: dict[str, Value],
    target: Target,
) -> None:
    mine, theirs = figures[CPU], others[CPU]
    assert isinstance(mine, float | int)
    assert isinstance(theirs, float | int)
    measured.cases.append(Case(other_name, others))
    measured.cases.append(Case(name, {**figures, RATIO: rounded(mine / theirs)}, {RATIO: target}))


def _mean(*figures: dict[str, Value]) -> dict[str, Value]:
    return {name: rounded(fmean(float(each[name] or 0) for each in figures)) for name in figures[0]}


async def _alone(mesh: MeasuredMesh, seconds: float) -> float:
    """Return the CPU seconds that the warm engine takes in a second, while no one reads the events."""
    await _remove(mesh, [await _run(mesh, STREAM + SIMPLE)])
    async with load(mesh.load_spec(EDGE.name, rate=RATE, sensors=SENSORS)) as sending:
        await asyncio.sleep(SETTLED_S)
        used = await usage_of(mesh, EDGE.name)
        await asyncio.sleep(seconds)
        usage = await usage_of(mesh, EDGE.name)
        await sending.stop()
    return (usage[ENGINE].cpu_s - used[ENGINE].cpu_s) / seconds


async def _cost(
    mesh: MeasuredMesh, texts: Sequence[str], *, warm_s: float, seconds: float, alone: float = 0.0
) -> dict[str, Value]:
    """Return the cost of texts. `alone`: CPU seconds that the engine takes in a second without them."""
    async with load(mesh.load_spec(EDGE.name, rate=RATE, sensors=SENSORS)) as sending:
        asked = [await _run(mesh, STREAM + text) for text in texts]
        await until(lambda: _have_answers(mesh, asked), FIRST_S, "answers of all queries")
        await asyncio.sleep(warm_s)
        before, used, began = (
            await _just_counted(mesh, asked),
            await usage_of(mesh, EDGE.name),
            time.monotonic(),
        )
        await asyncio.sleep(seconds)
        after, usage = await _just_counted(mesh, asked), await usage_of(mesh, EDGE.name)
        seconds = time.monotonic() - began
        await sending.stop()
    await _remove(mesh, asked)
    spent, events = usage[ENGINE].cpu_s - used[ENGINE].cpu_s, (after - before) / len(asked)
    per_thousand = 1e6 / max(events, 1)
    return {
        CPU: rounded((spent - alone * seconds) * per_thousand),
        WITH_ENGINE: rounded(spent * per_thousand),
        EVENTS: rounded(events / seconds),
    }


async def _apart(cost: CostOf, texts: Sequence[str]) -> dict[str, Value]:
    """Return the cost of texts that share nothing.

    All at once they would be forty jobs, more than two cores can run. So a few run at a time, and their costs
    are added.
    """
    costs = [await cost(texts[first : first + AT_A_TIME]) for first in range(0, len(texts), AT_A_TIME)]
    added = {name: rounded(sum(float(each[name] or 0) for each in costs)) for name in (CPU, WITH_ENGINE)}
    return {**added, EVENTS: rounded(sum(float(each[EVENTS] or 0) for each in costs) / len(costs))}


async def _promised(mesh: MeasuredMesh, cost: CostOf, for_s: float) -> Case:
    """Run a query twice over the same events, the second one content with estimates, and compare answers."""
    exact, estimated = await cost([WINDOWS]), await cost([PROMISED])
    async with load(mesh.load_spec(EDGE.name, rate=RATE / 2, sensors=SENSORS)) as sending:
        asked = [await _run(mesh, STREAM + text) for text in (WINDOWS, PROMISED)]
        await until(lambda: _have_answers(mesh, asked), FIRST_S, "answers of both")
        await asyncio.sleep(for_s)
        await sending.stop()
    true, found = [await _answers(mesh, each) for each in asked]
    await _remove(mesh, asked)
    both = [(true[place]["value"], found[place]) for place in true.keys() & found.keys()]
    within = sum(abs(one["value"] - value) <= MAX_ERROR * abs(value) for value, one in both)
    inside = sum(one["low"] - ROUNDING <= value <= one["high"] + ROUNDING for value, one in both)
    figures: dict[str, Value] = {
        KEPT: rounded(within / max(len(both), 1)),
        "share in the interval": rounded(inside / max(len(both), 1)),
        "windows": len(both),
        "events read": rounded(sum(one["sampled"] for _, one in both) / max(len(both), 1)),
        CPU: estimated[CPU],
        "CPU of the exact one": exact[CPU],
    }
    return Case("averages with a promised error", figures, {KEPT: Target(at_least=CONFIDENCE)})


async def _answers(mesh: MeasuredMesh, spec: PipelineSpec) -> dict[tuple[str, str], dict[str, float]]:
    """Return the answers of a text with one query, by key and moment."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    async for messages in pages_after(mesh.bus.connection, EDGE.name, output_stream(spec.name), 0):
        for message in messages:
            answer = json.loads(message.body)
            found[str(answer["key"]), answer["window"]["end"]] = answer["values"]
    return found


async def _first_answers(mesh: MeasuredMesh) -> Case:
    """Run a query again and again at a site that has run others, and wait for its first answer."""
    waited: list[float] = []
    async with load(mesh.load_spec(EDGE.name, rate=1_000.0, sensors=SENSORS)) as sending:
        for _ in range(FIRST_ANSWERS):
            await asyncio.sleep(STEADY_S)
            begun = time.monotonic()
            asked = [await _run(mesh, NOW)]
            await until(lambda: _have_answers(mesh, asked), FIRST_S, "the first answer")  # noqa: B023
            waited.append(time.monotonic() - begun)
            await _remove(mesh, asked)
        await sending.stop()
    longest = f"longest of {FIRST_ANSWERS}"
    figures: dict[str, Value] = {FIRST: rounded(median(waited)), longest: rounded(max(waited))}
    return Case("run a query that answers every second", figures, {FIRST: Target(at_most=3.0)})


async def _just_counted(mesh: MeasuredMesh, asked: Sequence[PipelineSpec]) -> int:
    """Wait until further events have become panes. Return all that have.

    Some texts count 25,000 at a time: between two such moments their costs belong to that many events.
    """
    before = await _events(mesh, asked)
    now = before

    async def more() -> bool:
        nonlocal now
        now = await _events(mesh, asked)
        return now > before

    await until(more, FIRST_S, "further events in panes")
    return now


async def _run(mesh: MeasuredMesh, text: str) -> PipelineSpec:
    asked = Asked(mesh.fresh_name("queries"), EDGE.name, text, {}, [EDGE.name])
    made = compiled(asked).pipeline
    await mesh.bus.request(ApplyPipeline(spec=made), deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
    return made


async def _remove(mesh: MeasuredMesh, asked: Sequence[PipelineSpec]) -> None:
    for spec in asked:
        command = DeletePipeline(pipeline=spec.name, now=True, purge=True)
        await mesh.bus.request(command, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)


async def _have_answers(mesh: MeasuredMesh, asked: Sequence[PipelineSpec]) -> bool:
    return all([(await mesh.stored(EDGE.name, output_stream(spec.name)))[0] > 0 for spec in asked])


async def _events(mesh: MeasuredMesh, asked: Sequence[PipelineSpec]) -> int:
    """Return the events that have become panes, of all texts together."""
    read = 0
    for spec in asked:
        status = await mesh.status(spec.jobs[0].job_spec())
        read += 0 if status is None else status.events
    return read


BENCHMARK = Benchmark(
    name="queries",
    title="Queries: planning, sharing, sampling, and the first answer",
    sites=(EDGE,),
    measure=measure,
    on_request=True,
)
