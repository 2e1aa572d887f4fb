"""The command that plays recorded events to a site, as its devices would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from towpath.cli.connection import load_mesh
from towpath.cli.output import print_json, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.data_plane import DEVICE_PREFIX
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Topic, new_identifier
from towpath.lab.workload.replay import RecordedEvent, Replay, ReplayReport
from towpath.mesh.home import Home
from towpath.mesh.site_broker import site_broker

RECORDINGS = ("departures",)
"""A data set to replay: the 336,776 departures from New York's airports in 2013."""


def replay(
    context: typer.Context,
    site: Annotated[str, typer.Option("--site", help="The site whose broker takes the events.")],
    recording: Annotated[str, typer.Argument(metavar="departures", help="What to replay.")] = RECORDINGS[0],
    airport: Annotated[
        str | None,
        typer.Option(help="Only departures from EWR, JFK or LGA.", show_default="all three"),
    ] = None,
    topic: Annotated[str, typer.Option(help=f"MQTT topic under {DEVICE_PREFIX}.")] = "site/departures",
    rate: Annotated[float | None, typer.Option(help="Events per second.", show_default="no limit")] = None,
    speed: Annotated[
        float | None, typer.Option(help="Seconds of recorded time per second.", show_default="no limit")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="How many events.", show_default="all")] = None,
    malformed_every: Annotated[
        int | None,
        typer.Option(min=1, help="Plant a broken record after so many events.", show_default="none"),
    ] = None,
    close: Annotated[
        bool, typer.Option("--close", help="End with an event that closes all windows.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Play recorded departures to a site's broker over MQTT, and wait until all are stored.

    Without --rate and --speed, as fast as the broker accepts them.

    Example: `towpath replay --site jfk --airport JFK --rate 500 --limit 20000`
    """
    if recording not in RECORDINGS:
        raise TowpathError.unknown("recording", recording, list(RECORDINGS))
    _check_topic(topic)
    home = home_of(context)
    plan = asyncio.run(_plan(home, site, topic, rate, speed))
    report = asyncio.run(_replay(plan, airport, limit, malformed_every, close))
    if as_json:
        return print_json(report)
    print(_describe(report))


def _check_topic(topic: str) -> None:
    try:
        TypeAdapter(Topic).validate_python(topic)
    except ValidationError as error:
        detail = TowpathError.of_validation(error).detail
        raise TowpathError(
            detail.code, detail.message, field="topic", value=topic, allowed=detail.allowed
        ) from error
    if not topic.startswith(DEVICE_PREFIX):
        raise TowpathError(
            ErrorCode.INVALID, "not a device topic", field="topic", value=topic, allowed=f"{DEVICE_PREFIX}…"
        )


async def _plan(home: Home, site: str, topic: str, rate: float | None, speed: float | None) -> Replay:
    access = (await load_mesh(home)).site(site)
    broker = site_broker(access, access.client)
    return Replay(broker, topic, f"replay-{new_identifier()}", rate=rate, speed=speed)


async def _replay(
    plan: Replay, airport: str | None, limit: int | None, malformed_every: int | None, close: bool
) -> ReplayReport:
    with working("reading the departures …") as status:
        events = await asyncio.to_thread(_events, airport, limit, malformed_every, close)
        return await plan.run(
            events, lambda report: status.update(f"{_describe(report)} of {len(events)} events")
        )


def _events(
    airport: str | None, limit: int | None, malformed_every: int | None, close: bool
) -> Sequence[RecordedEvent]:
    # It imports pandas, which takes longer than most commands run.
    from towpath.lab.workload.departures import AIRPORTS, closing_event, departures, with_malformed

    events = departures(airport, limit)
    if malformed_every is not None:
        events = list(with_malformed(events, malformed_every))
    if close:
        events += [closing_event(name) for name in ((airport,) if airport else AIRPORTS)]
    return events


def _describe(report: ReplayReport) -> str:
    rate = report.acknowledged / report.seconds if report.seconds else 0.0
    again = f", {report.redelivered:,} sent again after a lost connection" if report.redelivered else ""
    return f"{report.acknowledged:,} events stored in {report.seconds:.1f} s ({rate:,.0f}/s){again}"
