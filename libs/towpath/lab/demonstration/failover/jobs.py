"""The jobs of the site that dies, and the devices that they read.

    devices at jfk ── clean-jfk ─▶ jfk ── hourly-jfk ─▶ lga   the output between them is at the site that dies
    devices at lga ──┬── hourly-lga ─▶ lga   events come all the time, so its results must go on
                     └── tokens     ─▶ lga   as much state as is asked for

All jobs run at jfk, and the cloud is their standby.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

from towpath.contracts.job import Input, JobSpec, Output, Standby
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, Operator, Window
from towpath.contracts.scenario_load import ReplayLoad
from towpath.lab.demonstration.pipeline import (
    CLEAN,
    CLOUD,
    DEVICE_TOPIC,
    LEAVING_DEPARTURES,
    hourly,
    waiting_s,
)
from towpath.lab.harness.load import DueEvent

LOST, STAYS = "jfk", "lga"
SITES = (LOST, STAYS, CLOUD)

COPIED_EVERY_S = 5.0

TOKENS, TOKEN_TOPIC = "tokens", "site/tokens"

TOKEN_BYTES = 1_000
"""Of a key, and of the state of its window in good approximation: the count beside it is small."""

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
OPEN_FOR = timedelta(hours=1)
"""Time for which windows stay open: longer than the demonstration takes."""

LEAD = timedelta(seconds=2)
"""Of reports over the watermark, so that none is late."""

REPORTS = 10
"""A second, each with a key of its own: so many windows close every second."""


def jobs(*, tokens: bool) -> list[JobSpec]:
    """Return all jobs, `tokens` among them if wanted."""
    windows = hourly(waiting_s(LEAVING_DEPARTURES))
    found = [
        _job("clean-jfk", LOST, DEVICE_TOPIC, LOST, CLEAN),
        _job("hourly-jfk", LOST, _topic("clean-jfk"), STAYS, windows),
        _job("hourly-lga", STAYS, DEVICE_TOPIC, STAYS, windows),
    ]
    return [*found, _job(TOKENS, STAYS, TOKEN_TOPIC, STAYS, TOKEN_WINDOWS)] if tokens else found


def _job(name: str, reads: str, topic: str, writes: str, operator: Operator) -> JobSpec:
    return JobSpec(
        name=name,
        site=LOST,
        # What devices sent before the run is not part of it.
        inputs=[Input(site=reads, topic=topic, start="latest")],
        output=Output(site=writes, topic=_topic(name)),
        operator=operator,
        trigger_s=1.0,
        standby=Standby(site=CLOUD, every_s=COPIED_EVERY_S),
    )


def _topic(job: str) -> str:
    return f"departures/{job}"


def departures_at(site: str, rate: float) -> ReplayLoad:
    """Return real departures of an airport, as its devices send them."""
    return ReplayLoad(
        replay="departures",
        site=site,
        topic=DEVICE_TOPIC,
        rate=rate,
        airport=site.upper(),
        events=LEAVING_DEPARTURES,
    )


TOKEN_WINDOWS = Window(
    fields={"token": FieldType.STRING, "at": FieldType.TIMESTAMP},
    event_time="at",
    watermark_s=OPEN_FOR.total_seconds(),
    size_s=1.0,
    key=["token"],
    aggregates={"events": Aggregate(function=AggregateFunction.COUNT)},
)
"""Events of each second and token. Windows of the backlog stay open: they are the state."""


def backlog(megabytes: int) -> list[bytes]:
    """Return events of which each adds `TOKEN_BYTES` to the state, random ones, so that none compresses."""
    draw = Random(7)
    tokens = (base64.b64encode(draw.randbytes(TOKEN_BYTES * 3 // 4)).decode() for _ in count())
    return [_event(next(tokens), BEGIN) for _ in range(megabytes * 1_000_000 // TOKEN_BYTES)]


def reports(stopped: Callable[[], bool]) -> Iterator[DueEvent]:
    """Yield reports until stopped, and each second a clock, which moves the watermark and closes windows."""
    for second in count():
        if stopped():
            return
        now = BEGIN + timedelta(seconds=second)
        yield DueEvent(_event("clock", now), second)
        for number in range(REPORTS):
            yield DueEvent(_event(f"report-{number}", now - OPEN_FOR + LEAD), second + number / REPORTS)


def _event(token: str, at: datetime) -> bytes:
    return json.dumps({"token": token, "at": at.isoformat()}).encode()
