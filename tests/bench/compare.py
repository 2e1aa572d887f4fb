"""Towpath beside what one would pick instead for one site: the same count, by the same load, in one run."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from benchmark import Benchmark, Say, Scale
from compare_engines import COMPARED, OTHERS, Compared, Counting
from compare_judging import (
    ALLOWED_S,
    LOAD_BEHIND_LIMIT_S,
    OVERDUE_LIMIT_S,
    SIZE_S,
    Account,
    Result,
    account,
    falls_behind,
    median_latency_s,
    overdue_s,
    result_of,
)
from compositions_usage import Usage, total, usage
from figures import Case, Measured, Value, rounded
from load import LoadReport, LoadSpec
from load_process import load, send
from measured_mesh import MeasuredMesh, until, within
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

RATES = (1_000, 5_000)
LADDER = (10_000, 20_000, 40_000, 80_000)
"""Higher rates, at which it is only asked whether an engine keeps up, until it does not."""

FIRST_RATE = 100
"""Events per second until the first result: one per sensor."""

IN_FLIGHT = 10_000
"""Unacknowledged events of the load's connection. It is only one, so that events come in order of time."""

READY_S = 180.0
"""Time for an engine's first result: on a busy machine Flink takes a minute."""

CLOSE_S = 20.0
"""Time for the last results of a load. What has not come by then is lost."""

SEND_S = 30.0

COUNTED = "keeps up at, events/s"
MOVES = "moves a running job"


@dataclass(frozen=True)
class Plan:
    """Seconds of each part."""

    warm_s: float
    """At the highest steady rate, before anything is measured: two of the engines compile while they run."""
    settle_s: float
    """At each steady rate, before it is measured."""
    measured_s: float
    step_s: float
    highest: int
    """Events per second beyond which no rate is tried."""


PLANS = {
    Scale.QUICK: Plan(warm_s=3.0, settle_s=2.0, measured_s=5.0, step_s=6.0, highest=10_000),
    Scale.DEFAULT: Plan(warm_s=15.0, settle_s=3.0, measured_s=15.0, step_s=15.0, highest=80_000),
    Scale.FULL: Plan(warm_s=60.0, settle_s=5.0, measured_s=30.0, step_s=15.0, highest=80_000),
}


@dataclass
class Course:
    """One engine under measurement."""

    engine: Counting
    results: list[Result]
    plan: Plan
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def load_spec(self, rate: float) -> LoadSpec:
        """Return a load that lasts until it is stopped."""
        return self.engine.load_spec(self.client_id(), rate=rate, in_flight=IN_FLIGHT)

    def client_id(self) -> str:
        """Return a name that no client had before."""
        return f"compare-{next(self._numbers)}"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure each engine alone, one after the other. One that fails is a row without figures, and a note."""
    plan = PLANS[scale]
    measured.upright = True
    measured.notes.extend(_notes(plan))
    failed: list[Exception] = []
    for compared in COMPARED:
        figures: dict[str, Value] = {}
        faults = 0
        try:
            async with compared.run(lambda text, name=compared.name: say(f"{name}: {text}")) as engine:
                faults = await _measured(compared, engine, plan, say, figures, measured.notes)
        except Exception as error:  # The others are measured all the same.
            measured.notes.append(f"{compared.name} could not be measured: {type(error).__name__}: {error}")
            if compared.is_towpath:
                failed.append(error)
        figures[MOVES] = "yes" if compared.is_towpath else "no"
        measured.cases.append(Case(compared.name, figures, faults=faults if compared.is_towpath else 0))
    if failed:
        raise failed[0]


async def _measured(
    compared: Compared,
    engine: Counting,
    plan: Plan,
    say: Say,
    figures: dict[str, Value],
    notes: list[str],
) -> int:
    """Fill in the figures of one engine. Return how many events it lost or repeated at the steady rates."""
    faults = 0
    async with _received(engine) as results:
        course = Course(engine, results, plan)
        say(f"{compared.name}: starting")
        begun = time.monotonic()
        await _ready(course)
        say(f"{compared.name}: first result after {time.monotonic() - begun:.0f} s; warming up")
        await _warm(course)
        kept = 0
        try:
            for rate in (*RATES, *(rate for rate in LADDER if rate <= plan.highest)):
                say(f"{compared.name} at {rate:,}/s")
                if rate in RATES:
                    found, refused = await _steady(course, rate, figures)
                    faults += found.lost + found.surplus + found.repeated
                else:
                    refused = await _step(course, rate)
                if refused is not None:
                    notes.append(f"{compared.name}, not at {rate:,}/s: {refused}")
                    break
                kept = rate
        finally:
            figures[COUNTED] = kept
    return faults


@asynccontextmanager
async def _received(engine: Counting) -> AsyncIterator[list[Result]]:
    """Yield the list of an engine's results, which a subscriber outside of the engine fills."""
    results: list[Result] = []
    subscribed = asyncio.Event()
    loop = asyncio.get_running_loop()
    client = Client(CallbackAPIVersion.VERSION2, client_id="compare-results")
    client.username_pw_set(engine.broker.user, engine.broker.password)

    def received(client: Client, userdata: object, message: MQTTMessage) -> None:
        results.append(result_of(message.payload, time.time()))

    client.on_message = received
    client.on_connect = lambda client, *_: client.subscribe(engine.results, qos=1)
    client.on_subscribe = lambda *_: loop.call_soon_threadsafe(subscribed.set)
    client.connect(engine.broker.host, engine.broker.port)
    client.loop_start()
    try:
        async with asyncio.timeout(SEND_S):
            await subscribed.wait()
        yield results
    finally:
        client.disconnect()
        client.loop_stop()


async def _ready(course: Course) -> None:
    """Wait for the first result. Events before it may be lost: the engine has not subscribed yet."""

    async def counts() -> bool:
        course.engine.check()
        return bool(course.results)

    async with load(course.load_spec(FIRST_RATE)) as sending:
        await until(counts, READY_S, "the first result")
        await sending.stop()
    await _whole_second(0.0)  # None of these events may lie in the first window that is judged.


async def _warm(course: Course) -> None:
    async with load(course.load_spec(max(RATES))) as sending:
        await asyncio.sleep(course.plan.warm_s)
        report = await sending.stop()
    await _closed(course, report)


async def _steady(course: Course, rate: int, figures: dict[str, Value]) -> tuple[Account, str | None]:
    """Measure at a steady rate. Return what became of the events, and why the engine does not keep up."""
    plan = course.plan
    async with load(course.load_spec(rate)) as sending:
        begin = await _whole_second(plan.settle_s)
        before = await _usage(course.engine)
        since = time.monotonic()
        end = await _whole_second(plan.measured_s)
        after, seconds = await _usage(course.engine), time.monotonic() - since
        overdue = overdue_s(course.results, begin, time.time())
        report = await sending.stop()
    found = await _closed(course, report)
    refused = falls_behind(overdue, report.behind_s, found)
    per_thousand = 1e6 * (after.cpu_s - before.cpu_s) / (rate * seconds)
    at = f"at {rate:,}/s"
    # What an engine spends while it falls behind is no price of the events that were sent.
    figures[f"CPU ms per 1,000 events {at}"] = rounded(per_thousand, 1) if refused is None else None
    figures[f"median latency, s {at}"] = rounded(median_latency_s(course.results, begin, end))
    figures[f"PSS, MB {at}"] = rounded(after.proportional_mb, 0)
    figures[f"lost {at}"] = found.lost
    figures[f"repeated {at}"] = found.repeated
    return found, refused


async def _step(course: Course, rate: int) -> str | None:
    """Return why the engine does not keep up with a rate; none if it does."""
    async with load(course.load_spec(rate)) as sending:
        begin = await _whole_second(0.0)
        await asyncio.sleep(course.plan.step_s)
        course.engine.check()
        overdue = overdue_s(course.results, begin, time.time())
        if overdue > OVERDUE_LIMIT_S:
            return falls_behind(overdue, 0.0, None)
        report = await sending.stop()
    return falls_behind(overdue, report.behind_s, await _closed(course, report))


async def _closed(course: Course, report: LoadReport) -> Account:
    """Close the windows of a load that has ended, with one later event. Return what became of its events."""
    await asyncio.sleep(SIZE_S + ALLOWED_S + 0.1)  # The event's own time closes the last window.
    closing = course.engine.load_spec(course.client_id(), events=1)
    until_window = float(int((await send(closing, SEND_S)).began_at))
    since = float(int(report.began_at))

    def found() -> Account:
        return account(course.results, since, until_window, report.acknowledged)

    async def complete() -> bool:
        course.engine.check()
        return found().lost == 0

    await within(complete, CLOSE_S)
    await _whole_second(0.0)  # The closing event's window must not be the next load's first.
    return found()


async def _whole_second(seconds: float) -> float:
    """Wait some seconds and then for the next whole one. Return it, Unix seconds."""
    await asyncio.sleep(seconds)
    now = time.time()
    await asyncio.sleep(1.0 - now % 1.0)
    return float(int(now) + 1)


async def _usage(engine: Counting) -> Usage:
    return total(await asyncio.to_thread(lambda: usage(engine.roots())))


def _notes(plan: Plan) -> list[str]:
    versions = ", ".join(other.requirements[0] for other in OTHERS)
    return [
        f"the same for all: tumbling windows of {SIZE_S:g} s of the time that events carry, 100 keys, "
        f"{ALLOWED_S:g} s allowed for disorder; QoS 1 in and out; one subscriber outside",
        f"steadily: {plan.measured_s:g} s of each rate, after {plan.warm_s:g} s of the higher one; latency: "
        "the time a result was received less the end of its window; CPU and PSS: all processes of the "
        "engine, for Towpath also agent and services of the mesh, for PyFlink also its bridge from and to "
        "MQTT; no brokers",
        f"keeps up: after {plan.step_s:g} s the next window is at most {OVERDUE_LIMIT_S:g} s overdue, the "
        f"load at most {LOAD_BEHIND_LIMIT_S:g} s, and no event is lost; rates double up to {plan.highest:,}",
        "Towpath: a site of a mesh, every event stored and every micro-batch in a checkpoint; without one at "
        f"the others, which have a plain nats-server as broker and run with their defaults: {versions}",
    ]


BENCHMARK = Benchmark(
    "compare", "Towpath beside Pathway, Bytewax and PyFlink at one site", (), measure, on_request=True
)
