"""Store and forward: how fast a backlog drains beside live reports, and whether faults lose or repeat any.

    python tests/bench/uplink.py                              a million events, then ten minutes of faults
    python tests/bench/uplink.py --backlog 20000 --minutes 1  a quick look

The link is emulated. First it is cut while the backlog is stored. Then it is perfect, or has a bandwidth
(`--bandwidth`), and live reports go on: their delay is measured while the backlog drains. Then faults follow,
drawn with a seed: cuts that leave connections half open, 2 % loss at 300 ms, resets. In the end the
destination's stream is read as a whole and compared with the numbers that were sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import reports
from load_process import load, send
from measured_mesh import MeasuredMesh, mesh_of, temporary_home, until

from towpath.bus.connecting import Login, connect_once
from towpath.contracts.data_plane import STORED_AT_HEADER, uplink_stream
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.contracts.site import SiteSpec
from towpath.contracts.uplink import ApplyUplinks, ListUplinks, UplinkSpec, UplinkStatus
from towpath.streams.pages import StoredMessage, last_serial, pages_after
from towpath.uplinks.account import Account
from towpath.uplinks.position import EventPlace, Lane

TRAIN, CLOUD = SiteSpec(name="train"), SiteSpec(name="cloud")
UPLINK = UplinkSpec(name="reports", site="train", topic=reports.TOPIC, to="cloud")
COMMAND_S = 30.0
THROUGH_S = 3600.0
LOAD_S = 1800.0

FAULTS = {
    "cut": LinkConditions(cut=True),
    "loss 2 %, 300 ms": LinkConditions(loss_percent=2, delay_ms=150, jitter_ms=50),
    "resets": LinkConditions(reset_every_s=1.0),
    "narrow, 300 ms": LinkConditions(bandwidth_bytes_per_s=400_000, delay_ms=150),
    "none": LinkConditions(),
}


@dataclass
class Figures:
    """Figures of a run."""

    backlog: int = 0
    drained_in_s: float = 0.0
    drained_per_s: float = 0.0
    live_while_draining: dict[str, float] = field(default_factory=dict)
    """Seconds from the origin's stream to the destination's: median, 99th percentile, longest."""
    live_passed_over: int = 0
    """Reports of that time that became late themselves."""
    faults: dict[str, int] = field(default_factory=dict)
    faults_s: float = 0.0
    through_after_faults_s: float = 0.0
    sent: int = 0
    lost: int = 0
    twice: int = 0
    missing: int = 0
    out_of_order: int = 0
    discarded: int = 0


def say(text: str) -> None:
    """Tell what is done, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


async def shape(mesh: MeasuredMesh, conditions: LinkConditions) -> None:
    """Make the train's link so."""
    perfect = conditions == LinkConditions()
    command = RestoreLink(site="train") if perfect else ShapeLink(site="train", conditions=conditions)
    await mesh.bus.request(command, deadline_s=COMMAND_S)


async def status(mesh: MeasuredMesh) -> UplinkStatus:
    """Return the uplink's figures."""
    found = await mesh.bus.request(ListUplinks(), deadline_s=COMMAND_S)
    return found.uplinks[0].status


async def measure_drain(mesh: MeasuredMesh, figures: Figures, arguments: argparse.Namespace) -> None:
    """Store a backlog while the link is cut, and drain it beside live reports."""
    await shape(mesh, LinkConditions(cut=True))
    say(f"storing {arguments.backlog:,} reports while the link is cut")
    report = await send(mesh.load_spec("train", events=arguments.backlog), LOAD_S)
    figures.backlog = figures.sent = report.acknowledged
    async with load(mesh.load_spec("train", rate=arguments.rate, first=figures.sent)) as live:
        await asyncio.sleep(2)
        begun = time.time()
        await shape(mesh, LinkConditions(bandwidth_bytes_per_s=arguments.bandwidth))
        say("draining")
        drained = await _drain_time(mesh, figures.backlog)
        figures.drained_in_s = round(drained - begun, 1)
        figures.drained_per_s = round(figures.backlog / (drained - begun))
        figures.sent += (await live.stop()).acknowledged
    await _measure_live(mesh, figures, begun, drained)


async def _drain_time(mesh: MeasuredMesh, backlog: int) -> float:
    """Return when the last event of the backlog was there."""
    last = -1.0

    async def is_through() -> bool:
        nonlocal last
        now = await status(mesh)
        if time.monotonic() - last > 15:
            last = time.monotonic()
            say(f"{now.state}: {now.forwarded:,} forwarded, {now.backlog_events:,} wait")
        return now.forwarded >= backlog and now.backlog_events < 5000

    await until(is_through, THROUGH_S, "the end of the backlog")
    return time.time()


async def _measure_live(mesh: MeasuredMesh, figures: Figures, begun: float, drained: float) -> None:
    """Measure the delay of reports that were stored while the backlog drained."""
    delays: list[float] = []
    late = 0
    async for message, place in _arrived(mesh):
        stored = _seconds(place.stored_at)
        if begun + 2 <= stored <= drained:
            delays.append(_seconds(message.headers[STORED_AT_HEADER]) - stored)
            late += place.lane is Lane.LATE
    figures.live_passed_over = late
    if delays:
        found = np.quantile(np.array(delays), [0.5, 0.99, 1.0])
        figures.live_while_draining = dict(zip(("p50", "p99", "max"), map(_rounded, found), strict=True))
        figures.live_while_draining["reports"] = len(delays)


async def measure_faults(mesh: MeasuredMesh, figures: Figures, arguments: argparse.Namespace) -> None:
    """Let faults come and go while reports are sent."""
    chance, end = random.Random(arguments.seed), time.monotonic() + 60 * arguments.minutes
    say(f"{arguments.minutes:g} minutes of faults")
    async with load(mesh.load_spec("train", rate=arguments.rate, first=figures.sent)) as live:
        while time.monotonic() < end:
            name = chance.choice(list(FAULTS))
            figures.faults[name] = figures.faults.get(name, 0) + 1
            await shape(mesh, FAULTS[name])
            await asyncio.sleep(chance.uniform(3, 15))
        await shape(mesh, LinkConditions())
        figures.sent += (await live.stop()).acknowledged
    figures.faults_s = 60 * arguments.minutes
    begun = time.monotonic()

    async def is_through() -> bool:
        now = await status(mesh)
        return now.forwarded >= figures.sent and now.backlog_events == 0

    await until(is_through, THROUGH_S, "the end of the backlog")
    figures.through_after_faults_s = round(time.monotonic() - begun, 1)


async def compare(mesh: MeasuredMesh, figures: Figures) -> None:
    """Read everything that arrived, and compare it with what was sent."""
    account = Account()
    counts = np.zeros(figures.sent, dtype=np.int32)
    async for messages in _pages(mesh):
        for message in messages:
            account.take(message.headers)
            if EventPlace.of(message.headers) is not None:
                counts[int(message.body[reports.NUMBER]) - reports.FIRST_NUMBER] += 1
    proof = account.proof()
    figures.lost, figures.twice = int((counts == 0).sum()), int((counts > 1).sum())
    figures.missing = sum(last - first + 1 for first, last in proof.missing)
    figures.out_of_order = proof.out_of_order
    figures.discarded = sum(last - first + 1 for first, last in proof.gone)


async def _arrived(mesh: MeasuredMesh):
    async for messages in _pages(mesh):
        for message in messages:
            place = EventPlace.of(message.headers)
            if place is not None:
                yield message, place


async def _pages(mesh: MeasuredMesh):
    site = mesh.state.site("cloud")
    login = site.login("agent")
    connection = await connect_once(Login(site.nats_url, login.user, login.password), "bench")
    try:
        stream = uplink_stream(UPLINK.name)
        last = await last_serial(connection, "cloud", stream)
        async for messages in pages_after(connection, "cloud", stream, 0, through=last):
            found: Sequence[StoredMessage] = messages
            yield found
    finally:
        await connection.close()


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rounded(value: float) -> float:
    return round(float(value), 3)


async def measure(arguments: argparse.Namespace) -> Figures:
    """Measure everything."""
    figures = Figures()
    with temporary_home() as home:
        async with mesh_of(home, [TRAIN, CLOUD], say, emulate_links=True) as mesh:
            await mesh.bus.request(ApplyUplinks(uplinks=[UPLINK]), deadline_s=COMMAND_S)
            await measure_drain(mesh, figures, arguments)
            if arguments.minutes:
                await measure_faults(mesh, figures, arguments)
            say("comparing")
            await compare(mesh, figures)
    return figures


def main() -> int:
    """Run the benchmark. Return 1 if an event was lost or came twice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backlog", type=int, default=1_000_000, help="events")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults")
    parser.add_argument("--rate", type=float, default=1000.0, help="live reports per second")
    parser.add_argument("--bandwidth", type=int, help="of the link while it drains, in bytes per second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where figures go, beside stdout")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments))
    text = json.dumps(asdict(figures), indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    return int(bool(figures.lost or figures.twice or figures.missing))


if __name__ == "__main__":
    sys.exit(main())
