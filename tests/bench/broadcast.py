"""One message to many devices at many sites: by a tree over the sites, and naively, one for each device.

    python tests/bench/broadcast.py                             50 sites, 1,000 devices, about 3 minutes
    python tests/bench/broadcast.py --sites 5 --devices 50      a quick look

One hub, a nats-server for each site as its leaf, and subscribers with QoS 1 at the sites' MQTT listeners. No
engine, no coordinator: what is measured is the way from the hub to the devices. Both ways send the command
that the coordinator sends to a site (`DeliverBroadcast`), and store and publish with the agent's code, but
for the count of subscriptions. The tree sends one to each site. Naively there is one for each device, each
upon a topic of its own, all at once.

Latency is from the first send until each site has stored its message, and until half and all of the devices
have it. Beside it stand the figures of IoTCloud
(Storm, RabbitMQ, 8 nodes × 4 workers): from the broker through broadcast, workers and gathering back to the
broker. So the ratios compare, and the milliseconds do not. Everything shares the cores of one machine, and a
link here is a loopback connection. `--bandwidth` narrows each, by the mesh's own emulation of links.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
import urllib.request
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from broadcast_servers import Running, running

from towpath.contracts.broadcast import DeliverBroadcast

RESULTS = Path(__file__).parent / "results" / "broadcast.json"

REPORTED = {
    10_000: {20: (4.6, 3.8), 50: (6.8, 3.9)},
    20_000: {20: (6.1, 4.4), 50: (10.7, 4.4)},
    60_000: {20: (13.7, 7.6), 50: (27.0, 7.5)},
    100_000: {20: (21.4, 11.4), 50: (43.3, 10.7)},
    200_000: {20: (43.4, 21.6), 50: (85.2, 20.3)},
}
"""IoTCloud: bytes → receivers → mean latency in ms, naive and tree."""

TIME_TO_LIVE_S = 30
ROUND_BYTES = 60_000_000
"""A cell has fewer rounds if the naive way would send more than this, but one at least."""

SETTLED_S = 120.0


@dataclass(frozen=True)
class Course:
    """Times of one way of sending: medians over rounds, in ms from the first send."""

    confirmed: float
    """Until every site had stored all that was for it: the first level of the tree."""
    half: float
    """Until half of the devices had it."""
    last: float
    """Until all devices had it."""
    link_bytes: float
    """From the hub to all sites, per message."""


@dataclass
class Cell:
    """One size and number of receivers."""

    size: int
    receivers: int
    rounds: int
    naive: Course
    tree: Course
    reported_ratio: dict[int, float]
    """IoTCloud: receivers → naive / tree."""

    @property
    def ratio(self) -> float:
        """Return how many times longer the naive way takes until all devices have it."""
        return self.naive.last / self.tree.last


class Broadcaster:
    """Sends from the hub, both ways."""

    def __init__(self, servers: Running) -> None:
        self._servers = servers
        self._sent = 0

    def link_bytes(self) -> int:
        """Return the bytes that the hub has sent to its leaves."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._servers.monitor}/leafz", timeout=5) as answer:
            return sum(leaf["out_bytes"] for leaf in json.load(answer)["leafs"])

    async def tree(self, receivers: int, payload: str) -> Course:
        """Send one message to each site."""
        return await self._measured(
            receivers, [(site, f"all{receivers}", "") for site in self._servers.sites], payload
        )

    async def naive(self, receivers: int, payload: str) -> Course:
        """Send one message for each device."""
        count = len(self._servers.sites)
        wanted = [(self._servers.sites[n % count], f"device{n}", f"-{n}") for n in range(receivers)]
        return await self._measured(receivers, wanted, payload)

    async def _measured(self, receivers: int, wanted: list[tuple[str, str, str]], payload: str) -> Course:
        self._sent += 1
        group, before, begun = f"g{self._sent}", self.link_bytes(), time.monotonic()
        commands = [
            DeliverBroadcast(
                site=site, broadcast=group + end, topic=topic, payload=payload, left_s=TIME_TO_LIVE_S
            )
            for site, topic, end in wanted
        ]
        await asyncio.gather(*(self._servers.hub.request(each, deadline_s=SETTLED_S) for each in commands))
        confirmed = time.monotonic()
        times = await self._arrivals(group, receivers)
        found = [1000 * (at - begun) for at in (confirmed, statistics.median(times), max(times))]
        return Course(*found, self.link_bytes() - before)

    async def _arrivals(self, group: str, receivers: int) -> list[float]:
        """Return when each device had it. Raises if one has it twice, or does not get it."""
        assert self._servers.devices.stdout is not None
        times: list[float] = []
        async with asyncio.timeout(SETTLED_S):
            while len(times) < receivers:
                heard, some = json.loads(await self._servers.devices.stdout.readline())
                times += some
                if heard != group or len(times) > receivers:
                    raise RuntimeError(
                        f"{heard}: arrived again, after {len(times)} of {receivers} of {group}"
                    )
        return times


async def measure_cell(broadcaster: Broadcaster, size: int, receivers: int, rounds: int) -> Cell:
    """Measure both ways by turns."""
    rounds = max(1, min(rounds, ROUND_BYTES // (size * receivers)))
    payload, naive, tree = "x" * size, [], []
    for _ in range(rounds):
        tree.append(await broadcaster.tree(receivers, payload))
        naive.append(await broadcaster.naive(receivers, payload))
    reported = {count: round(slow / fast, 2) for count, (slow, fast) in REPORTED.get(size, {}).items()}
    return Cell(size, receivers, rounds, median_of(naive), median_of(tree), reported)


def median_of(courses: list[Course]) -> Course:
    """Return the median of each figure."""
    figures = zip(*(astuple(course) for course in courses), strict=True)
    return Course(*(round(statistics.median(each), 1) for each in figures))


HEAD = (
    f"{'':>26}{'sites have it, ms':>20}{'half of devices':>20}{'all devices':>20}"
    f"{'':>8}{'MB over links':>18}\n"
    f"{'bytes':>8}{'receivers':>10}{'rounds':>8}" + f"{'naive':>10}{'tree':>10}" * 3 + f"{'ratio':>8}"
    f"{'naive':>10}{'tree':>8}   IoTCloud, 50 receivers, ms"
)


def row(cell: Cell) -> str:
    """Return a cell as a row of the table."""
    reported = REPORTED.get(cell.size, {}).get(50)
    beside = f"{reported[0]:.1f} → {reported[1]:.1f} ({reported[0] / reported[1]:.1f}×)" if reported else "–"
    times = [(getattr(cell.naive, name), getattr(cell.tree, name)) for name in ("confirmed", "half", "last")]
    return (
        f"{cell.size:>8,}{cell.receivers:>10,}{cell.rounds:>8}"
        + "".join(f"{naive:>10,.0f}{tree:>10,.0f}" for naive, tree in times)
        + f"{cell.ratio:>8.1f}{cell.naive.link_bytes / 1e6:>10,.2f}{cell.tree.link_bytes / 1e6:>8,.2f}"
        + f"   {beside}"
    )


async def measure(arguments: argparse.Namespace) -> list[Cell]:
    """Measure each size with each number of receivers."""
    receivers = sorted({arguments.sites, min(5 * arguments.sites, arguments.devices), arguments.devices})
    cells: list[Cell] = []
    async with running(arguments.sites, receivers, arguments.bandwidth) as servers:
        broadcaster = Broadcaster(servers)
        await broadcaster.tree(receivers[0], "warm")
        await broadcaster.naive(receivers[0], "warm")
        print(HEAD)
        for size in arguments.sizes:
            for count in receivers:
                cells.append(await measure_cell(broadcaster, size, count, arguments.rounds))
                print(row(cells[-1]), flush=True)
    return cells


def main() -> int:
    """Run the benchmark. Ends with an error if a device did not get a message."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--bandwidth", type=int, help="of each link, in bytes per second; default: no limit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, *REPORTED], help="bytes")
    parser.add_argument("--json", type=Path, metavar="FILE", default=RESULTS, help="where figures go")
    arguments = parser.parse_args()
    load_before, cells = os.getloadavg(), asyncio.run(measure(arguments))
    content = {
        "sites": arguments.sites,
        "bandwidth_bytes_per_s": arguments.bandwidth,
        "cores": os.cpu_count(),
        "load_before": load_before,
        "reported_ms": REPORTED,
        "cells": [{**asdict(cell), "ratio": round(cell.ratio, 2)} for cell in cells],
    }
    arguments.json.parent.mkdir(exist_ok=True)
    arguments.json.write_text(json.dumps(content, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
